"""The pairs of a smoke test: the cross product without pairs of incompatible spaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from a2perf.errors import UserError, did_you_mean
from a2perf.experiments.needs import find_submission

ACTION_SPACES: dict[str, tuple[str, ...]] = {
    "a2c": ("Box", "Discrete", "MultiDiscrete", "MultiBinary"),
    "ddpg": ("Box",),
    "dqn": ("Discrete",),
    "ppo": ("Box", "Discrete", "MultiDiscrete", "MultiBinary"),
    "sac": ("Box",),
    "td3": ("Box",),
}
"""Action spaces that each algorithm of Stable-Baselines3 supports."""

OBSERVATION_SPACES = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict")
"""Observation spaces that its policies support."""

PHASES = ("construct", "train", "record", "reload")


@dataclass(frozen=True)
class SmokePair:
    """One algorithm or submission in one environment.

    Attributes:
        what: name of the algorithm, or of the submission's folder.
        env: environment id, or task of a submission.
        submission: the folder; None for an algorithm.
        domain: domain of a submission's task.
        env_id: environment id of a submission's task.
        excluded: why the pair is not tested; empty if it is.
    """

    what: str
    env: str
    submission: Path | None = None
    domain: str = ""
    env_id: str = ""
    excluded: str = ""

    @property
    def key(self) -> str:
        """Name of the pair for files and lists."""
        return f"{self.what}-{self.env}".replace("/", "_")


def plan(algorithms: Sequence[str], submissions: Sequence[Path], envs: Sequence[str]) -> list[SmokePair]:
    """Returns every pair, including excluded ones.

    Raises:
        UserError: an algorithm, submission or environment is unknown.
    """
    for name in algorithms:
        if name not in ACTION_SPACES:
            raise UserError(
                f"{name!r} is not an algorithm of the smoke test{did_you_mean(name, ACTION_SPACES)}",
                hint=f"choose one of: {', '.join(ACTION_SPACES)}",
            )
    submissions = [find_submission(folder) for folder in submissions]
    for folder in submissions:
        if not folder.is_dir():
            raise UserError(f"the submission {folder} is not a folder", hint="check --submissions")
    pairs = []
    for env in envs:
        domain, task, env_id = _task_of(env)
        action, observation = ("", "")
        if algorithms:
            action, observation = _spaces_of(env)
        for name in algorithms:
            reason = ""
            if action not in ACTION_SPACES[name]:
                reason = f"{name} cannot act in a {action} space"
            elif observation not in OBSERVATION_SPACES:
                reason = f"{name} cannot read a {observation} space"
            pairs.append(SmokePair(name, env, excluded=reason))
        for folder in submissions:
            reason = "" if domain else f"{env} does not belong to a domain of a2perf"
            pairs.append(SmokePair(folder.resolve().name, task or env, folder, domain, env_id, reason))
    return pairs


def _spaces_of(env: str) -> tuple[str, str]:
    """Returns the kinds of the action and of the observation space."""
    import gymnasium

    from a2perf.experiments.runners.environments import resolve_env_id

    made = gymnasium.make(resolve_env_id(env)[0], disable_env_checker=True)
    try:
        return type(made.action_space).__name__, type(made.observation_space).__name__
    finally:
        made.close()


def _task_of(env: str) -> tuple[str, str, str]:
    """Returns domain, task and id for a task's name or an environment's id; ``""`` for unknown ones."""
    from a2perf.domains.registry import domains

    for domain in domains().values():
        for task in domain.tasks:
            if env in (task.name, task.env_id):
                return domain.name, task.name, task.env_id
    return "", "", ""
