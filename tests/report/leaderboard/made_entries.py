"""Folders of bundles for the tests of leaderboards, made through the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from a2perf.metrics.protocol import ScoredTask, load
from a2perf.records import Failure, FailureKind, Manifest, RolloutResults, RunState, StepCosts, SubmissionIdentity
from a2perf.report.leaderboard import References
from a2perf.runs.tracking_record import EnergyUncertainty, HostConditions, PhaseCost, TrackedEnergy, TrackingReport
from a2perf.storage import read_record, write_record
from tests.metrics.made_bundles import EPISODE_STEPS, episodes, seal, write_inference, write_train

_ONE_PERCENT = EnergyUncertainty(expanded_kwh=2e-6, model_kwh=1e-6)
TIMED_CURVE = [f"{100 * point},{point * 0.1},{point * 0.5}" for point in range(100)]


def references_of(**experts: float) -> References:
    """Stored scores of tasks with these scores of their experts; the floor of each is 0, the threshold 0.2."""
    known, found = load("v1").tasks["dog_trot"], {}
    for name, expert in experts.items():
        means = {"random": 0.0, "expert": expert}
        made = {kind: msgspec.structs.replace(known.references[kind], mean=mean) for kind, mean in means.items()}
        found[name] = ScoredTask("v1", msgspec.structs.replace(known, references=made, thresholds=[0.2]))
    return lambda key: found.get(key.task)


references = references_of(trot=20.0)


def identity(name: str) -> SubmissionIdentity:
    return SubmissionIdentity(
        name=name, path="somewhere", sha256=name.encode(errors="surrogatepass").hex().ljust(16, "0")
    )


class Field:
    """A folder that entrants' bundles are put into."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._next = 0

    def evaluate(
        self,
        name: str,
        returns: list[float],
        seed: int,
        *,
        latency_scale: int = 1,
        quality: str = "estimated",
        noisy: bool = False,
        **changes: Any,
    ) -> Path:
        """Writes one inference bundle with exactly these episode returns."""
        root = self._root(name, str(changes.get("task", "trot")), seed)
        path = write_inference(root, seed, count=len(returns), submission=identity(name), **changes)
        record = read_record(path / "manifest.json", Manifest)
        results = RolloutResults(
            task=record.task,
            env_id="Env-v0",
            episodes=episodes(returns, success=True),
            costs=StepCosts(
                steps=EPISODE_STEPS * len(returns),
                account="cgroup_v2",
                round_trip_s=2e-3,
                tree_s=2e-3,
                in_calls_s=2e-3,
                between_calls_s=0.0,
                short_lived_s=0.0,
                transport_s=5e-5,
                transport_cpu_s=2e-5,
            ),
        )
        write_record(path / "metrics" / "rollouts.json", results)
        (path / "metrics" / "inference_emissions.csv").unlink()
        kwh = 1e-6 * latency_scale * (1.0 + 0.002 * (seed - 1))  # no two measurements are equal
        report = TrackingReport(
            mode="inference",
            cpu_seconds=1.0,
            cpu_method="cgroup_v2",
            energy=TrackedEnergy(gross_kwh=1e-4, quality=quality, method="made", gross_uncertainty=_ONE_PERCENT),
            phases={"rollouts": PhaseCost(wall_s=1.0, cpu_seconds=0.04, energy_gross_kwh=kwh)},
            host=HostConditions(noisy=noisy, reasons=["others"] * noisy),
        )
        (path / "metrics" / "tracking.json").write_bytes(msgspec.json.encode(report))
        return self.seal(path)

    def train(self, name: str, seed: int, **changes: Any) -> Path:
        """Writes one training bundle whose curve reaches 4.0 (trailing mean) at 21 s of its clock."""
        root = self._root(name, str(changes.get("task", "trot")), seed)
        path = write_train(root, seed, points=5, events=False, submission=identity(name), **changes)
        table = "env_steps,mean_return,time_elapsed\n" + "\n".join(TIMED_CURVE) + "\n"
        (path / "artifacts" / "progress.csv").write_text(table)
        return self.seal(path)

    def entry(self, name: str, level: float, *, seeds: int = 3, train: bool = True, **changes: Any) -> None:
        """Writes an entry whose seeds differ by 0.2 around ``level``."""
        for seed in range(seeds):
            self.evaluate(name, [level + 0.2 * (seed - 1)] * 2, seed, **changes)
            if train:
                own = ("latency_scale", "quality", "noisy")
                self.train(name, seed, **{key: value for key, value in changes.items() if key not in own})

    @staticmethod
    def seal(path: Path, **changes: Any) -> Path:
        """Stores the hashes of a bundle's files, as the end of a run does, and changes of the manifest."""
        return seal(path, **changes)

    def fail(self, path: Path) -> Path:
        """Turns a run into a failed one."""
        failure = Failure(kind=FailureKind.TIMEOUT, where="train", message="took longer than <b>60 s</b>")
        return self.seal(path, state=RunState.FAILED, failure=failure)

    def _root(self, name: str, task: str, seed: int) -> Path:
        safe = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)[:20]
        return self.top / f"{safe}-{len(name)}" / task / f"seed_{seed}"
