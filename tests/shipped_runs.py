"""The shipped results as folders: they lie packed in ``results/recorded``, and some tests need files to change."""

from __future__ import annotations

from pathlib import Path

from a2perf.runs.pack import unpack

SHIPPED = Path(__file__).resolve().parents[1] / "results" / "recorded"


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
