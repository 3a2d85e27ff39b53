"""``CircuitTraining-MacroPlacement-v0``: one step that places the whole design; the reward is minus its cost.

The observation is the design, the action a placement of all its nodes. So a submission ``place(benchmark)`` is one
inference with one action, and seeds, limits, costs and reports are those of every other environment.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

from a2perf.domains.arguments import EpisodeOverError, one_of
from a2perf.domains.circuit_training.arguments import refuse_unknown_specification, resolve_files
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost, exact_placement
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.netlists.netlist import KIND_MACRO, KIND_MACRO_PIN, KIND_STDCELL, ORIENTATIONS
from a2perf.domains.circuit_training.rendering import PlacementPicture
from a2perf_placement.action_space import Action, PlacementSpace
from a2perf_placement.benchmark import NODE_COLUMNS, Benchmark, Observation, placed_nodes
from a2perf_placement.incremental import evaluate_placement
from a2perf_placement.profiles import cost_profile, engine_from_header
from a2perf_placement.verdict import apply_placement

ORIENTATION_RULES = {"fixed": (), "flips": ("N", "FN", "S", "FS"), "all": ORIENTATIONS[:8]}
"""What hard macros may be turned to beside their initial orientation."""
DEFAULT_TIME_LIMIT_S = 60.0  # of call_timeout_s in a run that does not set it
RENDER_MODES = ("rgb_array",)


class MacroPlacementEnv(gymnasium.Env[Observation, Action], EzPickle):
    """Places a whole design with one action.

    The reward is minus the cost of the placement under the profile. An illegal placement ends the run: overlapping hard
    macros (exact; touching edges are allowed), nodes outside of the canvas, moved fixed nodes, forbidden orientations.
    ``info`` has ``wirelength``, ``density``, ``congestion`` and ``cost``, and ``claimed_return`` if a cost was claimed.

    Args:
        netlist_file: protobuf text, or a folder with ``netlist.pb.txt`` and ``initial.plc``. Overrides ``design``.
        init_placement: ``.plc`` file with canvas, grid, routes, ports and the initial placement.
        design: name of a design (``designs.NAMES``); used if no ``netlist_file`` is given.
        wirelength_weight: weight of the wirelength; the profile's by default, as for the others.
        orientations: ``"flips"``: N, FN, S and FS; ``"fixed"``: as in the initial placement; ``"all"``: all eight.
        overlap_tolerance: um; overlaps up to this along either axis are allowed.
        time_limit_s: shown to the placer; the evaluator's ``call_timeout_s`` is what ends a call.
        render_mode: ``"rgb_array"`` or None.
        **spec: ``num_macros``, ``seed``, ``utilization`` and so on, for a generated design (see `DesignSpec`).

    Raises:
        ArgumentError: an argument is unknown or out of its range.
        ConfigError: the profile is unknown, or a weight is negative or not finite.
        AssetUnavailable: the design's files are not on this host and could not be fetched.
        NetlistError, PlacementFileError: the design's files are broken.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": list(RENDER_MODES),
        "render_fps": 1,
        "name": "CircuitTraining-MacroPlacement-v0",
    }

    def __init__(
        self,
        netlist_file: str | Path = "",
        init_placement: str | Path = "",
        design: str = "",
        profile: str = "tilos",
        wirelength_weight: float | None = None,
        density_weight: float | None = None,
        congestion_weight: float | None = None,
        orientations: str = "flips",
        overlap_tolerance: float = 0.0,
        time_limit_s: float = DEFAULT_TIME_LIMIT_S,
        render_mode: str | None = None,
        **spec: Any,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "spec", "__class__")}
        EzPickle.__init__(self, **given, **spec)
        refuse_unknown_specification(spec, list(given))
        one_of("orientations", orientations, tuple(ORIENTATION_RULES), error=ArgumentError)
        if render_mode is not None:
            one_of("render_mode", render_mode, RENDER_MODES, error=ArgumentError)
        for name, value in (("overlap_tolerance", overlap_tolerance), ("time_limit_s", time_limit_s)):
            if not 0.0 <= float(value) < float("inf"):
                raise ArgumentError(f"{name} is {value!r}", hint="give a finite number from 0 on")
        weights = {"wirelength": wirelength_weight, "density": density_weight, "congestion": congestion_weight}
        chosen = {name: value for name, value in weights.items() if value is not None}
        self._profile = cost_profile(profile, dataclasses.replace(cost_profile(profile).weights, **chosen))
        self.render_mode = render_mode
        self._allowed = ORIENTATION_RULES[orientations]
        self._tolerance, self._time_limit_s = float(overlap_tolerance), float(time_limit_s)
        netlist, placement = resolve_files(netlist_file, init_placement, design, spec)
        is_named = design and design != "generated"
        self.design_name = design if is_named else Path(str(netlist).partition(",")[0]).resolve().parent.name
        self._plc = engine_from_header(netlist, placement)
        self._check_placed()
        self._initial = self._plc.state.x.copy(), self._plc.state.y.copy(), self._plc.state.orientation.copy()
        self._order = placed_nodes(self._plc.netlist)
        self._observation = self._observed()
        self.benchmark = Benchmark.from_observation(self._observation)
        self.observation_space = spaces.Dict(  # type: ignore[assignment]
            {name: _space_of(array) for name, array in self._observation.items()}
        )
        self.action_space = PlacementSpace(self.benchmark)  # type: ignore[assignment]
        self._open, self._over = True, True

    def final_state(self) -> tuple[str, bytes]:
        """Returns the placement as it is, for the record of a run: suffix and content of a ``.plc`` file."""
        return ".plc", exact_placement(self._plc).encode()

    @property
    def plc(self) -> PlacementCost:
        """The engine, with the placement of the last step."""
        return self._plc

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Puts the initial placement back.

        Args:
            seed: of the generator; nothing is drawn.

        Returns:
            The design, see `Benchmark`, and an empty ``info``.

        Raises:
            EpisodeOverError: the environment is closed.
        """
        if not self._open:
            raise EpisodeOverError("the environment is closed", hint="make a new one with gymnasium.make")
        super().reset(seed=seed)
        self._restore()
        self._over = False
        return {name: array.copy() for name, array in self._observation.items()}, {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Places the design.

        Args:
            action: ``positions``, ``orientations`` and ``claimed_cost``, see `PlacementSpace`.

        Returns:
            The design, minus the cost, True, False, and ``info``.

        Raises:
            IllegalPlacementError: the placement breaks a rule.
            EpisodeOverError: the episode is over, or the environment is closed.
        """
        if self._over:
            raise EpisodeOverError("step() after the end of the episode", hint="call env.reset() first")
        self._over = True
        positions = np.asarray(action["positions"], np.float64)
        turned = np.asarray(action["orientations"], np.int64)
        apply_placement(self._plc, self._order, positions, turned, self._allowed, self._tolerance)
        costs = evaluate_placement(self._plc, self._profile)
        info: dict[str, Any] = {name: float(value) for name, value in costs._asdict().items()}
        claimed = float(np.asarray(action["claimed_cost"]).reshape(-1)[0])
        if claimed >= 0.0:
            info["claimed_return"] = -claimed
        observation = {name: array.copy() for name, array in self._observation.items()}
        return observation, -info["cost"], True, False, info

    def render(self) -> NDArray[np.uint8] | None:
        """Returns a picture of the placement, RGB, uint8, shape (600, 800, 3), in render mode ``"rgb_array"``."""
        return PlacementPicture().draw(self._plc) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Ends the episode; calling it again changes nothing."""
        self._open, self._over = False, True

    def _restore(self) -> None:
        state = self._plc.state
        x, y, orientation = self._initial
        for node in np.flatnonzero(state.orientation != orientation).tolist():
            state.turn(node, int(orientation[node]))
        state.x[:], state.y[:] = x, y
        state.place_all_pins()

    def _check_placed(self) -> None:
        netlist, state = self._plc.netlist, self._plc.state
        absent = np.flatnonzero((state.placed == 0) & (netlist.kind != KIND_MACRO_PIN))
        movable = np.isin(netlist.kind[absent], (KIND_MACRO, KIND_STDCELL))
        if not movable.all():
            name = netlist.names[int(absent[~movable][0])]
            raise ArgumentError(
                f"{self.design_name} has no position for {np.count_nonzero(~movable)} ports, the first is {name}",
                hint="give a placement file with the positions of all ports",
            )
        # A placer may expect numbers: nodes without an initial position start at the centre of the canvas.
        width, height = self._plc.get_canvas_width_height()
        state.x[absent], state.y[absent], state.placed[absent] = width / 2, height / 2, 1
        state.place_all_pins()

    def _observed(self) -> Observation:
        plc, netlist, state = self._plc, self._plc.netlist, self._plc.state
        weights = self._profile.weights
        numbers = [
            *plc.get_canvas_width_height(),
            *plc.get_routes_per_micron(),
            *plc.get_macro_routing_allocation(),
            weights.wirelength,
            weights.density,
            weights.congestion,
            self._time_limit_s,
        ]
        allowed = [ORIENTATIONS.index(name) for name in self._allowed]
        own: Observation = {
            **{name: getattr(netlist, name).copy() for name in NODE_COLUMNS},
            "x": state.x.copy(),
            "y": state.y.copy(),
            "orientation": state.orientation.copy(),
            "placed": state.placed.copy(),
            "fixed": state.fixed.copy(),
            "name_bytes": netlist.names.blob.copy(),
            "name_spans": netlist.names.spans.copy(),
            "net_start": netlist.net_start.copy(),
            "net_pins": netlist.net_pins.copy(),
            "blockages": np.array(plc.get_blockages(), np.float64).reshape(-1, 5),
            "counts": np.array([*plc.get_grid_num_columns_rows(), plc.get_congestion_smooth_range()], np.int64),
            "numbers": np.array(numbers, np.float64),
            "allowed_orientations": np.array(allowed, np.int64),
            "design": np.frombuffer(self.design_name.encode(), np.uint8).copy(),
            "profile": np.frombuffer(self._profile.name.encode(), np.uint8).copy(),
        }
        return {name: np.ascontiguousarray(array) for name, array in own.items()}


def _space_of(array: NDArray[Any]) -> spaces.Box:
    """Returns the box of all arrays of the same shape and type."""
    if array.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, array.shape, array.dtype.type)
    limits = np.iinfo(array.dtype)
    return spaces.Box(limits.min, limits.max, array.shape, array.dtype.type)
