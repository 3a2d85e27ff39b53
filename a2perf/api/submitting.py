"""A whole protocol for one submission: every run trained, evaluated, scored and recorded in one folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from a2perf.api.arguments import RunSettings, conductor_of, participant_arguments, run_options
from a2perf.api.views.table import Table, Tabular
from a2perf.constants import ExitCode
from a2perf.errors import ConfigError, RunFailed, command_line, did_you_mean

if TYPE_CHECKING:
    from a2perf.metrics.submitted import ProtocolRecord, ProtocolScore, SubmittedRun

_FINISHED = "finished"
_MISSING = "missing"


@dataclass(frozen=True, repr=False)
class Submitted(Tabular):
    """The result of ``a2perf.submit``; true if every run finished.

    Attributes:
        folder: output folder: bundles, ``protocol.json`` and ``summary.md``.
        record: the content of ``protocol.json``.
        exit_code: exit status of the command: 0 all runs finished, 1 the submission failed one, 3 the infrastructure
            failed one, 130 interrupted.
    """

    folder: Path
    record: ProtocolRecord
    exit_code: int

    @property
    def complete(self) -> bool:
        """Whether every run of the requested tasks finished."""
        return self.record.complete

    @property
    def interrupted(self) -> bool:
        """Whether the call ended before every run was started; the same call again resumes."""
        return self.exit_code == 130

    @property
    def rankable(self) -> bool:
        """Whether the result may be ranked; ``record.not_rankable`` has the reasons."""
        return self.record.rankable

    @property
    def failed(self) -> list[SubmittedRun]:
        """The runs that failed, each with ``task``, ``seed``, ``mode``, ``path`` and ``reason``."""
        from a2perf.experiments.protocol_record import NOT_RUN

        ended = [run for run in self.record.runs if run.state != _FINISHED]
        return [run for run in ended if run.state != _MISSING or run.reason != NOT_RUN]

    @property
    def scores(self) -> Mapping[str, ProtocolScore]:
        """Normalised scores by task: 0 is the protocol's floor, 1 its expert."""
        return self.record.scores

    @property
    def overall(self) -> ProtocolScore:
        """The normalised score over all requested tasks."""
        return self.record.overall

    @property
    def citation(self) -> str:
        """The line that cites the result."""
        return self.record.citation

    def table(self) -> Table:
        """Returns one row per run of the protocol."""
        runs = self.record.runs
        columns = {
            name: [getattr(run, name) for run in runs]
            for name in ("task", "seed", "mode", "state", "reason", "mean_return", "normalised", "attempts", "path")
        }
        return Table(
            columns,
            title=f"Protocol {self.record.protocol}: {self.record.submission.name}",
            descriptions={
                "mean_return": "mean return of the evaluated episodes",
                "normalised": "0 is the protocol's floor, 1 its expert",
                "attempts": "number of starts, including archived ones",
            },
            kinds={"mean_return": "float", "normalised": "float"},
        )

    def __bool__(self) -> bool:
        return self.exit_code == 0

    def __str__(self) -> str:
        from a2perf.experiments.submit import SUMMARY, summary_text

        report = f"report: {command_line('a2perf', 'report', self.folder, '-o', self.folder / 'report')}"
        return f"{summary_text(self.record)}\n{self.folder / SUMMARY}; {report}"

    __repr__ = __str__


def submit(
    submission: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    protocol: str = "v2",
    tasks: Sequence[str] = (),
    domain: str | None = None,
    track: str = "open",
    quick: bool = False,
    generalization: bool = True,
    participant_args: Mapping[str, Any] | None = None,
    bindings: Sequence[str] = (),
    workers: int = 1,
    launcher: str = "local",
    launcher_options: Mapping[str, str] | None = None,
    retry_infrastructure: bool = False,
    progress: bool | Literal["lines"] | None = None,
    stop: Callable[[], bool] | None = None,
    **options: Unpack[RunSettings],
) -> Submitted:
    """Trains and evaluates every task and seed of a protocol and scores them against its stored references.

    The same call again resumes; with further tasks it adds them. A failed run stays failed and counts. The first
    interrupt ends the running runs in an orderly way; it needs no main thread.

    Args:
        submission: the submission's folder.
        folder: output folder: bundles, ``protocol.json`` and ``summary.md``.
        protocol: version of the protocol.
        tasks: names of tasks, or of views of them such as ``"text_level_1"``; by default all core tasks.
        domain: only the core tasks of this domain.
        track: training budget: ``"fixed_samples"``, ``"fixed_energy"`` or ``"open"``.
        quick: run a reduced protocol for a first try; the result is not rankable.
        generalization: also run the generalization tasks of the protocol.
        participant_args: arguments of ``train()`` and ``load_policy()``; the values become strings.
        bindings: gin bindings for every run; the result is not rankable.
        workers: runs at the same time; several runs disturb each other's times and energy.
        launcher: where runs execute: ``"local"``, ``"docker"``, ``"slurm"``, ``"ray"``, or that of a package.
        launcher_options: options of the launcher.
        retry_infrastructure: run again if the infrastructure failed after the participant had started.
        progress: show progress on standard error: a live table on a terminal and lines elsewhere (the default),
            ``"lines"`` for lines only, False for nothing.
        stop: checked about once per second; once true, running runs are cancelled and waiting ones stay queued.
        **options: ``sandbox``, ``python_env``, ``participant_python``, ``datasets_path``, ``public_seeds`` or those of
            language models, ``model...``.

    Returns:
        The result. ``failed`` lists the runs that failed; ``interrupted`` is true after an interrupt.

    Raises:
        ConfigError: the submission does not exist, no such task, track or launcher, a binding sets a value that the
            protocol fixes, or the folder holds another submission or protocol.
        UserError: no such protocol, or another process is submitting to this folder.
        RunFailed: nothing ran, because the infrastructure failed every run before it left a record.

    Example:
        >>> import a2perf
        >>> tasks = ["toy_macro_stdcell"]
        >>> result = a2perf.submit(
        ...     "examples/minimal", "runs/quick", quick=True, tasks=tasks, generalization=False
        ... )
        >>> result.complete
        True
    """
    from a2perf.experiments.protocol_plan import RUN_OPTIONS, SubmitRequest, requested_tasks
    from a2perf.experiments.submit import earlier_tasks, exit_code
    from a2perf.experiments.submit import submit as run_protocol
    from a2perf.launch.preparation import Restart
    from a2perf.metrics import protocol as protocols
    from a2perf.sandbox.interface import STRONGEST, get_sandbox, levels

    found = protocols.load(protocol)
    given = [tasks] if isinstance(tasks, str) else tasks
    output = Path(folder)
    wanted = {*requested_tasks(found, given, domain), *earlier_tasks(output)}
    if track not in protocols.TRACKS:
        raise ConfigError(
            f"track is {track!r}{did_you_mean(str(track), protocols.TRACKS)}",
            hint=f"choose one of: {', '.join(get_args(protocols.Track))}",
        )
    chosen = run_options("submit", options, RUN_OPTIONS)
    if (level := chosen.get("sandbox")) not in (None, STRONGEST, *levels()):
        get_sandbox(level)  # raises: every run would fail with this error
    request = SubmitRequest(
        submission=Path(submission).expanduser(),
        protocol=found,
        tasks=tuple(name for task in found.tasks for name in (task, *found.views_of(task)) if name in wanted),
        track=track,
        quick=quick,
        generalization=generalization,
        participant_args=participant_arguments(participant_args),
        bindings=tuple(bindings),
        options=chosen,
    )
    with conductor_of(launcher, launcher_options, workers, progress) as conductor:
        restart = Restart(infrastructure=retry_infrastructure)
        record, ended = run_protocol(request, output, conductor, restart=restart, stop=stop or (lambda: False))
    result = Submitted(output, record, exit_code(record, ended))
    if result.exit_code == ExitCode.INFRASTRUCTURE and all(run.state == _MISSING for run in record.runs):
        reason = next((f"{run.path}: {run.reason}" for run in record.runs if run.reason), "see the logs")
        raise RunFailed(
            f"no run of {record.submission.name} started: {reason}",
            hint=f"see {output}, then run the same call again",
            exit_code=ExitCode.INFRASTRUCTURE,
            bundle=output,
        )
    return result


def read_submitted(folder: str | os.PathLike[str], exit_code: int = 0) -> Submitted:
    """Reads the result of an earlier ``submit`` from its folder; raises UserError if it holds no readable one."""
    from a2perf.metrics.submitted import FILE, ProtocolRecord
    from a2perf.storage import read_record

    return Submitted(Path(folder), read_record(Path(folder) / FILE, ProtocolRecord), exit_code)
