"""The environment: each step places one hard macro; at the end forces place the soft macros, and the cost is computed.

Its rules are those of the earlier public environment (``CircuitEnv``), except for the fixes in ``rules``.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

from a2perf.domains.arguments import RENDER_MODES, EpisodeOverError, completed_by_gin
from a2perf.domains.circuit_training import starting_point
from a2perf.domains.circuit_training.action_space import CellSpace
from a2perf.domains.circuit_training.arguments import check_arguments, refuse_unknown_specification, resolve_files
from a2perf.domains.circuit_training.engine import cost_model
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost, exact_placement
from a2perf.domains.circuit_training.errors import ArgumentError, InfeasibleActionError
from a2perf.domains.circuit_training.observation import Observation, ObservationConfig, ObservationExtractor
from a2perf.domains.circuit_training.rendering import PlacementPicture
from a2perf.domains.circuit_training.rules import PlacementRules, node_order
from a2perf.domains.display import PictureWindow

CostFunction = Callable[..., tuple[float, dict[str, float]]]
_NOT_EVALUATED = {"wirelength": -1.0, "congestion": -1.0, "density": -1.0}
_LEAST_IMPROVEMENT = 5e-3  # of the cost


class CircuitEnv(gymnasium.Env[Observation, Any], EzPickle):
    """Places the hard macros of a design on a grid.

    Actions are cells of the padded grid, ``(row + row padding) * max_grid_size + column + column padding``; the
    feasible ones have a 1 in ``observation["mask"]`` (also ``info["action_mask"]``). The reward is 0 until the last
    macro is placed, and then minus the cost: 1.0 wirelength + 0.5 congestion + 1.0 density.

    Args:
        netlist_file: protobuf text, plain or gzipped; several files, separated by commas, are concatenated. A folder
            stands for its ``netlist.pb.txt`` and ``initial.plc``. Overrides ``design``.
        init_placement: ``.plc`` file with canvas, grid and port positions.
        plc_wrapper_main: ignored, with a notice.
        create_placement_cost_fn: called with the three arguments above; returns the engine.
        std_cell_placer_mode: ``"fd"``: force-directed placement of soft macros; ``"dreamplace"`` needs that package.
        cost_info_fn: ``(plc, done, infeasible_state) -> (cost, info)``.
        global_seed: seed of random node orders until ``reset`` receives one.
        netlist_index: copied into observations.
        is_eval: write finished placements to ``output_plc_file``.
        save_best_cost: write a placement only if it is more than 0.5 % better than all before.
        output_plc_file: by default ``output.plc`` in ``ROOT_DIR``.
        cd_finetune: refine written placements by coordinate descent and write them to ``cd_plc_file``.
        cd_plc_file: file for ``cd_finetune``.
        train_step: object with a ``numpy()`` method; its value is written into the comment of the file.
        output_all_features: add the fixed features of the design to observations.
        node_order: ``"descending_size_macro_first"``, ``"random"`` or ``"random_macro_first"``.
        save_snapshot: also keep each written placement under a separate name.
        save_partial_placement: also write placements of episodes that ended before all macros were placed.
        use_legacy_reset: ``reset`` returns the observation only.
        use_legacy_step: ``step`` returns (observation, reward, done, info).
        render_mode: ``"rgb_array"``, ``"human"`` or None.
        compat: restore the behaviour of the earlier implementation, see "Version history".
        design: name of a design (``designs.NAMES``); used if no ``netlist_file`` is given.
        observation_config: sizes of the observation; by default gin's ``ObservationConfig``.
        overlays: layers of rendered pictures: ``"nets"``, ``"congestion"``, ``"density"``.
        **spec: ``num_macros``, ``seed``, ``utilization`` and so on, for a generated design (see `DesignSpec`).

    Raises:
        ArgumentError: an argument is unknown or out of its range, or the design does not fit the observation.
        MissingDependency: DREAMPlace is requested and not installed.
        AssetUnavailable: the design's files are not on this host and could not be fetched.
        NetlistError, PlacementError: the design's files are broken.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": list(RENDER_MODES),
        "render_fps": 30,
        "name": "CircuitTraining-v0",
    }
    INFEASIBLE_REWARD = -1.0

    def __init__(
        self,
        netlist_file: str | Path = "",
        init_placement: str | Path = "",
        plc_wrapper_main: str | None = None,
        create_placement_cost_fn: Callable[..., PlacementCost] = cost_model.create_placement_cost,
        std_cell_placer_mode: str = "fd",
        cost_info_fn: CostFunction = cost_model.cost_info_function,
        global_seed: int = 0,
        netlist_index: int = 0,
        is_eval: bool = False,
        save_best_cost: bool = False,
        output_plc_file: str | Path = "",
        cd_finetune: bool = False,
        cd_plc_file: str | Path = "ppo_cd_placement.plc",
        train_step: Any = None,
        output_all_features: bool = False,
        node_order: str = "descending_size_macro_first",
        save_snapshot: bool = True,
        save_partial_placement: bool = False,
        use_legacy_reset: bool = False,
        use_legacy_step: bool = False,
        render_mode: str | None = None,
        compat: bool = False,
        design: str = "",
        observation_config: ObservationConfig | None = None,
        overlays: Sequence[str] = (),
        **spec: Any,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "spec", "__class__")}
        EzPickle.__init__(self, **given, **spec)
        self._picture: PlacementPicture | None = None
        self._window: PictureWindow | None = None
        self._plc: PlacementCost | None = None
        refuse_unknown_specification(spec, inspect.signature(CircuitEnv).parameters)
        check_arguments(std_cell_placer_mode, node_order, render_mode, overlays, netlist_index)
        netlist, placement = resolve_files(netlist_file, init_placement, design, spec)
        self.rules = PlacementRules(compat)
        self.render_mode = render_mode
        self.observation_config = ObservationConfig() if observation_config is None else observation_config
        self.environment_name = str(netlist)
        self._all_features = output_all_features
        self._order_kind, self._overlays = node_order, tuple(overlays)
        self._legacy_reset, self._legacy_step = use_legacy_reset, use_legacy_step
        self._saves_partial = save_partial_placement
        self._cost_info = cost_info_fn
        if cost_info_fn is cost_model.cost_info_function:
            # gin is asked once, not at every step
            self._cost_info = functools.partial(cost_info_fn, weights=cost_model.cost_weights())
        refined = Path(cd_plc_file) if cd_finetune else None
        self._saver = (
            _Saver(_output_file(output_plc_file), save_best_cost, save_snapshot, refined, train_step)
            if is_eval
            else None
        )
        self._plc = plc = create_placement_cost_fn(
            netlist_file=str(netlist), init_placement=str(placement), plc_wrapper_main=plc_wrapper_main
        )
        self._order_generator = np.random.default_rng(global_seed)
        self._set_order()
        start = starting_point.starting_point(plc, fixed_macros_stay=self.rules.fixed_macros_stay)
        self._features = ObservationExtractor(plc, self.observation_config, *start, netlist_index, self.rules)
        self._static = self._features.static_features() if output_all_features else {}
        self.observation_space = self.observation_config.space(  # type: ignore[assignment]
            all_features=output_all_features, netlist_index_bound=self.rules.netlist_index_bound(netlist_index)
        )
        self.action_space = self._cells = CellSpace(self.observation_config.max_grid_size**2)
        self._placed = 0
        self._done = True
        self._begin()

    # --- Gymnasium API

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode with all macros that are not fixed taken off the canvas.

        Args:
            seed: of the generator; a random node order is drawn from it.

        Raises:
            EpisodeOverError: the environment is closed.
        """
        self._engine()
        super().reset(seed=seed)
        if self.rules.seeded_orders and self._order_kind != "descending_size_macro_first":
            if seed is not None:
                self._order_generator = np.random.default_rng(seed)
            self._set_order()
        observation = self._begin()
        self._show()
        if self._legacy_reset:
            return observation
        runtimes = {"dreamplace_runtime": 0.0, "total_episode_runtime": 0.0}
        return observation, self.rules.reset_info({**_NOT_EVALUATED, **runtimes, "action_mask": self._action_mask})

    def action_mask(self) -> NDArray[np.int8]:
        """Returns 1 for each feasible cell of the current macro, shape (n,), as ``info["action_mask"]``."""
        return self._action_mask.copy()

    def step(self, action: Any) -> Any:
        """Places the current macro.

        Args:
            action: a cell of the padded grid where the mask is 1.

        Returns:
            Observation, reward, terminated, truncated, info with ``wirelength``, ``congestion``, ``density`` (-1 until
            they are due), ``dreamplace_runtime`` and ``total_episode_runtime`` (s), ``action_mask``.

        Raises:
            InfeasibleActionError: the mask is 0 there; nothing was changed.
            EpisodeOverError: the episode is over, or the environment is closed.
        """
        plc = self._engine()
        if self._done:
            raise EpisodeOverError("step() after the end of the episode", hint="call env.reset() first")
        cell_action = int(action)
        mask = self._features.mask
        if not 0 <= cell_action < len(mask) or not mask[cell_action]:
            raise InfeasibleActionError(cell_action, mask.copy(), self.macro_names[self._placed])
        node = self._order[self._placed]
        plc.place_node(node, self._features.to_grid(cell_action))
        self._features.note_placed(node)
        self._placed += 1
        self._done = self._placed == self._to_place
        result = self._finish() if self._done else self._go_on()
        self._show()
        if self._legacy_step:
            observation, reward, terminated, truncated, info = result
            return observation, reward, terminated or truncated, info
        return result

    def render(self) -> NDArray[np.uint8] | None:
        """Returns a picture of the placement, RGB, uint8, shape (600, 800, 3), in render mode ``"rgb_array"``.

        Raises:
            EpisodeOverError: the environment is closed.
        """
        self._engine()
        return self._draw() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Frees the engine and the window; calling it again changes nothing."""
        if self._window is not None:
            self._window.close()
        self._plc = self._window = self._picture = None

    # --- For agents and tools

    @property
    def plc(self) -> PlacementCost:
        """The engine."""
        return self._engine()

    @property
    def grid_cols(self) -> int:
        """Columns of the placement grid."""
        return self._features.columns

    @property
    def grid_rows(self) -> int:
        """Rows of the placement grid."""
        return self._features.rows

    @property
    def macro_names(self) -> list[str]:
        """Names of the hard macros in the order of placing."""
        plc = self._engine()
        return [plc.get_node_name(node) for node in self._order[: self._to_place]]

    @property
    def macro_order(self) -> tuple[int, ...]:
        """Nodes of the hard macros in the order of placing."""
        return tuple(self._order[: self._to_place])

    @property
    def cost_function(self) -> CostFunction:
        """What computes the cost at the end of an episode: (plc, done, infeasible_state) -> (cost, info)."""
        return self._cost_info

    def get_static_obs(self) -> Observation:
        """Returns the design's fixed features with the locations and flags of the start of an episode."""
        index = np.array([self._features.netlist_index], np.int32)
        return {**self._features.static_features(), **self._features.initial(), "netlist_index": index}

    def get_cost_info(self, done: bool = False) -> tuple[float, dict[str, float]]:
        """Returns the cost of the placement as it is, and its parts."""
        return self._cost_info(self._engine(), done)

    def translate_to_original_canvas(self, action: int) -> int:
        """Returns the placement-grid cell of an action.

        Raises:
            ArgumentError: it lies in the padding.
        """
        cell = self._features.to_grid(int(action))
        if cell < 0:
            raise ArgumentError(f"action {action} lies outside the placement grid", hint="choose a cell of the mask")
        return cell

    def translate_to_padded_canvas(self, cell: int) -> int:
        """Returns the action that chooses a placement-grid cell."""
        return self._features.to_action(int(cell))

    def place_node(self, node: int, action: int) -> None:
        """Puts a node into the placement-grid cell of an action without checking the mask."""
        self._engine().place_node(node, self.translate_to_original_canvas(action))

    def analytical_placer(self) -> None:
        """Places soft macros and standard cells by forces."""
        starting_point.place_soft_macros(self._engine())

    def final_state(self) -> tuple[str, bytes]:
        """Returns the placement as it is, for the record of a run: suffix and content of a ``.plc`` file."""
        return ".plc", exact_placement(self._engine()).encode()

    # --- Parts of reset and step

    def _engine(self) -> PlacementCost:
        if self._plc is None:
            raise EpisodeOverError("the environment is closed", hint="make a new one with gymnasium.make")
        return self._plc

    def _set_order(self) -> None:
        plc = self._engine()
        self._order = node_order(plc, self._order_kind, self._order_generator, self.rules)
        self._to_place = sum(not plc.is_node_fixed(int(node)) for node in plc.hard_macro_indices)

    def _begin(self) -> Observation:
        self._engine().unplace_all_nodes()
        self._features.reset()
        self._placed, self._done = 0, self._to_place == 0
        self._started = time.perf_counter()
        return self._observe()

    def _observe(self) -> Observation:
        observation = self._features.observe(None if self._done else self._order[self._placed])
        self._action_mask = self._features.mask.astype(np.int8)
        self._cells.show(self._action_mask, first=self._placed == 0)
        for key, value in self._static.items():
            observation[key] = value.copy()
        return observation

    def _go_on(self) -> Any:
        observation = self._observe()
        if self._action_mask.any():
            return observation, -0.0, False, False, self._info(dict(_NOT_EVALUATED))
        self._done = True
        _, parts = self._cost_info(self._engine(), False, True)
        info = self._info(parts, infeasible=True)
        if self._saver is not None and self._saves_partial:
            self._saver.save(self._engine(), -self.INFEASIBLE_REWARD, self._refine)
        return self.rules.infeasible_end(observation, self._begin, info)

    def _finish(self) -> Any:
        plc = self._engine()
        observation = self._observe()
        begun = time.perf_counter()
        self.analytical_placer()
        placing = time.perf_counter() - begun
        cost, parts = self._cost_info(plc, True)
        info = self._info(parts, placing=placing)
        if self._saver is not None:
            self._saver.save(plc, cost, self._refine)
        return observation, -cost, True, False, info

    def _info(self, parts: dict[str, float], *, placing: float = 0.0, infeasible: bool = False) -> dict[str, Any]:
        measured = self._done or self.rules.runtime_every_step
        runtimes = {
            "dreamplace_runtime": placing,
            "total_episode_runtime": time.perf_counter() - self._started if measured else 0.0,
        }
        info = self.rules.final_info(dict(parts), runtimes=runtimes, infeasible=infeasible)
        info["action_mask"] = self._action_mask
        return info

    def _refine(self) -> float:
        """Runs coordinate descent on the finished placement and returns its cost."""
        from a2perf.domains.circuit_training.engine.coordinate_descent import CoordinateDescentPlacer

        CoordinateDescentPlacer(self._engine(), self._cost_info, stdcell_placer="fd").place()
        return self._cost_info(self._engine(), True)[0]

    def _draw(self) -> NDArray[np.uint8]:
        if self._picture is None:
            self._picture = PlacementPicture(self._overlays)
        return self._picture.draw(self._engine(), self.macro_order)

    def _show(self) -> None:
        if self.render_mode == "human":
            if self._window is None:
                self._window = PictureWindow("a2perf circuit training", pause_s=0.001)
            self._window.show(self._draw())


@dataclass
class _Saver:
    """Writes placements of an evaluation; the fields are arguments of `CircuitEnv`."""

    output: Path
    best_only: bool
    snapshots: bool
    refined: Path | None
    train_step: Any
    best_cost: float = float("inf")

    def save(self, plc: PlacementCost, cost: float, refine: Callable[[], float]) -> None:
        """Writes a placement; ``refine`` runs coordinate descent on the engine and returns the cost after it."""
        if self.best_only:
            gain = self.best_cost - cost
            if not gain > 0.0 or gain / max(abs(cost), 1e-12) <= _LEAST_IMPROVEMENT:
                return
        self.best_cost = min(cost, self.best_cost)
        self._write(plc, self.output, "ppo_opt", cost)
        if self.refined is not None:
            self._write(plc, self.refined, "ppo_cd", refine())

    def _write(self, plc: PlacementCost, path: Path, kind: str, cost: float) -> None:
        comment = "" if self.train_step is None else f"Train step : {int(self.train_step.numpy())}"
        path.parent.mkdir(parents=True, exist_ok=True)
        plc.save_placement(str(path), comment)
        if self.snapshots:
            stamp = time.strftime("%Y%m%d_%H%M%S")
            snapshot = path.parent / f"snapshot_{kind}_placement_timestamp_{stamp}_cost_{cost:.4f}.plc"
            plc.save_placement(str(snapshot), comment)


def _output_file(given: str | Path) -> Path:
    """Returns the file to write placements to; by default it lies in the folder of the run."""
    if not given and not os.environ.get("ROOT_DIR"):
        raise ArgumentError("is_eval without output_plc_file", hint="name the file to write placements to")
    return Path(given or Path(os.environ["ROOT_DIR"]) / "output.plc")


_with_gin_bindings = completed_by_gin("CircuitEnv", module="a2perf.circuit_training", home=__name__)


def create_circuit_environment(**kwargs: Any) -> CircuitEnv:
    """Makes the environment; gin bindings of ``CircuitEnv`` supply arguments that are not given."""
    return CircuitEnv(**_with_gin_bindings(**kwargs))
