"""``a2perf export croissant``: Croissant metadata of offline datasets and of recorded runs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from a2perf.errors import ConfigError
from a2perf.stranger_files import printable
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.argument("names", nargs=-1, required=True, metavar="NAME_OR_FOLDER...")
@click.option(
    "--records/--no-records", default=True, show_default=True,
    help="Also write the steps and episodes as Parquet tables, from which readers of Croissant load records.",
)  # fmt: skip
@click.option("--runs", "of_runs", is_flag=True, help="The arguments are recorded runs; needs -o.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the tables of runs.")
@click.option("--name", metavar="NAME", help="Name of the dataset of runs. Default: the name of the folder.")
@click.option("--license", metavar="NAME|URL", help="License of the dataset, e.g. CC-BY-4.0.")
@click.option("--url", metavar="URL", help="Web page of the dataset.")
@click.option("--datasets-path", metavar="DIR", help="Folder of all datasets.")
@click.option("--json", "as_json", is_flag=True, help="Print the files as JSON.")
def croissant(
    names: tuple[str, ...], records: bool, of_runs: bool, output: Path | None, name: str | None,
    license: str | None, url: str | None, datasets_path: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Write croissant.json for offline datasets or recorded runs.

    \b
    Examples:
      a2perf export croissant quadruped_locomotion/dog_pace/random-v0 --license CC-BY-4.0
      a2perf export croissant --runs runs/my_agent -o published --license CC-BY-4.0

    The file of an offline dataset is in its data folder; `a2perf datasets generate` writes it without the tables.
    With --runs, tables of all runs and episodes are written to a new folder.
    """  # noqa: D301
    if of_runs != (output is not None):
        raise ConfigError("--runs and -o need each other", hint="give both for recorded runs, or none for datasets")
    if output is not None:
        from a2perf.api.results import read_runs
        from a2perf.exporters.croissant import write_runs_croissant

        title = name or output.absolute().name
        path = write_runs_croissant(read_runs(*names), output, name=title, license=license, url=url)
        made = {title: str(path)}
    else:
        from a2perf.datasets import open_dataset
        from a2perf.datasets.croissant import write_croissant

        made = {
            one: str(write_croissant(open_dataset(one, datasets_path), records=records, license=license, url=url))
            for one in names
        }
    click.echo(json.dumps(made, indent=2) if as_json else "\n".join(printable(path) for path in made.values()))
    return 0
