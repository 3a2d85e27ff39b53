"""The benchmark matrix: one command, or one submission, over environments and seeds, into the store.

Runs are ordered by seed, then by environment; each one is ``<command> --env-id <env> --seed <seed>``. After an
interruption the same command line repeats unfinished runs and keeps finished ones.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from a2perf.errors import ConfigError, UserError
from a2perf.experiments.autotag import API, TAGS_VARIABLE, autotag, content_hash, joined_tags, submission_tag
from a2perf.experiments.command_run import COMMAND_MODE, MatrixPlan
from a2perf.launch import Conductor, ExperimentResult, Resources, Restart, RunCommand, RunEvent, RunSpec
from a2perf.launch.outcomes import read_manifest
from a2perf.launch.queue_entry import INFRASTRUCTURE
from a2perf.records import RunState, SubmissionIdentity
from a2perf.runs.bundles.layout import LOGS, bundle_path, manifest_path
from a2perf.runs.bundles.run_record import MODES, RUN_FILE, AutotagRecord, config_of
from a2perf.storage import write_record

QUEUE_FOLDER = ".queue"


@dataclass(frozen=True)
class MatrixRun:
    """One cell of the matrix.

    Attributes:
        commands: its command lines: one, or one per configuration of a submission.
    """

    env_id: str
    seed: int
    commands: tuple[tuple[str, ...], ...]
    folder: Path
    key: str


@dataclass(frozen=True)
class BenchmarkMatrix:
    """A planned matrix."""

    plan: MatrixPlan
    runs: tuple[MatrixRun, ...]

    def command_lines(self) -> list[str]:
        """Returns every command line as text for a shell."""
        begin = () if self.plan.source == "command" else ("a2perf", "run")
        return [shlex.join([*begin, *command]) for run in self.runs for command in run.commands]


@dataclass(frozen=True)
class MatrixResult:
    """The result of a matrix.

    Attributes:
        executed: the runs that were executed now; None without such runs.
        exit_code: 0 all finished, 1 some run failed, 3 the infrastructure failed one, 130 interrupted.
    """

    kept: tuple[MatrixRun, ...]
    executed: ExperimentResult | None
    exit_code: int


def command_matrix(
    store: Path, command: str, env_ids: Sequence[str], seeds: Sequence[int], *,
    tag: Callable[[Path], AutotagRecord] | None = None, experiment: str | None = None, cwd: Path | None = None,
    alone: bool = False, environment: Mapping[str, str] = os.environ, resources: Resources | None = None,
) -> BenchmarkMatrix:  # fmt: skip
    """Plans the runs of a plain command.

    Args:
        experiment: name of the experiment; None for ``--exp-name`` of the command or, without it, the script's name.
        resources: resources of each run; other resources make another version.

    Raises:
        UserError: the command is empty or cannot be split.
    """
    cwd = Path.cwd() if cwd is None else cwd
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"--command {command!r} cannot be split ({error})", hint="close every quote") from error
    if not words:
        raise UserError("--command is empty", hint='write --command "python train.py"')
    script = next((cwd / word for word in words if word.endswith(".py")), None)
    folder = script.parent if script is not None else cwd
    name = (
        experiment or config_of(words).get("exp_name") or (script.stem if script is not None else Path(words[0]).stem)
    )
    record = tag(folder) if tag is not None else None
    code = SubmissionIdentity(
        name=str(name),
        path=str(script or cwd),
        sha256=content_hash(folder, outputs=[store]),
        git_commit=record.sha if record is not None else None,
        git_dirty=record.dirty if record is not None else None,
    )
    plan = _plan(store, code, record, environment, resources, experiment=str(name), cwd=str(cwd), words=words,
                 alone=alone)  # fmt: skip

    return _matrix(
        plan, env_ids, seeds, lambda env_id, seed, folder: [(*words, "--env-id", env_id, "--seed", str(seed))]
    )


def submission_matrix(
    store: Path, submission: Path, gin_configs: Sequence[str], env_ids: Sequence[str], seeds: Sequence[int], *,
    flags: Sequence[str] = (), tag: Callable[[Path], AutotagRecord] | None = None, experiment: str | None = None,
    environment: Mapping[str, str] = os.environ, resources: Resources | None = None,
) -> BenchmarkMatrix:  # fmt: skip
    """Plans the runs of a submission; each one executes all configurations in the given order.

    Args:
        env_ids: names of tasks or ids of environments.
        tag: None for no automatic tag; git is not run in a submission, because its settings can name programs.
        experiment: name of the experiment; None for the folder's name.

    Raises:
        UserError: the folder does not exist.
    """
    from a2perf.submission.evaluator.submitted.folder_content import identify_submission

    if not submission.is_dir():
        raise ConfigError(f"the submission folder {submission} does not exist", hint="check --submission")
    identity = identify_submission(submission, root=store)
    record = submission_tag(identity, environment) if tag is not None else None
    words = ["--submission", str(submission), *(f"--gin-config={name}" for name in gin_configs), *flags]
    plan = _plan(store, identity, record, environment, resources, experiment=experiment or identity.name,
                 cwd=str(Path.cwd()), words=words, source="submission")  # fmt: skip

    def commands(env_id: str, seed: int, folder: Path) -> list[tuple[str, ...]]:
        common = ("--root-dir", str(folder), "--seed", str(seed), *_task_flags(env_id), *flags)
        return [("--submission", str(submission), "--gin-config", name, *common) for name in gin_configs]

    return _matrix(plan, env_ids, seeds, commands)


def run_matrix(
    matrix: BenchmarkMatrix,
    conductor: Conductor,
    *,
    resources: Resources | None = None,
    on_event: Callable[[RunEvent], None] = lambda event: None,
    on_kept: Callable[[Sequence[MatrixRun]], None] = lambda runs: None,
    stop: Callable[[], bool] = lambda: False,
) -> MatrixResult:
    """Executes the unfinished runs.

    Args:
        on_kept: called once with the runs that had finished before.
        stop: checked in every turn; once true, running runs are cancelled and waiting ones are not started.

    Raises:
        UserError: the store cannot be written, or the command's program or script is not on this machine.
    """
    plan = matrix.plan
    if plan.source == "command" and conductor.launcher.name == "local":
        _check_program(plan)
    kept = tuple(run for run in matrix.runs if is_finished(run.folder, len(run.commands)))
    wanted = [run for run in matrix.runs if run not in kept]
    on_kept(kept)
    if not wanted or stop():
        return MatrixResult(kept, None, 0)
    try:
        write_record(plan.path(), plan)
    except OSError as error:
        raise UserError(
            f"the store {plan.store} cannot be written: {error.strerror}", hint="choose another one with --store DIR"
        ) from error
    for run in wanted:
        if not (run.folder / RUN_FILE).exists():
            write_record(run.folder / RUN_FILE, plan.record(run.env_id, run.seed, run.commands[0]))
    executed = conductor.run(
        [spec for run in wanted for spec in run_specs(matrix, run, resources or Resources())],
        plan.store / QUEUE_FOLDER / f"{plan.path().stem}.sqlite",
        restart=Restart(everything=True),  # the bundles decide: the list holds only unfinished runs
        on_event=on_event,
        stop=stop,
    )
    failed = sum(count for kind, count in executed.failed.items() if kind != INFRASTRUCTURE)
    return MatrixResult(kept, executed, 1 if failed and not executed.stopped else executed.exit_code)


def is_finished(folder: Path, bundles: int = 1) -> bool:
    """Returns whether a run is finished: it has that many bundles and all of them are finished."""
    found = [bundle_path(folder, mode) for mode in MODES if manifest_path(bundle_path(folder, mode)).exists()]
    states = [manifest.state if (manifest := read_manifest(bundle)) is not None else None for bundle in found]
    return len(states) >= bundles and all(state is RunState.FINISHED for state in states)


def _plan(
    store: Path, code: SubmissionIdentity, record: AutotagRecord | None, environment: Mapping[str, str],
    resources: Resources | None, **own: Any,
) -> MatrixPlan:  # fmt: skip
    tags = joined_tags(environment.get(TAGS_VARIABLE), record)
    return MatrixPlan(
        store_path=os.path.abspath(store),
        code=code,
        autotag=record,
        tags=tags.split(",") if tags else [],
        wandb_tags=tags,
        resources={name: value for name, value in asdict(resources or Resources()).items() if value},
        **own,
    )


def _check_program(plan: MatrixPlan) -> None:
    program, cwd = plan.words[0], Path(plan.cwd)
    if shutil.which(program) is None and not (cwd / program).exists():
        hint = "set environment variables before a2perf" if "=" in program else "check its spelling"
        raise UserError(f"--command begins with {program!r}, which is not a program on PATH", hint=hint)
    script = next((word for word in plan.words if word.endswith(".py")), None)
    if script is not None and not (cwd / script).exists():
        raise UserError(f"--command names {script}, which does not exist", hint=f"give a path relative to {cwd}")


def _matrix(
    plan: MatrixPlan, env_ids: Sequence[str], seeds: Sequence[int],
    commands: Callable[[str, int, Path], Sequence[tuple[str, ...]]],
) -> BenchmarkMatrix:  # fmt: skip
    if not env_ids:
        raise UserError("--env-ids is empty", hint="name at least one environment")
    for what, given in (("environment", env_ids), ("seed", seeds)):
        twice = sorted({str(item) for item in given if list(given).count(item) > 1})
        if twice:
            raise UserError(f"{what} {', '.join(twice)} is given twice", hint="give each one once")
    cells = []
    for seed in seeds:
        for env_id in env_ids:
            folder = plan.run_folder(env_id, seed)
            lines = tuple(commands(env_id, seed, folder))
            cells.append(MatrixRun(env_id, seed, lines, folder, folder.relative_to(plan.store).as_posix()))
    return BenchmarkMatrix(plan, tuple(cells))


def run_specs(matrix: BenchmarkMatrix, run: MatrixRun, resources: Resources) -> list[RunSpec]:
    """Returns the specifications of a run: one, or one per configuration of a submission."""
    plan = matrix.plan
    common = RunCommand(
        (), name=run.key, cwd=Path(plan.cwd), log=run.folder / "launch.log", resources=resources,
        readable=(Path(plan.cwd), plan.path()), writable=(plan.store,),
    )  # fmt: skip
    data = {"env_id": run.env_id, "seed": run.seed, "root": str(run.folder)}
    if plan.source == "command":
        argv = (sys.executable, "-P", "-m", "a2perf.experiments.command_run", str(plan.path()), "--", *run.commands[0])
        bundle = bundle_path(run.folder, COMMAND_MODE)
        log = bundle / LOGS / "output.log"  # of the command itself
        return [RunSpec(run.key, replace(common, argv=argv), {**data, "bundle": str(bundle), "log": str(log)})]
    specs: list[RunSpec] = []
    for number, command in enumerate(run.commands):
        key = run.key if len(run.commands) == 1 else f"{run.key}:{number + 1}"
        argv = RunCommand.evaluator(command).argv
        after = specs[-1].key if specs else None
        specs.append(RunSpec(key, replace(common, argv=argv, name=key), data, after))
    return specs


def _task_flags(name: str) -> list[str]:
    """Returns the flags that select an environment: by the name of a task or else by the environment's id."""
    from a2perf.domains.registry import all_environments, domains

    if any(task.name == name for domain in domains().values() for task in domain.tasks):
        return ["--task", name]
    owner = all_environments().get(name)
    domain = [] if owner is None else ["--domain", owner[0].name]
    return [*domain, "--gin-bindings", f"create_domain.env_name={name!r}"]


def tagger(store: Path, *, look_up: bool = False, api: str | None = None) -> Callable[[Path], AutotagRecord]:
    """Returns the function that returns the version of the code in a folder.

    Args:
        store: the store; its files do not count as changes of the code.
    """
    return lambda folder: autotag(folder, os.environ, outputs=[store], look_up=look_up, api=api or API)
