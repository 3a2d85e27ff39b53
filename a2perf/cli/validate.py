"""``a2perf validate``: checks the files of recorded runs and of datasets."""

from __future__ import annotations

import json

import click

from a2perf.cli.shared_options import DATASETS_PATH
from a2perf.runs.bundle import validate as problems_of
from a2perf.runs.signing import bundles_of
from a2perf.stranger_files import printable
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.argument("names", nargs=-1, required=True, metavar="RUN|DATASET...")
@DATASETS_PATH
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def validate(names: tuple[str, ...], datasets_path: str | None, as_json: bool) -> int:
    """Check the files of recorded runs and datasets; print SUCCESS or every problem.

    RUN is a bundle or a folder with bundles, DATASET the name or the folder of a dataset. Exits with 1 if there are
    problems.
    """
    from a2perf.datasets import naming

    found: dict[str, list[str]] = {}
    for name in names:
        if naming.is_dataset(name):
            found[name] = _dataset_problems(name, datasets_path)
        else:
            found |= {str(bundle): problems_of(bundle) for bundle in bundles_of([name])}
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for path, problems in found.items():
            click.echo(f"{printable(path)}: {'SUCCESS' if not problems else 'INVALID'}")
            for problem in problems:
                click.echo(f"  {problem}")
    return 1 if any(found.values()) else 0


def _dataset_problems(name: str, datasets_path: str | None) -> list[str]:
    from a2perf.datasets import open_dataset
    from a2perf.datasets.validation import problems_of as problems_of_dataset

    return problems_of_dataset(open_dataset(name, datasets_path))
