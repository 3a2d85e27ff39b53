"""The placements that runs recorded: the file of a final state in a bundle, back in an engine.

The evaluator writes the placement at the end of the first episode of an evaluation into its bundle
(``CircuitEnv.final_state``). A bundle may come from strangers: the design is found by the id and the arguments of the
environment, sizes are limited, and whatever does not fit is a reason and no error.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.arrays import Values
from a2perf.domains.circuit_training.arguments import resolve_files
from a2perf.domains.circuit_training.engine.cost_model import EngineSettings, cost_info_function, create_placement_cost
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.generated.designs import SPEC_FIELDS
from a2perf.domains.registry import all_environments, find_environment
from a2perf.errors import UserError
from a2perf.plain_text import plain_text
from a2perf.runs.run import Run
from a2perf_placement.incremental import evaluate_placement
from a2perf_placement.overlaps import LegalityVerdict, legality
from a2perf_placement.profiles import PROFILES, PlacementCosts, engine_from_header

SUFFIX = ".plc"
MAX_BYTES = 16 << 20  # of a placement: some 400,000 nodes
MAX_NETLIST_BYTES = 512 << 20
NOT_RECORDED = "the bundle has no placement: earlier versions wrote none, and shipped bundles can leave it out"
DIFFERENT = 1e-6  # relative; a recomputed cost that differs by more has other settings or other sources


@dataclass(frozen=True)
class RecordedPlacement:
    """A placement of one episode, evaluated again.

    Attributes:
        plc: the engine with the placement, set up as the environment does.
    """

    run: Run
    recorded_cost: float
    profile: str
    plc: PlacementCost
    costs: Mapping[str, PlacementCosts]
    verdict: LegalityVerdict

    @property
    def agrees(self) -> bool:
        """Whether the recomputed cost is the recorded one."""
        return abs(self.recomputed_cost - self.recorded_cost) <= DIFFERENT * abs(self.recorded_cost)

    @property
    def recomputed_cost(self) -> float:
        """Cost by the profile of the environment."""
        return self.costs[self.profile].cost


@dataclass(frozen=True)
class PlacerSummary:
    """What one submission achieved on a design, and at what cost.

    Attributes:
        costs: mean cost of the episodes of each seed, shape (seeds,).
        seconds: wall time of training and evaluation of each seed, s; NaN if unknown.
        joules: energy of both, J; NaN if unknown.
        placement: the best recorded placement, or the reason why there is none.
    """

    name: str
    costs: Values
    seconds: Values
    joules: Values
    provenance: str
    placement: RecordedPlacement | str


def recorded_profile(run: Run) -> str:
    """Returns the profile of an environment's cost; ids that place whole designs follow the public evaluator."""
    env_id = (run.manifest.env_id if run.manifest is not None else None) or ""
    known = env_id in all_environments()
    return "tilos" if known and find_environment(env_id)[1].ranking == "macro_placement" else "circuit_training"


def first_episode_cost(run: Run) -> float | None:
    """Returns the cost of the first episode of an evaluation; None without one."""
    episodes = run.episodes.get(run.identity.task, [])
    first = next((episode for episode in episodes if episode.index == 0), None)
    return None if first is None else -first.episode_return


def best_placement(runs: Sequence[Run]) -> RecordedPlacement | str:
    """Returns the recorded placement of least cost, or the reason why there is none."""
    held = [(cost, run) for run in runs if (cost := first_episode_cost(run)) is not None and _state(run) is not None]
    if not held:
        return NOT_RECORDED
    cost, run = min(held, key=lambda pair: pair[0])
    try:
        return _evaluated(run, cost)
    except (UserError, OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        message = error.message if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        return f"the placement could not be read: {plain_text(message)[:300]}"


def _state(run: Run) -> Any:
    return next((one for one in run.details.final_states if one.name.endswith(SUFFIX)), None)


def _evaluated(run: Run, cost: float) -> RecordedPlacement:
    plc = _engine(run)
    plc.unplace_all_nodes()
    with tempfile.NamedTemporaryFile(suffix=SUFFIX) as copy:
        copy.write(_state(run).read(MAX_BYTES))
        copy.flush()
        plc.restore_placement(copy.name)
    weighted, parts = cost_info_function(plc, True, weights=PROFILES["circuit_training"].weights)
    costs = {
        "circuit_training": PlacementCosts(parts["wirelength"], parts["density"], parts["congestion"], weighted),
        "tilos": evaluate_placement(plc, "tilos"),
    }
    return RecordedPlacement(run, cost, recorded_profile(run), plc, costs, legality(plc))


def _engine(run: Run) -> PlacementCost:
    """Returns an engine with the design of a run and the default settings of the environment.

    Raises:
        ValueError: the run has no manifest, or its netlist is not a file of reasonable size on this host.
        UserError: the design is unknown, invalid or not on this host.
    """
    if run.manifest is None or not run.manifest.env_id:
        raise ValueError("the bundle has no readable manifest")
    known = {**find_environment(run.manifest.env_id)[1].kwargs, **run.manifest.env_kwargs}
    given = str(known.get("netlist_file") or "")
    if given:  # by a bundle of a stranger, which may name devices, pipes and files of any size
        files = sorted(Path(given).glob("netlist.pb.txt*")) if Path(given).is_dir() else [Path(given)]
        if not files or not all(file.is_file() and file.stat().st_size <= MAX_NETLIST_BYTES for file in files):
            raise ValueError(f"the netlist {given} is not on this host")
    spec = {name: known[name] for name in SPEC_FIELDS if name in known}
    design = str(known.get("design") or "")
    netlist, placement = resolve_files(given, str(known.get("init_placement") or ""), design, {} if given else spec)
    if recorded_profile(run) == "tilos":
        return engine_from_header(netlist, placement)
    return create_placement_cost(netlist, placement, settings=EngineSettings())
