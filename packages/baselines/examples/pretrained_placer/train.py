"""Trains the placer: on generated designs (pre-training), or on the task's design (fine-tuning, the default).

Arguments (``--participant-args time_budget_s=600,method=ppo``): the fields of `Settings`; ``config=NAME`` names a file
in ``configs``. It ends after ``total_steps`` or ``time_budget_s``; the same command resumes from the last checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from designs import training_designs, validation_designs
from evolution import Evolution, learn
from placements import BestPlacement, generated_task, starting_policy

from a2perf_baselines import learning
from a2perf_placement.features.batch import PlacementTask


@dataclass(frozen=True)
class Settings:
    """Parameters of the training run.

    Attributes:
        method: ``"ppo"``, or ``"evolution"`` of the policy's linear part on generated designs.
        population: policies of a generation of the evolution.
        designs_per_generation: designs that each of them places.
        deviation: of the weights in the first generation.
        designs: generated designs to learn from; 0: the design of the run's environment.
        start: the policy to begin with: ``"none"`` draws feasible cells evenly, ``"greedy"`` is near the greedy placer,
            ``"shipped"``, or the path of a ``weights.npz``.
        episodes: episodes at the same time.
        width: of the hidden layers.
        reward_scale: factor from cost to reward.
        evaluate_every: updates between two evaluations, each with a checkpoint.
        validation_designs: generated designs of an evaluation of a pre-training run.
        total_steps: macros placed.
        horizon, epochs, minibatches, gamma, gae_lambda, clip_range, learning_rate, min_learning_rate,
            max_learning_rate, target_divergence, value_weight, entropy_weight, last_entropy_weight,
            max_gradient_norm: of PPO, see `PPOSettings`.
        time_budget_s: wall-clock seconds of this call.
        processor_budget_s: processor seconds of this call, its preparation included.
    """

    method: str = "evolution"
    population: int = 20
    designs_per_generation: int = 4
    deviation: float = 0.15
    designs: int = 0
    start: str = "shipped"
    episodes: int = 32
    width: int = 32
    reward_scale: float = 20.0
    evaluate_every: int = 10
    validation_designs: int = 8
    horizon: int = 64
    epochs: int = 3
    minibatches: int = 8
    gamma: float = 1.0
    gae_lambda: float = 0.97
    clip_range: float = 0.2
    learning_rate: float = 1e-3
    min_learning_rate: float = 1e-5
    max_learning_rate: float = 3e-3
    target_divergence: float | None = 0.01
    value_weight: float = 0.5
    entropy_weight: float = 0.0
    last_entropy_weight: float = 0.0
    max_gradient_norm: float = 1.0
    total_steps: int = learning.may_change(1_000_000_000)
    time_budget_s: float = learning.may_change(600.0)
    processor_budget_s: float = learning.may_change(float("inf"))


def train(**participant_args: str) -> None:
    """Trains until the budget is used up.

    Artifacts: ``weights.npz``, the policy with the best evaluation; ``placement.json``, the best placement found while
    fine-tuning; ``progress.csv``; checkpoints.
    """
    settings = learning.read_settings(Settings, participant_args, Path(__file__).parent)
    with learning.begin(settings) as run:
        if settings.method == "evolution":
            _evolve(run, settings)
        else:
            from ppo_training import Training  # needs PyTorch

            Training(run, settings).learn()


def _evolve(run: learning.TrainingRun, settings: Settings) -> None:
    best, start = BestPlacement(run.folder), starting_policy(settings.start, settings.width)
    designs: list = training_designs(settings.designs)
    validation: list = validation_designs(settings.validation_designs)
    if settings.designs:
        search = Evolution(run, settings, start, designs, validation, generated_task, lambda cost, cells: None)
    else:
        own = PlacementTask(run.make_env())

        def keep(cost: float, cells: Sequence[int]) -> None:
            best.offer(cost, own.macros, cells)

        search = Evolution(run, settings, start, [own], [own], lambda task: task, keep)
    learn(run, search)


if __name__ == "__main__":
    learning.main(train)
