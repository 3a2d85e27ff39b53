"""Speed of the batch of web episodes for learners, and of a training run of ``torch_ppo_web`` if PyTorch is installed.

    python packages/baselines/perf/web_batch.py [--json] [--seconds 3]

The batch steps 256 episodes and writes tables of candidates; training runs on one thread. Processor time is given with
wall time, because a shared machine distorts the latter.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

TARGET = 50_000  # steps/s of the batch, per level


def _timed(work: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Units per second of wall and of processor time."""
    work()
    units, wall, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        units += work()
    return units / (time.perf_counter() - wall), units / (time.process_time() - cpu)


def learning_batch(seconds: float, level: int) -> dict[str, float]:
    """Steps per second of wall and of processor time of the batch for learners, with random candidates."""
    from a2perf.domains.web_navigation.sites.generator import training_designs
    from a2perf_baselines.web_navigation.batch import WebBatch

    count = 256
    batch = WebBatch(training_designs(level, 0, 200), count)
    draws = np.random.default_rng(0).random((64, count))
    shown = batch.reset(seed=0)

    def steps() -> int:
        for draw in draws:
            batch.step((draw * shown["rows"]).astype(np.int64))
        return len(draws) * count

    wall, cpu = _timed(steps, seconds)
    name = f"learning batch steps/s, level {level}"
    return {name: wall, f"{name}, of processor time": cpu}


def training(seconds: float, level: int) -> dict[str, float]:
    """Steps per second of processor time of PPO on one thread, and the share of it that the environment takes."""
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "torch_ppo_web"))
    from policy import CandidatePolicy
    from train import Settings, ppo_settings

    from a2perf.domains.web_navigation.sites.generator import training_designs
    from a2perf_baselines.learning.torch.ppo import PPO
    from a2perf_baselines.web_navigation.batch import WebBatch

    torch.set_num_threads(1)
    settings = Settings()
    batch = WebBatch(training_designs(level, 0, 200), settings.members)
    inside, step = 0.0, batch.step

    def timed_step(actions: np.ndarray) -> object:
        nonlocal inside
        began = time.process_time()
        result = step(actions)
        inside += time.process_time() - began
        return result

    batch.step = timed_step  # type: ignore[method-assign]
    learner = PPO(batch, CandidatePolicy(settings.width, settings.embedding), ppo_settings(settings), 0)
    learner.collect()
    learner.update()
    inside, first, cpu, wall = 0.0, learner.steps, time.process_time(), time.perf_counter()
    while time.perf_counter() - wall < seconds:
        learner.collect()
        learner.update()
    spent = time.process_time() - cpu
    return {
        f"training steps/s of processor time, level {level}": (learner.steps - first) / spent,
        f"share of the environment in training, level {level}": inside / spent,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    numbers: dict[str, float] = {}
    for level in (1, 2, 3):
        numbers |= learning_batch(options.seconds, level)
        if importlib.util.find_spec("torch") is not None:
            numbers |= training(options.seconds, level)
    if options.json:
        print(json.dumps(numbers, indent=2))
        return
    for name, value in numbers.items():
        target = f"   target {TARGET:,}" if name.startswith("learning batch") and "processor" not in name else ""
        print(f"{name:<55} {value:14,.3f}{target}")


if __name__ == "__main__":
    main()
