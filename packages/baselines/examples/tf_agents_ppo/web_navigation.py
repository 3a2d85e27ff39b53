"""PPO that fills forms, over pairs of a profile row and an element."""

from __future__ import annotations

from dataclasses import dataclass

from masked import MaskedSettings, train_masked

from a2perf_baselines import learning
from a2perf_baselines.tf_agents_candidates import contract

__all__ = ["Settings", "contract", "train"]


@dataclass(frozen=True)
class Settings(MaskedSettings):
    """Parameters of the training; see ``MaskedSettings`` for the others.

    Attributes:
        elements, fields: elements and profile rows that a table holds, the row without a value included.
        per_key: controls that a profile key is paired with.
    """

    elements: int = 64
    fields: int = 5
    per_key: int = 8


def train(run: learning.TrainingRun) -> None:
    """Trains on the run's environment."""
    settings: Settings = run.settings
    limits = {"elements": settings.elements, "fields": settings.fields, "per_key": settings.per_key}
    train_masked(run, limits)
