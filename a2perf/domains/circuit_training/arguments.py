"""Checks of the arguments of the environment; every error names the nearest valid name and the fix."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from a2perf.domains.arguments import RENDER_MODES, one_of, refuse_unknown
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.generated import designs
from a2perf.domains.circuit_training.rendering import OVERLAYS
from a2perf.domains.circuit_training.rules import NODE_ORDERS
from a2perf.domains.display import require_display
from a2perf.errors import MissingDependency

PLACER_MODES = ("fd", "dreamplace")
_one_of = functools.partial(one_of, error=ArgumentError)


def refuse_unknown_specification(spec: Mapping[str, Any], arguments: Iterable[str]) -> None:
    """Refuses arguments that belong neither to the environment nor to a generated design.

    Raises:
        ArgumentError: there is one; the message names the nearest valid argument.
    """
    refuse_unknown(
        (name for name in spec if name not in designs.SPEC_FIELDS),
        [*arguments, *designs.SPEC_FIELDS],
        "an argument of the circuit environment",
        hint=f"of a generated design there are: {', '.join(designs.SPEC_FIELDS)}",
        error=ArgumentError,
    )


def check_arguments(
    placer_mode: str, order: str, render_mode: str | None, overlays: Sequence[str], netlist_index: int
) -> None:
    """Checks the simple arguments.

    Raises:
        ArgumentError: one of them is not a valid value.
        MissingDependency: DREAMPlace is requested.
        ConfigError: a window is requested on a machine without a display.
    """
    _one_of("std_cell_placer_mode", placer_mode, PLACER_MODES)
    _one_of("node_order", order, NODE_ORDERS)
    if render_mode is not None:
        _one_of("render_mode", render_mode, RENDER_MODES)
    if isinstance(overlays, str):
        raise ArgumentError(f"overlays is the text {overlays!r}", hint=f"give a list: overlays=[{overlays!r}]")
    for overlay in overlays:
        _one_of("overlays", overlay, OVERLAYS)
    if int(netlist_index) < 0:
        raise ArgumentError(f"netlist_index is {netlist_index}", hint="give 0 or a positive number")
    if placer_mode == "dreamplace" and importlib.util.find_spec("dreamplace") is None:
        raise MissingDependency(
            "std_cell_placer_mode 'dreamplace' needs DREAMPlace, which is not installed",
            hint="use std_cell_placer_mode='fd', the force-directed placer of a2perf",
        )
    if placer_mode == "dreamplace":
        raise ArgumentError("there is no binding to DREAMPlace", hint="use std_cell_placer_mode='fd'")
    if render_mode == "human":
        require_display()


def resolve_files(
    netlist_file: str | Path, init_placement: str | Path, design: str, spec: Mapping[str, Any]
) -> tuple[str | Path, str | Path]:
    """Returns the netlist and the initial placement.

    Raises:
        ArgumentError: neither a netlist nor a design was named, or the design is unknown, or a folder has no netlist.
        AssetUnavailable: the design's files are not on this host.
    """
    if netlist_file:
        if spec:
            raise ArgumentError(f"{', '.join(spec)} together with a netlist_file", hint="leave out one of them")
        if Path(netlist_file).is_dir():
            return designs.folder_files(Path(netlist_file), init_placement)
        return netlist_file, init_placement
    if not design:
        raise ArgumentError(
            "no netlist_file was given", hint=f"give netlist_file and init_placement, or design={designs.NAMES[0]!r}"
        )
    return designs.design_files(design, spec)
