"""Speed of what a placement policy learns from: features of all cells, and whole episodes of a batch, on Ariane.

Without Ariane's files it uses the generated twin and names it.

    python packages/placement/perf/placement_features.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import gymnasium

from a2perf_placement.features.batch import PlacementBatch, PlacementTask
from a2perf_placement.features.features import PlacementState
from perf.circuit import best_ms, files, first_free


def measured() -> list[dict[str, object]]:
    """Times what a placement policy learns from: features of all cells, and whole episodes of a batch."""
    _, (netlist, placement) = files()
    kwargs = {"netlist_file": str(netlist), "init_placement": str(placement)}
    with gymnasium.make("CircuitTraining-Ariane-v0", disable_env_checker=True, **kwargs) as env:
        task = PlacementTask(env)
        state = PlacementState(task.design, task.start)
        batch = PlacementBatch([task], 2)

        def features() -> None:
            state.table()
            state.summary()

        def macros() -> list[int]:
            state.reset()
            while not state.done:
                features()
                state.place(first_free(state.mask))
            return state.placed

        def episodes() -> None:
            observations, before = batch.reset(0), batch.episodes
            while batch.episodes == before:
                observations = batch.step(observations["mask"].argmax(axis=1)).observations

        cells, count = macros(), len(task.design.order)
        state.reset()
        return [
            {"what": "features of all cells", "ms": best_ms(features, 60)},
            {"what": "batched step without the end", "ms": best_ms(macros, 10) / count},
            {"what": "end of an episode", "ms": best_ms(lambda: task.finish(cells), 10)},
            {"what": "episode of a batch", "ms": best_ms(episodes, 10) / 2},
        ]


if __name__ == "__main__":
    print(files()[0])
    for row in measured():
        print(f"{row['what']!s:<34}{row['ms']:10.3f} ms")
