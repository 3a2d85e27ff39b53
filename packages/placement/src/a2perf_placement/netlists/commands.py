"""``a2perf data netlist``: generate a design, show one as a picture, convert its files, and print its numbers."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import click

from a2perf.domains.circuit_training.generated.design import Design
from a2perf.errors import ConfigError
from a2perf.storage import write_atomic

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_CONVERTED = (".pb.txt", ".pb.txt.gz", ".json")


@click.group()
def netlist() -> None:
    """Generate, import, show, convert and count netlists, and write placements for other tools.

    \b
    Examples:
      a2perf data netlist generate my_design --num-macros 60
      a2perf data netlist sample flat
      a2perf data netlist import --lef flat/cells.lef --lef flat/macros.lef --def flat/design.def -o my_task
      a2perf data netlist save-pnr my_task placed.tcl
    """  # noqa: D301


@netlist.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--design",
    type=click.Choice(["generated", "toy_macro_stdcell", "ariane_twin"]),
    default="generated",
    show_default=True,
    help="Kind of design.",
)
@click.option("--num-macros", type=int, default=40, show_default=True, help="Hard macros, 10 to 1000.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the generator.")
@click.option("--utilization", type=float, default=0.65, show_default=True, help="Share of the canvas that is covered.")
@click.option("--rent-exponent", type=float, default=0.6, show_default=True, help="Exponent of Rent's rule.")
@click.option("--num-clusters", type=int, help="Soft macros, or standard cells with --flat.")
@click.option("--num-ports", type=int, help="Ports on the edge of the canvas.")
@click.option("--num-nets", type=int, help="Nets between the components.")
@click.option("--flat", is_flag=True, help="Standard cells instead of clusters.")
def generate(folder: Path, design: str, **spec: Any) -> int:
    """Write a design's netlist and initial placement into FOLDER; the same options give the same bytes."""
    from a2perf.domains.circuit_training.generated import generator
    from a2perf.domains.circuit_training.generated.design_plan import DesignSpec

    made: Design
    if design == "generated":
        made = generator.generate(DesignSpec(**spec))
    else:
        made = generator.toy_design() if design == "toy_macro_stdcell" else generator.ariane_twin()
    for path in made.write(folder):
        click.echo(str(path))
    return 0


@netlist.command()
@click.argument("file", type=_FILE, metavar="NETLIST")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stats(file: Path, as_json: bool) -> int:
    """Print a netlist's counts, areas, fan-outs and Rent exponent."""
    from a2perf.domains.circuit_training.netlists.netlist_cache import load_netlist
    from a2perf_placement.netlists.statistics import netlist_statistics

    numbers = netlist_statistics(load_netlist(str(file)))
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(numbers), indent=2))
        return 0
    for name, count in numbers.counts.items():
        click.echo(f"{name:<18} {count:>12,}")
    click.echo(f"{'hard macro area':<18} {numbers.macro_area:>12,.1f} um^2")
    click.echo(f"{'soft area':<18} {numbers.soft_area:>12,.1f} um^2")
    exponent = numbers.rent_exponent
    shown = "-" if exponent is None else f"{exponent:.3f}"
    click.echo(f"{'Rent exponent':<18} {shown:>12} (of blocks that halve the nodes by position)")
    click.echo("fan-out  nets")
    most = max(numbers.fan_out.values(), default=1)
    for fan_out, nets in numbers.fan_out.items():
        click.echo(f"{fan_out:>7}  {nets:>8,} {'#' * max(1, round(40 * nets / most))}")
    return 0


@netlist.command()
@click.argument("file", type=_FILE, metavar="NETLIST")
@click.argument("placement", type=_FILE, metavar="PLACEMENT")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="placement.png",
    show_default=True,
    help="File of the picture.",
)
@click.option(
    "--overlay",
    "overlays",
    multiple=True,
    type=click.Choice(["nets", "congestion", "density"]),
    help="Layer to draw on top; repeatable.",
)
@click.option("--place-soft", is_flag=True, help="Place soft macros and standard cells by forces first.")
def show(file: Path, placement: Path, output: Path, overlays: tuple[str, ...], place_soft: bool) -> int:
    """Write a picture of a PLACEMENT (.plc) of a NETLIST, and print its costs where all of it is placed."""
    from PIL import Image

    from a2perf.domains.circuit_training.engine.cost_model import cost_info_function, create_placement_cost
    from a2perf.domains.circuit_training.rendering import PlacementPicture
    from a2perf.domains.circuit_training.starting_point import place_soft_macros

    plc = create_placement_cost(file, placement)
    if place_soft:
        place_soft_macros(plc)
    output.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(PlacementPicture(overlays).draw(plc)).quantize(64).save(output)
    cost, parts = cost_info_function(plc, True)
    click.echo(f"{output}: cost {cost:.4f} = " + ", ".join(f"{name} {value:.4f}" for name, value in parts.items()))
    return 0


@netlist.command()
@click.argument("source", type=_FILE)
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
def convert(source: Path, target: Path) -> int:
    """Write the netlist SOURCE as TARGET: protobuf text, gzipped or not, or JSON with one object per node."""
    from a2perf.domains.circuit_training.netlists.netlist_cache import load_netlist
    from a2perf_placement.netlists.conversion import design_of, nodes_as_json

    suffix = next((suffix for suffix in _CONVERTED if target.name.endswith(suffix)), None)
    if suffix is None:
        raise ConfigError(f"{target.name} has no known ending", hint=f"use one of: {', '.join(_CONVERTED)}")
    columns = load_netlist(str(source))
    if suffix == ".json":
        text = nodes_as_json(columns)
    else:
        text = design_of(columns, source).netlist_text()
    data = text.encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target, gzip.compress(data, mtime=0) if suffix.endswith(".gz") else data)
    click.echo(f"{target}: {columns.num_nodes:,} nodes, {columns.num_nets:,} nets")
    return 0
