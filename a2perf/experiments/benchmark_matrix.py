"""The benchmark matrix: one command, or one submission, over environments and seeds, into the store.

Runs are ordered by seed, then by environment; each one is ``<command> --env-id <env> --seed <seed>``. After an
interruption the same command line repeats unfinished and failed runs and keeps finished ones.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from a2perf.errors import UserError
from a2perf.experiments import command_run
from a2perf.experiments.autotag import API, TAGS_VARIABLE, autotag, content_hash, joined_tags, submission_tag
from a2perf.experiments.command_run import COMMAND_MODE, MatrixPlan
from a2perf.experiments.planning import plan_runs
from a2perf.launch import Conductor, ExperimentResult, Resources, Restart, RunCommand, RunSpec
from a2perf.records import SubmissionIdentity
from a2perf.runs.bundles.layout import LOGS, bundle_path
from a2perf.runs.bundles.run_record import RUN_FILE, AutotagRecord, config_of
from a2perf.storage import write_record
from a2perf.submission.given_paths import submission_folder

QUEUE_FOLDER = ".queue"
_SHORT = {"--participant-module-path": "--submission", "--submission-gin-config-path": "--gin-config"}


@dataclass(frozen=True)
class MatrixRun:
    """One cell of the matrix.

    Attributes:
        name: path of its folder in the store.
        specs: its runs: one, or one per configuration of a submission.
        commands: the command lines of its runs, without the program of a submission's.
    """

    env_id: str
    seed: int
    name: str
    folder: Path
    specs: tuple[RunSpec, ...]
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class BenchmarkMatrix:
    """A planned matrix."""

    plan: MatrixPlan
    runs: tuple[MatrixRun, ...]

    def command_lines(self) -> list[str]:
        """Returns every command line as text for a shell."""
        begin = () if self.plan.source == "command" else ("a2perf", "run")
        return [shlex.join([*begin, *command]) for run in self.runs for command in run.commands]


def command_matrix(
    store: Path,
    command: str,
    env_ids: Sequence[str],
    seeds: Sequence[int],
    *,
    tag: Callable[[Path], AutotagRecord] | None = None,
    experiment: str | None = None,
    cwd: Path | None = None,
    alone: bool = False,
    environment: Mapping[str, str] = os.environ,
    resources: Resources | None = None,
) -> BenchmarkMatrix:
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
    plan = _plan(
        store, code, record, environment, resources, experiment=str(name), cwd=str(cwd), words=words, alone=alone
    )
    runs = []
    for env_id, seed in _cells(env_ids, seeds):
        spec = _command_spec(plan, env_id, seed, resources or Resources())
        folder, line = plan.run_folder(env_id, seed), plan.command(env_id, seed)
        runs.append(MatrixRun(env_id, seed, spec.key, folder, (spec,), (line,)))
    return BenchmarkMatrix(plan, tuple(runs))


def submission_matrix(
    store: Path,
    submission: Path,
    gin_configs: Sequence[str],
    env_ids: Sequence[str],
    seeds: Sequence[int],
    *,
    flags: Sequence[str] = (),
    tag: Callable[[Path], AutotagRecord] | None = None,
    experiment: str | None = None,
    environment: Mapping[str, str] = os.environ,
    resources: Resources | None = None,
) -> BenchmarkMatrix:
    """Plans the runs of a submission; each one executes all configurations in the given order.

    Args:
        env_ids: names of tasks or ids of environments.
        tag: None for no automatic tag; git is not run in a submission, because its settings can name programs.
        experiment: name of the experiment; None for the folder's name.

    Raises:
        ConfigError: the folder, an environment or a configuration does not exist.
    """
    from a2perf.submission.evaluator.submitted.folder_content import identify_submission

    submission_folder(submission)
    identity = identify_submission(submission, root=store)
    record = submission_tag(identity, environment) if tag is not None else None
    words = ["--submission", str(submission), *(f"--gin-config={name}" for name in gin_configs), *flags]
    plan = _plan(
        store,
        identity,
        record,
        environment,
        resources,
        experiment=experiment or identity.name,
        cwd=str(Path.cwd()),
        words=words,
        source="submission",
    )
    cells = _cells(env_ids, seeds)
    specs = plan_runs(
        plan.store,
        [submission],
        gin_configs,
        tasks=env_ids,
        seeds=seeds,
        place=plan.run_folder,
        flags=tuple(flags),
        resources=resources or Resources(),
    )
    runs = []
    for env_id, seed in cells:
        folder = plan.run_folder(env_id, seed)
        own = tuple(spec for spec in specs if spec.root == folder)
        commands = [[_SHORT.get(word, word) for word in spec.command.evaluator_flags() or ()] for spec in own]
        name = folder.relative_to(plan.store).as_posix()
        runs.append(MatrixRun(env_id, seed, name, folder, own, tuple(map(tuple, commands))))
    return BenchmarkMatrix(plan, tuple(runs))


def run_matrix(matrix: BenchmarkMatrix, conductor: Conductor, **watching: Any) -> ExperimentResult:
    """Executes the unfinished and failed runs.

    Args:
        watching: ``on_ready``, ``on_event`` and ``stop`` of ``Conductor.run``.

    Raises:
        UserError: the store cannot be written, or the command's program or script is not on this machine.
    """
    plan = matrix.plan
    if plan.source == "command" and conductor.launcher.name == "local":
        _check_program(plan)
    try:
        write_record(plan.path(), plan)
        for run in matrix.runs:
            if not (run.folder / RUN_FILE).exists():
                write_record(run.folder / RUN_FILE, plan.record(run.env_id, run.seed, run.commands[0]))
    except OSError as error:
        raise UserError(
            f"the store {plan.store} cannot be written: {error.strerror}", hint="choose another one with --store DIR"
        ) from error
    return conductor.run(
        [spec for run in matrix.runs for spec in run.specs],
        plan.store / QUEUE_FOLDER / f"{plan.path().stem}.sqlite",
        restart=Restart(failed=True),
        **watching,
    )


def _plan(
    store: Path,
    code: SubmissionIdentity,
    record: AutotagRecord | None,
    environment: Mapping[str, str],
    resources: Resources | None,
    **own: Any,
) -> MatrixPlan:
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


def _cells(env_ids: Sequence[str], seeds: Sequence[int]) -> list[tuple[str, int]]:
    if not env_ids:
        raise UserError("--env-ids is empty", hint="name at least one environment")
    for what, given in (("environment", env_ids), ("seed", seeds)):
        twice = sorted({str(item) for item in given if list(given).count(item) > 1})
        if twice:
            raise UserError(f"{what} {', '.join(twice)} is given twice", hint="give each one once")
    return [(env_id, seed) for seed in seeds for env_id in env_ids]


def _command_spec(plan: MatrixPlan, env_id: str, seed: int, resources: Resources) -> RunSpec:
    folder = plan.run_folder(env_id, seed)
    key = folder.relative_to(plan.store).as_posix()
    command = RunCommand(
        (sys.executable, "-P", "-m", command_run.__name__, str(plan.path()), env_id, str(seed)),
        name=key,
        cwd=Path(plan.cwd),
        log=folder / "launch.log",
        resources=resources,
        readable=(Path(plan.cwd), plan.path()),
        writable=(plan.store,),
    )
    bundle = bundle_path(folder, COMMAND_MODE)
    log = bundle / LOGS / "output.log"  # of the command itself
    return RunSpec(key, command, {"root": str(folder), "bundle": str(bundle), "log": str(log)})


def _check_program(plan: MatrixPlan) -> None:
    program, cwd = plan.words[0], Path(plan.cwd)
    if shutil.which(program) is None and not (cwd / program).exists():
        hint = "set environment variables before a2perf" if "=" in program else "check its spelling"
        raise UserError(f"--command begins with {program!r}, which is not a program on PATH", hint=hint)
    script = next((word for word in plan.words if word.endswith(".py")), None)
    if script is not None and not (cwd / script).exists():
        raise UserError(f"--command names {script}, which does not exist", hint=f"give a path relative to {cwd}")


def tagger(store: Path, *, look_up: bool = False, api: str | None = None) -> Callable[[Path], AutotagRecord]:
    """Returns the function that returns the version of the code in a folder; files of the store do not count."""
    return lambda folder: autotag(folder, os.environ, outputs=[store], look_up=look_up, api=api or API)
