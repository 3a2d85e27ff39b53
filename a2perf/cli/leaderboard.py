"""``a2perf leaderboard``: builds a static site from recorded runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from a2perf.errors import MissingDependency
from a2perf.submission.options import normalised

if TYPE_CHECKING:
    from a2perf.report.leaderboard import Signature, SignatureCheck


@click.command(context_settings=normalised())
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@click.option(
    "-o", "--output", "out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder to write."
)
@click.option("--title", default="Leaderboard", show_default=True, help="Heading of the site.")
@click.option("--reports/--no-reports", default=True, show_default=True, help="Write the report of each submission.")
@click.option(
    "--trusted-keys", type=click.Path(exists=True, path_type=Path), metavar="DIR_OR_FILE",
    help="Public keys whose signatures count; others are listed as of an unknown key.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the entries as JSON.")
def leaderboard(folder: Path, out: Path, title: str, reports: bool, trusted_keys: Path | None, as_json: bool) -> int:
    """Build a leaderboard from the bundles in FOLDER: a static site that needs no server and no network.

    Entries are ordered by the interquartile mean of the normalised score; environments, tracks and provenances that
    differ are never ranked together. Invalid and unsigned bundles are listed as such.
    """
    from a2perf.report.leaderboard import write_leaderboard
    from a2perf.runs.bundle import integrity

    written = write_leaderboard(
        folder, out, title=title, integrity=integrity, signature=signature_check(trusted_keys), reports=reports,
        processes=len(os.sched_getaffinity(0)),
    )  # fmt: skip
    if as_json:
        click.echo((out / "leaderboard.json").read_text(encoding="utf-8"), nl=False)
        return 0
    boards = written.record.boards
    entries = [row for board in boards for row in board.rows]
    unranked = sum(row.place is None for row in entries)
    click.echo(f"{len(entries)} entries in {len(boards)} table(s), {unranked} without a rank")
    for broken in written.record.invalid:
        click.echo(f"  invalid: {broken.run}: {broken.reason}")
    for page, problem in written.problems.items():
        click.echo(f"  no report of {page}: {problem}")
    click.echo(f"leaderboard: {written.page}")
    return 0


def signature_check(trusted_keys: Path | None) -> SignatureCheck:
    """Returns the function that says who signed a bundle.

    Args:
        trusted_keys: file or folder of public keys; without it every valid signature is that of an unknown key.

    Raises:
        ConfigError: there is no key there, or one cannot be read.
        MissingDependency: keys are given, but the library that checks signatures is not installed.
    """
    from a2perf.runs import signing

    names = (
        {} if trusted_keys is None else {signing.key_id(raw): name for name, raw in signing.trusted_keys(trusted_keys)}
    )

    def check(bundle: Path) -> Signature:
        from a2perf.report.leaderboard import Signature

        try:
            verdict = signing.verify(bundle, None)
        except MissingDependency as error:
            return Signature(state="not checked", detail=error.message)
        if verdict.problems or verdict.key_id is None:
            return Signature(state="invalid", detail=(verdict.problems or ["no key"])[0])
        if verdict.key_id in names:
            return Signature(state="signed", detail=names[verdict.key_id])
        return Signature(state="unknown key", detail=verdict.key_id)

    return check
