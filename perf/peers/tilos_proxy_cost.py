"""The proxy cost of a chip: ``plc_client_os.py`` of TILOS MacroPlacement, and a2perf's engine.

    git clone https://github.com/TILOS-AI-Institute/MacroPlacement
    python perf/peers/tilos_proxy_cost.py MacroPlacement/CodeElements/Plc_client NETLIST.pb.txt PLACEMENT.plc

A hard macro moves to a random place, and all three costs are asked for. Needs matplotlib and a2perf-placement.
"""

from __future__ import annotations

import itertools
import sys

import matplotlib
import numpy as np
from turns import in_turns

from a2perf_placement.incremental import IncrementalPlacement, evaluate_placement
from a2perf_placement.profiles import engine_from_header

matplotlib.use("Agg")
Costs = tuple[float, float, float]


def main(folder: str, netlist: str, placement: str) -> None:
    sys.path.insert(0, folder)
    from plc_client_os import PlacementCost

    peer = PlacementCost(netlist)
    peer.get_canvas_width_height()
    peer.restore_placement(placement, ifReadComment=True)
    engine = engine_from_header(netlist, placement)
    incremental = IncrementalPlacement(engine, profile="tilos")
    generator, size = np.random.default_rng(0), np.array(engine.get_canvas_width_height())
    macros = engine.hard_macro_indices
    moves = ((int(generator.choice(macros)), *(generator.uniform(0.1, 0.9, 2) * size)) for _ in itertools.count())

    def of_peer(move: tuple[int, float, float]) -> Costs:
        peer.update_node_coords(*move)
        peer.FLAG_UPDATE_WIRELENGTH = peer.FLAG_UPDATE_DENSITY = peer.FLAG_UPDATE_CONGESTION = True
        return peer.get_cost(), peer.get_density_cost(), peer.get_congestion_cost()

    def of_engine(move: tuple[int, float, float]) -> Costs:
        engine.update_node_coords(*move)
        return evaluate_placement(engine, "tilos")[:3]

    def repeated(cost: object, count: int) -> int:
        for move in itertools.islice(moves, count):
            cost(move)
        return count

    for move in itertools.islice(moves, 3):
        expected = of_peer(move)
        for found in (of_engine(move), incremental.move(*move)[:3]):
            assert np.allclose(found, expected, rtol=1e-6), (move, found, expected)
    in_turns(
        {
            "plc_client_os": lambda: repeated(of_peer, 1),
            "a2perf, full cost": lambda: repeated(of_engine, 50),
            "a2perf, cost of the move": lambda: repeated(lambda move: incremental.move(*move), 1000),
        }
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
