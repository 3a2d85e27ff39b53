"""Held-out websites: new designs of each level and compositions of them, drawn and measured like the shipped ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a2perf.domains.registry import HeldOutTask
from a2perf.domains.web_navigation import LEVELS, generator

WEBSITES = 5
"""Designs of a task; each episode shows one of them."""
COMPOSED_WEBSITES = 10
"""Designs of each level of a composition."""


def held_out_tasks(count: int, seed: int) -> list[HeldOutTask]:
    """Generates tasks, cycling through the levels.

    Args:
        seed: seed of the designs, not negative.
    """
    tasks = []
    for number in range(count):
        level = LEVELS[number % len(LEVELS)]
        kwargs = {"designs": _drawn((level,), seed + number, WEBSITES), "num_websites": WEBSITES}
        public = {"difficulty": level, "num_websites": WEBSITES}
        tasks.append(HeldOutTask(f"held_out_{number + 1}_level_{level}", "WebNavigation-v0", kwargs, public))
    return tasks


def held_out_compositions(count: int, seed: int) -> list[HeldOutTask]:
    """Generates compositions of unseen websites, cycling through the composed environments.

    Args:
        seed: seed of the designs, not negative.
    """
    tasks = []
    for number in range(count):
        depth = LEVELS[number % len(LEVELS)]
        drawn = _drawn(LEVELS[:depth], seed + number, COMPOSED_WEBSITES)
        kwargs = {"designs": drawn, "difficulty": None, "num_websites": len(drawn)}
        name, env_id = f"held_out_{number + 1}_composed_{depth}", f"WebNavigation-Composed-{depth:02d}-v0"
        tasks.append(HeldOutTask(name, env_id, kwargs, {"num_websites": COMPOSED_WEBSITES}))
    return tasks


def _drawn(levels: Sequence[int], seed: int, count: int) -> list[dict[str, Any]]:
    return [one.design.as_record() for level in levels for one in generator.generate(level, seed, count)]
