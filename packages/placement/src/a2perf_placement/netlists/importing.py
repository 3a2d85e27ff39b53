"""From a netlist of another tool to a folder that is a task: reading, choice of grid, grouping, writing.

The folder holds the clustered netlist, the initial placement, gin files for runs, and a record of the import that
`save_task_placement_pnr` needs to write placements back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.generated.design import NETLIST_NAME
from a2perf.domains.circuit_training.netlists.netlist import (
    KIND_MACRO,
    KIND_PORT,
    KIND_STDCELL,
    ORIENTATIONS,
    SOFT_PREFIX,
    Netlist,
    NetlistError,
)
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from a2perf.domains.circuit_training.netlists.plc_file import read_header, read_placement
from a2perf.errors import ConfigError
from a2perf.storage import sha256_of, write_record
from a2perf_placement.netlists.bookshelf import bookshelf_files, read_bookshelf
from a2perf_placement.netlists.clustering import CELL_UTILIZATION, clustered_design
from a2perf_placement.netlists.def_reader import read_def
from a2perf_placement.netlists.flat_design import TURNED, FlatDesign
from a2perf_placement.netlists.grid_choice import choose_grid
from a2perf_placement.netlists.grouping import Grouping, GroupingSettings, group_cells
from a2perf_placement.netlists.lef import read_lef
from a2perf_placement.netlists.statements import Progress
from a2perf_placement.netlists.task_files import RECORD_NAME, ImportedMacro, ImportRecord, write_gin_files

_MAX_GRID = 128  # of the environment's observations
_MAX_NODES = 3500
Stage = Callable[[str, int], Progress]
"""Called at the start of a stage with its name and its size in bytes (0: unknown); returns its progress."""


class NetlistSource(NamedTuple):
    """The files of a netlist: LEF and DEF, or Bookshelf, or protobuf text with a placement.

    Attributes:
        bookshelf: the ``.aux`` file.
        init_placement: ``.plc`` file of ``netlist_file``.
    """

    lef: tuple[Path, ...] = ()
    def_file: Path | None = None
    bookshelf: Path | None = None
    netlist_file: Path | None = None
    init_placement: Path | None = None

    def files(self) -> list[Path]:
        """Returns all files that are read.

        Raises:
            ConfigError: none or several kinds were named.
            NetlistError: the ``.aux`` file is broken.
        """
        kinds = [bool(self.def_file or self.lef), self.bookshelf is not None, self.netlist_file is not None]
        if sum(kinds) != 1:
            given = "nothing" if not any(kinds) else "several kinds of netlists"
            raise ConfigError(
                f"{given} to import", hint="give --lef FILE... --def FILE, or --bookshelf FILE.aux, or --netlist-file"
            )
        if self.bookshelf is not None:
            return [self.bookshelf, *bookshelf_files(self.bookshelf).values()]
        if self.netlist_file is not None:
            return [self.netlist_file, *([self.init_placement] if self.init_placement else [])]
        if self.def_file is None or not self.lef:
            missing = "--def" if self.def_file is None else "--lef"
            raise ConfigError(f"{missing} is missing", hint="LEF describes the cells, DEF the design; give both")
        return [*self.lef, self.def_file]


@dataclass(frozen=True)
class ImportedTask:
    """A task folder and what happened on the way to it.

    Attributes:
        flat: the design before grouping.
    """

    folder: Path
    record: ImportRecord
    seconds: dict[str, float]
    flat: FlatDesign
    grouping: Grouping


def import_netlist(
    source: NetlistSource,
    folder: str | Path,
    *,
    settings: GroupingSettings | None = None,
    grid: tuple[int, int] | None = None,
    utilization: float = CELL_UTILIZATION,
    stage: Stage | None = None,
) -> ImportedTask:
    """Makes a task folder of a netlist of another tool.

    ``a2perf.make("CircuitTraining-Generated-v0", netlist_file=folder)`` then makes its environment.

    Args:
        folder: folder to write; made if needed, its task files are replaced.
        settings: parameters of the grouping.
        grid: columns and rows of the placement grid; chosen by `choose_grid` by default.
        utilization: share of a soft macro's area that its cells cover, 0.1..1.

    Returns:
        The folder with its record, and the design before and after grouping.

    Raises:
        NetlistError: a file is missing or broken, or has nothing to place.
        ConfigError: a setting is out of its range.
        MissingDependency: the partitioner is not installed.
    """
    folder = Path(folder)
    settings = settings or GroupingSettings()
    timed = _Stages(stage)
    files = source.files()
    if grid is not None and not all(1 <= lines <= _MAX_GRID for lines in grid):
        raise ConfigError(f"a grid of {grid[0]} x {grid[1]}", hint=f"give 1 to {_MAX_GRID} columns and rows")
    flat = _read(source, files, timed)
    _check_names(flat.netlist)
    timed.start("choose the grid")
    macros = _lying_sizes(flat.netlist)
    if grid is None:
        choice = choose_grid(flat.canvas, macros)
        grid = (choice.columns, choice.rows)
    timed.start("group the cells")
    grouping = group_cells(flat.netlist, flat.canvas, grid, settings)
    timed.start("write the task")
    design, nets = clustered_design(flat, grouping, grid, max_sinks=settings.max_sinks, utilization=utilization)
    design.write(folder)
    written = read_netlist(folder / NETLIST_NAME)
    kind = flat.netlist.kind
    counts = {
        "hard_macros": float((kind == KIND_MACRO).sum()),
        "ports": float((kind == KIND_PORT).sum()),
        "standard_cells": float((kind == KIND_STDCELL).sum()),
        "flat_nets": float(flat.netlist.num_nets),
        "parts": float(grouping.parts),
        "groups_broken_up": float(grouping.broken),
        "groups_merged": float(grouping.merged),
        "cut": float(grouping.cut),
        "soft_macros": float(grouping.count),
        "nets": float(written.num_nets),
        "net_weight": nets.weight,
        "internal_nets": float(nets.internal),
        "nets_left_out": float(nets.left_out),
    }
    record = ImportRecord(
        design=design.name,
        sources={path.name: sha256_of(path) for path in files},
        origin_x=flat.origin[0],
        origin_y=flat.origin[1],
        canvas_width=flat.canvas[0],
        canvas_height=flat.canvas[1],
        columns=grid[0],
        rows=grid[1],
        macros={flat.netlist.names[node]: macro for node, macro in flat.macros.items()},
        counts=counts,
        notes=[*flat.notes, *_warnings(flat, grouping.count, nets.left_out, settings.max_sinks, macros, utilization)],
    )
    write_gin_files(folder)
    write_record(folder / RECORD_NAME, record)
    return ImportedTask(folder, record, timed.finish(), flat, grouping)


def read_flat_design(source: NetlistSource, stage: Stage | None = None) -> FlatDesign:
    """Reads a netlist without grouping it.

    Raises:
        NetlistError, ConfigError: as `import_netlist`.
    """
    return _read(source, source.files(), _Stages(stage))


class _Stages:
    """Starts stages one after the other and measures them."""

    def __init__(self, stage: Stage | None) -> None:
        self._stage = stage
        self._seconds: dict[str, float] = {}
        self._current: tuple[str, float] | None = None

    def start(self, name: str, size: int = 0) -> Progress | None:
        self.finish()
        self._current = (name, time.perf_counter())
        return None if self._stage is None else self._stage(name, size)

    def finish(self) -> dict[str, float]:
        if self._current is not None:
            name, since = self._current
            self._seconds[name] = time.perf_counter() - since
            self._current = None
        return self._seconds


def _read(source: NetlistSource, files: Sequence[Path], timed: _Stages) -> FlatDesign:
    missing = next((path for path in files if not path.is_file()), None)
    if missing is not None:
        raise NetlistError(f"{missing}: no such file", hint="check the path")
    if source.bookshelf is not None:
        progress = timed.start("read Bookshelf", sum(path.stat().st_size for path in files[1:]))
        return read_bookshelf(source.bookshelf, progress)
    if source.netlist_file is not None:
        timed.start("read the netlist")
        return _from_protobuf(source.netlist_file, source.init_placement)
    assert source.def_file is not None
    library = read_lef(source.lef, timed.start("read LEF", sum(path.stat().st_size for path in source.lef)))
    return read_def(source.def_file, library, timed.start("read DEF", source.def_file.stat().st_size))


def _from_protobuf(path: Path, init_placement: Path | None) -> FlatDesign:
    """Returns the design of a flat netlist in protobuf text; a placement overrides its positions."""
    netlist = read_netlist(path)
    header = read_header(path, init_placement)
    if not header.width or not header.height:
        raise NetlistError(f"{path}: no canvas size in the comments", hint="give its .plc file with --init-placement")
    if (netlist.soft != 0).any():
        raise NetlistError(
            f"{path}: the netlist has soft macros, so it is grouped already",
            hint="use it as it is: netlist_file=... and init_placement=...",
        )
    fixed = np.zeros(netlist.num_nodes, np.uint8)
    for row in read_placement(init_placement) if init_placement else ():
        if row.node >= netlist.num_nodes:
            raise NetlistError(
                f"{init_placement}, line {row.line}: there is no node {row.node}", hint="check the files"
            )
        netlist.x[row.node], netlist.y[row.node], netlist.has_location[row.node] = row.x, row.y, 1
        fixed[row.node] = row.fixed
        netlist.orientation[row.node] = 0 if row.orientation == "-" else ORIENTATIONS.index(row.orientation)
    return FlatDesign(
        netlist=netlist,
        name=header.block or path.name.partition(".")[0],
        canvas=(header.width, header.height),
        origin=(0.0, 0.0),
        fixed=fixed,
        blockages=np.array(header.blockages, dtype=np.float64).reshape(-1, 5),
        macros={
            node: ImportedMacro(component=netlist.names[node])
            for node in np.flatnonzero(netlist.kind == KIND_MACRO).tolist()
        },
    )


def _lying_sizes(netlist: Netlist) -> NDArray[np.float64]:
    """Returns width and height of each hard macro as it lies, um, shape (n, 2)."""
    macros = np.flatnonzero(netlist.kind == KIND_MACRO)
    if len(macros) == 0:
        raise NetlistError(f"{netlist.source}: no hard macro", hint="a task needs at least one macro to place")
    sizes = np.stack([netlist.width[macros], netlist.height[macros]], axis=1)
    turned = np.isin(netlist.orientation[macros], TURNED)
    lying: NDArray[np.float64] = np.where(turned[:, None], sizes[:, ::-1], sizes)
    return lying


def _check_names(netlist: Netlist) -> None:
    """Refuses names that the format of a task gives a special meaning, or cannot hold."""
    for node in np.flatnonzero((netlist.kind == KIND_MACRO) | (netlist.kind == KIND_PORT)).tolist():
        name = netlist.names[node]
        if name.startswith(SOFT_PREFIX) or name == "__metadata__":
            raise NetlistError(
                f"{netlist.source}: {name!r} has a reserved name", hint=f"rename it: {SOFT_PREFIX}... are soft macros"
            )
    text = netlist.names.blob
    if (text == ord('"')).any() or (text < 32).any():
        raise NetlistError(
            f"{netlist.source}: a name has a quote or a control character", hint="rename it in the source"
        )


def _warnings(
    flat: FlatDesign,
    soft: int,
    left_out: int,
    max_sinks: int,
    macros: NDArray[np.float64],
    utilization: float,
) -> list[str]:
    notes = []
    if left_out:
        notes.append(f"{left_out:,} nets with more than {max_sinks} sinks were left out")
    netlist = flat.netlist
    cells = netlist.kind == KIND_STDCELL
    if not netlist.has_location[cells].all():
        notes.append("standard cells without positions: groups were neither broken up nor merged")
    covered = float((netlist.width * netlist.height)[cells].sum()) / utilization + float(macros.prod(axis=1).sum())
    share = covered / math.prod(flat.canvas)
    if share > 1.0:
        notes.append(f"macros and clusters cover {share:.0%} of the canvas; a higher cell utilization lowers that")
    if soft + len(macros) > _MAX_NODES:
        notes.append(f"more than {_MAX_NODES} macros: raise ObservationConfig.max_num_nodes in gin")
    return notes
