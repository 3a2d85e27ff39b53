"""``a2perf validate``: checks the files of recorded runs."""

from __future__ import annotations

import json

import click

from a2perf.runs.bundle import validate as problems_of
from a2perf.runs.signing import bundles_of
from a2perf.stranger_files import printable
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def validate(runs: tuple[str, ...], as_json: bool) -> int:
    """Check the files of recorded runs; print SUCCESS or every problem.

    RUN is a bundle or a folder with bundles. Exits with 1 if there are problems.
    """
    found = {str(bundle): problems_of(bundle) for bundle in bundles_of(runs)}
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for path, problems in found.items():
            click.echo(f"{printable(path)}: {'SUCCESS' if not problems else 'INVALID'}")
            for problem in problems:
                click.echo(f"  {problem}")
    return 1 if any(found.values()) else 0
