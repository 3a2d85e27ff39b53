"""Held-out websites: new designs of each level and compositions of them, drawn and measured like the shipped ones."""

from __future__ import annotations

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
        drawn = generator.generate(level, seed + number, WEBSITES)
        tasks.append(
            HeldOutTask(
                name=f"held_out_{number + 1}_level_{level}",
                env_id="WebNavigation-v0",
                kwargs={"designs": [one.design.as_record() for one in drawn], "num_websites": WEBSITES},
                told={"difficulty": level, "num_websites": WEBSITES},
            )
        )
    return tasks


def held_out_compositions(count: int, seed: int) -> list[HeldOutTask]:
    """Generates compositions of unseen websites, cycling through the composed environments.

    Args:
        seed: seed of the designs, not negative.
    """
    tasks = []
    for number in range(count):
        depth = LEVELS[number % len(LEVELS)]
        drawn = [
            one.design.as_record()
            for level in LEVELS[:depth]
            for one in generator.generate(level, seed + number, COMPOSED_WEBSITES)
        ]
        tasks.append(
            HeldOutTask(
                name=f"held_out_{number + 1}_composed_{depth}",
                env_id=f"WebNavigation-Composed-{depth:02d}-v0",
                kwargs={"designs": drawn, "difficulty": None, "num_websites": len(drawn)},
                told={"num_websites": COMPOSED_WEBSITES},
            )
        )
    return tasks
