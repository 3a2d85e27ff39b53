"""Folders with three-line submissions, and the process that runs them as the evaluator does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
from gymnasium import spaces

from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from tests.made_submissions import TROT as TASK
from tests.participants import make_participant


class Standing(gymnasium.Env[Any, Any]):
    """Has the spaces that a model is made for, and nothing else."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}


def process(folder: Path, root_dir: Path, env_id: str = TASK, **variables: str) -> ParticipantProcess:
    """Returns the participant process of a submission, with the training run's artifacts in ``root_dir``."""
    return make_participant(
        folder,
        environment={"ROOT_DIR": str(root_dir), "A2PERF_ENV_ID": env_id, "A2PERF_ENV_KWARGS": "{}", **variables},
        logs=folder.parent / "logs",
    )


def answers(folder: Path, root_dir: Path, observations: list[Any], *, env_id: str = TASK, **args: str) -> list[Any]:
    """Loads the submission's policy and returns its action for each observation."""
    with process(folder, root_dir, env_id) as running:
        running.start()
        running.load_policy(args)
        return [running.infer(observation).action for observation in observations]
