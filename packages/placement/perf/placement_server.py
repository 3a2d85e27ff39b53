"""Speed of a2perf-plc: calls beside a bare socket, start-up, and an episode on the clustered NanGate45 Ariane.

A call that does nothing in the engine is timed in turns with a ping-pong of as many bytes between two processes over
the same kind of socket. Start-up is the time from starting the program to the first reply, with compiled kernels in
the cache. The episode places 133 macros at the first cell of the mask and ends with the force-directed placer and the
three costs, as circuit training's environment does. Next to wall time stands the processor time of the server, which a
loaded machine disturbs less. Without the data file (``A2PERF_DATA_DIR`` or the cache) it uses the generated twin.

    python packages/placement/perf/placement_server.py  one or two minutes
    python packages/placement/perf/placement_server.py --json   one JSON object
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # the client lies among the tests

import psutil

from a2perf.domains.circuit_training.generated.designs import design_files
from a2perf.domains.circuit_training.netlists.plc_file import read_header
from a2perf.errors import AssetUnavailable
from packages.placement.tests.protocol_client import ProtocolClient

REQUEST = b'{"name": "GetNodeType", "args": [0]}'
REPLY = b'"MACRO"'
RECORDED_EPISODE_S = (0.5, 1.1)  # of the closed program, on another machine


def ping_pong() -> tuple[Callable[[], None], Callable[[], None]]:
    """Returns a round trip of the same bytes through a process that only echoes, and what ends that process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    child = os.fork()
    if child == 0:
        ours.close()
        while theirs.recv(1 << 16):
            theirs.sendall(REPLY)
        os._exit(0)
    theirs.close()

    def call() -> None:
        ours.sendall(REQUEST)
        ours.recv(1 << 20)

    def end() -> None:
        ours.close()
        os.waitpid(child, 0)

    return call, end


def call_times(client: ProtocolClient, rounds: int = 40, calls: int = 250) -> dict[str, float]:
    """Returns the median times of a call and of a ping-pong, us; they take turns."""
    bare, end = ping_pong()

    def no_op() -> None:
        client.connection.sendall(REQUEST)
        client.connection.recv(1 << 20)

    times: dict[str, list[float]] = {"ping_pong_us": [], "no_op_us": []}
    for _ in range(rounds):
        for name, call in (("ping_pong_us", bare), ("no_op_us", no_op)):
            for _ in range(calls):
                begun = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - begun) * 1e6)
    end()
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {**medians, "ratio": medians["no_op_us"] / medians["ping_pong_us"]}


def start_times(netlist: str | Path, repeats: int = 7) -> dict[str, float]:
    """Returns the best times of several starts, s: until connected, until the first reply and the first cost."""
    found: dict[str, list[float]] = {name: [] for name in ("connected_s", "reply_s", "reply_cpu_s", "cost_s")}
    for _ in range(repeats):
        begun = time.perf_counter()
        client = ProtocolClient(netlist)
        found["connected_s"].append(time.perf_counter() - begun)
        client.num_nodes()
        found["reply_s"].append(time.perf_counter() - begun)
        found["reply_cpu_s"].append(sum(psutil.Process(client.process.pid).cpu_times()[:2]))
        client.get_cost()
        found["cost_s"].append(time.perf_counter() - begun)
        client.close()
    return {name: min(values) for name, values in found.items()}


def prepared(client: ProtocolClient, netlist: str | Path, placement: str | Path) -> list[int]:
    """Sets the engine up as circuit training does; returns the macros in the order of placing."""
    header = read_header(netlist, placement)
    client.make_soft_macros_square()
    client.set_canvas_size(header.width, header.height)
    client.set_placement_grid(header.columns, header.rows)
    client.set_routes_per_micron(70.33, 74.51)
    client.set_macro_routing_allocation(51.79, 51.79)
    client.set_congestion_smooth_range(5)
    cell = 2000 / (70.33 + 74.51)
    client.set_congestion_grid(int(header.width / cell), int(header.height / cell))
    client.set_canvas_boundary_check(False)
    client.restore_placement(str(placement))
    node = 0
    while kind := client.get_node_type(node):
        if kind == "PORT":
            client.fix_node_coord(node)
        node += 1
    hard = [macro for macro in client.get_macro_indices() if not client.is_node_soft_macro(macro)]
    areas = {macro: client.get_node_width_height(macro) for macro in hard}
    return sorted(hard, key=lambda macro: areas[macro][0] * areas[macro][1])[::-1]


def episode(client: ProtocolClient, macros: list[int], side: float) -> float:
    """Plays one episode and returns its cost."""
    client.unplace_all_nodes()
    mask = client.get_node_mask(macros[0])
    for macro, following in zip(macros, [*macros[1:], None], strict=True):
        client.place_node(macro, mask.index(1))
        client.get_node_location(macro)
        mask = [] if following is None else client.get_node_mask(following)
    far = [side / 100] * 3
    client.optimize_stdcells(
        False, True, False, False, False, 1.0, [100] * 3, far, [100.0, 1e-3, 1e-5], [0.0, 1e6, 1e7]
    )
    return float(client.get_cost() + 0.5 * client.get_congestion_cost() + client.get_density_cost())


def episode_times(netlist: str | Path, placement: str | Path, repeats: int = 12) -> dict[str, float]:
    """Returns the times of an episode, s, and its cost."""
    client = ProtocolClient(netlist, (0.1, 0.1))
    begun = time.perf_counter()
    macros = prepared(client, netlist, placement)
    setup = time.perf_counter() - begun
    side = max(client.get_canvas_width_height())
    cost = episode(client, macros, side)
    server = psutil.Process(client.process.pid)
    walls, processor = [], []
    for _ in range(repeats):
        before, begun = sum(server.cpu_times()[:2]), time.perf_counter()
        assert episode(client, macros, side) == cost
        walls.append(time.perf_counter() - begun)
        processor.append(sum(server.cpu_times()[:2]) - before)
    client.close()
    best, server_cpu = min(walls), statistics.mean(processor)
    return {
        "setup_s": setup,
        "episode_best_s": best,
        "episode_median_s": statistics.median(walls),
        "server_cpu_s": server_cpu,
        "cost": cost,
        "recorded_over_best": RECORDED_EPISODE_S[0] / best,
        "recorded_over_cpu": RECORDED_EPISODE_S[0] / server_cpu,
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    name = "ariane"
    try:
        netlist, placement = design_files("ariane", {})
    except AssetUnavailable:
        name = "ariane_twin"
        netlist, placement = design_files("ariane_twin", {})
    warm = ProtocolClient(netlist)  # the first start may compile the kernels
    warm.get_cost()
    result = {
        "design": name,
        "load": os.getloadavg()[0],
        "call": call_times(warm),
        "start": start_times(netlist),
        "episode": episode_times(netlist, placement),
    }
    warm.close()
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{name}; load average {result['load']:.1f}")
    for part in ("call", "start", "episode"):
        for quantity, value in result[part].items():
            print(f"{part:8} {quantity:20} {value:10.4g}")


if __name__ == "__main__":
    main()
