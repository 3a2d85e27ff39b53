"""Speed and memory of the placement engine of circuit training, on the clustered NanGate45 Ariane.

Every kernel is timed against the plain NumPy implementation of the same rules (``plain_costs``) in the same run. The
table also has the target and the time of the closed reference engine, recorded on another machine. Without the data
file (``A2PERF_DATA_DIR`` or the cache) it uses the generated twin and names it.

    python perf/circuit.py                       everything, some minutes
    python perf/circuit.py --only costs,growth   some parts, see ``PARTS``
    python perf/circuit.py --figure growth.png   also draws how congestion and wirelength grow
    python perf/circuit.py --json                one JSON object
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the plain costs lie among the tests

import gymnasium
import numpy as np

import a2perf.domains
from a2perf.domains.circuit_training.engine.cost_model import create_placement_cost
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.generated.designs import design_files
from a2perf.domains.circuit_training.netlists.netlist_cache import load_netlist
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from a2perf.errors import AssetUnavailable
from tests.domains.circuit_training import plain_costs

PARTS = ("costs", "environment", "flat", "growth", "threads", "memory", "compile")
# quantity: (target in ms, recorded closed engine in ms after one macro moved)
REFERENCE = {
    "wirelength": (0.15, 0.32),
    "congestion": (1.5, 21.3),
    "density": (0.02, 0.049),
    "mask": (0.04, 0.175),
    "force-directed final step": (100.0, 322.0),
    "adjacency": (None, 375.0),
    "reading the text": (None, 185.0),
    "load from the cache": (None, 185.0),
    "creation, cold": (400.0, 2150.0),
    "creation, cached": (100.0, 2150.0),
    "environment step": (0.06, 1.08),
    "episode": (110.0, 524.0),
}
MEMORY_TARGET_MIB = {"Ariane": 90 * 1e6 / 2**20, "flat, 90,000 nets": 1e9 / 2**20}
FORCES = {
    "use_current_loc": False,
    "move_stdcells": True,
    "move_macros": False,
    "log_scale_conns": False,
    "use_sizes": False,
    "io_factor": 1.0,
    "num_steps": [100] * 3,
    "attract_factor": [100.0, 1e-3, 1e-5],
    "repel_factor": [0.0, 1e6, 1e7],
}
FLAT = {"num_macros": 130, "seed": 5, "flat": True, "num_nets": 90_000, "num_clusters": 90_000}


def best_ms(call: Callable[[], object], repeats: int = 30, budget_s: float = 3.0) -> float:
    """Returns the shortest of several runs in ms; other load disturbs it least."""
    call()
    shortest, end = math.inf, time.perf_counter() + budget_s
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    return shortest * 1e3


def files() -> tuple[str, tuple[Path, Path]]:
    """Returns the design's name with its netlist and placement."""
    try:
        return "Ariane", design_files("ariane", {})
    except AssetUnavailable:
        return "generated twin of Ariane", design_files("ariane_twin", {})


def engine(paths: tuple[Path, Path]) -> PlacementCost:
    """Returns an engine set up as the environment does it."""
    return create_placement_cost(netlist_file=str(paths[0]), init_placement=str(paths[1]))


def recomputed(plc: PlacementCost, call: Callable[[], object]) -> Callable[[], object]:
    """Returns the call after invalidating all cached costs."""

    def run() -> object:
        plc.state.everything_changed()
        return call()

    return run


def after_a_move(plc: PlacementCost, call: Callable[[], object]) -> Callable[[], object]:
    """Returns the call after a macro has moved."""
    macro = int(plc.hard_macro_indices[5])
    cells = math.prod(plc.get_grid_num_columns_rows())
    count = [0]

    def run() -> object:
        count[0] += 37
        plc.place_node(macro, count[0] % cells)
        return call()

    return run


def measure_costs() -> list[dict[str, object]]:
    """Times each cost, full and after a move, and the mask, force-directed placer, adjacency and loading."""
    _, paths = files()
    plc = engine(paths)
    state, canvas = plc.state, plc.get_canvas_width_height()
    rows: list[dict[str, object]] = []

    def row(name: str, call: Callable[[], object], plain: Callable[[], object] | None, moved: bool = False) -> None:
        if plain is None and not moved:
            ours = best_ms(call, 5)
        else:
            ours = best_ms(recomputed(plc, call), 60)
        target, recorded = REFERENCE[name]
        rows.append(
            {
                "what": name,
                "ms": ours,
                "ms after one move": best_ms(after_a_move(plc, call), 60) if moved else None,
                "plain ms": best_ms(plain, 3) if plain else None,
                "target ms": target,
                "recorded closed engine ms": recorded,
            }
        )

    congestion_grid = plc.get_congestion_grid_num_columns_rows()
    routes, taken = plc.get_routes_per_micron(), plc.get_macro_routing_allocation()
    grid, reach = plc.get_grid_num_columns_rows(), plc.get_congestion_smooth_range()

    def plain_congestion() -> float:
        maps = plain_costs.congestion_maps(state, canvas, congestion_grid, routes, taken, reach)
        return plain_costs.mean_of_top(np.concatenate([values.ravel() for values in maps]), 0.05)

    row("wirelength", plc.get_wirelength, lambda: plain_costs.wirelength(state, canvas), moved=True)
    row("congestion", plc.get_congestion_cost, plain_congestion, moved=True)
    row("density", plc.get_density_cost, lambda: plain_costs.density_map(state, canvas, grid), moved=True)
    hard = plc.hard_macro_indices.tolist()
    for node in plc.soft_macro_indices.tolist():
        plc.unplace_node(node)
    for node in hard[len(hard) // 2 :]:
        plc.unplace_node(node)
    none = np.zeros((0, 5))
    row(
        "mask",
        lambda: plc.get_node_mask(hard[-1]),
        lambda: plain_costs.mask(state, hard[-1], canvas, grid, (0.1, 0.1), none),
        moved=True,
    )
    plc = engine(paths)
    move = [max(canvas) / 100] * 3
    row("force-directed final step", lambda: plc.optimize_stdcells(**FORCES, max_move_distance=move), None)
    row("adjacency", plc.get_macro_and_clustered_port_adjacency, None)
    row("reading the text", lambda: read_netlist(paths[0]), None)
    row("load from the cache", lambda: load_netlist(paths[0]), None)
    return rows


def first_free(mask: np.ndarray) -> int:
    """Returns the first allowed action."""
    return int(mask.argmax())


def measure_environment() -> list[dict[str, object]]:
    """Times creation, steps and episodes of the environment."""
    _, (netlist, placement) = files()
    kwargs = {"netlist_file": str(netlist), "init_placement": str(placement)}
    times: dict[str, float] = {}
    make_id = "CircuitTraining-Ariane-v0"
    gymnasium.make(make_id, **kwargs).close()  # compiles
    with tempfile.TemporaryDirectory() as empty:
        kept = os.environ.get("A2PERF_CACHE_DIR")
        os.environ["A2PERF_CACHE_DIR"] = empty
        start = time.perf_counter()
        gymnasium.make(make_id, **kwargs).close()
        times["creation, cold"] = (time.perf_counter() - start) * 1e3
        if kept is None:
            del os.environ["A2PERF_CACHE_DIR"]
        else:
            os.environ["A2PERF_CACHE_DIR"] = kept
    times["creation, cached"] = best_ms(lambda: gymnasium.make(make_id, **kwargs).close(), 5)
    env = gymnasium.make(make_id, **kwargs).unwrapped
    steps: list[float] = []

    def episode() -> None:
        observation, _ = env.reset()
        done = False
        while not done:
            action = first_free(observation["mask"])
            start = time.perf_counter()
            observation, _, done, _, _ = env.step(action)
            steps.append(time.perf_counter() - start)

    times["episode"] = best_ms(episode, 5, budget_s=10.0)
    times["environment step"] = float(np.median(steps)) * 1e3
    toy = gymnasium.make("CircuitTraining-ToyMacro-v0").unwrapped

    def toy_episode() -> None:
        observation, _ = toy.reset()
        done = False
        while not done:
            observation, _, done, _, _ = toy.step(first_free(observation["mask"]))

    times["toy episode"] = best_ms(toy_episode, 300)
    rows: list[dict[str, object]] = []
    for name, value in times.items():
        target, recorded = REFERENCE.get(name, (2.0, 1.75))  # 500 toy episodes per second
        rows.append({"what": name, "ms": value, "target ms": target, "recorded closed engine ms": recorded})
    return rows


def measure_flat() -> list[dict[str, object]]:
    """Times the costs of a flat netlist of 90,000 nets."""
    plc = engine(design_files("generated", FLAT))
    plc.set_congestion_grid(100, 100)
    nets = plc.netlist.num_nets
    return [
        {
            "what": f"congestion, flat, {nets} nets",
            "ms": best_ms(recomputed(plc, plc.get_congestion_cost), 20),
            "target ms": 20,
        },
        {"what": f"wirelength, flat, {nets} nets", "ms": best_ms(recomputed(plc, plc.get_wirelength), 20)},
        {"what": f"density, flat, {nets} nets", "ms": best_ms(recomputed(plc, plc.get_density_cost), 20)},
    ]


def measure_growth() -> dict[str, list[tuple[float, float]]]:
    """Returns (size, ms) of wirelength and congestion by nets (grid 100 x 100) and of congestion by cells."""
    series: dict[str, list[tuple[float, float]]] = {"wirelength by nets": [], "congestion by nets": []}
    for nets in (1_000, 3_000, 10_000, 30_000, 90_000):
        spec = {**FLAT, "num_macros": 20, "num_nets": nets, "num_clusters": nets}
        plc = engine(design_files("generated", spec))
        plc.set_congestion_grid(100, 100)
        series["wirelength by nets"].append((nets, best_ms(recomputed(plc, plc.get_wirelength), 15)))
        series["congestion by nets"].append((nets, best_ms(recomputed(plc, plc.get_congestion_cost), 15)))
    plc = engine(files()[1])
    series["congestion by cells"] = []
    for side in (20, 50, 100, 200, 400, 800):
        plc.set_congestion_grid(side, side)
        series["congestion by cells"].append((side * side, best_ms(recomputed(plc, plc.get_congestion_cost), 15)))
    return series


def exponent(points: list[tuple[float, float]]) -> float:
    """Returns the slope of the last three points in a log-log diagram."""
    sizes, times = np.log(np.array(points[-3:])).T
    return float(np.polyfit(sizes, times, 1)[0])


def measure_threads() -> dict[str, float]:
    """Returns how much more two threads of one process compute in the same time than one."""
    plcs = [engine(files()[1]) for _ in range(2)]

    def work(plc: PlacementCost) -> None:
        move = [max(plc.get_canvas_width_height()) / 100] * 3
        for _ in range(3):
            plc.optimize_stdcells(**FORCES, max_move_distance=move)
            plc.get_congestion_cost()

    def wall(count: int) -> float:
        threads = [threading.Thread(target=work, args=(plc,)) for plc in plcs[:count]]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

    wall(2)
    one, two = min(wall(1) for _ in range(3)), min(wall(2) for _ in range(3))
    return {"speed-up of two threads": 2 * one / two, "target": 1.7}


MEMORY_BASE = """
import sys
import numpy as np
from a2perf.domains.circuit_training.engine.density import mean_of_largest

def peak():
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0])

mean_of_largest(np.arange(10.0), 2)
print(peak(), flush=True)
"""
MEMORY_LOAD = """
from a2perf.domains.circuit_training.engine.cost_model import create_placement_cost
plc = create_placement_cost(netlist_file=sys.argv[1], init_placement=sys.argv[2])
plc.get_cost(), plc.get_congestion_cost(), plc.get_density_cost()
plc.get_node_mask(int(plc.hard_macro_indices[0]))
print(peak(), flush=True)
"""


def measure_memory() -> list[dict[str, object]]:
    """Returns the peak memory of an engine above that of NumPy and one cached kernel, from the text and the cache."""
    rows: list[dict[str, object]] = []
    for name, paths in (("Ariane", files()[1]), ("flat, 90,000 nets", design_files("generated", FLAT))):
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "A2PERF_CACHE_DIR": cache}
            for source in ("text", "cache"):
                command = [sys.executable, "-c", MEMORY_BASE + MEMORY_LOAD, *map(str, paths)]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                base, peak = (int(value) / 1024 for value in done.stdout.split())
                rows.append(
                    {"what": f"{name}, from the {source}", "MiB": peak - base, "target MiB": MEMORY_TARGET_MIB[name]}
                )
    return rows


COMPILE = """
import time
start = time.process_time()
from a2perf.domains.circuit_training.engine.cost_model import create_placement_cost
from a2perf.domains.circuit_training.starting_point import starting_point
imported = time.process_time()
import sys
plc = create_placement_cost(netlist_file=sys.argv[1], init_placement=sys.argv[2])
starting_point(plc, fixed_macros_stay=True)
plc.get_cost(), plc.get_congestion_cost(), plc.get_density_cost()
plc.unplace_node(int(plc.hard_macro_indices[0]))
plc.get_node_mask(int(plc.hard_macro_indices[0]))
print(imported - start, time.process_time() - imported)
"""


def measure_compile() -> dict[str, float]:
    """Returns the processor time of the import, of a first use that compiles all kernels, and of the next process."""
    paths = design_files("toy_macro_stdcell", {})
    result: dict[str, float] = {"target s": 5.0}
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "A2PERF_CACHE_DIR": cache}
        for name in ("compiling", "from the cache of code"):
            command = [sys.executable, "-c", COMPILE, *map(str, paths)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            imported, used = map(float, done.stdout.split())
            result[f"import s, {name}"], result[f"first use s, {name}"] = imported, used
    return result


def print_rows(title: str, rows: list[dict[str, object]]) -> None:
    """Prints rows as a table, with the ratio to the plain implementation if it was measured."""
    print(f"\n{title}")
    for row in rows:
        parts = [f"{row['what']!s:<34}"]
        for unit in ("ms", "MiB"):
            if unit in row:
                parts.append(f"{row[unit]:10.3f} {unit}")
            if row.get(f"target {unit}") is not None:
                parts.append(f"target {row[f'target {unit}']:g}")
        if row.get("ms after one move") is not None:
            parts.append(f"after one move {row['ms after one move']:.3f}")
        if row.get("plain ms") is not None:
            parts.append(f"plain NumPy {row['plain ms']:.1f} = {row['plain ms'] / row['ms']:.0f} x")  # type: ignore[operator]
        if row.get("recorded closed engine ms") is not None:
            parts.append(f"closed engine (recorded) {row['recorded closed engine ms']:g}")
        print("  ".join(parts))


def draw(series: dict[str, list[tuple[float, float]]], path: str) -> None:
    """Draws the growth in a log-log diagram."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4.2))
    for name, points in series.items():
        axes.loglog(*zip(*points, strict=True), marker="o", label=f"{name}: exponent {exponent(points):.2f}")
    axes.set_xlabel("nets, or cells of the congestion grid")
    axes.set_ylabel("full recomputation, ms")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--figure", help="draw the growth into this file")
    arguments = parser.parse_args()
    a2perf.domains.register_environments()
    wanted = arguments.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"unknown parts {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    measures = {
        "costs": measure_costs,
        "environment": measure_environment,
        "flat": measure_flat,
        "growth": measure_growth,
        "threads": measure_threads,
        "memory": measure_memory,
        "compile": measure_compile,
    }
    result: dict[str, object] = {"design": files()[0]}
    for part in (part for part in PARTS if part in wanted):
        result[part] = measured = measures[part]()  # type: ignore[operator]
        if not arguments.json and isinstance(measured, list):
            print_rows(
                f"{part} (design: {result['design']})" if part in ("costs", "environment") else part,
                measured,
            )
        elif not arguments.json and part == "growth":
            print("\ngrowth: size, ms")
            for name, points in measured.items():
                shown = "  ".join(f"{size:g}: {value:.3f}" for size, value in points)
                print(f"{name:<22} {shown}  exponent {exponent(points):.2f}")
        elif not arguments.json:
            print(f"\n{part}: " + ", ".join(f"{name} {value:.2f}" for name, value in measured.items()))
    if arguments.json:
        print(json.dumps(result, indent=1))
    if arguments.figure and "growth" in result:
        draw(result["growth"], arguments.figure)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
