"""``a2perf datasets``: make, combine, list and inspect offline datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import msgspec

from a2perf.cli.extensible import refuse_removed
from a2perf.datasets import naming
from a2perf.datasets.text import describe_text, result_text
from a2perf.submission.options import normalised

_ROOT = click.option("--datasets-path", metavar="DIR", help="Folder of all datasets.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
_FORCE = click.option("--force", is_flag=True, help="Archive the existing dataset and start from scratch.")


@click.group(context_settings=normalised())
def datasets() -> None:
    """Make, combine, list and inspect offline datasets.

    \b
    Examples:
      a2perf datasets generate --submission examples/motion_imitation --task dog_pace --episodes 100
      a2perf datasets inspect quadruped_locomotion/dog_pace/motion_imitation-v0

    Datasets are stored in --datasets-path, otherwise in MINARI_DATASETS_PATH or A2PERF_DATASETS_DIR, otherwise in the
    user's data folder. Minari can read them.
    """  # noqa: D301


@datasets.command(name="combine", context_settings=normalised())
@click.argument("names", nargs=-1, required=True, metavar="NAME_OR_FOLDER...")
@click.option("--id", "dataset_id", required=True, metavar="NAME", help="Name of the result: namespace/name-v0.")
@click.option(
    "--merge", type=click.Choice(("linear", "binary")), default="linear", show_default=True,
    help="Combine in one pass or in pairs; the result is the same.",
)  # fmt: skip
@_FORCE
@_ROOT
@_JSON
def combine(
    names: tuple[str, ...], dataset_id: str, merge: str, force: bool, datasets_path: str | None, as_json: bool
) -> int:
    """Combine datasets of one environment into one, and keep the record of their cost."""
    from a2perf.datasets import open_dataset
    from a2perf.datasets.combine import combine as put_together

    inputs = [open_dataset(name, datasets_path) for name in names]
    made = put_together(
        inputs,
        naming.DatasetId.parse(dataset_id),
        naming.root_folder(datasets_path),
        merge=merge,  # type: ignore[arg-type]  # click has checked it
        force=force,
    )
    _print(msgspec.to_builtins(made.record), as_json, result_text(made))
    return 0


@datasets.command(name="list", context_settings=normalised())
@_ROOT
@_JSON
def list_datasets(datasets_path: str | None, as_json: bool) -> int:
    """List all datasets."""
    from a2perf.datasets.reader import list_datasets as all_datasets

    found = all_datasets(datasets_path)
    lines = [
        f"{row['dataset_id']}  "
        + (row.get("problem") or f"{row['total_episodes']} episodes, {row['total_steps']} steps")
        for row in found
    ]
    _print(found, as_json, "\n".join(lines) or f"no dataset in {naming.root_folder(datasets_path)}")
    return 0


@datasets.command(name="inspect", context_settings=normalised())
@click.argument("name", metavar="NAME_OR_FOLDER")
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plot the returns into a .svg, .png or .pdf file.",
)
@_ROOT
@_JSON
def inspect(name: str, picture: Path | None, datasets_path: str | None, as_json: bool) -> int:
    """Show episodes, returns, spaces, policies and cost of a dataset."""
    from a2perf.datasets import inspection, open_dataset

    data = open_dataset(name, datasets_path)
    found = inspection.describe(data)
    if picture is not None:
        inspection.draw(data, picture)
    _print(found, as_json, describe_text(found))
    return 0


def _print(found: Any, as_json: bool, text: str) -> None:
    click.echo(json.dumps(found, indent=2) if as_json else text)


def _add_commands() -> None:
    from a2perf.cli.datasets_making import generate, skill_levels

    datasets.add_command(generate)
    datasets.add_command(skill_levels)
    refuse_removed(datasets, "datasets.")


_add_commands()
