"""``a2perf export``: datasets in the formats of other tools; distributions add commands for recorded runs."""

from __future__ import annotations

import json

import click

from a2perf.cli.extensible import ExtensibleGroup
from a2perf.stranger_files import printable
from a2perf.submission.options import normalised


class _ExportGroup(ExtensibleGroup):
    prefix = "export."


@click.group(cls=_ExportGroup, context_settings=normalised())
def export() -> None:
    """Export datasets and recorded runs to the formats of other tools.

    Commands for MLflow, Weights & Biases, TensorBoard and Hugging Face come with the distribution a2perf-trackers.
    """


@export.command(context_settings=normalised())
@click.argument("names", nargs=-1, required=True, metavar="DATASET...")
@click.option("--license", metavar="NAME|URL", help="License of the dataset, e.g. CC-BY-4.0.")
@click.option("--url", metavar="URL", help="Web page of the dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the files as JSON.")
def croissant(names: tuple[str, ...], license: str | None, url: str | None, as_json: bool) -> int:
    """Write croissant.json for offline datasets: description, license, citation, and every file with its hash.

    \b
    Example:
      a2perf export croissant quadruped_locomotion/dog_pace/random-v0 --license CC-BY-4.0

    DATASET is a name or a folder. Its data folder receives the file. Needs the package mlcroissant.
    """  # noqa: D301
    from a2perf.datasets import open_dataset
    from a2perf.datasets.croissant import write_croissant

    made = {one: str(write_croissant(open_dataset(one), license=license, url=url)) for one in names}
    click.echo(json.dumps(made, indent=2) if as_json else "\n".join(printable(path) for path in made.values()))
    return 0
