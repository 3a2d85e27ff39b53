"""The leaderboard of the shipped results as part of the site; written again only if its sources changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from a2perf.report.leaderboard import write_leaderboard
from docs.building.media_cache import digest_of, sources_below
from docs.building.staging import REPOSITORY

RECORDED = REPOSITORY / "results" / "recorded"
_LINK = '\n<p><a href="_static/leaderboard/index.html">Leaderboard of the shipped results</a></p>\n'


def write(page: Path, static: Path, cache: Path) -> None:
    """Writes the leaderboard and links to it.

    Args:
        page: staged page of the results, which gets the link. HTML, because Sphinx checks Markdown links as pages.
        static: folder below ``_static``, which Sphinx copies unchanged.
        cache: keeps the leaderboard for the next build.
    """
    code = sources_below("a2perf/report", "a2perf/metrics")
    kept = cache / "leaderboard" / digest_of([*code, *RECORDED.rglob("*.zip"), *RECORDED.rglob("*.toml")])
    if not (kept / "index.html").is_file():
        click.echo("docs: scoring the shipped results for the leaderboard; half a minute")
        shutil.rmtree(kept.parent, ignore_errors=True)
        write_leaderboard(RECORDED, kept, title="Baselines of a2perf", reports=False)
    shutil.copytree(kept, static)
    with page.open("a", encoding="utf-8") as file:
        file.write(_LINK)
