"""PPO that places macros, over the cells of the grid."""

from __future__ import annotations

from dataclasses import dataclass

from masked import MaskedSettings, train_masked

from a2perf_baselines import learning
from a2perf_baselines.tf_agents_candidates import contract

__all__ = ["Settings", "contract", "train"]


@dataclass(frozen=True)
class Settings(MaskedSettings):
    """Parameters of the training; see ``MaskedSettings``. Placements cost about 1 and differ by a few hundredths."""

    reward_offset: float = 1.0
    reward_scale: float = 20.0
    gamma: float = 1.0


def train(run: learning.TrainingRun) -> None:
    """Trains on the run's environment."""
    train_masked(run, {})
