"""How kernels are compiled: the same numbers without Numba and without a folder for code; threads run side by side."""

import json
import os
import sys
import threading

import pytest

from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.netlists.netlist_cache import load_netlist
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from a2perf.sandbox import SandboxSpec, get_sandbox
from tests.commands import run_python
from tests.domains.circuit_training.conftest import random_netlist

PROGRAM = """
import json, sys
if sys.argv[2] == "plain":
    sys.modules["numba"] = None
from a2perf.domains import compilation
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
assert compilation.NUMBA_AVAILABLE == (sys.argv[2] != "plain")
plc = PlacementCost(read_netlist(sys.argv[1]), 0.5, 0.5)
plc.set_canvas_boundary_check(False)
plc.set_canvas_size(100, 90)
plc.optimize_stdcells(False, True, True, False, False, 1.0, [6, 4], [2.0, 2.0], [10.0, 1e-3], [0.0, 1e5])
costs = [plc.get_cost(), plc.get_congestion_cost(), plc.get_density_cost()]
plc.place_node("M1", 33)
costs += [plc.get_cost(), plc.get_congestion_cost(), plc.get_density_cost()]
plc.unplace_node("M0")
flat, cells = plc.get_macro_and_clustered_port_adjacency()
assert "scipy.linalg" not in sys.modules  # it takes as long as Numba
print(json.dumps([costs, plc.get_node_mask("M0").tolist(), plc.state.x.tolist(), flat.tolist(), cells]))
"""


def run(path, how: str, **environment: str):
    done = run_python(PROGRAM, str(path), how, check=True, env={**os.environ, **environment})
    return json.loads(done.stdout)


def test_without_numba_every_number_is_the_same(write_netlist):
    path = write_netlist(random_netlist(11))
    assert run(path, "plain") == run(path, "compiled")


def test_importing_works_where_no_compiled_code_can_be_kept(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    code = (
        "import numpy as np\n"
        "from a2perf.domains.circuit_training.engine.density import mean_of_largest\n"
        "print(mean_of_largest(np.arange(4.0), 2))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "file" / "below")}
    done = run_python(code, env=environment)
    assert done.stdout == "2.5\n", done.stderr


@pytest.mark.group("bwrap")
def test_the_scanner_is_compiled_once_for_all_confined_programs(write_netlist, tmp_path, monkeypatch):
    """Also if the netlist is in the cache, and if Numba keeps its files outside of the installation."""
    path = write_netlist(random_netlist(13))
    load_netlist(path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    code = f"from a2perf.domains.circuit_training.netlists import netlist_cache as n; n.load_netlist({str(path)!r})"
    run_python(code, check=True)
    assert list((tmp_path / "numba").glob("netlists_*/netlist_scanner.scan-*.nbi"))
    code = (
        "from a2perf.domains.circuit_training.netlists.netlist_reader import keep_scanner, scanner\n"
        "keep_scanner()\nprint(scanner.scan.signatures)"
    )
    confined = get_sandbox("bubblewrap").start(
        SandboxSpec(
            argv=(sys.executable, "-I", "-c", code),
            cwd=tmp_path,
            env={},
            writable=[tmp_path],
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
        )
    )
    confined.wait(300)
    assert (tmp_path / "out").read_text() == "[]\n", (tmp_path / "err").read_text()


def test_a_running_kernel_leaves_the_interpreter_to_others(write_netlist):
    plc = PlacementCost(read_netlist(write_netlist(random_netlist(13))))
    plc.set_canvas_boundary_check(False)
    plc.set_canvas_size(100, 90)

    def place(steps: int) -> None:
        plc.optimize_stdcells(False, True, True, False, False, 1.0, [steps], [1.0], [1.0], [1e3])

    place(1)
    worker = threading.Thread(target=place, args=(60_000,))
    worker.start()
    turns = 0
    while worker.is_alive():
        turns += 1
    # a kernel that kept the GIL would let this thread come back only at its end
    assert turns > 1000
