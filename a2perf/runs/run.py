"""A recorded run: its folder, its identity, and its content in memory."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from a2perf.arrays import Values
from a2perf.plain_text import plain_text
from a2perf.records import Episode, Failure, Manifest, StepCosts, SubmissionInfo, TrainResults
from a2perf.runs.bundles.layout import MODES
from a2perf.runs.bundles.run_record import ExperimentRun
from a2perf.runs.tracking_record import TrackingReport, nothing_tracked

if TYPE_CHECKING:
    from a2perf.runs.bundles.files import BundleFiles
    from a2perf.runs.bundles.tables import CsvTable
    from a2perf.runs.dataset_notes import DatasetNote
    from a2perf.runs.reproduction import ReproductionMark
    from a2perf.runs.series import Series

BUNDLE, EARLIER, LOGS, TABLE = "a2perf bundle", "earlier platform", "training logs", "CSV file"


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run.

    Attributes:
        layout: ``BUNDLE``, ``EARLIER``, ``LOGS``, ``TABLE`` or the name of a ``RunFormat``.
        label: path below the folder that the user gave; stable if the whole tree moves.
        links: symbolic links below ``path`` that were not followed.
        root: name of the run root (submission x task x seed), unique among the runs of one search.
        part: name of the run in a file that holds several.
    """

    layout: str
    path: Path
    label: str
    links: tuple[str, ...] = ()
    root: str = ""
    is_file: bool = False
    part: str = ""

    @property
    def key(self) -> str:
        """Its identity among all runs on disk."""
        return f"{os.path.abspath(self.path)}\0{self.part}"

    def files(self) -> BundleFiles:
        """Returns access to the files of the run; for a run that is one file, to those of its folder."""
        from a2perf.runs.bundles.files import files_of

        return files_of(self.path.parent if self.is_file else self.path)


IN_MEMORY = RunFolder("in memory", Path(), "")
"""Stands for the folder of a run that was not read from files."""


@dataclass(frozen=True)
class RunIdentity:
    """The identity of a run; runs that agree in domain, task and algorithm are seeds of one another.

    Attributes:
        task: the task that results are ranked on, ``""`` when unknown or when there are several; see ``view``.
        version: hash of the submission's code, ``""`` when unknown; of all its files if it declares no weights.
        policy: hash of the trained policy, ``""`` if the submission declares no weights.
        fingerprint: ``Manifest.env_identity``, ``""`` when unknown; runs with different ones are not pooled.
        mode: ``"train"``, ``"inference"``, ``"generalization"``, or ``""`` for a folder of all of them.
        state: how the run ended; ``"recorded"`` if the layout does not record it.
        env_kwargs: arguments of the environment, as ``seed_groups.env_arguments`` writes them, without those of the
            view.
        view: the form in which the participant saw the task, ``"text"``; ``""`` for the default of its domain.
    """

    domain: str = ""
    task: str = ""
    algorithm: str = ""
    version: str = ""
    fingerprint: str = ""
    mode: str = ""
    seed: int | None = None
    state: str = "recorded"
    env_kwargs: str = ""
    view: str = ""
    policy: str = ""


@dataclass(frozen=True)
class Execution:
    """When, where and with what a run was executed, and what it took; empty or None where that is unknown.

    Attributes:
        started_at: ISO 8601.
        python: implementation and version of the Python that recorded it.
        packages: versions by lower-case name.
        energy_quality: provenance of ``energy_kwh``.
    """

    started_at: str = ""
    host: str = ""
    python: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    wall_s: float | None = None
    energy_kwh: float | None = None
    energy_quality: str = ""


@dataclass(frozen=True)
class MediaFile:
    """A picture or film of an episode."""

    name: str
    size: int
    folder: RunFolder = field(repr=False)

    def read(self, limit: int) -> bytes:
        """Returns the content; raises ``StrangerFileError`` if it is larger than ``limit`` or has gone."""
        return self.folder.files().read(self.name, limit)


@dataclass(frozen=True)
class RunDetails:
    """Details of a run that are shown but not scored; ``final_states`` are files such as a placement."""

    trace: CsvTable | None = None
    train: TrainResults | None = None
    task_failures: dict[str, Failure] = field(default_factory=dict)
    media: tuple[MediaFile, ...] = ()
    final_states: tuple[MediaFile, ...] = ()
    log_tail: str = ""
    conditions: tuple[str, ...] = ()

    def clock(self) -> Values | None:
        """Returns the seconds of each row of the trace, those of a resumed run summed; None if a time is unknown."""
        seconds = None if self.trace is None else self.trace.numbers("elapsed_s")
        if seconds is None or not seconds.size or not np.isfinite(seconds).all():
            return None
        steps = np.diff(seconds, prepend=seconds[:1])
        result: Values = seconds[0] + np.cumsum(np.where(steps < 0, 0.0, steps))
        return result


@dataclass
class Run:
    """One recorded run, independent of its layout on disk; ``reading.run_at`` reads its parts when they are needed.

    Attributes:
        returns: episode returns by mode (``"inference"``, ``"generalization"``) and task.
        successes: 0 or 1 per episode by mode and task, if the environment reports it.
        latency_s: seconds per call, by call: ``"round_trip"`` and ``"processor_time"`` of the scored steps,
            ``"infer_once"`` and ``"preprocess_observation"`` of the timed calls, or of the scored steps without any.
        latency_first_s: seconds of the very first call, by call.
        has_timed_calls: whether calls were timed in addition to the scored steps.
        step_costs: mean costs of the scored steps by task, in the last attempt.
        tracking: costs measured by the trackers; for several tasks, their totals. Missing values are NaN.
        wall_clock_s: seconds of the participant's phase, by the evaluator's clock.
        episodes: the records behind ``returns`` by task; only bundles have them.
        further: repeated and perturbed episodes by task; no score of returns or success counts them.
        changed: whether the bundle was changed after the run; the conditions name the differences.
        reproduction: verdict of repeating the run, from the record beside its bundle; None without one that counts.
        conditions: problems and remarks, one sentence each, with the file.
        name: unique among the runs of a store or comparison; in a store the path below it. A store and a comparison set
            it, ``record`` and ``execution``; they are empty in other runs.
        record: ``rlops.json`` with the current tags; without one it is made from manifest or identity.
        logs: of a run of a store, by mode the files that may hold series; None if its manifest lists no files.
        kept: values that installed packages read from the run's files and keep, by name.
    """

    identity: RunIdentity
    folder: RunFolder = IN_MEMORY
    curve: Series | None = None
    returns: dict[str, dict[str, Values]] = field(default_factory=dict)
    successes: dict[str, dict[str, Values]] = field(default_factory=dict)
    latency_s: dict[str, Values] = field(default_factory=dict)
    latency_first_s: dict[str, float] = field(default_factory=dict)
    has_timed_calls: bool = True
    step_costs: dict[str, StepCosts] = field(default_factory=dict)
    tracking: TrackingReport = field(default_factory=nothing_tracked)
    tracking_by_task: dict[str, TrackingReport] = field(default_factory=dict)
    emissions: dict[str, dict[str, Any]] = field(default_factory=dict)
    wall_clock_s: float | None = None
    manifest: Manifest | None = None
    episodes: dict[str, list[Episode]] = field(default_factory=dict)
    further: dict[str, list[Episode]] = field(default_factory=dict)
    datasets: list[DatasetNote] = field(default_factory=list)
    changed: bool = False
    reproduction: ReproductionMark | None = None
    info: SubmissionInfo = field(default_factory=SubmissionInfo)
    conditions: list[str] = field(default_factory=list)
    read_details: Callable[[Run], RunDetails] | None = field(default=None, repr=False, compare=False)
    name: str = field(default="", repr=False, compare=False)
    record: ExperimentRun = field(
        default_factory=lambda: ExperimentRun(experiment="", env_id=""), repr=False, compare=False
    )
    execution: Execution = field(default=Execution(), repr=False, compare=False)
    logs: dict[str, list[str] | None] = field(default_factory=dict, repr=False, compare=False)
    kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _PARTS or "read_part" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.__dict__["read_part"](self, name)
            return self.__dict__[name]

    @property
    def mode(self) -> str:
        """The mode; ``""`` for a layout that keeps several modes in one folder."""
        return self.identity.mode

    @property
    def state(self) -> str:
        """A ``RunState`` value, ``"unfinished"``, ``"unreadable"`` or ``"recorded"``."""
        return self.identity.state

    @property
    def root(self) -> str:
        """Name of the run root."""
        return self.folder.root

    @property
    def key(self) -> str:
        """Identity among the runs read together: ``root/mode``."""
        return f"{self.root}/{self.mode}" if self.mode else self.root

    @property
    def algorithm(self) -> str:
        """Name of the submission or algorithm, safe to print."""
        return plain_text(self.identity.algorithm)

    @property
    def is_log(self) -> bool:
        """Whether another tool recorded it: hashes, confinement and costs are then not missing but not part of it."""
        if self.folder.layout == BUNDLE:
            return self.folder.path.name == "imported"
        return self.folder.layout not in (EARLIER, IN_MEMORY.layout)

    def modes(self) -> list[str]:
        """Returns the modes for which the run holds data, in the order of ``MODES``."""
        if self.identity.mode:
            return [self.identity.mode]
        held = {*self.emissions, *self.returns}
        if self.curve is not None or self.manifest is not None:  # a program without a curve still has costs and an end
            held.add("train")
        if self.latency_s:
            held.add("inference")
        return [mode for mode in MODES if mode in held]

    @property
    def main_mode(self) -> str:
        """The mode of its result; of several modes the evaluation, and ``""`` if it holds no data."""
        held = self.modes()
        return next((mode for mode in ("inference", "generalization", "train") if mode in held), "")

    @functools.cached_property
    def details(self) -> RunDetails:
        """What is shown but never scored; read from the files on first use."""
        return RunDetails() if self.read_details is None else self.read_details(self)


_PARTS = {part.name for part in fields(Run)}
for _name in _PARTS & vars(Run).keys():  # a default in the class would stand for a part that was not read yet
    delattr(Run, _name)


def tracking_reports(run: Run) -> Mapping[str, TrackingReport]:
    """Returns the tracking report of each task; a run of one task has the name ``""``."""
    return run.tracking_by_task or {"": run.tracking}


def noise(run: Run) -> list[str]:
    """Returns why the host was too busy for reliable times and energies; empty for a quiet host."""
    reasons: dict[str, None] = {}
    for task, report in tracking_reports(run).items():
        if report.host.noisy:
            stated = report.host.reasons or ["no reason recorded"]
            reasons.update(dict.fromkeys(plain_text(f"{task}: {reason}" if task else reason) for reason in stated))
    if not reasons and run.manifest is not None:
        prefix = "noisy host"
        warnings = [text.removeprefix(prefix).lstrip(": ") for text in run.manifest.warnings if text.startswith(prefix)]
        reasons.update(dict.fromkeys(plain_text(warning) for warning in warnings))
    return list(reasons)
