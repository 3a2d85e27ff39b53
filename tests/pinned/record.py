"""Records what is pinned: ``python -m tests.pinned.record [NAME ...]``.

Writes ``tests/pinned/expected/NAME.json``; commit it only together with the reason for each line that changed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.pinned import commands, condense, numbers

EXPECTED = Path(__file__).parent / "expected"
PINS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "scores": numbers.scores,
    "report": numbers.report,
    "leaderboard": numbers.leaderboard,
    "comparisons": numbers.comparisons,
    "bundles": commands.bundles,
    "commands": commands.commands,
}


def isolate(folder: Path) -> None:
    """Points the folders of a user at ``folder``, as the tests do."""
    for variable in ("HOME", "A2PERF_CACHE_DIR", "MPLCONFIGDIR", "MINARI_DATASETS_PATH"):
        place = folder / variable.lower()
        place.mkdir()
        os.environ[variable] = str(place)
    os.environ |= {"A2PERF_OFFLINE": "1", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def main(names: list[str]) -> None:
    """Records the pins ``names``, or all."""
    with tempfile.TemporaryDirectory() as temporary:
        isolate(Path(temporary))
        for name in names or PINS:
            folder = Path(temporary) / name
            folder.mkdir()
            condense.write(EXPECTED / f"{name}.json", PINS[name](folder))
            print(f"recorded {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
