"""Finds the two files of a design: data files, or files that are generated once and kept in the user's cache."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from a2perf import assets
from a2perf.domains.arguments import refuse_unknown
from a2perf.domains.circuit_training import ARIANE
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.generated import generator
from a2perf.domains.circuit_training.generated.design import NETLIST_NAME, PLACEMENT_NAME, Design
from a2perf.domains.circuit_training.generated.design_plan import VERSION, DesignSpec
from a2perf.errors import AssetUnavailable

NAMES = ("toy_macro_stdcell", "ariane", "ariane_twin", "generated")
SPEC_FIELDS = tuple(field.name for field in dataclasses.fields(DesignSpec))


def design_files(design: str, spec: Mapping[str, Any]) -> tuple[Path, Path]:
    """Returns the netlist and the initial placement of a design.

    Args:
        spec: fields of `DesignSpec`, for ``"generated"`` only.

    Raises:
        ArgumentError: unknown design, or a specification for one that is not generated.
        ConfigError: a value of the specification is out of its range.
        AssetUnavailable: Ariane is not on this host and could not be fetched; the message names the ways to get it.
    """
    files_hint = f"choose one of {', '.join(NAMES)}, or give netlist_file and init_placement"
    refuse_unknown([design], NAMES, "a design", hint=files_hint, error=ArgumentError)
    if spec and design != "generated":
        raise ArgumentError(
            f"{', '.join(spec)}: {design} is a fixed design",
            hint="use CircuitTraining-Generated-v0 for these arguments",
        )
    if design == "ariane":
        try:
            return assets.fetch(ARIANE[NETLIST_NAME]), assets.fetch(ARIANE[PLACEMENT_NAME])
        except AssetUnavailable as error:
            twin = "CircuitTraining-ArianeTwin-v0 needs no data: a generated design with its statistics"
            raise AssetUnavailable(error.message, hint=f"{error.hint}; {twin}") from error
    if design == "generated":
        wanted = DesignSpec(**spec)
        return _kept(wanted.name, lambda: generator.generate(wanted))
    make = generator.toy_design if design == "toy_macro_stdcell" else generator.ariane_twin
    return _kept(f"{design}_{VERSION}", make)


def folder_files(folder: Path, init_placement: str | Path = "") -> tuple[Path, Path]:
    """Returns the netlist and the initial placement in the folder of a design.

    Args:
        folder: a folder with ``netlist.pb.txt`` (or ``.gz``) and ``initial.plc``.

    Raises:
        ArgumentError: a file is missing.
    """
    netlist = next((path for path in (folder / NETLIST_NAME, folder / f"{NETLIST_NAME}.gz") if path.is_file()), None)
    placement = Path(init_placement) if init_placement else folder / PLACEMENT_NAME
    if netlist is None or not placement.is_file():
        missing = NETLIST_NAME if netlist is None else placement.name
        raise ArgumentError(
            f"{folder} has no {missing}", hint="name a folder that `a2perf data netlist` of a2perf-placement wrote"
        )
    return netlist, placement


def _kept(name: str, make: Callable[[], Design]) -> tuple[Path, Path]:
    """Returns the files of a generated design; generates them if they are not in the cache."""
    try:
        folder = assets.cache_dir() / "circuit_training" / "designs" / name
        return _made(folder, make)
    except OSError:  # a home that cannot be written: for this process only
        return _made(Path(tempfile.mkdtemp(prefix="a2perf-design-")), make)


def _made(folder: Path, make: Callable[[], Design]) -> tuple[Path, Path]:
    netlist, placement = folder / NETLIST_NAME, folder / PLACEMENT_NAME
    # the netlist is written last: if it exists, both files are complete
    return (netlist, placement) if netlist.is_file() else make().write(folder)
