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
_OTHER_FORMS = {
    "index.html": "one page without network",
    "report.pdf": "PDF",
    "leaderboard/index.html": "the leaderboard over the same runs",
}


def write(folder: Path, static: Path, *, make: bool = True) -> None:
    """Writes the report and its figures into ``folder``; where nothing is recorded there is no such page.

    Args:
        folder: of the staged pages, one below the top.
        static: a folder below ``_static``, which the site holds as it is: for the report's other forms.
        make: whether to make it where it is older than what it is made of.
    """
    if not RECORDED.is_dir() or not (make or (BUILT / "report.md").is_file()):
        return
    if make and not _is_fresh(BUILT / "report.md"):
        subprocess.run(
            [sys.executable, str(SOURCES / "make_report.py"), str(RECORDED), "-o", str(BUILT), "--no-pdf"],
            cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "technical_report.md").write_text(_with_links(static.name), encoding="utf-8")
    shutil.copytree(BUILT / "figures", folder / "figures", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.pdf"))
    shutil.copytree(BUILT, static, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.md", "*.tex"))


def _with_links(static: str) -> str:
    """Returns the report with links to its other forms below its title; they are no pages, hence HTML."""
    title, _, rest = (BUILT / "report.md").read_text(encoding="utf-8").partition("\n")
    links = [
        f'<a href="../_static/{static}/{file}">{words}</a>'
        for file, words in _OTHER_FORMS.items()
        if (BUILT / file).is_file()
    ]
    return f"{title}\n\n<p>Also as {', '.join(links)}.</p>\n{rest}" if links else f"{title}\n{rest}"


def _is_fresh(report: Path) -> bool:
    made_of = [path for path in SOURCES.iterdir() if path.is_file()] + list(RECORDED.rglob("*.zip"))
    return report.is_file() and all(path.stat().st_mtime < report.stat().st_mtime for path in made_of)
