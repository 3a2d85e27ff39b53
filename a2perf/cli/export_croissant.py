"""``a2perf export croissant``: Croissant metadata of offline datasets."""

from __future__ import annotations

import json

import click

from a2perf.cli.word_lists import removing_command
from a2perf.stranger_files import printable
from a2perf.submission.options import normalised

_TABLES = "a2perf.read_runs(FOLDER).to_pandas() and .episodes().to_pandas() are the tables of runs"
_ALWAYS = "leave it out: the tables of steps and episodes are always written"
_REMOVED = {
    "--runs": _TABLES,
    "--output": _TABLES,
    "-o": _TABLES,
    "--name": _TABLES,
    "--records": _ALWAYS,
    "--no-records": _ALWAYS,
}


@click.command(cls=removing_command(_REMOVED), context_settings=normalised())
@click.argument("names", nargs=-1, required=True, metavar="DATASET...")
@click.option("--license", metavar="NAME|URL", help="License of the dataset, e.g. CC-BY-4.0.")
@click.option("--url", metavar="URL", help="Web page of the dataset.")
@click.option("--datasets-path", metavar="DIR", help="Folder of all datasets.")
@click.option("--json", "as_json", is_flag=True, help="Print the files as JSON.")
def croissant(
    names: tuple[str, ...], license: str | None, url: str | None, datasets_path: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Write croissant.json for offline datasets.

    \b
    Example:
      a2perf export croissant quadruped_locomotion/dog_pace/random-v0 --license CC-BY-4.0

    DATASET is a name or a folder. Its data folder receives the file, and the steps and episodes as Parquet tables, from
    which readers of Croissant load records. Needs the packages mlcroissant and pyarrow.
    """  # noqa: D301
    from a2perf.datasets import open_dataset
    from a2perf.datasets.croissant import write_croissant

    made = {one: str(write_croissant(open_dataset(one, datasets_path), license=license, url=url)) for one in names}
    click.echo(json.dumps(made, indent=2) if as_json else "\n".join(printable(path) for path in made.values()))
    return 0
