"""The technical report as a page, made by ``docs/report/make_report.py`` if its sources changed since the last time."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click

from docs.building.media_cache import digest_of, sources_below
from docs.building.staging import REPOSITORY

SOURCES = REPOSITORY / "docs" / "report"
RECORDED = REPOSITORY / "results" / "recorded"
BUILT = REPOSITORY / "build" / "report"
_STAMP = BUILT / ".sources"
_LINK = re.compile(r'<a href="([^":#]+)">([^<]*)</a>')
_OTHER_FORMS = {
    "index.html": "one page without network",
    "report.pdf": "PDF",
    "leaderboard/index.html": "the leaderboard over the same runs",
}


def write(folder: Path, static: Path, *, make: bool = True) -> None:
    """Writes the report and its figures into ``folder``, if there are recorded runs.

    Args:
        folder: of the staged pages, one below the top.
        static: a folder below ``_static``, which Sphinx copies unchanged, for the other forms of the report.
        make: whether to make it again if its sources changed.
    """
    if not RECORDED.is_dir() or not (make or (BUILT / "report.md").is_file()):
        return
    if make and not _is_fresh(BUILT / "report.md"):
        click.echo("docs: making the technical report; a quarter of a minute")
        subprocess.run(
            [sys.executable, str(SOURCES / "make_report.py"), str(RECORDED), "-o", str(BUILT), "--no-pdf"],
            cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    if make:
        _STAMP.write_text(digest_of(_made_of()), encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "technical_report.md").write_text(_with_links(static.name), encoding="utf-8")
    shutil.copytree(BUILT / "figures", folder / "figures", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.pdf"))
    shutil.copytree(BUILT, static, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_STAMP.name))
    page = static / "index.html"
    page.write_text(_without_dead_links(page.read_text(encoding="utf-8"), static), encoding="utf-8")


def _with_links(static: str) -> str:
    """Returns the report with links to its other forms; in HTML, because Sphinx checks Markdown links as pages."""
    title, _, rest = (BUILT / "report.md").read_text(encoding="utf-8").partition("\n")
    links = [
        f'<a href="../_static/{static}/{file}">{name}</a>'
        for file, name in _OTHER_FORMS.items()
        if (BUILT / file).is_file()
    ]
    return f"{title}\n\n<p>Also as {', '.join(links)}.</p>\n{rest}" if links else f"{title}\n{rest}"


def _without_dead_links(page: str, folder: Path) -> str:
    """Returns a page without links to forms of the report that this machine cannot make, such as the PDF."""
    return _LINK.sub(lambda link: link[0] if (folder / link[1]).exists() else link[2], page)


def _made_of() -> list[Path]:
    code = sources_below("docs/report", "a2perf/report", "a2perf/metrics")
    return [*code, *SOURCES.glob("*.jinja"), *SOURCES.glob("*.html"), *RECORDED.rglob("*.zip")]


def _is_fresh(report: Path) -> bool:
    """Returns whether the report fits its sources, by their content or, after `make paper`, by their time."""
    if not report.is_file():
        return False
    if _STAMP.is_file() and _STAMP.read_text(encoding="utf-8") == digest_of(_made_of()):
        return True
    return all(path.stat().st_mtime < report.stat().st_mtime for path in _made_of())
