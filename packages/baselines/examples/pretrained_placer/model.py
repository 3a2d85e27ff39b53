"""The network in PyTorch: a score per cell, and a value from the summary of the episode."""

from __future__ import annotations

from a2perf_baselines.learning.torch import frameworks  # noqa: F401  # isort: skip  raises MissingDependency

import numpy as np
import torch
from scorer import NAMES, CellScorer
from torch import Tensor, nn

from a2perf_baselines.learning.torch.ppo import ActorCritic
from a2perf_placement.features.features import FEATURES, SUMMARY

_LOWEST = -1e9


class PlacerModel(ActorCritic):
    """Policy over the feasible cells, and value.

    Args:
        width: of the hidden layers.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(len(FEATURES), width)
        self.second = nn.Linear(width, width)
        self.third = nn.Linear(width, 1, bias=False)
        self.skip = nn.Linear(len(FEATURES), 1, bias=False)
        self.valuer = nn.Sequential(
            nn.Linear(len(SUMMARY), 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
        )
        # All feasible cells have the same chance at first.
        nn.init.zeros_(self.third.weight)
        nn.init.zeros_(self.skip.weight)

    def _log_chances(self, observations: dict[str, Tensor]) -> Tensor:
        mask = observations["mask"]
        rows = observations["table"][mask]
        hidden = torch.relu(self.second(torch.relu(self.first(rows))))
        scores = torch.full(mask.shape, _LOWEST)
        scores[mask] = (self.third(hidden) + self.skip(rows)).squeeze(-1)
        return torch.log_softmax(scores, dim=1)

    def value(self, observations: dict[str, Tensor]) -> Tensor:
        """Returns the values."""
        values: Tensor = self.valuer(observations["summary"]).squeeze(-1)
        return values

    def act(self, observations: dict[str, Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draws a feasible cell for each episode."""
        chances = self._log_chances(observations)
        actions = torch.multinomial(chances.exp(), 1, generator=generator)
        return actions.squeeze(1), chances.gather(1, actions).squeeze(1), self.value(observations)

    def evaluate(self, observations: dict[str, Tensor], actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns log probabilities, entropies and values."""
        chances = self._log_chances(observations)
        entropies = -(chances.exp() * chances.clamp(min=-50.0)).sum(dim=1)
        return chances.gather(1, actions[:, None]).squeeze(1), entropies, self.value(observations)

    def scorer(self) -> CellScorer:
        """Returns the policy as NumPy arrays."""
        tensors = (
            self.first.weight, self.first.bias, self.second.weight, self.second.bias, self.third.weight,
            self.skip.weight,
        )  # fmt: skip
        return CellScorer({name: tensor.detach().numpy().copy() for name, tensor in zip(NAMES, tensors, strict=True)})

    def load_scorer(self, scorer: CellScorer) -> None:
        """Takes over the policy of a scorer.

        Raises:
            ValueError: its layers have another width.
        """
        tensors = (
            self.first.weight, self.first.bias, self.second.weight, self.second.bias, self.third.weight,
            self.skip.weight,
        )  # fmt: skip
        with torch.no_grad():
            for name, tensor in zip(NAMES, tensors, strict=True):
                array = scorer.arrays[name]
                if tensor.shape != array.shape:
                    raise ValueError(f"{name} has shape {array.shape}, the model {tuple(tensor.shape)}; set width")
                tensor.copy_(torch.from_numpy(np.array(array)))
