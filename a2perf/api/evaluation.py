"""``a2perf.evaluate`` and ``a2perf.train``: one run from Python, executed by the same process as ``a2perf run``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from a2perf.api.arguments import RunSettings, participant_arguments, run_options, whole_number
from a2perf.api.environments import TaskInfo, find_task, tasks
from a2perf.api.live_policy import LivePolicy, folder_name, live_policy
from a2perf.domains.registry import ANY
from a2perf.errors import ConfigError
from a2perf.experiments.planning import PlannedRun
from a2perf.runs.bundles.inventory import read_manifest
from a2perf.runs.bundles.layout import MANIFEST
from a2perf.submission.given_paths import submission_folder
from a2perf.submission.participant_gin import environment_bindings
from a2perf.submission.run_options import RunOptions

if TYPE_CHECKING:
    from a2perf.api.results import Result, Runs
    from a2perf.launch.local import LocalLauncher


class EvaluationSettings(RunSettings, total=False):
    """The arguments of ``evaluate`` that do not decide what it returns."""

    env: str | None
    env_kwargs: Mapping[str, Any] | None
    episodes: int | None
    seed: int
    name: str | None
    root_dir: str | os.PathLike[str] | None
    participant_args: Mapping[str, Any] | None
    gin_config: str
    bindings: Sequence[str]
    force: bool
    progress: bool | None


@overload
def evaluate(
    policy: list[Any] | tuple[Any, ...],
    task: str | TaskInfo | None = None,
    *,
    seeds: Iterable[int] | None = None,
    **settings: Unpack[EvaluationSettings],
) -> Runs: ...
@overload
def evaluate(
    policy: Any, task: str | TaskInfo | None = None, *, seeds: None = None, **settings: Unpack[EvaluationSettings]
) -> Result: ...
@overload
def evaluate(
    policy: Any, task: str | TaskInfo | None = None, *, seeds: Iterable[int], **settings: Unpack[EvaluationSettings]
) -> Runs: ...
def evaluate(
    policy: Any,
    task: str | TaskInfo | None = None,
    *,
    env: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    episodes: int | None = None,
    seed: int = 0,
    seeds: Iterable[int] | None = None,
    name: str | None = None,
    root_dir: str | os.PathLike[str] | None = None,
    participant_args: Mapping[str, Any] | None = None,
    gin_config: str = "inference.gin",
    bindings: Sequence[str] = (),
    force: bool = False,
    progress: bool | None = None,
    **options: Unpack[RunSettings],
) -> Result | Runs:
    """Evaluates a policy, or several trained policies of an algorithm, on a task and records the runs.

    The policy runs in a process and sandbox of a submission; the environment, the seeds and the clock stay in the
    evaluator's process. An object is pickled into a small submission folder. The same call on a finished run returns
    the recorded result; on an interrupted run it resumes. Several seeds are several runs, one after the other, with a
    new policy process each; from the second one on they start faster than in separate calls.

    Args:
        policy: one of

            * a function from one observation to an action; functools.partial, bound methods and lambdas too;
            * an object with ``infer_once(observation)``, ``act(observation)``, ``predict(observation)`` or
              ``__call__(observation)``, in this order; ``predict`` may return ``(action, state)``;
            * a model of Stable-Baselines3, with the normalization of its environment; a policy of TF-Agents;
            * a ``torch.nn.Module``: it gets tensors with a batch dimension of 1;
            * the folder of a submission, as a path;
            * a list of these: trained policies. Those with the same name and code are one algorithm, also if they are
              evaluated in separate calls, and its intervals are over trained policies. Several runs of one of them
              count as one. The code is the class, for a model also its architecture and settings; a function is code
              only.

        task: name of a task, such as ``"dog_pace"``, or the id of an environment; ``a2perf.tasks()`` lists them.
        env: id of an environment of Gymnasium, instead of ``task``: ``"CartPole-v1"``, ``"my_envs:Lander-v0"``.
        env_kwargs: arguments of the environment.
        episodes: number of scored episodes, per task with ``gin_config="generalization.gin"``; by default that of the
            gin file.
        seed: root seed of everything random in the run.
        seeds: root seeds of several runs, instead of ``seed``.
        name: name of the policy in results; by default the name of the function, class or folder.
        root_dir: folder of the run; with ``seeds`` the runs are in ``seed_<n>`` below it. By default
            ``runs/<name>-<hash>/<task>/seed_<n>`` below the working directory, with a hash of the policy's code and
            state; for a folder ``runs/<name>/<task>/seed_<n>``. With a list, or if it holds the run of another policy,
            task or seed, it stands for ``runs``.
        participant_args: arguments of ``load_policy``; the values become strings.
        gin_config: gin file: a path, or the name of a packaged file of the task.
        bindings: gin bindings that override the file, such as ``"Submission.num_inference_steps = 100"``.
        force: archive a recorded run and start again.
        progress: False shows nothing. By default a bar is shown on a terminal and in a notebook, and a line every few
            seconds elsewhere.
        **options: the options of every run, see ``RunSettings``: ``sandbox``, ``memory_limit_bytes`` and others.

    Returns:
        The result, read from the bundle: returns, latency, energy, memory, and the path of the bundle. With ``seeds``
        or a list the ``Runs`` of all of them.

    Raises:
        ConfigError: the task, an option or the configuration is not valid; nothing ran.
        SubmissionError: the folder is not a submission; nothing ran.
        UserError: the policy cannot be called with one observation or cannot be pickled; nothing ran.
        RunFailed: the policy failed, or the host did; ``bundle`` names the record of the run.
        KeyboardInterrupt: the run was interrupted; the note names the bundle. The same call resumes the run.

    Example:
        >>> import numpy as np
        >>> import a2perf
        >>> def stand(observation):
        ...     return np.zeros(12, np.float32)
        >>> result = a2perf.evaluate(
        ...     stand, task="synthetic_trot_v1", episodes=1, progress=False,
        ...     bindings=["Submission.num_inference_steps = 10"],
        ... )
        >>> result.mode, result.task, len(result.returns)
        ('inference', 'synthetic_trot_v1', 1)
    """
    found = _chosen("evaluate", task, env)
    chosen = run_options("evaluate", options)
    bound = _bindings(env_kwargs, bindings)
    if episodes is not None:
        mode = "generalization" if Path(gin_config).name.startswith("generalization") else "inference"
        bound.append(f"Submission.num_{mode}_episodes = {whole_number('episodes', episodes, least=1)}")
    from a2perf.launch.local import LocalLauncher

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


def train(
    submission: str | os.PathLike[str],
    task: str | TaskInfo | None = None,
    *,
    env: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
    root_dir: str | os.PathLike[str] | None = None,
    participant_args: Mapping[str, Any] | None = None,
    gin_config: str = "training.gin",
    bindings: Sequence[str] = (),
    force: bool = False,
    progress: bool | None = None,
    **options: Unpack[RunSettings],
) -> Result:
    """Runs ``train()`` of a submission on a task and measures its time, energy and memory.

    ``evaluate`` with the same folder, task and seed evaluates the trained policy.

    Args:
        submission: folder of the submission, with train.py and inference.py.
        task: name of a task, or the id of an environment.
        env: id of an environment of Gymnasium, instead of ``task``.
        env_kwargs: arguments of the environment.
        seed: root seed; ``train()`` gets a seed that derives from it as ``SEED``.
        root_dir: folder of the run; by default ``runs/<folder>/<task>/seed_<n>`` below the working directory. It stands
            for ``runs`` if it holds the run of another folder, task or seed.
        participant_args: arguments of ``train``; the values become strings.
        gin_config: gin file: a path, or the name of a packaged file of the task.
        bindings: gin bindings that override the file.
        force: archive a recorded run and start again.
        progress: False shows nothing; see ``evaluate``.
        **options: the options of every run, see ``RunSettings``.

    Returns:
        The result, read from the bundle: costs, and the learning curve if the submission wrote one.

    Raises:
        ConfigError: the task, an option or the configuration is not valid; nothing ran.
        SubmissionError: the folder is not a submission; nothing ran.
        RunFailed: ``train()`` failed, or the host did; ``bundle`` names the record of the run.
        KeyboardInterrupt: the run was interrupted; the note names the bundle. The same call resumes the run.

    Example:
        >>> import a2perf
        >>> result = a2perf.train("my_submission", task="dog_pace", seed=0)  # doctest: +SKIP
        >>> result.wall_clock_s  # doctest: +SKIP
        812.4
    """
    found = _chosen("train", task, env)
    if not isinstance(submission, str | os.PathLike):
        raise ConfigError(
            f"train needs the folder of a submission, not a {type(submission).__name__}",
            hint="give the path of a folder with train.py; `a2perf init` creates one",
        )
    from a2perf.launch.local import LocalLauncher

    root_seed, folder = whole_number("seed", seed, least=0), submission_folder(submission)
    root = Path("runs" if root_dir is None else root_dir).expanduser().absolute()
    below = root / folder.resolve().name / found.name / f"seed_{root_seed}"
    key = (folder.resolve().name, root_seed, found.domain, found.name)
    if root_dir is None or below.is_dir() or (not force and _is_taken(root, below, key, training=True)):
        root = below
    with closing(LocalLauncher()) as launcher:
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
