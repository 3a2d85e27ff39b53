"""What ``a2perf.evaluate`` and ``a2perf.train`` share, with the imports that they leave until evaluators start."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2perf.api.arguments import RunSettings, participant_arguments, run_options, whole_number
from a2perf.api.environments import TaskInfo, find_task, tasks
from a2perf.api.evaluation_process import progress_for, run_to_bundle
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

if TYPE_CHECKING:
    from a2perf.api.results import Result


def planned(
    function: str,
    task: str | TaskInfo | None,
    env: str | None,
    env_kwargs: Mapping[str, Any] | None,
    gin_config: str,
    bindings: Sequence[str],
    participant_args: Mapping[str, Any] | None,
    force: bool,
    options: RunSettings,
    *,
    episodes: int | None = None,
) -> tuple[TaskInfo, Callable[..., PlannedRun]]:
    """Returns the task, and what plans a run on it from submission, root and seed; arguments as in ``evaluate``."""
    found, chosen = _chosen(function, task, env), run_options(function, options)
    bound = environment_bindings({} if env_kwargs is None else env_kwargs, "env_kwargs", 'env_kwargs={"gravity": -5.0}')
    bound += [bindings] if isinstance(bindings, str) else bindings
    if episodes is not None:
        mode = "generalization" if Path(gin_config).name.startswith("generalization") else "inference"
        bound.append(f"Submission.num_{mode}_episodes = {whole_number('episodes', episodes, least=1)}")
    plan = functools.partial(
        PlannedRun,
        gin_file=gin_config,
        participant_args=participant_arguments(participant_args),
        domain=found.domain,
        task=found.name,
        options=chosen,
        bindings=tuple(bound),
        flags=("--force",) if force else (),
    )
    return found, plan


def seeds_of(seed: int, seeds: Iterable[int] | None = None) -> list[int]:
    """Returns the root seeds."""
    if seeds is None:
        return [whole_number("seed", seed, least=0)]
    try:
        numbers = [whole_number("seeds", number, least=0) for number in seeds]
    except TypeError:
        numbers = []
    if not numbers or len(set(numbers)) < len(numbers):
        raise ConfigError(f"seeds={seeds!r} is not valid", hint="give different whole numbers, such as range(10)")
    return numbers


@contextmanager
def launcher_with(server: ForkServer | None, *, many: bool = False) -> Iterator[LocalLauncher]:
    """Opens a launcher that forks evaluators from the server; ``many``: several runs will follow."""
    with closing(LocalLauncher()) as launcher:
        launcher.server, launcher.expects_many = server, many
        yield launcher


def executed(launcher: LocalLauncher, run: PlannedRun, progress: bool | None) -> Result:
    """Runs the evaluator to its end and reads the result from the bundle."""
    bundle = run_to_bundle(run, progress_for(progress, f"{run.task}, seed {run.seed}"), launcher)
    from a2perf.api.results import read_run

    return read_run(bundle)


def named(policy: Any, name: str | None = None) -> tuple[Path | LivePolicy, str]:
    """Returns a submission's folder, or an object that can be written to one, and the name of its default folder."""
    if isinstance(policy, str | os.PathLike):
        folder = submission_folder(policy)
        return folder, folder.resolve().name if name is None else folder_name(name)
    live = live_policy(policy, name)
    return live, f"{live.name}-{live.digest}"


def place_of(policy: LivePolicy, root: Path) -> Path:
    """Returns the folder of a policy's submission in the folder of its run."""
    return root / f"submission-{policy.digest}"


def written(source: Path | LivePolicy, label: str, top: Path, root: Path | None) -> Path:
    """Returns the folder of a policy's submission, which is written if needed."""
    if isinstance(source, Path):
        return source
    return source.written_to(top / label / "submission" if root is None else place_of(source, root))


def is_taken(place: Path, below: Path, key: tuple[str, int, str, str], *, training: bool = False) -> bool:
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
