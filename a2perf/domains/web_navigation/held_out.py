"""Websites for a competition: new designs of each level, drawn and measured like the shipped ones."""

from __future__ import annotations

from a2perf.domains.registry import HeldOutTask
from a2perf.domains.web_navigation import LEVELS, generator

WEBSITES = 5
"""Designs of a task; each episode shows one of them."""


def held_out_tasks(count: int, seed: int) -> list[HeldOutTask]:
    """Generates tasks, cycling through the levels.

    Args:
        count: number of tasks.
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
