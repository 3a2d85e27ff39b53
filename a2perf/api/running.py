"""What ``a2perf.evaluate`` and ``a2perf.train`` do once the process that forks their evaluators has been started."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2perf.api.arguments import RunSettings, participant_arguments, run_options, whole_number
from a2perf.api.environments import TaskInfo, find_task, tasks
from a2perf.api.live_policy import LivePolicy, folder_name, live_policy
from a2perf.domains.registry import ANY
from a2perf.errors import ConfigError
from a2perf.experiments.planning import PlannedRun
from a2perf.launch.fork_server import ForkServer
from a2perf.launch.local import LocalLauncher
from a2perf.runs.bundles.inventory import read_manifest
from a2perf.runs.bundles.layout import MANIFEST
from a2perf.submission.given_paths import submission_folder
from a2perf.submission.participant_gin import environment_bindings
from a2perf.submission.run_options import RunOptions

if TYPE_CHECKING:
    from a2perf.api.results import Result, Runs


def evaluated(
    server: ForkServer | None,
    policy: Any,
    task: str | TaskInfo | None,
    *,
    env: str | None,
    env_kwargs: Mapping[str, Any] | None,
    episodes: int | None,
    seed: int,
    seeds: Iterable[int] | None,
    name: str | None,
    root_dir: str | os.PathLike[str] | None,
    participant_args: Mapping[str, Any] | None,
    gin_config: str,
    bindings: Sequence[str],
    force: bool,
    progress: bool | None,
    options: RunSettings,
) -> Result | Runs:
    """Does what ``a2perf.evaluate`` describes; the arguments are the same."""
    found = _chosen("evaluate", task, env)
    chosen = run_options("evaluate", options)
    bound = _bindings(env_kwargs, bindings)
    if episodes is not None:
        mode = "generalization" if Path(gin_config).name.startswith("generalization") else "inference"
        bound.append(f"Submission.num_{mode}_episodes = {whole_number('episodes', episodes, least=1)}")
    numbers = [whole_number("seed", seed, least=0)] if seeds is None else _seeds(seeds)
    common: dict[str, Any] = {
        "task": found,
        "participant_args": participant_arguments(participant_args),
        "gin_config": gin_config,
        "bindings": bound,
        "force": force,
        "progress": progress,
        "options": chosen,
    }
    several = isinstance(policy, list | tuple)
    given = [_named(one, name) for one in (policy if several else [policy])]
    if len({label for _, label in given}) < max(1, len(given)):
        raise ConfigError(
            f"{len(given)} policies were given{', two of them the same' if given else ''}",
            hint="give a list of different policies, of folders with different names",
        )
    root = None if root_dir is None else Path(root_dir).expanduser().absolute()
    top = root or Path.cwd() / "runs"
    if several:
        root = None
    elif root is not None and not force:
        source, label = given[0]
        is_known = isinstance(source, Path) or _place(source, root).is_dir()
        owner = (source.resolve() if isinstance(source, Path) else source).name if is_known else ""
        for number in numbers:
            place, below = root if seeds is None else root / f"seed_{number}", root / label / found.name
            if _is_taken(place, below / f"seed_{number}", (owner, number, found.domain, found.name)):
                root = None
                break
    folders = [(_written(source, label, top, root), top / label) for source, label in given]
    with closing(LocalLauncher()) as launcher:
        launcher.server = server
        if seeds is None and not several:
            folder, default = folders[0]
            place = default / found.name / f"seed_{numbers[0]}" if root is None else root
            return _run(launcher, folder, place, seed=numbers[0], **common)
        from a2perf.api.results import Runs

        launcher.expects_many = len(numbers) * len(folders) > 1
        return Runs(
            _run(launcher, folder, (root or default / found.name) / f"seed_{number}", seed=number, **common)
            for folder, default in folders
            for number in numbers
        )


def _named(policy: Any, name: str | None) -> tuple[Path | LivePolicy, str]:
    """Returns a submission's folder, or an object that can be written to one, and the name of its default folder."""
    if isinstance(policy, str | os.PathLike):
        folder = submission_folder(policy)
        return folder, folder.resolve().name if name is None else folder_name(name)
    live = live_policy(policy, name)
    return live, f"{live.name}-{live.digest}"


def _place(policy: LivePolicy, root: Path) -> Path:
    return root / f"submission-{policy.digest}"


def _written(source: Path | LivePolicy, label: str, top: Path, root: Path | None) -> Path:
    """Returns the folder of a policy's submission, which is written if needed."""
    if isinstance(source, Path):
        return source
    return source.written_to(top / label / "submission" if root is None else _place(source, root))


def _is_taken(place: Path, below: Path, key: tuple[str, int, str, str], *, training: bool = False) -> bool:
    """Returns whether a run is in ``below``, or belongs there because ``place`` holds that of another one.

    A folder with a training run stays the place of all evaluations of what was trained.

    Args:
        key: submission, root seed, domain and task of the run.
        training: whether it is a training run.
    """
    if below.is_dir():
        return True
    runs = [read_manifest(path.parent) for path in place.glob(f"{'train' if training else '*'}/{MANIFEST}")]
    if not training and any(run.mode == "train" for run in runs):
        return False
    return any((run.submission.name, run.root_seed, run.domain, run.task) != key for run in runs)


def trained(
    server: ForkServer | None,
    submission: str | os.PathLike[str],
    task: str | TaskInfo | None,
    *,
    env: str | None,
    env_kwargs: Mapping[str, Any] | None,
    seed: int,
    root_dir: str | os.PathLike[str] | None,
    participant_args: Mapping[str, Any] | None,
    gin_config: str,
    bindings: Sequence[str],
    force: bool,
    progress: bool | None,
    options: RunSettings,
) -> Result:
    """Does what ``a2perf.train`` describes; the arguments are the same."""
    found = _chosen("train", task, env)
    if not isinstance(submission, str | os.PathLike):
        raise ConfigError(
            f"train needs the folder of a submission, not a {type(submission).__name__}",
            hint="give the path of a folder with train.py; `a2perf init` creates one",
        )
    root_seed, folder = whole_number("seed", seed, least=0), submission_folder(submission)
    root = Path("runs" if root_dir is None else root_dir).expanduser().absolute()
    below = root / folder.resolve().name / found.name / f"seed_{root_seed}"
    key = (folder.resolve().name, root_seed, found.domain, found.name)
    if root_dir is None or below.is_dir() or (not force and _is_taken(root, below, key, training=True)):
        root = below
    with closing(LocalLauncher()) as launcher:
        launcher.server = server
        return _run(
            launcher,
            folder,
            root,
            task=found,
            seed=root_seed,
            participant_args=participant_arguments(participant_args),
            gin_config=gin_config,
            bindings=_bindings(env_kwargs, bindings),
            force=force,
            progress=progress,
            options=run_options("train", options),
        )


def _seeds(given: Iterable[int]) -> list[int]:
    try:
        numbers = [whole_number("seeds", number, least=0) for number in given]
    except TypeError:
        numbers = []
    if not numbers or len(set(numbers)) < len(numbers):
        raise ConfigError(f"seeds={given!r} is not valid", hint="give different whole numbers, such as range(10)")
    return numbers


def _run(
    launcher: LocalLauncher,
    folder: Path,
    root: Path,
    *,
    task: TaskInfo,
    seed: int,
    participant_args: str,
    gin_config: str,
    bindings: Sequence[str],
    force: bool,
    progress: bool | None,
    options: RunOptions,
) -> Result:
    from a2perf.api.evaluation_process import progress_for, run_to_bundle

    run = PlannedRun(
        submission=folder,
        gin_file=gin_config,
        root=root,
        participant_args=participant_args,
        domain=task.domain,
        task=task.name,
        seed=seed,
        options=options,
        bindings=tuple(bindings),
        flags=("--force",) if force else (),
    )
    bundle = run_to_bundle(run, progress_for(progress, f"{task.name}, seed {seed}"), launcher)
    from a2perf.api.results import read_run

    return read_run(bundle)


def _chosen(function: str, task: str | TaskInfo | None, env: str | None) -> TaskInfo:
    """Returns the task of a name, or the only task of an environment's id."""
    if (task is None) == (env is None):
        raise ConfigError(f"{function} was given task={task!r} and env={env!r}", hint="give one of the two")
    found = find_task(env if task is None else task)  # type: ignore[arg-type]
    of_domain = tasks(found.domain)
    if found.domain == ANY or found.name in of_domain.names:
        return found
    same = [task for task in of_domain if task.env_id == found.env_id]
    if len(same) == 1:
        return same[0]
    raise ConfigError(
        f"the environment {found.env_id} is {'not the one of a task' if not same else 'that of several tasks'}",
        hint=f"choose one of: {', '.join(task.name for task in same or of_domain)}",
    )


def _bindings(env_kwargs: Mapping[str, Any] | None, given: Sequence[str]) -> list[str]:
    bound = environment_bindings({} if env_kwargs is None else env_kwargs, "env_kwargs", 'env_kwargs={"gravity": -5.0}')
    return bound + ([given] if isinstance(given, str) else list(given))
