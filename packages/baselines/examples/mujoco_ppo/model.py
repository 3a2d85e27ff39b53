"""Policy and value of a robot on PyTorch; the value also sees what only a simulation knows."""

from __future__ import annotations

from a2perf_baselines.learning.torch import frameworks  # noqa: F401  # isort: skip  reports what is missing

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from actor import BOUND, Actor
from torch import Tensor, nn

from a2perf_baselines.learning.torch.ppo import ActorCritic, RunningNormalization
from a2perf_baselines.quadruped_locomotion.residual_control import ResidualControl

MOTORS = 12


class RobotPolicy(ActorCritic):
    """A Gaussian policy with a learned deviation, and an asymmetric value (Pinto et al. 2017).

    Args:
        seen: numbers that the policy sees.
        privileged: further numbers that the value sees.
        widths: of the hidden layers.
        log_std: logarithm of the first standard deviation.
        seed: of the first weights.
    """

    def __init__(self, seen: int, privileged: int, widths: Sequence[int], log_std: float, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.normalize = RunningNormalization(seen, BOUND)
        self.normalize_privileged = RunningNormalization(privileged, BOUND)
        self.actor = _perceptron(seen, widths, MOTORS, last_gain=0.01)
        self.critic = _perceptron(seen + privileged, widths, 1, last_gain=1.0)
        self.log_std = nn.Parameter(torch.full((MOTORS,), log_std))

    def value(self, observations: dict[str, Tensor]) -> Tensor:
        """See ``ActorCritic``."""
        seen = torch.cat(
            [self.normalize(observations["policy"]), self.normalize_privileged(observations["privileged"])], dim=-1
        )
        return self.critic(seen).squeeze(-1)

    def act(self, observations: dict[str, Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """See ``ActorCritic``."""
        mean = self.actor(self.normalize(observations["policy"]))
        noise = torch.randn(mean.shape, generator=generator)
        actions = mean + self.log_std.exp() * noise
        return actions, self._log_probability(noise), self.value(observations)

    def evaluate(self, observations: dict[str, Tensor], actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``ActorCritic``."""
        mean = self.actor(self.normalize(observations["policy"]))
        noise = (actions - mean) / self.log_std.exp()
        entropy = (self.log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum().expand(len(actions))
        return self._log_probability(noise), entropy, self.value(observations)

    def see(self, observations: dict[str, Tensor]) -> None:
        """Adds observations, shape (..., n), to the statistics."""
        self.normalize.see(observations["policy"].flatten(0, -2))
        if observations["privileged"].shape[-1] > 0:
            self.normalize_privileged.see(observations["privileged"].flatten(0, -2))

    def exported(self, control: ResidualControl) -> Actor:
        """Returns the actor for NumPy."""
        layers = [
            (layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy())
            for layer in self.actor
            if isinstance(layer, nn.Linear)
        ]
        deviation = np.sqrt(self.normalize.variance.numpy() + np.float32(1e-8))
        return Actor(self.normalize.mean.numpy().copy(), deviation, layers, control)

    def _log_probability(self, noise: Tensor) -> Tensor:
        return -(0.5 * noise.square() + self.log_std + 0.5 * math.log(2.0 * math.pi)).sum(-1)


def _perceptron(inputs: int, widths: Sequence[int], outputs: int, last_gain: float) -> nn.Sequential:
    sizes = [inputs, *widths, outputs]
    layers: list[nn.Module] = []
    for number, (size, following) in enumerate(itertools.pairwise(sizes)):
        layer = nn.Linear(size, following)
        last = number == len(widths)
        nn.init.orthogonal_(layer.weight, last_gain if last else math.sqrt(2.0))
        nn.init.zeros_(layer.bias)
        layers += [layer] if last else [layer, nn.ELU()]
    return nn.Sequential(*layers)
