"""``a2perf.evaluate`` and ``a2perf.train``: one run from Python, executed by the same process as ``a2perf run``.

Both start the process that evaluators are forked from before they import what they need: the two import side by side.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from a2perf.errors import ConfigError
from a2perf.launch.fork_server import started

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from a2perf.api.arguments import EvaluationSettings, RunSettings
    from a2perf.api.environments import TaskInfo
    from a2perf.api.results import Result, Runs


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
    with started() as server:
        from a2perf.api import running

        given_task, plan = running.planned(
            "evaluate", task, env, env_kwargs, gin_config, bindings, participant_args, force, options, episodes=episodes
        )
        numbers = running.seeds_of(seed, seeds)
        several = isinstance(policy, list | tuple)
        given = [running.named(one, name) for one in (policy if several else [policy])]
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
            is_known = isinstance(source, Path) or running.place_of(source, root).is_dir()
            owner = (source.resolve() if isinstance(source, Path) else source).name if is_known else ""
            for number in numbers:
                place = root if seeds is None else root / f"seed_{number}"
                below = root / label / given_task.name / f"seed_{number}"
                if running.is_taken(place, below, (owner, number, given_task.domain, given_task.name)):
                    root = None
                    break
        folders = [(running.written(source, label, top, root), top / label) for source, label in given]
        with running.launcher_with(server, many=len(numbers) * len(folders) > 1) as launcher:
            if seeds is None and not several:
                folder, default = folders[0]
                place = default / given_task.name / f"seed_{numbers[0]}" if root is None else root
                return running.executed(launcher, plan(submission=folder, root=place, seed=numbers[0]), progress)
            from a2perf.api.results import Runs

            return Runs(
                running.executed(
                    launcher,
                    plan(submission=folder, root=(root or default / given_task.name) / f"seed_{number}", seed=number),
                    progress,
                )
                for folder, default in folders
                for number in numbers
            )


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
    with started() as server:
        from a2perf.api import running

        given_task, plan = running.planned(
            "train", task, env, env_kwargs, gin_config, bindings, participant_args, force, options
        )
        if not isinstance(submission, str | os.PathLike):
            raise ConfigError(
                f"train needs the folder of a submission, not a {type(submission).__name__}",
                hint="give the path of a folder with train.py; `a2perf init` creates one",
            )
        (number,), (folder, name) = running.seeds_of(seed), running.named(submission)
        root = Path("runs" if root_dir is None else root_dir).expanduser().absolute()
        below = root / name / given_task.name / f"seed_{number}"
        key = (name, number, given_task.domain, given_task.name)
        if root_dir is None or below.is_dir() or (not force and running.is_taken(root, below, key, training=True)):
            root = below
        with running.launcher_with(server) as launcher:
            return running.executed(launcher, plan(submission=folder, root=root, seed=number), progress)
