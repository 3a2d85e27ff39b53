"""Trains PPO of Stable-Baselines3 with the hyperparameters that RL Baselines3 Zoo published for the environment."""

from __future__ import annotations

import os
from pathlib import Path

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule

ZOO = {
    "CartPole-v1": (100_000, 8, {
        "n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8,
        "learning_rate": LinearSchedule(1e-3, 0.0, 1.0), "clip_range": LinearSchedule(0.2, 0.0, 1.0),
    }),
    "LunarLander-v3": (1_000_000, 16, {
        "n_steps": 1024, "batch_size": 64, "n_epochs": 4, "gamma": 0.999, "gae_lambda": 0.98, "ent_coef": 0.01,
    }),
}  # fmt: skip
"""Steps, environments and arguments of PPO by environment."""


def train(**participant_args: str) -> None:
    """Trains an agent and writes ``model.zip`` to the artifacts."""
    name, seed = os.environ["A2PERF_ENV_ID"], int(os.environ["SEED"]) % 2**32
    steps, count, arguments = ZOO[name]
    model = PPO("MlpPolicy", make_vec_env(name, count, seed=seed), seed=seed, device="cpu", **arguments)
    model.learn(steps).save(Path(os.environ["A2PERF_ARTIFACTS"], "model.zip"))
