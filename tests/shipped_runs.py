"""Recorded submissions for tests, packed in ``tests/recorded``, and as folders where a test changes files.

They are shipped results of an earlier day. New recordings in ``results/recorded`` leave them, and the numbers of the
tests, as they are.
"""

from __future__ import annotations

from pathlib import Path

from a2perf.runs.pack import unpack

SHIPPED = Path(__file__).resolve().parent / "recorded"


def unpacked(name: str, folder: Path) -> Path:
    """Writes one recorded submission into a folder.

    Args:
        name: ``"<domain>/<submission>"``.
        folder: it is written to ``<folder>/<submission>``.

    Returns:
        The submission's folder.
    """
    (written,) = unpack(SHIPPED / f"{name}.zip", folder)
    return written
