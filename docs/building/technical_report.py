"""The technical report as a page: made by ``docs/report/make_report.py``, unless `make paper` has just made it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from docs.building.staging import REPOSITORY

SOURCES = REPOSITORY / "docs" / "report"
RECORDED = REPOSITORY / "results" / "recorded"
BUILT = REPOSITORY / "build" / "report"


def write(folder: Path) -> None:
    """Writes the report and its figures into ``folder``; where nothing is recorded there is no such page."""
    if not RECORDED.is_dir():
        return
    if not _is_fresh(BUILT / "report.md"):
        subprocess.run(
            [sys.executable, str(SOURCES / "make_report.py"), str(RECORDED), "-o", str(BUILT), "--no-pdf"],
            cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(BUILT / "report.md", folder / "technical_report.md")
    shutil.copytree(BUILT / "figures", folder / "figures", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.pdf"))


def _is_fresh(report: Path) -> bool:
    made_of = [path for path in SOURCES.iterdir() if path.is_file()] + list(RECORDED.rglob("protocol.json"))
    return report.is_file() and all(path.stat().st_mtime < report.stat().st_mtime for path in made_of)
