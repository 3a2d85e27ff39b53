"""How proxy cost relates to other estimates, over many placements of the Ariane twin.

Random legal placements and different annealed ones of several lengths are evaluated by proxy cost and by two estimates
that it does not contain: the length of rectilinear minimum spanning trees, and routing demand spread evenly over the
box of each net (RUDY: Spindler and Johannes, "Fast and accurate routing demand estimation", DATE 2007). Kendall's rank
correlation has a 95 % bootstrap interval over placements. Of the annealed placements, the two are drawn that differ by
less than 0.5 % in cost and most in their maps.

    python packages/placement/perf/proxy_cost.py  a few minutes
    python packages/placement/perf/proxy_cost.py --pictures docs/explanation/pictures
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numba
import numpy as np
from scipy.stats import kendalltau

import a2perf  # noqa: F401  registers the ids
from a2perf.report.figures.drawing import INK, new_figure, pictures
from a2perf_placement.annealing import Annealing, Schedule
from a2perf_placement.incremental import evaluate_placement
from a2perf_placement.report.charts import draw_maps, map_scales

RUDY_CELLS = 64  # per side
TOP_SHARE = 0.05  # of the cells, for peak demand
SAME_COST = 0.005  # relative
RESAMPLES = 1000
ESTIMATES = ("tree_length", "peak_demand")
COSTS = ("cost", "wirelength", "density", "congestion", "tilos")


@numba.njit
def tree_length(start, x, y, weight):
    """Returns the weighted length of a rectilinear minimum spanning tree over the pins of each net, in sum."""
    total = 0.0
    for net in range(len(start) - 1):
        first, count = start[net], start[net + 1] - start[net]
        distance = np.full(count, np.inf)
        joined = np.zeros(count, np.bool_)
        at, length = 0, 0.0
        for _ in range(count - 1):
            joined[at] = True
            nearest, least = -1, np.inf
            for pin in range(count):
                if not joined[pin]:
                    apart = abs(x[first + pin] - x[first + at]) + abs(y[first + pin] - y[first + at])
                    distance[pin] = min(distance[pin], apart)
                    if distance[pin] < least:
                        nearest, least = pin, distance[pin]
            length += least
            at = nearest
        total += weight[net] * length
    return total


@numba.njit
def demand(start, x, y, weight, width, height, cells):
    """Returns routing demand per area: half-perimeter length of each net, spread evenly over its box."""
    found = np.zeros((cells, cells))
    wide, high = width / cells, height / cells
    for net in range(len(start) - 1):
        of_x, of_y = x[start[net] : start[net + 1]], y[start[net] : start[net + 1]]
        low_x, low_y, length = of_x.min(), of_y.min(), 0.0
        # A box is at least one cell wide and high, since a wire takes room.
        high_x, high_y = max(of_x.max(), low_x + wide), max(of_y.max(), low_y + high)
        length = of_x.max() - low_x + of_y.max() - low_y
        per_area = weight[net] * length / ((high_x - low_x) * (high_y - low_y))
        for row in range(max(0, int(low_y / high)), min(cells - 1, int(high_y / high)) + 1):
            across = min(high_y, (row + 1) * high) - max(low_y, row * high)
            for column in range(max(0, int(low_x / wide)), min(cells - 1, int(high_x / wide)) + 1):
                along = min(high_x, (column + 1) * wide) - max(low_x, column * wide)
                found[row, column] += per_area * max(along, 0.0) * max(across, 0.0) / (wide * high)
    return found


def estimates(plc) -> dict[str, float]:
    """Returns the costs of a placement by both conventions, and the two estimates."""
    netlist, state = plc.netlist, plc.state
    pins, start = netlist.net_pins, netlist.net_start
    x, y = state.x[pins], state.y[pins]
    weight = netlist.weight[pins[start[:-1]]].astype(np.float64)
    map_ = np.sort(demand(start, x, y, weight, *plc.get_canvas_width_height(), RUDY_CELLS).ravel())
    costs = evaluate_placement(plc)
    return {
        "cost": costs.cost,
        "wirelength": costs.wirelength,
        "density": costs.density,
        "congestion": costs.congestion,
        "tilos": evaluate_placement(plc, "tilos").cost,
        "tree_length": tree_length(start, x, y, weight),
        "peak_demand": float(map_[-int(TOP_SHARE * map_.size) :].mean()),
    }


def placements(env, count: int, moves: tuple[int, ...], seeds: int) -> Iterator[str]:
    """Leaves one placement after the other in the engine of an environment, and yields its kind."""
    made = 0
    for seed in itertools.count():
        if made == count:
            break
        generator = np.random.default_rng(seed)
        _, info = env.reset(seed=seed)
        ended = False
        while not ended:
            _, reward, ended, _, info = env.step(int(generator.choice(np.flatnonzero(info["action_mask"]))))
        if reward != env.unwrapped.INFEASIBLE_REWARD:
            made += 1
            yield "random"
    for length, seed in itertools.product(moves, range(seeds)):
        annealing = Annealing(env, Schedule(time_budget_s=1e6, max_moves=length), seed)
        annealing.cells = annealing.run()
        annealing._replace()
        yield f"annealed, {length} moves"


def rank_correlation(one, other) -> dict[str, float]:
    """Returns Kendall's tau-b with the ends of its 95 % bootstrap interval over placements."""
    generator = np.random.default_rng(0)
    drawn = [generator.integers(len(one), size=len(one)) for _ in range(RESAMPLES)]
    sample = [kendalltau(one[at], other[at]).statistic for at in drawn]
    low, high = np.nanpercentile(sample, [2.5, 97.5])
    return {"tau": float(kendalltau(one, other).statistic), "low": float(low), "high": float(high)}


def same_cost_pair(costs, maps) -> tuple[int, int]:
    """Returns two placements of nearly equal cost with the most different maps."""
    pairs = [
        (float(np.abs(maps[i] - maps[j]).mean()), i, j)
        for i, j in itertools.combinations(range(len(costs)), 2)
        if abs(costs[i] - costs[j]) <= SAME_COST * costs[i]
    ]
    return max(pairs)[1:]


def main() -> None:
    """Measures, prints JSON, and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=60, help="random placements (60)")
    parser.add_argument("--moves", type=int, nargs="*", default=[1000, 2000, 4000], help="lengths of annealing")
    parser.add_argument("--seeds", type=int, default=8, help="annealed placements per length (8)")
    parser.add_argument("--pictures", type=Path, help="folder for the pictures")
    given = parser.parse_args()
    env = gymnasium.make("CircuitTraining-ArianeTwin-v0", disable_env_checker=True)
    kinds, rows, states, maps = [], [], [], []
    plc = env.unwrapped.plc
    for kind in placements(env, given.random, tuple(given.moves), given.seeds):
        if any(np.array_equal(plc.state.x, x) and np.array_equal(plc.state.y, y) for x, y in states):
            continue  # too few moves find nothing better than the start, which all seeds share
        kinds.append(kind)
        rows.append(estimates(plc))
        states.append((plc.state.x.copy(), plc.state.y.copy()))
        both = plc.get_horizontal_routing_congestion(), plc.get_vertical_routing_congestion()
        maps.append(np.concatenate(both))
    table = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    random = np.array([kind == "random" for kind in kinds])
    result = {"placements": {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}, "correlation": {}}
    for group, chosen in (("all", np.ones(len(kinds), bool)), ("random", random), ("annealed", ~random)):
        result["correlation"][group] = {
            f"{name} ~ {estimate}": rank_correlation(table[name][chosen], table[estimate][chosen])
            for name in COSTS
            for estimate in ESTIMATES
        }
    result["correlation"]["all"]["cost ~ tilos"] = rank_correlation(table["cost"], table["tilos"])
    annealed = np.flatnonzero(~random)
    one, other = annealed[list(same_cost_pair(table["cost"][annealed], [maps[at] for at in annealed]))]
    result["same cost"] = [
        {"kind": kinds[at], **{name: float(table[name][at]) for name in table}} for at in (one, other)
    ]
    print(json.dumps(result, indent=1))
    if given.pictures is not None:
        draw(given.pictures, plc, [states[one], states[other]], table, random)


def draw(folder: Path, plc, pair, table, random) -> None:
    """Draws the maps of two placements of equal cost, and the estimates against the cost."""
    folder.mkdir(parents=True, exist_ok=True)

    def restored(state):
        plc.state.x[:], plc.state.y[:] = state
        plc.state.everything_changed()
        return plc

    scales = [map_scales([restored(state)]) for state in pair]
    scale = type(scales[0])(*(max(values) for values in zip(*scales, strict=True)))
    for name, state in zip(("one", "other"), pair, strict=True):
        maps = functools.partial(draw_maps, restored(state), scale)
        (folder / f"equal_cost_{name}.png").write_bytes(pictures(maps, ("png",))["png"])
    scatter = functools.partial(estimates_figure, table, random)
    (folder / "proxy_cost_estimates.png").write_bytes(pictures(scatter, ("png",))["png"])


def estimates_figure(table, random):
    """Returns a figure of both estimates against proxy cost."""
    figure = new_figure(2.9)
    labels = {"tree_length": "spanning trees, m", "peak_demand": "peak routing demand"}
    for place, name in enumerate(ESTIMATES):
        axes = figure.add_axes((0.1 + 0.5 * place, 0.17, 0.38, 0.72))
        values = table[name] * (1e-6 if name == "tree_length" else 1.0)
        for chosen, colour, label in ((random, "blue", "random"), (~random, "orange", "annealed")):
            axes.plot(
                table["cost"][chosen], values[chosen], "o", color=INK[colour], markersize=3, label=label, alpha=0.8
            )
        axes.set_xlabel("proxy cost")
        axes.set_title(labels[name], fontsize=9, loc="left", color=INK["muted"])
        if place == 0:
            axes.legend(loc="upper left")
    return figure


if __name__ == "__main__":
    main()
