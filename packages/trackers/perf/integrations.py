"""Cost of ``a2perf.track`` and of the callback of Stable-Baselines3: the same loop with and without them, in turns.

    python packages/trackers/perf/integrations.py [--json] [--repeats 7] [--seconds 4] [--only numpy,torch]

Each number is a median over pairs of runs in one process, in percent of the run without a2perf. Processor time includes
the sampling thread and is steady on a busy machine; wall time is what a user waits for. Loops without their framework
are left out. For Stable-Baselines3 the evaluation is replaced by nothing: the cost of the hook and of saving the model
is left. ``own`` is the processor time of a2perf's own code: of the sampling thread, by its clock, and of the calls that
a loop makes. It is steady even if the difference of two runs is lost in the noise of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

from a2perf.errors import MissingDependency

TARGET_PERCENT = 1.0
Loop = Callable[[bool], None]
"""Runs a loop; the argument switches a2perf on."""


def numpy_loop(seconds: float) -> Loop:
    import numpy as np

    import a2perf

    matrix = np.random.default_rng(0).normal(size=(128, 128))

    def train(tracked: bool, steps: int) -> None:
        with a2perf.track() if tracked else contextlib.nullcontext():
            for _ in range(steps):
                np.tanh(matrix @ matrix).sum()

    return fitted(train, seconds)


def torch_loop(seconds: float) -> Loop:
    import torch

    import a2perf

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 8))
    optimizer = torch.optim.Adam(model.parameters())
    given = torch.randn(128, 64)

    def train(tracked: bool, steps: int) -> None:
        with a2perf.track() if tracked else contextlib.nullcontext():
            for _ in range(steps):
                optimizer.zero_grad()
                model(given).square().mean().backward()
                optimizer.step()

    return fitted(train, seconds)


def sb3_learn(seconds: float) -> Loop:
    import gymnasium
    import torch
    from stable_baselines3 import PPO

    from a2perf_trackers.periodic_evaluation import EvaluatedPolicy, PeriodicEvaluation
    from a2perf_trackers.sb3 import EvaluateCallback

    torch.set_num_threads(1)
    PeriodicEvaluation._evaluate = lambda self, policy, step: EvaluatedPolicy(step, None, "", 0.0)  # type: ignore[method-assign]
    model = PPO("MlpPolicy", gymnasium.make("CartPole-v1"), n_steps=256)
    folder = tempfile.TemporaryDirectory()

    def train(tracked: bool, steps: int) -> None:
        total = 256 * steps
        callback = EvaluateCallback("dog_pace", every_steps=max(256, total // 2), root_dir=folder.name)
        model.learn(total, callback=callback if tracked else None)

    train.__dict__["folder"] = folder
    return fitted(train, seconds)


LOOPS = {
    "numpy": (numpy_loop, "numpy"),
    "torch": (torch_loop, "torch"),
    "sb3": (sb3_learn, "stable_baselines3"),
}


class OwnTime:
    """Counts the processor time that a2perf takes: its thread, and its methods that a loop calls."""

    CALLED = {
        "a2perf.api.tracking:TrackedBlock": ("__enter__", "__exit__"),
        "a2perf_trackers.sb3:EvaluateCallback": ("_on_step",),
    }

    def __init__(self) -> None:
        self.seconds = 0.0
        for place, methods in self.CALLED.items():
            module, _, name = place.partition(":")
            with contextlib.suppress(MissingDependency):
                kind = getattr(importlib.import_module(module), name)
                for method in methods:
                    setattr(kind, method, self._counted(getattr(kind, method)))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(owner: Any, *args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            try:
                return method(owner, *args, **kwargs)
            finally:
                self.seconds += time.thread_time() - began
                if method.__name__ == "__exit__":
                    report = owner._tracked.report
                    self.seconds += report.own_cpu_percent / 100 * report.wall_s

        return counted


def fitted(train: Callable[[bool, int], None], seconds: float) -> Loop:
    """Returns the training with as many steps as take that long."""
    train(True, 1)  # imports and first calls
    steps = 1
    while True:
        began = time.process_time()
        train(False, steps)
        took = time.process_time() - began
        if took > 0.25 * seconds:
            return lambda tracked: train(tracked, max(1, int(steps * seconds / took)))
        steps *= 4


def measure(loop: Loop, repeats: int, own: OwnTime) -> dict[str, float]:
    """Returns the medians of wall and processor time without a2perf, and what it adds, in percent."""
    ratios: dict[str, list[float]] = {"processor": [], "wall": []}
    alone: list[float] = []
    own_percents: list[float] = []
    for number in range(repeats):
        times = {}
        for tracked in (False, True) if number % 2 else (True, False):
            own.seconds = 0.0
            wall, processor = time.perf_counter(), time.process_time()
            loop(tracked)
            times[tracked] = (time.process_time() - processor, time.perf_counter() - wall)
            if tracked:
                own_percents.append(100 * own.seconds / times[True][0])
        alone.append(times[False][1])
        for place, name in enumerate(ratios):
            ratios[name].append(100 * (times[True][place] / times[False][place] - 1))
    found = {"without_s": statistics.median(alone), "own_percent": statistics.median(own_percents)}
    for name, values in ratios.items():
        found[f"{name}_percent"] = statistics.median(values)
        found[f"{name}_percent_lowest"], found[f"{name}_percent_highest"] = min(values), max(values)
    return found


def sampling(seconds: float) -> dict[str, float]:
    """Returns the processor time of the sampling thread in percent of one core, and what a caller waits for."""
    import a2perf

    waits = []
    for _ in range(10):
        began = time.perf_counter()
        with a2perf.track():
            entered = time.perf_counter() - began
            time.sleep(0.01)
            left = time.perf_counter()
        waits.append(1e3 * (entered + time.perf_counter() - left))
    with a2perf.track() as tracked:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sum(range(10_000))
    return {"thread_percent_of_a_core": tracked.report.own_cpu_percent, "enter_and_leave_ms": statistics.median(waits)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="processor time of one run")
    parser.add_argument("--only", default=",".join(LOOPS))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    found: dict[str, dict[str, float]] = {"sampling": sampling(options.seconds)}
    if not options.json:
        print(f"sampling thread: {found['sampling']['thread_percent_of_a_core']:.2f} % of one core")
        print(f"target for each loop: below {TARGET_PERCENT:g} %")
        print(f"entering and leaving a block: {found['sampling']['enter_and_leave_ms']:.0f} ms")
        print(f"{'loop':<10} {'without':>9} {'own':>8} {'processor time':>24} {'wall time':>24}")
    own = OwnTime()
    for name in options.only.split(","):
        make, package = LOOPS[name]
        if importlib.util.find_spec(package) is None:
            continue
        numbers = found[name] = measure(make(options.seconds), options.repeats, own)
        texts = [
            f"{numbers[f'{kind}_percent']:+.2f} % ({numbers[f'{kind}_percent_lowest']:+.1f} to"
            f" {numbers[f'{kind}_percent_highest']:+.1f})"
            for kind in ("processor", "wall")
        ]
        if not options.json:
            shown = f"{numbers['without_s']:>7.2f} s {numbers['own_percent']:>6.2f} %"
            print(f"{name:<10} {shown} {texts[0]:>24} {texts[1]:>24}", flush=True)
    if options.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
