"""An experiment as a paper has it: several algorithms, several seeds of each, trained and evaluated on one task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.records import SubmissionIdentity
from tests.report.recorded_runs import RunMaker

NAMES = ("ppo", "sac", "random & <b>free</b>", "ars", "dqn_masked", "behaviour cloning", "td3", "cem", "a2c")


def write_rivals(
    top: Path, algorithms: int = 3, seeds: int = 3, *, measured: Sequence[int] = (), points: int = 120
) -> RunMaker:
    """Writes training and inference runs of rivals below a folder.

    Args:
        top: the folder.
        algorithms: how many, at most nine.
        seeds: runs of each.
        measured: places of algorithms whose energy was measured; the others' was estimated.
        points: of each learning curve.
    """
    runs = RunMaker(top)
    for place, name in enumerate(NAMES[:algorithms]):
        for seed in range(1, seeds + 1):
            _one(runs, place, name, seed, "measured" if place in measured else "estimated", points)
    return runs


def _one(runs: RunMaker, place: int, name: str, seed: int, quality: str, points: int) -> None:
    root = f"algorithm_{place}/seed_{seed}"
    rng = np.random.default_rng((place, seed))
    identity = SubmissionIdentity(name=name, path=f"examples/{place}", sha256=f"{place:02d}" * 32, git_commit="ab" * 20)
    told: dict[str, Any] = {"submission": identity, "root_seed": seed}
    runs.training(root, points=2, **told)
    level = 60 + 12 * place
    rise = level * (1 - np.exp(-np.arange(points) / (12 + 4 * place))) + rng.normal(0, 4, points) + 3 * seed
    lines = [f"{4000 * (i + 1)},{value!r},{0.3 * (i + 1)}" for i, value in enumerate(rise.tolist())]
    path = runs.top / root / "train" / "artifacts" / "logs" / "progress.csv"
    path.write_text("env_steps,mean_return,time/time_elapsed\n" + "\n".join(lines) + "\n")
    runs.costs(root, "train", quality=quality)
    runs.manifest(root, "inference", **told)
    runs.rollouts(root, (level + 3 * seed + rng.normal(0, 6, 12)).tolist())
    runs.latency(root, 600 + 40 * place)
    runs.costs(root, "inference", quality=quality)
