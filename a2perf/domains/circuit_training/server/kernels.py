"""The kernels of the engine as a library: made by the first start on a host, loaded by all later ones."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from a2perf.domains import precompiled

_ENGINE = "a2perf.domains.circuit_training"
_FOLDER = Path(__file__).resolve().parent.parent
_log = logging.getLogger(__name__)


def use() -> bool:
    """Loads the kernels from the library, or else makes the library, which takes some seconds.

    Returns:
        Whether the library existed. If not, this process has compiled the kernels with Numba, if that is installed.
    """
    if precompiled.load(_FOLDER):
        return True
    try:
        make()
    except Exception as error:
        # No Numba, no cache that can be written, or another Numba: the library only saves time, the engine works.
        _log.debug("no kernel library: %s", error)
    return False


def make() -> None:
    """Compiles every kernel that a request can reach and writes the library.

    Raises:
        ImportError: Numba is not installed.
        OSError: the cache cannot be written.
    """
    path = precompiled.library_path(_FOLDER)
    print("a2perf-plc: compiling its kernels, once per host and version", file=sys.stderr, flush=True)
    _call_all()
    precompiled.write(path, [code for kernel in _compiled_kernels() for code in precompiled.codes_of(kernel)])


def _compiled_kernels() -> Iterator[Any]:
    for name, module in sorted(sys.modules.items()):
        if name.startswith(_ENGINE + "."):
            for value in vars(module).values():
                # A kernel that is imported from another module belongs to that one.
                if getattr(value, "overloads", None) and getattr(value, "__module__", "") == name:
                    yield value


def _call_all() -> None:
    """Runs a small design through every kernel, with the types of arguments that requests lead to."""
    from a2perf.domains.circuit_training.netlist_reader import read_netlist
    from a2perf.domains.circuit_training.placement_cost import PlacementCost
    from a2perf.domains.circuit_training.toy import toy_design

    with tempfile.TemporaryDirectory(prefix="a2perf-plc-") as folder:
        netlist = Path(folder) / "netlist.pb.txt"
        netlist.write_text(toy_design().netlist_text())
        plc = PlacementCost(read_netlist(netlist))
    plc.set_canvas_boundary_check(False)
    plc.create_blockage(0.0, 0.0, 1.0, 1.0, 0.1)
    for macro in plc.get_macro_indices():
        plc.get_node_mask(macro)
        plc.place_node(macro, macro)
    plc.optimize_stdcells(False, True, True, False, False, 1.0, [2], [1.0], [1.0], [1.0])
    for macro in [*plc.get_macro_indices(), *plc.get_macro_indices()]:
        plc.update_node_coords(macro, 5.0, 5.0)
        costs = plc.get_cost(), plc.get_congestion_cost(), plc.get_density_cost()
        _log.debug("costs of the small design: %s", costs)
    plc.get_macro_and_clustered_port_adjacency()
