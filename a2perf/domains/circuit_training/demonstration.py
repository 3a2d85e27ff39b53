"""The part of ``a2perf demo`` on circuits: on Ariane if its files are here, else on its generated twin."""

from __future__ import annotations

from a2perf import assets
from a2perf.domains.circuit_training import ARIANE
from a2perf.domains.registry import DemonstrationRun

_PLACERS = {"random": "minimal", "greedy": "greedy_placer"}
_SIZE = ("Submission.num_inference_steps = 20", "Submission.num_inference_episodes = 2")


def demonstration_runs(train_seconds: int) -> list[DemonstrationRun]:
    """Returns a run of a random and one of a greedy placer."""
    del train_seconds
    task = "ariane" if all(assets.locate(asset) is not None for asset in ARIANE.values()) else "ariane_twin"
    return [
        DemonstrationRun(
            title=f"a {placer} placer on the circuit {task}",
            folder=f"{task}_{placer}",
            submission=submission,
            gin_file=f"{task}/inference.gin",
            bindings=_SIZE,
            first_number_s=20.0,
        )
        for placer, submission in _PLACERS.items()
    ]
