"""Places with the trained policy, without PyTorch: the best-scored cell for each macro.

The weights are those of the training run in ``ROOT_DIR``, else the shipped ones. After fine-tuning, ``ROOT_DIR`` also
holds the best placement found for its design, which is replayed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
from scorer import SHIPPED, CellScorer

from a2perf_placement.features.batch import PlacementTask
from a2perf_placement.features.design import PlacementDesign
from a2perf_placement.features.features import PlacementState

PLACEMENT, WEIGHTS = "placement.json", "weights.npz"


class Placer:
    """Answers observations of one design.

    Args:
        env: a circuit training environment; its design is read.
        scorer: the policy; None with ``cells``.
        cells: a placement to replay: a cell per macro in the order of placing.
    """

    def __init__(self, env, scorer: CellScorer | None, cells: list[int] | None = None) -> None:
        core = env.unwrapped
        self.scorer, self.cells = scorer, cells
        self.size = core.observation_config.max_grid_size
        self.rows, self.columns = core.grid_rows, core.grid_cols
        self.low_row, self.low_column = (self.size - self.rows) // 2, (self.size - self.columns) // 2
        position = {int(node): place for place, node in enumerate(core.plc.get_macro_indices())}
        self.places = np.array([position[int(node)] for node in core.macro_order], np.int64)
        self.number = {int(place): number for number, place in enumerate(self.places)}
        self.scale = sum(core.plc.get_canvas_width_height())
        self.state = None if scorer is None else PlacementState(PlacementDesign(env))

    def choose(self, observation) -> int:
        """Returns the action for an observation; 0 if no cell is feasible."""
        number = self.number.get(int(np.asarray(observation["current_node"]).item()), 0)
        if self.cells is not None:
            return self._action(self.cells[number])
        state = self.state
        self._follow(self._cells_before(observation, number))
        return self._action(self.scorer.choose(state)) if state.mask.any() else 0

    def _cells_before(self, observation, number: int) -> list[int]:
        """Returns the cells of the macros placed so far, from where the observation has them."""
        before = self.places[:number]
        width, height = self.state.design.cell_size
        x = np.asarray(observation["locations_x"], np.float64)[before] * self.scale
        y = np.asarray(observation["locations_y"], np.float64)[before] * self.scale
        return ((y / height).astype(np.int64) * self.columns + (x / width).astype(np.int64)).tolist()

    def _follow(self, cells: list[int]) -> None:
        """Brings the state to these placed macros; an observation usually has one more than the last."""
        placed = self.state.placed
        if cells[: len(placed)] != placed:
            self.state.reset()
        for cell in cells[len(self.state.placed) :]:
            self.state.place(cell)

    def _action(self, cell: int) -> int:
        row, column = divmod(cell, self.columns)
        return (row + self.low_row) * self.size + column + self.low_column


def load_policy(env, samples="0", weights="", **load_kwargs):
    """Returns the placer of the environment's design.

    Args:
        env: the environment.
        samples: placements to draw from the policy besides its best-scored one; the cheapest of all is replayed.
        weights: a file in the submission's folder, such as ``weights_ppo.npz``; replaces those of ``ROOT_DIR``.
        **load_kwargs: ignored.
    """
    root = Path(os.environ.get("ROOT_DIR", "."))
    stored = _stored(root / PLACEMENT)
    names = env.unwrapped.macro_names
    if set(stored) == set(names):
        return Placer(env, None, [stored[name] for name in names])
    trained = root / WEIGHTS
    shipped = SHIPPED.with_name(weights) if weights else SHIPPED
    scorer = CellScorer.load(trained if trained.is_file() and not weights else shipped)
    if int(samples) > 0:
        cells, _ = best_of(PlacementTask(env), scorer, int(samples), int(os.environ.get("SEED", "0")))
        return Placer(env, None, cells)
    return Placer(env, scorer)


def best_of(task: PlacementTask, scorer: CellScorer, samples: int, seed: int) -> tuple[list[int], float]:
    """Returns the cheapest of the best-scored placement and some drawn ones, with its cost.

    Args:
        task: the design with its engine.
        scorer: the policy.
        samples: number of drawn placements.
        seed: of the draws.

    Raises:
        ValueError: all of them ended with macros left.
    """
    generator = np.random.default_rng(seed)
    state = PlacementState(task.design, task.start)
    best, best_cost = None, np.inf
    for number in range(samples + 1):
        cells = scorer.place(state, generator if number else None)
        cost = np.inf if cells is None else task.finish(cells)[0]
        if cost < best_cost:
            best, best_cost = cells, cost
    if best is None:
        raise ValueError(f"no legal placement in {samples + 1} attempts; raise samples")
    return best, best_cost


def _stored(path: Path) -> dict[str, int]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"] if path.is_file() else {}


def preprocess_observation(observation):
    """Nothing to change."""
    return observation


def infer_once(policy, observation):
    """Returns the cell for the current macro."""
    return policy.choose(observation)
