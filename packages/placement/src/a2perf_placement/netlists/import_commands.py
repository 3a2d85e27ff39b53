"""``a2perf data netlist``: import netlists of other tools, and write placements back for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2perf.errors import ConfigError
from a2perf.storage import json_text
from a2perf.terminal import console
from a2perf_placement.netlists.commands import netlist

if TYPE_CHECKING:
    from a2perf_placement.netlists.importing import ImportedTask, Stage
    from a2perf_placement.netlists.statements import Progress

_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@netlist.command(name="import")
@click.option("--lef", multiple=True, type=_FILE, help="LEF file of cells or macros; repeatable.")
@click.option("--def", "def_file", type=_FILE, help="DEF file of the design.")
@click.option("--bookshelf", type=_FILE, metavar="FILE.aux", help="Bookshelf design, instead of LEF and DEF.")
@click.option("--netlist-file", type=_FILE, help="Flat netlist in protobuf text, instead of LEF and DEF.")
@click.option("--init-placement", type=_FILE, metavar="FILE.plc", help="Canvas and positions of --netlist-file.")
@click.option("-o", "--output", type=_FOLDER, required=True, metavar="DIR", help="Folder of the task.")
@click.option("--grid", metavar="COLUMNSxROWS", help="Placement grid; default: chosen from canvas and macros.")
@click.option("--groups", type=int, help="Free groups of the partition; default: 500, fewer for small designs.")
@click.option("--max-sinks", type=int, default=500, show_default=True, help="Nets with more sinks are left out.")
@click.option("--imbalance", type=float, help="How much larger than the mean a group may be.")
@click.option("--utilization", type=float, default=0.5, show_default=True, help="Share of a cluster that cells cover.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the partitioner.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def import_command(
    lef: tuple[Path, ...],
    def_file: Path | None,
    bookshelf: Path | None,
    netlist_file: Path | None,
    init_placement: Path | None,
    output: Path,
    grid: str | None,
    utilization: float,
    as_json: bool,
    imbalance: float | None,
    **grouping: Any,
) -> int:
    """Make a task of a netlist in LEF and DEF, in Bookshelf, or in flat protobuf text.

    The folder is a netlist for every command and environment: netlist_file=DIR. It also holds train.gin and
    inference.gin for `a2perf run`.
    """
    from a2perf_placement.netlists.grouping import GroupingSettings
    from a2perf_placement.netlists.importing import NetlistSource, import_netlist

    if imbalance is not None:
        grouping["imbalance"] = imbalance
    source = NetlistSource(tuple(lef), def_file, bookshelf, netlist_file, init_placement)
    with _shown(quiet=as_json) as stage:
        task = import_netlist(
            source,
            output,
            settings=GroupingSettings(**grouping),
            grid=_parsed_grid(grid),
            utilization=utilization,
            stage=stage,
        )
    if as_json:
        click.echo(json_text({"folder": str(output), **task.record.counts, "seconds": task.seconds}))
        return 0
    _print_summary(task)
    return 0


def _print_summary(task: ImportedTask) -> None:
    record, counts = task.record, {name: int(value) for name, value in task.record.counts.items()}
    click.echo(f"{task.folder}: design {record.design}")
    kinds = ("standard_cells", "hard_macros", "ports", "flat_nets")
    click.echo("  flat       " + ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in kinds))
    weight = f"{counts['nets']:,} nets of weight {counts['net_weight']:,}"
    click.echo(f"  clustered  {counts['soft_macros']:,} soft macros, {weight}")
    click.echo(
        f"  canvas     {record.canvas_width:g} x {record.canvas_height:g} um, grid {record.columns} x {record.rows}"
    )
    click.echo("  seconds    " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in task.seconds.items()))
    for note in record.notes:
        click.echo(f"  note: {note}")


def _parsed_grid(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    columns, _, rows = text.lower().partition("x")
    if not (columns.isdecimal() and rows.isdecimal() and len(text) < 20):
        raise ConfigError(f"--grid {text!r} is not a grid", hint="give COLUMNSxROWS, for example 24x21")
    return int(columns), int(rows)


@netlist.command()
@click.argument("folder", type=_FOLDER)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["lefdef", "bookshelf"]),
    default="lefdef",
    show_default=True,
    help="Format of the files.",
)
@click.option("--cells", type=int, default=2000, show_default=True, help="Standard cells; each drives one net.")
@click.option("--macros", type=int, default=8, show_default=True, help="Memories.")
@click.option("--ports", type=int, default=48, show_default=True, help="Ports around the die.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the generator.")
@click.option("--utilization", type=float, default=0.5, show_default=True, help="Share of the die that is covered.")
@click.option("--rent-exponent", type=float, default=0.62, show_default=True, help="Exponent of Rent's rule.")
def sample(folder: Path, kind: str, **spec: Any) -> int:
    """Write a generated flat design into FOLDER: LEF and DEF, or Bookshelf."""
    from a2perf_placement.netlists.flat_generator import FlatSpec, write_flat_design

    for path in write_flat_design(FlatSpec(**spec), folder, kind):
        click.echo(str(path))
    return 0


@netlist.command(name="save-pnr")
@click.argument("folder", type=_FOLDER, metavar="TASK")
@click.argument("output", type=_FILE)
@click.option("--placement", type=_FILE, metavar="FILE.plc", help="Placement; default: the task's initial one.")
@click.option(
    "--tool",
    type=click.Choice(["openroad", "innovus"]),
    default="openroad",
    show_default=True,
    help="Tool that reads the Tcl file.",
)
@click.option("--units", type=int, default=1000, show_default=True, help="Database units per um of a DEF file.")
@click.option("--snap", type=float, nargs=2, metavar="X Y", help="Grid of lower left corners, um.")
@click.option("--movable", is_flag=True, help="Do not fix the macros.")
def save_pnr(folder: Path, output: Path, placement: Path | None, movable: bool, **options: Any) -> int:
    """Write a placement of an imported TASK for place-and-route tools: OUTPUT.def or OUTPUT.tcl."""
    from a2perf_placement.netlists.placement_export import save_task_placement_pnr

    macros = save_task_placement_pnr(folder, output, placement, fix=not movable, **options)
    click.echo(f"{output}: {len(macros):,} macros")
    return 0


@contextmanager
def _shown(*, quiet: bool) -> Iterator[Stage | None]:
    """Yields what shows the stages of an import: a bar on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Bar(*columns, TimeRemainingColumn(), console=console(stderr=True), transient=True) as bar:

        def stage(name: str, size: int) -> Progress:
            task = bar.add_task(name, total=size or None)
            return lambda count: bar.update(task, advance=count)

        yield stage
