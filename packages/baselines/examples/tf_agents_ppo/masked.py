"""PPO where the actions are candidates: the distribution gives invalid ones no probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from a2perf_baselines import learning
from a2perf_baselines.candidates import CandidateEnv
from a2perf_baselines.learning.tf_agents.frameworks import seed_everything, tf  # before TF-Agents
from a2perf_baselines.tf_agents_candidates import record_candidates

from a2perf_baselines.learning.tf_agents.candidates import (  # isort: skip
    CandidateDistributionNetwork,
    CandidateNetwork,
    CandidateValueNetwork,
    Chooser,
)
from ppo import Parts, PPOSettings, train_ppo  # isort: skip
from tf_agents.specs import tensor_spec  # isort: skip
from tf_agents.trajectories import time_step as ts  # isort: skip


@dataclass(frozen=True)
class MaskedSettings(PPOSettings):
    """Parameters of the training; see ``PPOSettings`` for the others.

    Attributes:
        layers: widths of the hidden layers of the policy's network.
        value_width: of both layers of the value's network.
    """

    layers: tuple[int, ...] = (64, 64)
    value_width: int = 64


def train_masked(run: learning.TrainingRun, arguments: Mapping[str, Any]) -> None:
    """Trains on the run's environment.

    Args:
        run: the training; its settings are ``MaskedSettings``.
        arguments: of the domain's reader of candidates.
    """
    settings: MaskedSettings = run.settings
    seed_everything(run.seed)

    bare = run.env_maker()

    def make_env() -> CandidateEnv:
        return CandidateEnv(bare(), shaped=False, **arguments)

    example = make_env()
    run.require_spaces(example.observation_space, example.action_space)
    rows, features = example.observation_space.shape
    record_candidates(run.folder, run.env_id, rows, features, arguments)
    example.close()
    spec = tensor_spec.TensorSpec((rows, features), tf.float16, "observation")
    scores = CandidateNetwork(spec, settings.layers)
    actor, value = CandidateDistributionNetwork(spec, scores), CandidateValueNetwork(spec, settings.value_width)
    actor.create_variables()
    parts = Parts(
        make_env=make_env,
        actor=actor,
        value=value,
        act=lambda explore: Chooser.of(scores, draw=explore),
        observe=lambda rollout: None,
        layers={"actor": actor, "value": value},
    )
    action_spec = tensor_spec.BoundedTensorSpec((), tf.int64, 0, rows - 1, "action")
    train_ppo(run, parts, ts.time_step_spec(spec), action_spec)
