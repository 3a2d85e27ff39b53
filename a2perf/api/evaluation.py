"""``a2perf.evaluate`` and ``a2perf.train``: one run from Python, executed by the same process as ``a2perf run``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from a2perf.api.arguments import RunSettings, participant_arguments, run_options, whole_number
from a2perf.api.environments import TaskInfo, find_task, tasks
from a2perf.api.live_policy import folder_name, live_policy
from a2perf.domains.registry import ANY
from a2perf.errors import ConfigError
from a2perf.experiments.evaluator_run import SingleRun
from a2perf.submission.participant_gin import environment_bindings
from a2perf.submission.run_options import RunOptions

if TYPE_CHECKING:
    from a2perf.api.results import Result, Runs
    from a2perf.launch.local import LocalLauncher


@overload
def evaluate(
    policy: Any, task: str | TaskInfo | None = None, *, env: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None, episodes: int | None = None, seed: int = 0, seeds: None = None,
    name: str | None = None, root_dir: str | os.PathLike[str] | None = None,
    participant_args: Mapping[str, Any] | None = None, gin_config: str = "inference.gin",
    bindings: Sequence[str] = (), force: bool = False, progress: bool | None = None, **options: Unpack[RunSettings],
) -> Result: ...  # fmt: skip
@overload
def evaluate(
    policy: Any, task: str | TaskInfo | None = None, *, seeds: Iterable[int], env: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None, episodes: int | None = None,
    name: str | None = None, root_dir: str | os.PathLike[str] | None = None,
    participant_args: Mapping[str, Any] | None = None, gin_config: str = "inference.gin",
    bindings: Sequence[str] = (), force: bool = False, progress: bool | None = None, **options: Unpack[RunSettings],
) -> Runs: ...  # fmt: skip
def evaluate(
    policy: Any, task: str | TaskInfo | None = None, *, env: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None, episodes: int | None = None, seed: int = 0,
    seeds: Iterable[int] | None = None, name: str | None = None, root_dir: str | os.PathLike[str] | None = None,
    participant_args: Mapping[str, Any] | None = None, gin_config: str = "inference.gin",
    bindings: Sequence[str] = (), force: bool = False, progress: bool | None = None, **options: Unpack[RunSettings],
) -> Result | Runs:  # fmt: skip
    """Evaluates a policy on a task and records the run.

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
            * the folder of a submission, as a path.

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
            state; for a folder ``runs/<name>/<task>/seed_<n>``.
        participant_args: arguments of ``load_policy``; the values become strings.
        gin_config: gin file: a path, or the name of a packaged file of the task.
        bindings: gin bindings that override the file, such as ``"Submission.num_inference_steps = 100"``.
        force: archive a recorded run and start again.
        progress: False shows nothing. By default a bar is shown on a terminal and in a notebook, and a line every few
            seconds elsewhere.
        **options: the options of every run, see ``RunSettings``: ``sandbox``, ``memory_limit_bytes`` and others.

    Returns:
        The result, read from the bundle: returns, latency, energy, memory, and the path of the bundle. With ``seeds``
        the ``Runs`` of all of them.

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
    if (task is None) == (env is None):
        raise ConfigError(f"evaluate was given task={task!r} and env={env!r}", hint="give one of the two")
    found = _task(task or env or "")
    chosen = run_options("evaluate", options)
    bound = environment_bindings({} if env_kwargs is None else env_kwargs, "env_kwargs", 'env_kwargs={"gravity": -5.0}')
    bound += _bindings(bindings)
    if episodes is not None:
        mode = "generalization" if Path(gin_config).name.startswith("generalization") else "inference"
        bound.append(f"Submission.num_{mode}_episodes = {whole_number('episodes', episodes, least=1)}")
    from a2perf.api.results import Runs
    from a2perf.launch.local import LocalLauncher

    numbers = [whole_number("seed", seed, least=0)] if seeds is None else _seeds(seeds)
    common: dict[str, Any] = {
        "task": found, "participant_args": participant_arguments(participant_args), "gin_config": gin_config,
        "bindings": bound, "force": force, "progress": progress, "options": chosen,
    }  # fmt: skip
    root = None if root_dir is None else Path(root_dir).expanduser().absolute()
    if isinstance(policy, str | os.PathLike):
        folder = _existing(Path(policy).expanduser())
        default = Path.cwd() / "runs" / (folder.resolve().name if name is None else folder_name(name))
    else:
        live = live_policy(policy, name)
        default = Path.cwd() / "runs" / f"{live.name}-{live.digest}"
        folder = live.written_to(default / "submission" if root is None else root / f"submission-{live.digest}")
    parent = default / found.name if root is None else root
    with closing(LocalLauncher()) as launcher:
        if seeds is None:
            return _run(launcher, folder, root or parent / f"seed_{numbers[0]}", seed=numbers[0], **common)
        launcher.expects_many = len(numbers) > 1
        return Runs(_run(launcher, folder, parent / f"seed_{number}", seed=number, **common) for number in numbers)


def train(
    submission: str | os.PathLike[str],
    task: str | TaskInfo,
    *,
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
        seed: root seed; ``train()`` gets a seed that derives from it as ``SEED``.
        root_dir: folder of the run; by default ``runs/<folder>/<task>/seed_<n>`` below the working directory.
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
    found = _task(task)
    if not isinstance(submission, str | os.PathLike):
        raise ConfigError(
            f"train needs the folder of a submission, not a {type(submission).__name__}",
            hint="give the path of a folder with train.py; `a2perf init` creates one",
        )
    from a2perf.launch.local import LocalLauncher

    root_seed, folder = whole_number("seed", seed, least=0), _existing(Path(submission).expanduser())
    default = Path.cwd() / "runs" / folder.resolve().name / found.name / f"seed_{root_seed}"
    root = default if root_dir is None else Path(root_dir).expanduser().absolute()
    with closing(LocalLauncher()) as launcher:
        return _run(
            launcher, folder, root, task=found, seed=root_seed,
            participant_args=participant_arguments(participant_args), gin_config=gin_config,
            bindings=_bindings(bindings), force=force, progress=progress, options=run_options("train", options),
        )  # fmt: skip


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "does not exist"
        raise ConfigError(
            f"the submission folder {folder} {kind}", hint="give the folder that contains train.py and inference.py"
        )
    return folder


def _seeds(given: Iterable[int]) -> list[int]:
    try:
        numbers = [whole_number("seeds", number, least=0) for number in given]
    except TypeError:
        numbers = []
    if not numbers or len(set(numbers)) < len(numbers):
        raise ConfigError(f"seeds={given!r} is not valid", hint="give different whole numbers, such as range(10)")
    return numbers


def _run(
    launcher: LocalLauncher, folder: Path, root: Path, *, task: TaskInfo, seed: int, participant_args: str,
    gin_config: str, bindings: Sequence[str], force: bool, progress: bool | None, options: RunOptions,
) -> Result:  # fmt: skip
    from a2perf.api.evaluation_process import progress_for, run_to_bundle
    from a2perf.api.results import read_run

    single = SingleRun(
        submission=folder, gin_config=os.fspath(gin_config), root=str(root), participant_args=participant_args,
        domain=task.domain, task=task.name, seed=seed, options=options, bindings=tuple(bindings), force=force,
    )  # fmt: skip
    return read_run(run_to_bundle(single, progress_for(progress, f"{task.name}, seed {seed}"), launcher))


def _task(given: str | TaskInfo) -> TaskInfo:
    """Returns the task of a name, or the only task of an environment's id."""
    found = find_task(given)
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


def _bindings(given: Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)
