"""Import of netlists: time and memory of reading, and clusterings beside the published one.

    python packages/placement/perf/netlist_import.py  read --cells 1000000  # a generated LEF/DEF and Bookshelf design
    python packages/placement/perf/netlist_import.py  group  # Ariane-133 in NanGate45, expanded into cells
    python packages/placement/perf/netlist_import.py  grid  # grids of published designs

Each reading runs in a separate process; memory is its peak resident size. Wall time grows with the load of the
machine, processor time hardly does, so both are printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # the expansion lies among the tests

from a2perf.domains.circuit_training.generated import designs
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from a2perf.domains.circuit_training.netlists.plc_file import read_placement
from a2perf_placement.netlists.flat_generator import FlatSpec, write_flat_design
from a2perf_placement.netlists.grid_choice import choose_grid
from a2perf_placement.netlists.grouping import GroupingSettings, Hypergraph, group_cells
from a2perf_placement.netlists.importing import NetlistSource, read_flat_design
from packages.placement.tests.expanded_netlist import expand_soft_macros

ARIANE_CANVAS = (1433.406, 1433.406)
ARIANE_CELLS = 88_411
"""Standard cells of the flat Ariane-133: its 96,886 nodes without ports, macros and their pins."""
MACRO = (57.57, 133.0)
"""Size of the memories of both Arianes, um."""


@click.group()
def main() -> None:
    """Measure the import of netlists."""


@main.command()
@click.option("--cells", default=100_000, show_default=True, help="Standard cells; each drives one net.")
@click.option("--macros", default=100, show_default=True, help="Memories.")
@click.option("--format", "kinds", multiple=True, default=("lefdef", "bookshelf"), show_default=True)
def read(cells: int, macros: int, kinds: tuple[str, ...]) -> None:
    """Read a generated design in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            start = time.perf_counter()
            paths = write_flat_design(FlatSpec(cells=cells, macros=macros, ports=512), folder, kind)
            size = sum(path.stat().st_size for path in paths)
            print(f"{kind}: {size / 1e6:,.0f} MB written in {time.perf_counter() - start:.1f} s", flush=True)
            child = subprocess.run(
                [sys.executable, __file__, "read-here", kind, folder], capture_output=True, text=True, check=True
            )
            found = json.loads(child.stdout)
            print(
                f"{kind}: {found['nets']:,} nets, {found['pins']:,} pins read in {found['wall_s']:.1f} s "
                f"({found['cpu_s']:.1f} s of processor time), peak memory {found['peak_mb']:,.0f} MB, "
                f"before reading {found['before_mb']:,.0f} MB",
                flush=True,
            )


@main.command(hidden=True)
@click.argument("kind")
@click.argument("folder", type=click.Path(path_type=Path))
def read_here(kind: str, folder: Path) -> None:
    """Read a design and print time and memory as JSON."""
    source = NetlistSource(bookshelf=folder / "design.aux")
    if kind == "lefdef":
        source = NetlistSource(lef=(folder / "cells.lef", folder / "macros.lef"), def_file=folder / "design.def")
    before = _peak_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    netlist = read_flat_design(source).netlist
    found = {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "nets": netlist.num_nets,
        "pins": len(netlist.net_pins),
        "before_mb": before,
        "peak_mb": _peak_mb(),
    }
    print(json.dumps(found))


@main.command()
@click.option("--imbalance", type=float, default=None, help="Other than the default of the grouping.")
@click.option("--seed", default=0, show_default=True, help="Seed of the expansion and of the partitioner.")
def group(imbalance: float | None, seed: int) -> None:
    """Group an expansion of the published clustering of Ariane-133, and compare the cut.

    The flat netlist of the publication is not at hand. Its clustered one is expanded: the same nets between groups,
    as many cells and nets as the flat one has, and random wiring inside groups.
    """
    netlist_file, placement = designs.design_files("ariane", {})
    netlist = read_netlist(netlist_file)
    at = np.zeros((netlist.num_nodes, 2))
    for row in read_placement(placement):
        at[row.node] = row.x, row.y
    flat, planted = expand_soft_macros(netlist, at, ARIANE_CANVAS, ARIANE_CELLS, seed)
    settings = GroupingSettings(seed=seed) if imbalance is None else GroupingSettings(seed=seed, imbalance=imbalance)
    wall, cpu = time.perf_counter(), time.process_time()
    grouping = group_cells(flat.netlist, ARIANE_CANVAS, (24, 21), settings)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    graph = Hypergraph.of(flat.netlist, settings.max_sinks)
    nodes = np.arange(flat.netlist.num_nodes)
    cuts = [
        graph.cut(np.where(groups >= 0, len(nodes) + groups, nodes)[graph.vertex_node])
        for groups in (planted, grouping.group)
    ]
    print(f"flat: {(planted >= 0).sum():,} cells, {flat.netlist.num_nets:,} nets")
    print(f"published clustering: {int(planted.max()) + 1} groups, {cuts[0]:,} nets between nodes")
    print(f"grouping: {grouping.count} groups, {cuts[1]:,} nets between nodes, ratio {cuts[1] / cuts[0]:.3f}")
    print(f"parts {grouping.parts}, broken up {grouping.broken}, merged {grouping.merged}, cut {grouping.cut:,}")
    print(f"{wall:.1f} s, {cpu:.1f} s of processor time")


@main.command()
def grid() -> None:
    """Choose the grids of both published Arianes; the macro sizes of the other published designs are not at hand."""
    for name, macros, side, published in (("ariane133", 133, 1433.406, "24x21"), ("ariane136", 136, 1446.359, "25x21")):
        start = time.perf_counter()
        found = choose_grid((side, side), np.tile(MACRO, (macros, 1)))
        print(f"{name}: {found.columns}x{found.rows}, published {published}, {time.perf_counter() - start:.1f} s")


def _peak_mb() -> float:
    # Not getrusage: its peak includes that of the parent process before exec.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024.0


if __name__ == "__main__":
    main()
