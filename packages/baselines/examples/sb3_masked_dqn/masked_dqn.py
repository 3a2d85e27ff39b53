"""DQN (Mnih et al. 2015) as Stable-Baselines3 has it, over tables of candidates, choosing among the valid ones only.

Neither the greedy action nor the maximum in the learning target is ever an invalid one (see `scorer.py`), and
exploration draws from the valid ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scorer import candidate_values, make_scorer
from stable_baselines3 import DQN
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork


class CandidateQNetwork(QNetwork):
    """Scores the candidates one by one with the same weights; ``net_arch`` holds the width of both hidden layers."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.q_net = make_scorer(self.observation_space.shape[1], self.net_arch[0])

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return candidate_values(self.q_net, obs.float())


class CandidatePolicy(DQNPolicy):
    """The policy of such networks."""

    def make_q_net(self) -> CandidateQNetwork:
        arguments = self._update_features_extractor(self.net_args, features_extractor=None)
        return CandidateQNetwork(**arguments).to(self.device)


class MaskedDQN(DQN):
    """DQN that explores uniformly among valid candidates."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[Any], Any]:
        """Returns a random valid row with the probability of exploration, else the best one."""
        if not deterministic and np.random.random() < self.exploration_rate:
            tables = np.asarray(observation)
            rows = _random_valid(tables if tables.ndim == 3 else tables[None])
            return (rows if tables.ndim == 3 else rows[0]), state
        return self.policy.predict(observation, state, episode_start, deterministic)

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        if self.num_timesteps < learning_starts:
            rows = _random_valid(np.asarray(self._last_obs))
        else:
            rows, _ = self.predict(self._last_obs, deterministic=False)
        return rows, rows


def _random_valid(tables: NDArray[Any]) -> NDArray[np.int64]:
    """Draws a valid row of each table, from NumPy's global generator as Stable-Baselines3 does; it seeds that one."""
    return np.array([np.random.choice(np.flatnonzero(table[:, 0] > 0)) for table in tables], np.int64)
