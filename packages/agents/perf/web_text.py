"""Speed and size of the text view of web navigation, beside the arrays.

    python packages/agents/perf/web_text.py [--json] [--seconds 3]

Each episode takes ten valid actions in turn (an element that does not lead away is clicked, filled or selected, with
free text in fields), an invalid one, and then the actions of a perfect episode. Both interfaces step ``env.unwrapped``.
The arrays take actions of perfect episodes only, and build their dictionary every time. Resets count separately. Sizes
are bytes of the first page and of the instruction over 500 episodes.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import gymnasium
import numpy as np

import a2perf  # noqa: F401  registers the ids

TARGET = 5_000  # text steps per second of processor time
_FORMS = {
    "textbox": 'fill {} "free text"',
    "password": 'fill {} "free text"',
    "number": 'fill {} "7"',
    "checkbox": "click {}",
    "radio": "click {}",
    "text": "click {}",
}


def _env(level: int, observation: str) -> Any:
    return gymnasium.make(
        f"WebNavigation-Difficulty-0{level}-v0", num_websites=1000, observation=observation, step_limit=60
    ).unwrapped


def _harmless(page: str) -> list[str]:
    lines = [line.split() for line in page.split("\n")[1:]]
    found = [_FORMS[role].format(number) for number, role, *_ in lines if role in _FORMS]
    return [*(found * 10)[:10], "click 99999"]


def speed(level: int, observation: str, seconds: float) -> tuple[float, float]:
    """Steps per second of processor time, and milliseconds per reset."""
    env = _env(level, observation)
    spent, steps, reset, resets = 0.0, 0, 0.0, 0
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        seed = resets % 200  # as often as a training visits its websites
        began = time.process_time()
        shown, _ = env.reset(seed=seed)
        reset += time.process_time() - began
        resets += 1
        actions = env.solution()
        if observation in ("text", "screenshot"):
            actions = _harmless(shown["page"]) + actions
        began = time.process_time()
        for action in actions:
            env.step(action)
        spent += time.process_time() - began
        steps += len(actions)
    return steps / spent, 1e3 * reset / resets


def sizes(level: int) -> dict[str, float]:
    """Bytes of the first page and of the instruction: median and largest."""
    env = _env(level, "text")
    shown = [env.reset(seed=seed)[0] for seed in range(500)]
    found = {}
    for key in ("page", "instruction"):
        lengths = np.array([len(observation[key]) for observation in shown])
        found[f"{key} (bytes, median), level {level}"] = float(np.median(lengths))
        found[f"{key} (bytes, largest), level {level}"] = float(lengths.max())
    return found


def main() -> None:
    """Prints the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    numbers: dict[str, float] = {}
    for level in (1, 2, 3):
        for observation in ("arrays", "text", "full_text", "screenshot"):
            name = f"{observation} steps/s of processor time, level {level}"
            numbers[name], numbers[f"{observation} reset (ms), level {level}"] = speed(
                level, observation, options.seconds
            )
        numbers |= sizes(level)
    if options.json:
        print(json.dumps(numbers, indent=2))
        return
    for name, value in numbers.items():
        target = f"   target {TARGET:,}" if name.startswith("text steps") else ""
        print(f"{name:<55} {value:14,.3f}{target}")


if __name__ == "__main__":
    main()
