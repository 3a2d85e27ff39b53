"""Speed and exactness of the incremental evaluation of placements.

Sizes run up to that of ibm10 (786 hard macros, 1,982 soft macros, about 36,800 macro pins), generated. Times of single
calls are processor time, which other load on the machine disturbs least; the placers run for equal wall time.

    python packages/placement/perf/placement_incremental.py  everything, some minutes
    python packages/placement/perf/placement_incremental.py --only sizes,threads  some parts, see ``PARTS``
    python packages/placement/perf/placement_incremental.py --figure sizes.png  draws probe and full times
    python packages/placement/perf/placement_incremental.py --json                 one JSON object
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import gymnasium
import numpy as np

import a2perf.domains
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.generated.designs import design_files
from a2perf.domains.circuit_training.netlists.netlist import KIND_MACRO_PIN
from a2perf_placement.annealing import Annealing, Schedule
from a2perf_placement.incremental import IncrementalPlacement
from a2perf_placement.profiles import engine_from_header

PARTS = ("sizes", "threads", "drift", "placers")
IBM10 = {"num_macros": 786, "num_clusters": 1982, "num_nets": 23_518, "seed": 10}
SIZES = (
    {"num_macros": 50, "num_clusters": 125, "num_nets": 1_500, "seed": 10},
    {"num_macros": 200, "num_clusters": 500, "num_nets": 6_000, "seed": 10},
    IBM10,
)
TARGETS = {"probe ms": 0.2, "full ms": 100.0}
BUDGET_S = 20.0
PROBES = 1000


def processor_ms(call: Callable[[], object], repeats: int) -> float:
    """Returns the processor time of a call in ms, the mean over some repeats; the best of three rounds."""
    call()
    rounds = []
    for _ in range(3):
        start = time.process_time()
        for _ in range(repeats):
            call()
        rounds.append((time.process_time() - start) / repeats * 1e3)
    return min(rounds)


def engine(spec: dict[str, int]) -> PlacementCost:
    """Returns an engine with a generated design; congestion uses the placement grid, as in the public evaluator."""
    return engine_from_header(*design_files("generated", spec))


def random_moves(plc: PlacementCost, count: int, macros: np.ndarray) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Returns moves of macros to anywhere on the canvas."""
    generator = np.random.default_rng(0)
    width, height = plc.get_canvas_width_height()
    x, y = generator.uniform(0.05, 0.95, (2, count)) * [[width], [height]]
    return generator.choice(macros, count).tolist(), x, y


def engine_costs(plc: PlacementCost) -> tuple[float, float, float]:
    """Returns the three costs of the engine."""
    return plc.get_cost(), plc.get_density_cost(), plc.get_congestion_cost()


def measure_sizes() -> list[dict[str, float]]:
    """Times probes, moves and full evaluations of designs of growing size, and the engine's on the same moves."""
    return [measure_size(spec) for spec in SIZES]


def measure_size(spec: dict[str, int]) -> dict[str, float]:
    """Times one design."""
    plc = engine(spec)
    placement = IncrementalPlacement(plc)
    nodes, x, y = random_moves(plc, PROBES, np.array(plc.get_macro_indices()))
    hard = random_moves(plc, PROBES, plc.hard_macro_indices)
    same = [nodes[0]] * PROBES
    changes = itertools.cycle(zip(nodes, x.tolist(), y.tolist(), strict=True))

    def engine_move() -> None:
        plc.update_node_coords(*next(changes))
        engine_costs(plc)

    row = {
        "hard macros": len(plc.hard_macro_indices),
        "soft macros": len(plc.soft_macro_indices),
        "macro pins": int((plc.netlist.kind == KIND_MACRO_PIN).sum()),
        "nets": plc.netlist.num_nets,
        "cells": math.prod(plc.get_congestion_grid()),
        "probe ms": processor_ms(lambda: placement.probe(nodes, x, y), 1) / PROBES,
        "probe of a hard macro ms": processor_ms(lambda: placement.probe(*hard), 1) / PROBES,
        "probe of the same macro ms": processor_ms(lambda: placement.probe(same, x, y), 1) / PROBES,
        "move ms": processor_ms(lambda: placement.move(*next(changes)), PROBES),
        "full ms": processor_ms(placement.recompute, 5),
        "engine after a move ms": processor_ms(engine_move, 200),
    }
    placement.write_to(plc)
    row["relative distance to the engine"] = max(
        abs(one - other) / other for one, other in zip(placement.cost(), engine_costs(plc), strict=False)
    )
    return row


def measure_threads() -> dict[str, float]:
    """Returns wall times of a batch of probes with 1, 2 and 4 threads, ms per probe."""
    plc = engine(IBM10)
    placement = IncrementalPlacement(plc)
    moves = random_moves(plc, 4 * PROBES, np.array(plc.get_macro_indices()))
    expected = placement.probe(*moves)
    found = {}
    for threads in (1, 2, 4):
        walls = []
        for _ in range(3):
            start = time.perf_counter()
            results = placement.probe(*moves, threads=threads)
            walls.append((time.perf_counter() - start) / len(results) * 1e3)
            assert (results == expected).all()
        found[f"{threads} threads, wall ms"] = min(walls)
    return {**found, "cores": float(len(os.sched_getaffinity(0)))}


def measure_drift(moves: int) -> dict[str, float]:
    """Moves macros at random and compares with a full evaluation, which must be equal to the last bit."""
    plc = engine(SIZES[1])
    placement = IncrementalPlacement(plc)
    every = np.array(plc.get_macro_indices())
    done = different = 0
    start = time.process_time()
    while done < moves:
        for change in zip(*random_moves(plc, min(PROBES, moves - done), np.roll(every, done)), strict=True):
            placement.move(*change)
            done += 1
        different += placement.recompute() != placement.cost()
    return {
        "moves": done,
        "full evaluations": math.ceil(moves / PROBES),
        "of them different": different,
        "processor s": time.process_time() - start,
    }


def measure_placers(budget_s: float) -> list[dict[str, object]]:
    """Runs each placer on the twin of Ariane with the engine alone and with the incremental evaluation."""
    rows: list[dict[str, object]] = []
    with gymnasium.make("CircuitTraining-ArianeTwin-v0", disable_env_checker=True) as env:
        core = env.unwrapped

        def final(cells: dict[int, int]) -> float:
            env.reset(seed=0)
            for node in core.macro_order:
                _, reward, *_ = env.step(core.translate_to_padded_canvas(cells[node]))
            return -float(reward)

        # Kernels are compiled before the clock runs.
        for incremental in (False, True):
            Annealing(env, Schedule(time_budget_s=math.inf, max_moves=5), seed=0, incremental=incremental).run()
        for incremental in (False, True):
            annealing = Annealing(env, Schedule(time_budget_s=budget_s), seed=0, incremental=incremental)
            cells = annealing.run()
            rows.append(
                {
                    "placer": "annealing",
                    "incremental": incremental,
                    "wall s": budget_s,
                    "placements evaluated": annealing.moves,
                    "cost": final(cells),
                }
            )
    return rows


def draw(rows: list[dict[str, float]], path: str) -> None:
    """Draws probe and full times against the number of macro pins."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4.2))
    pins = [row["macro pins"] for row in rows]
    for name in ("probe ms", "engine after a move ms", "full ms"):
        axes.loglog(pins, [row[name] for row in rows], marker="o", label=name.removesuffix(" ms"))
    axes.set_xlabel("macro pins")
    axes.set_ylabel("processor time, ms")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def show(name: str, measured: list[dict[str, object]] | dict[str, float]) -> None:
    """Prints a part, one line per quantity or row, with the ratios."""
    print(f"\n{name}", flush=True)
    for row in measured if isinstance(measured, list) else [measured]:
        for key, value in row.items():
            shown = f"{value:.4g}" if isinstance(value, float) else f"{value}"
            target = f"  (target {TARGETS[key]:g})" if key in TARGETS else ""
            print(f"  {key:<34} {shown}{target}")
        if "engine after a move ms" in row:
            print(f"  {'engine / probe':<34} {row['engine after a move ms'] / row['probe ms']:.1f} x")  # type: ignore[operator]
        print()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--moves", type=int, default=1_000_000, help="moves of the drift test")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds per placer")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--figure", help="draw the times against size into this file")
    arguments = parser.parse_args()
    a2perf.domains.register_environments()
    wanted = arguments.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"unknown parts {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    measures: dict[str, Callable[[], list[dict[str, object]] | dict[str, float]]] = {
        "sizes": measure_sizes,  # type: ignore[dict-item]
        "threads": measure_threads,
        "drift": lambda: measure_drift(arguments.moves),
        "placers": lambda: measure_placers(arguments.budget),
    }
    result: dict[str, object] = {}
    for part in (part for part in PARTS if part in wanted):
        result[part] = measured = measures[part]()
        if not arguments.json:
            show(part, measured)
    if arguments.json:
        print(json.dumps(result, indent=1))
    if arguments.figure and "sizes" in result:
        draw(result["sizes"], arguments.figure)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
