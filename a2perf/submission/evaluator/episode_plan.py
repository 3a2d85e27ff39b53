"""The episodes of an evaluation: the scored ones, their repetitions, and those under perturbations.

The scored episodes come first and do not depend on the others. A run with repetitions therefore has the same scores
as one without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from a2perf.submission.settings import Submission


@dataclass(frozen=True)
class PlannedEpisode:
    """An episode to play.

    Attributes:
        seed: seed of ``env.reset``.
        task_index: position of the seed among the seeds of the run.
        repeat: number of the repetition, from 0.
        perturbation: name of the perturbation; empty for the environment as it is.
    """

    index: int
    seed: int
    task_index: int
    repeat: int = 0
    perturbation: str = ""

    @property
    def is_scored(self) -> bool:
        """Whether the scores of the run count it."""
        return self.repeat == 0 and not self.perturbation


def episode_plan(settings: Submission, seeds: Sequence[int]) -> list[PlannedEpisode]:
    """Returns all episodes in the order of play: every repetition of all seeds, then every perturbation."""
    parts = [(repeat, "") for repeat in range(settings.repeats)]
    parts += [(0, name) for name in settings.perturbations]
    return [
        PlannedEpisode(len(seeds) * part + number, seed, number, repeat, perturbation)
        for part, (repeat, perturbation) in enumerate(parts)
        for number, seed in enumerate(seeds)
    ]


def studies_reliability(settings: Submission) -> bool:
    """Returns whether the run plays more than the scored episodes."""
    return settings.repeats > 1 or bool(settings.perturbations)
