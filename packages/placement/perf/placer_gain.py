"""What exact incremental evaluation gains: cost of simulated annealing after equal wall time, with and without it.

Both variants make the same kinds of moves and end with the same force-directed placement of soft macros; they differ
in how the cost after a move is computed. Runs alternate between the variants, so other load meets both.

    python packages/placement/perf/placer_gain.py  10, 30 and 60 s, three seeds, Ariane twin: 10 minutes
    python packages/placement/perf/placer_gain.py --seconds 2 --seeds 1    a short look
    python packages/placement/perf/placer_gain.py --design generated       another design
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import gymnasium

import a2perf.domains
from a2perf_placement.annealing import Annealing, Schedule

IDS = {
    "toy": "CircuitTraining-ToyMacro-v0",
    "ariane": "CircuitTraining-Ariane-v0",
    "ariane_twin": "CircuitTraining-ArianeTwin-v0",
    "generated": "CircuitTraining-Generated-v0",
}


def anneal(env_id: str, seconds: float, seed: int, *, incremental: bool) -> tuple[float, int]:
    """Returns the cost that the environment gives the placement found, and the number of moves."""
    env = gymnasium.make(env_id).unwrapped
    search = Annealing(env, Schedule(time_budget_s=seconds), seed, incremental=incremental)
    cells = search.run()
    env.reset(seed=0)
    reward = 0.0
    for node in env.macro_order:
        _, reward, _, _, _ = env.step(env.translate_to_padded_canvas(cells[node]))
    env.close()
    return -float(reward), search.moves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--design", choices=sorted(IDS), default="ariane_twin")
    parser.add_argument("--seconds", type=float, nargs="+", default=[10.0, 30.0, 60.0])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    a2perf.domains.register_environments()
    env_id = IDS[given.design]
    for incremental in (True, False):  # compiles the kernels
        anneal(env_id, 0.1, 0, incremental=incremental)
    print(f"{env_id}, {given.seeds} seeds\n seconds  incremental  cost (each seed)             moves")
    for seconds in given.seconds:
        found: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
        for seed in range(given.seeds):
            for incremental in (False, True):
                found[incremental].append(anneal(env_id, seconds, seed, incremental=incremental))
        for incremental, runs in found.items():
            costs = " ".join(f"{cost:.4f}" for cost, _ in runs)
            mean = statistics.mean(cost for cost, _ in runs)
            moves = round(statistics.mean(count for _, count in runs))
            print(f"{seconds:8g}  {incremental!s:11}  {mean:.4f} ({costs})  {moves:8d}", flush=True)


if __name__ == "__main__":
    main()
