"""``a2perf leaderboard``: builds a static site from recorded runs, or scores submissions by their time to a result."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from a2perf.errors import ConfigError
from a2perf.submission.options import normalised

if TYPE_CHECKING:
    from a2perf.report.result_boards import ResultScoreName

_SCORES = ("time_to_result", "energy_to_result", "samples_to_result")


@click.command(context_settings=normalised())
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[FOLDER]")
@click.option(
    "-o", "--output", "out", type=click.Path(path_type=Path), metavar="DIR",
    help="Folder to write. Required without --score.",
)  # fmt: skip
@click.option("--title", help="Heading of the site. Default: Leaderboard, or the name of the score.")
@click.option("--reports/--no-reports", default=True, show_default=True, help="Write the report of each submission.")
@click.option(
    "--trusted-keys", type=click.Path(exists=True, path_type=Path), metavar="DIR_OR_FILE",
    help="Trusted public keys. Signatures by other keys are listed as \"unknown key\".",
)  # fmt: skip
@click.option(
    "--reproductions", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="Folder with verdicts of `a2perf reproduce -o`; those beside the bundles always count.",
)  # fmt: skip
@click.option("--score", type=click.Choice(_SCORES), help="Score by what was needed to reach the targets of the tasks.")
@click.option(
    "--times", type=click.Path(path_type=Path), metavar="FILE.csv",
    help="With --score: table of times to the target, instead of FOLDER.",
)  # fmt: skip
@click.option("--target", type=float, metavar="LEVEL", help="With --score: normalised score to reach in FOLDER.")
@click.option(
    "--held-out", multiple=True, metavar="VARIANT=BASE",
    help="With --score: a held-out variant and its base workload. Can be repeated.",
)  # fmt: skip
@click.option("--count-held-out", is_flag=True, help="With --score: count held-out variants as workloads too.")
@click.option("--exact", is_flag=True, help="With --score: rank by the exact integral instead of 100 points.")
@click.option("--json", "as_json", is_flag=True, help="Print the entries as JSON.")
def leaderboard(
    folder: Path | None,
    out: Path | None,
    title: str | None,
    reports: bool,
    trusted_keys: Path | None,
    reproductions: Path | None,
    score: ResultScoreName | None,
    times: Path | None,
    target: float | None,
    held_out: tuple[str, ...],
    count_held_out: bool,
    exact: bool,
    as_json: bool,
) -> int:
    """Build a leaderboard from the bundles in FOLDER as a static site.

    The first page shows the newest protocol with one table per domain; each task and each submission has its own page.
    Entries are ranked by the interquartile mean of the normalised score. Entries of different environments, protocols,
    tracks or kinds of energy measurement are never ranked together. Invalid bundles are listed with the reason.

    With --score, submissions are ranked by performance profiles of the seconds, joules or environment steps that they
    needed to reach the target of each task, as MLCommons' AlgoPerf does. --times reads them from a table. The ranking
    is printed; -o also writes a page.
    """
    if score is None:
        given = {"--times": times, "--target": target, "--held-out": held_out}
        given |= {"--count-held-out": count_held_out, "--exact": exact}
        for option, value in given.items():
            if value not in (None, (), False):
                raise ConfigError(f"{option} belongs to --score", hint="add --score time_to_result")
        if folder is None or out is None:
            missing = "FOLDER" if folder is None else "-o DIR"
            raise ConfigError(f"{missing} is missing", hint="a2perf leaderboard FOLDER -o DIR")
        return _site(folder, out, title or "Leaderboard", reports, trusted_keys, reproductions, as_json=as_json)
    if (folder is None) == (times is None):
        both = "both were given" if folder is not None else "neither was given"
        raise ConfigError(f"--score reads FOLDER or --times FILE.csv; {both}", hint="give one of them")
    if reproductions is not None:
        raise ConfigError("--reproductions does not belong to --score", hint="leave it out: scores list no verdicts")
    if trusted_keys is not None:
        raise ConfigError("--trusted-keys does not belong to --score", hint="leave it out: scores list no signatures")

    from a2perf.api.result_leaderboard import time_to_result
    from a2perf.storage import json_text

    source = folder if folder is not None else times
    assert source is not None
    found = time_to_result(
        source, score=score, target=target, held_out=_pairs(held_out), count_held_out=count_held_out,
        points=None if exact else 100, processes=len(os.sched_getaffinity(0)),
    )  # fmt: skip
    written = None if out is None else found.write(out, title=title or "")
    if as_json:
        click.echo(json_text(found.document(title or "")), nl=False)
        return 0
    click.echo(found.text())
    if written is not None:
        click.echo(f"Written: {written}")
    return 0


def _site(
    folder: Path, out: Path, title: str, reports: bool, trusted_keys: Path | None, reproductions: Path | None, *,
    as_json: bool,
) -> int:  # fmt: skip
    from a2perf.api.pages import write_leaderboard

    written = write_leaderboard(
        folder, out, title=title, trusted_keys=trusted_keys, reproductions=reproductions, reports=reports,
        processes=len(os.sched_getaffinity(0)),
    )  # fmt: skip
    if as_json:
        click.echo((out / "leaderboard.json").read_text(encoding="utf-8"), nl=False)
    else:
        click.echo(str(written))
    return 0


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given:
        variant, equals, base = (part.strip() for part in text.partition("="))
        if not (variant and equals and base):
            raise ConfigError(f"--held-out {text!r} is not VARIANT=BASE", hint="--held-out wmt_post_ln=wmt")
        if pairs.setdefault(variant, base) != base:
            raise ConfigError(f"--held-out names {variant!r} twice", hint="give each variant one base")
    return pairs
