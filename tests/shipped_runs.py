"""Recorded submissions for tests: those of ``results/recorded``, packed, and as folders where a test changes files.

``tests/recorded`` holds one more: training curves of a dog that the shipped results no longer contain.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from a2perf.runs.packed.packed_archive import unpack

REPOSITORY = Path(__file__).resolve().parents[1]
SHIPPED = REPOSITORY / "results" / "recorded"
PARTS = {
    "circuit_training": ("annealing_placer", "greedy_placer", "minimal"),
    "learning": ("minimal", "numpy_ars"),
    "quadruped_locomotion": ("minimal", "motion_imitation"),
    "small": (
        "annealing_placer",
        "greedy_placer",
        "minimal",
        "motion_imitation",
        "numpy_ars",
        "sb3_ppo",
        "tf_agents_bc-circuit",
        "tf_agents_bc-quadruped",
        "tf_agents_bc-web",
        "tf_agents_ddqn",
        "tf_agents_ddqn-web",
        "tf_agents_ppo",
        "web_solver",
    ),
    "web_navigation": ("minimal", "web_solver"),
}
"""Submissions that tests count and compare; others can be added to the shipped results."""


def packed(name: str) -> Path:
    """Returns the packed file of a submission, ``"<part>/<submission>"``."""
    shipped = SHIPPED / f"{name}.zip"
    return shipped if shipped.is_file() else REPOSITORY / "tests" / "recorded" / f"{name}.zip"


def copy_parts(target: Path, parts: Sequence[str] = tuple(PARTS)) -> Path:
    """Copies the packed submissions of ``PARTS`` to ``target/<part>``."""
    for part in parts:
        (target / part).mkdir(parents=True, exist_ok=True)
        for submission in PARTS[part]:
            shutil.copy(packed(f"{part}/{submission}"), target / part)
    return target


def unpacked(name: str, folder: Path) -> Path:
    """Writes one recorded submission into a folder.

    Args:
        name: ``"<part>/<submission>"``.
        folder: it is written to ``<folder>/<submission>``.

    Returns:
        The submission's folder.
    """
    (written,) = unpack(packed(name), folder)
    return written
