"""One recorded run as an object: ``Result``."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from a2perf.api.scored_group import ScoredGroup
from a2perf.api.views.figures import runs_figure
from a2perf.api.views.run_tables import episode_table, groups_of, main_group, result_text, run_table, step_table
from a2perf.api.views.table import Immutable, Table, Tabular
from a2perf.arrays import Values
from a2perf.errors import ConfigError
from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.scores import score_modes
from a2perf.metrics.values import MetricValue, Profile, profile_named
from a2perf.plain_text import plain_text
from a2perf.records import Failure
from a2perf.runs.run import Run, RunFolder
from a2perf.runs.series import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOT_CONTENT = ("folder", "info", "reproduction")
"""Fields that depend on where the run is; ``info`` and ``reproduction`` can come from a file beside it."""


class Result(Immutable, Tabular):
    """One recorded run: its scores, episodes, costs and conditions. Immutable.

    Files are read on first use and only once. Results are equal if they have equal manifests and measured values,
    wherever their files are. A pickled result holds what was read before; the rest is read from the bundle.

    Example:
        >>> result = a2perf.read_run("runs/minimal/dog_pace/seed_0/inference")
        >>> print(result)
        >>> result.energy.value, result.energy.unit, result.energy.provenance
        >>> result.episodes().to_pandas()
        >>> result.plot()
    """

    def __init__(self, run: Run) -> None:
        self.__dict__["_run"] = run

    # --- identity -----------------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        """The content of the run as ``a2perf.runs.Run``: identity, episodes, curve, costs, manifest."""
        run: Run = self.__dict__["_run"]
        return run

    @property
    def folder(self) -> RunFolder:
        """Where the run is, and in which layout."""
        return self.run.folder

    @property
    def bundle(self) -> Path:
        """Folder of the run; below a packed file, the folder inside it."""
        return self.folder.path

    @property
    def name(self) -> str:
        """Name of the submission or algorithm."""
        return self.run.algorithm

    @property
    def task(self) -> str:
        """The task; ``""`` if unknown, or if there are several. Of a view of a task, the task that it shows."""
        return plain_text(self.run.identity.task)

    @property
    def view(self) -> str:
        """What the submission observed, ``"text"``; ``""`` for the default of the domain."""
        return plain_text(self.run.identity.view)

    @property
    def domain(self) -> str:
        """The domain; ``""`` if unknown."""
        return plain_text(self.run.identity.domain)

    @property
    def mode(self) -> str:
        """``"train"``, ``"inference"`` or ``"generalization"``.

        Of a folder with several modes, the evaluation; ``modes`` lists all. ``""`` if the run holds no data.
        """
        return self.run.main_mode

    @property
    def modes(self) -> tuple[str, ...]:
        """All modes of which the run holds data; logs of other programs can hold several."""
        return tuple(self.run.modes())

    @property
    def seed(self) -> int | None:
        """The root seed; None if unknown."""
        return self.run.identity.seed

    @property
    def state(self) -> str:
        """``"finished"``, ``"failed"``, ``"interrupted"``, ``"unfinished"``, ``"unreadable"`` or ``"recorded"``.

        ``"recorded"`` is a run of another program that does not record how it ended.
        """
        return self.run.state

    @property
    def failure(self) -> Failure | None:
        """Why the run failed: kind, place, message, traceback; None if it did not fail."""
        return None if self.run.manifest is None else self.run.manifest.failure

    @property
    def conditions(self) -> tuple[str, ...]:
        """What limits the trust in the numbers: damage, a noisy host, failed tasks and trackers, warnings."""
        from a2perf.report.provenance import conditions

        return tuple(conditions(self.run))

    # --- numbers ------------------------------------------------------------------------------------------------------

    @property
    def scores(self) -> Mapping[str, MetricValue]:
        """Every metric of this run by name: value, unit, provenance and method, as ``a2perf score`` computes them."""
        return MappingProxyType(self._scores)

    @functools.cached_property
    def _scores(self) -> dict[str, MetricValue]:
        return self.scores_in(self.mode) if self.mode else {}

    def scores_in(self, mode: str, *, profile: Profile = "corrected") -> dict[str, MetricValue]:
        """Returns the metrics of one of ``modes``.

        Raises:
            ConfigError: the run holds no data of this mode, or the profile is unknown.
        """
        of_profile = profile_named(profile)
        groups = groups_of(self.run)
        if of_profile != "corrected":
            groups = list(map(ScoredGroup.of, score_modes(self.folder, self.run, of_profile)))
        for group in groups:
            if group.mode == mode:
                return dict(group.scores)
        held = ", ".join(self.modes) or "no data at all"
        raise ConfigError(f"the run holds no data of the mode {mode!r}", hint=f"it holds {held}")

    @property
    def returns(self) -> Values:
        """Undiscounted return of each episode, float64, shape ``(episodes,)``, in the order of ``episodes()``.

        Empty without episodes. In generalization the episodes of all tasks follow one another.
        """
        of_tasks = self.run.returns.get(self.mode, {})
        values = [np.asarray(of_tasks[task], np.float64) for task in sorted(of_tasks)]
        returns = np.concatenate(values) if values else np.empty(0)
        returns.setflags(write=False)
        return returns

    @property
    def mean_return(self) -> float | None:
        """Mean return over episodes; in generalization, mean over tasks of these means. None without episodes."""
        value = self.scores.get("generalization" if self.mode == "generalization" else "returns")
        return None if value is None else value.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the mean return over the episodes of this run.

        It covers the chance of episodes, not of training seeds: ``Runs.scores`` has intervals over runs. None with
        fewer than two episodes, and in generalization.
        """
        finite = self.returns[np.isfinite(self.returns)]
        if self.mode == "generalization" or finite.size < 2:
            return None
        low, high = mean_interval(finite) if np.ptp(finite) > 0 else (finite[0], finite[0])
        return float(low), float(high)

    @property
    def normalised_score(self) -> float | None:
        """Mean return with 0 for the floor and 1 for an expert; None without reference scores of the task."""
        group = main_group(self.run)
        found = None if group is None else group.normalised
        return None if found is None else found.value

    @property
    def success_rate(self) -> float | None:
        """Share of successful episodes in percent, 0 to 100; None if the environment reports none."""
        value = self.scores.get("success_rate")
        return None if value is None else value.value

    @property
    def energy(self) -> MetricValue | None:
        """Energy of the run in kWh, with provenance and method; None if it was not recorded."""
        return self._valued("energy_gross")

    @property
    def latency(self) -> MetricValue | None:
        """Mean time per decision of the scored steps in seconds, transport included; None if it was not recorded."""
        return self._valued("latency_round_trip_mean")

    @property
    def memory(self) -> MetricValue | None:
        """Peak resident memory of the process tree in bytes; None if it was not recorded."""
        return self._valued("memory_rss_peak")

    @property
    def wall_clock_s(self) -> float | None:
        """Wall time of the participant's phase in seconds; None if unknown."""
        value = self._valued("wall_clock")
        return None if value is None else value.value

    def _valued(self, metric: str) -> MetricValue | None:
        value = self.scores.get(metric)
        return value if value is not None and value.value is not None else None

    # --- data ---------------------------------------------------------------------------------------------------------

    @property
    def curve(self) -> Series | None:
        """The training curve: steps, returns and times; None without one."""
        return self.run.curve

    def episodes(self) -> Table:
        """Returns one row per episode: return, length, success, how it ended, wall time in seconds, reward terms."""
        return episode_table([self.run])

    @functools.cached_property
    def _steps(self) -> Table:
        return step_table([self.run])

    def steps(self) -> Table:
        """Returns one row per step: round trip and processor time in seconds. Empty if they were not recorded."""
        return self._steps

    def table(self) -> Table:
        """Returns one row with the identity and the main metrics of the run."""
        return run_table([self.run])

    def plot(self) -> Figure:
        """Draws the return of each episode, or the training curve of a training run.

        Raises:
            UserError: the run has neither episodes nor a curve.
        """
        return runs_figure([self.run])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return self is other or _content(self.run) == _content(other.run)

    def __hash__(self) -> int:
        identity = self.run.identity
        return hash((identity.domain, identity.task, identity.algorithm, identity.mode, identity.seed))

    def __repr__(self) -> str:
        return result_text(self.run, self.interval)


def _content(run: Run) -> bytes:
    """Returns what equal runs have in common: identity, manifest, values and conditions; NaN equals NaN."""
    names = [field.name for field in dataclasses.fields(run) if field.compare and field.name not in _NOT_CONTENT]
    return msgspec.msgpack.encode([getattr(run, name) for name in names], enc_hook=_plain, order="deterministic")


def _plain(value: Any) -> Any:
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)
