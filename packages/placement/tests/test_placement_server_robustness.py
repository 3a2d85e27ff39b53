"""The placement server under random requests and killed clients, and recorded behaviour replayed through it."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf_placement.server import methods, requests
from packages.placement.tests.protocol_client import ProtocolClient
from tests.domains.circuit_training.conftest import random_netlist
from tests.golden import recorded
from tests.waiting import Child, until

ARGUMENTS = (
    -1,
    0,
    1,
    2,
    3,
    7,
    2**31,
    2**80,
    0.5,
    -0.5,
    1e-300,
    1e300,
    True,
    False,
    None,
    "",
    "M0",
    "M0/p0",
    "Grp_1",
    "P0",
    "c0",
    "S",
    "\x00",
    "é",
    "x" * 5000,
    [],
    [0],
    [1, 2],
    [0.5],
    [None],
    [[1]],
    {},
    {"a": 1},
)
_WRITE_FILES = ("save_placement",)
CLIENT = """
import sys, time
sys.path.insert(0, {root!r})
from packages.placement.tests.protocol_client import ProtocolClient
client = ProtocolClient({netlist!r})
client.num_nodes()
if {busy}:
    import json
    steps = [[10**7], [1e-3], [1.0], [1.0]]
    request = {{"name": "OptimizeStdcells", "args": [True, True, False, False, False, 1.0, *steps]}}
    client.connection.sendall(json.dumps(request).encode())
print(client.process.pid, client.address, flush=True)
time.sleep(600)
"""


def test_random_calls_get_a_result_or_a_status(tmp_path):
    netlist = tmp_path / "netlist.pb.txt"
    netlist.write_text(random_netlist(3))
    plc = PlacementCost(netlist)
    generator = random.Random(0)
    served = sorted(set(methods.METHODS.values()), key=lambda method: method.name)
    refused = 0
    for _ in range(1500):
        method = generator.choice([method for method in served if method.name not in _WRITE_FILES])
        count = len(method.kinds) + generator.choice((0, 0, 0, 0, 1, -1))
        given = [generator.choice(ARGUMENTS) for _ in range(max(count, 0))]
        if method.name in ("set_placement_grid", "set_congestion_grid", "set_congestion_grid_num_columns_rows"):
            given = [min(one, 9) if isinstance(one, int) else one for one in given]  # larger grids take long
        reply = json.loads(methods.answer(plc, {"name": method.request_name, "args": given}))
        if isinstance(reply, dict) and reply.get("ok") is False:
            assert "internal error" not in reply["message"], (method.name, given, reply)
            refused += 1
    assert 500 < refused < 1450  # both kinds occur
    assert json.loads(methods.answer(plc, {"name": "NumNodes", "args": []})) == plc.num_nodes()


def test_damaged_requests_are_malformed_incomplete_or_values():
    generator = random.Random(1)
    whole = json.dumps(
        {"name": "UpdateNodeCoords", "args": ["é/ü", 1.5e3, -2, [True, None]]}, ensure_ascii=False
    ).encode()
    ends: collections.Counter[str] = collections.Counter()
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            at = generator.randrange(len(data))
            change = generator.choice(("replace", "delete", "insert", "cut"))
            if change == "cut":
                del data[at + 1 :]
            elif change == "delete" and len(data) > 1:
                del data[at]
            else:
                data[at : at + (change == "replace")] = bytes([generator.randrange(256)])
        try:
            requests.parse(data)
            ends["value"] += 1
        except requests.MalformedRequest:
            ends["malformed"] += 1
        except requests._Incomplete:
            ends["incomplete"] += 1
    assert min(ends[name] for name in ("value", "malformed", "incomplete")) > 30, ends


@pytest.mark.parametrize("busy", [False, True], ids=["between calls", "during a call"])
def test_a_killed_client_leaves_no_server_and_no_socket(busy, tmp_path, repository):
    netlist = tmp_path / "netlist.pb.txt"
    netlist.write_text(random_netlist(3))
    script = CLIENT.format(root=str(repository), netlist=str(netlist), busy=busy)
    client = Child([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    pid, address = client.stdout.readline().split()
    server = psutil.Process(int(pid))
    try:
        assert server.is_running()
        os.kill(client.pid, signal.SIGKILL)
        client.wait(300)
        until(lambda: not _lives(server))
        assert not Path(address).exists()
    finally:
        client.stdout.close()
        with contextlib.suppress(psutil.NoSuchProcess):
            server.kill()


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


class CountingClient(ProtocolClient):
    """Counts the calls by method."""

    calls: collections.Counter[str] = collections.Counter()

    def raw(self, name: str, *arguments: object) -> object:
        """Counts and calls."""
        self.calls[name] += 1
        return super().raw(name, *arguments)


def _prepared(data: Path, case: dict) -> CountingClient:
    settings = case["cfg"]
    client = CountingClient(data / case["netlist"], (settings.get("xs", 0.0), settings.get("ys", 0.0)), timeout_s=300)
    if settings.get("square"):
        client.make_soft_macros_square()
    for blockage in settings.get("blockages", ()):
        client.create_blockage(*blockage)
    client.set_canvas_boundary_check(False)
    client.set_canvas_size(*settings["canvas"])
    client.set_placement_grid(*settings["grid"])
    if "cgrid" in settings:
        client.set_congestion_grid(*settings["cgrid"])
        client.set_routes_per_micron(*settings["rpm"])
        client.set_macro_routing_allocation(*settings["alloc"])
        client.set_congestion_smooth_range(settings["smooth"])
    if case.get("init"):
        client.restore_placement(str(data / case["init"]))
    return client


def _replay_force_directed(data: Path, chosen: str) -> int:
    cases, arrays = recorded.cases("circuit_fd")["cases"], recorded.arrays("circuit_fd")
    cases = [case for case in cases if chosen in case["netlist"]]
    for case in cases:
        client = _prepared(data, case)
        client.optimize_stdcells(
            False,
            True,
            case["move_macros"],
            False,
            False,
            case["io_factor"],
            case["num_steps"],
            case["max_move_distance"],
            case["attract"],
            case["repel"],
        )
        nodes = range(client.num_nodes())
        where = [client.get_node_location(node) for node in nodes]
        np.testing.assert_allclose(where, arrays[case["id"]], rtol=0, atol=1e-9, err_msg=case["id"])
        costs = client.get_cost(), client.get_congestion_cost(), client.get_density_cost()
        assert costs == pytest.approx((case["cost"], case["congestion"], case["density"]), rel=1e-9), case["id"]
        assert client.close() == 0
    return len(cases)


def _replay_adjacencies(data: Path) -> int:
    cases, arrays = recorded.cases("circuit_adjacency"), recorded.arrays("circuit_adjacency")
    for name, case in cases.items():
        client = _prepared(data, {**case, "cfg": {"canvas": case["canvas"], "grid": case["grid"]}})
        flat, cells = client.get_macro_and_clustered_port_adjacency()
        full = np.array(flat).reshape(case["n"], case["n"])
        i, j = np.nonzero(np.triu(full))
        np.testing.assert_array_equal(np.stack((i, j, full[i, j]), axis=1), arrays[f"{name}/ijw"].reshape(-1, 3))
        assert cells == arrays[f"{name}/cells"].tolist()
        macros = case["macro_indices"]
        assert client.get_macro_adjacency() == full[:macros, :macros].ravel().tolist()
        assert client.close() == 0
    return len(cases)


def test_recorded_force_directed_runs_of_the_toy_design_through_the_server(golden_netlists):
    assert _replay_force_directed(golden_netlists, "toy_macro_stdcell") > 0


@pytest.mark.slow
def test_all_recorded_force_directed_runs_and_adjacencies_through_the_server(golden_netlists):
    CountingClient.calls.clear()
    assert _replay_force_directed(golden_netlists, "") == 42
    assert _replay_adjacencies(golden_netlists) == len(recorded.cases("circuit_adjacency"))
    assert CountingClient.calls["OptimizeStdcells"] == 42
    print(f"{CountingClient.calls.total()} calls of {len(CountingClient.calls)} methods")
