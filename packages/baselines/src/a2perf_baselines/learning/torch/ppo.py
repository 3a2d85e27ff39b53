"""PPO over a batch of environments: collection into preallocated tensors, and updates in large minibatches.

Stable-Baselines3 handles each environment of a batch in Python; here one call steps all of them, and the learner never
loops over them. The algorithm is that of Schulman et al. 2017 (https://arxiv.org/abs/1707.06347) with generalized
advantage estimation (https://arxiv.org/abs/1506.02438) and a learning rate that follows the divergence of the policy.
"""

from __future__ import annotations

from a2perf_baselines.learning.torch import frameworks  # noqa: F401  # isort: skip  raises MissingDependency

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from a2perf_baselines.learning.batch import BatchEnvironment, Observations


class ActorCritic(nn.Module):  # type: ignore[misc]  # mypy does not follow the library
    """A policy and a value; subclasses define the three methods."""

    def value(self, observations: dict[str, Tensor]) -> Tensor:
        """Returns values, shape (n,)."""
        raise NotImplementedError

    def act(self, observations: dict[str, Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draws actions.

        Returns:
            Actions, their log probabilities (n,), and values (n,).
        """
        raise NotImplementedError

    def evaluate(self, observations: dict[str, Tensor], actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns log probabilities of the actions, entropies, and values, each of shape (n,)."""
        raise NotImplementedError


@dataclass(frozen=True)
class PPOSettings:
    """Parameters of the algorithm.

    Attributes:
        horizon: steps of each environment between two updates.
        clip_range: of the probability ratio.
        learning_rate: first learning rate.
        target_divergence: the rate falls where an update diverges by more than twice this (nats), and rises where it
            diverges by less than half; None: the rate stays.
        rate_per_update: adapt the rate once per update, by the divergence of its last pass, instead of after each
            minibatch. Small batches need it: within an update the divergence cannot fall again, and the rate would.
    """

    horizon: int = 24
    epochs: int = 4
    minibatches: int = 4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    learning_rate: float = 1e-3
    min_learning_rate: float = 1e-5
    max_learning_rate: float = 3e-3
    target_divergence: float | None = 0.01
    rate_per_update: bool = False
    value_weight: float = 0.5
    entropy_weight: float = 0.0
    last_entropy_weight: float = 0.0
    max_gradient_norm: float = 1.0


class Update(NamedTuple):
    """Averages over one update.

    Attributes:
        divergence: estimate of the Kullback-Leibler divergence from the collecting policy, nats.
        learning_rate: after the update.
        clipped: share of probability ratios outside the clip range.
    """

    policy_loss: float
    value_loss: float
    entropy: float
    divergence: float
    learning_rate: float
    clipped: float


class PPO:
    """The learner: ``collect``, then ``update``, until the budget is used.

    Args:
        settings: parameters.
        seed: of actions, minibatches and environments. The same seed gives the same weights on one machine.
    """

    def __init__(self, environment: BatchEnvironment, model: ActorCritic, settings: PPOSettings, seed: int) -> None:
        self.environment, self.model, self.settings = environment, model, settings
        self.steps = 0
        self.optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, eps=1e-5)
        self.generator = torch.Generator().manual_seed(seed)
        self.learning_rate = settings.learning_rate
        self._observations = _tensors(environment.reset(seed))
        shape = (settings.horizon, environment.count)
        self._stored = {
            name: torch.empty((*shape, *value.shape[1:]), dtype=value.dtype)
            for name, value in self._observations.items()
        }
        self._actions: Tensor | None = None
        self._log_probabilities, self._values, self._rewards = (torch.empty(shape) for _ in range(3))
        self._ended = torch.empty(shape)
        self._advantages = torch.empty(shape)

    @property
    def batch_size(self) -> int:
        """Environment steps between two updates."""
        return self.settings.horizon * self.environment.count

    @property
    def stored(self) -> dict[str, Tensor]:
        """The observations of the last collection, shape (horizon, n, ...); the next one overwrites them."""
        return self._stored

    def begin_episodes(self, seed: int) -> None:
        """Starts a new episode in each environment."""
        self._observations = _tensors(self.environment.reset(seed))

    @torch.no_grad()
    def collect(self) -> None:
        """Steps each environment ``horizon`` times and estimates the advantages."""
        model, settings = self.model, self.settings
        for step in range(settings.horizon):
            observations = self._observations
            for name, value in observations.items():
                self._stored[name][step] = value
            actions, log_probabilities, values = model.act(observations, self.generator)
            if self._actions is None:
                self._actions = torch.empty((settings.horizon, *actions.shape), dtype=actions.dtype)
            self._actions[step] = actions
            self._log_probabilities[step] = log_probabilities
            self._values[step] = values
            done = self.environment.step(actions.numpy())
            rewards = torch.from_numpy(done.rewards).clone()
            if done.final_observations is not None and done.final_indices is not None and len(done.final_indices):
                # A cut-off episode would have earned more; the value of its last state stands for that.
                last = model.value(_tensors(done.final_observations))
                rewards[torch.from_numpy(done.final_indices)] += settings.gamma * last
            self._rewards[step] = rewards
            self._ended[step] = torch.from_numpy(done.terminated | done.truncated)
            self._observations = _tensors(done.observations)
        following = model.value(self._observations)
        advantage = torch.zeros_like(following)
        for step in range(settings.horizon - 1, -1, -1):
            remains = 1.0 - self._ended[step]
            error = self._rewards[step] + settings.gamma * following * remains - self._values[step]
            advantage = error + settings.gamma * settings.gae_lambda * remains * advantage
            self._advantages[step] = advantage
            following = self._values[step]
        self.steps += self.batch_size

    def update(self, progress: float = 0.0) -> Update:
        """Improves the policy with the collected steps.

        Args:
            progress: share of the budget that is used, for the weight of the entropy.
        """
        settings, model = self.settings, self.model
        assert self._actions is not None
        flat = {name: value.flatten(0, 1) for name, value in self._stored.items()}
        actions, old = self._actions.flatten(0, 1), self._log_probabilities.flatten()
        advantages = self._advantages.flatten()
        returns = advantages + self._values.flatten()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        weight = settings.entropy_weight + progress * (settings.last_entropy_weight - settings.entropy_weight)
        size = self.batch_size // settings.minibatches
        sums = np.zeros(5)
        count = 0
        divergences: list[float] = []
        for _ in range(settings.epochs):
            divergences.clear()
            order = torch.randperm(self.batch_size, generator=self.generator)
            for part in range(settings.minibatches):
                rows = order[part * size : (part + 1) * size]
                log_probabilities, entropy, values = model.evaluate(
                    {name: value[rows] for name, value in flat.items()}, actions[rows]
                )
                change = log_probabilities - old[rows]
                ratio = change.exp()
                gain = advantages[rows]
                clipped = ratio.clamp(1.0 - settings.clip_range, 1.0 + settings.clip_range)
                policy_loss = -torch.minimum(ratio * gain, clipped * gain).mean()
                value_loss = (values - returns[rows]).square().mean()
                loss = policy_loss + settings.value_weight * value_loss - weight * entropy.mean()
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), settings.max_gradient_norm)
                with torch.no_grad():
                    # the estimator with the least variance of http://joschu.net/blog/kl-approx.html
                    divergence = float((ratio - 1.0 - change).mean())
                    outside = float((ratio != clipped).float().mean())
                divergences.append(divergence)
                if not settings.rate_per_update:
                    self._follow(divergence)
                self.optimizer.step()
                sums += (policy_loss.item(), value_loss.item(), entropy.mean().item(), divergence, outside)
                count += 1
        if settings.rate_per_update:
            self._follow(float(np.mean(divergences)))
        policy, value, mean_entropy, mean_divergence, share = (sums / count).tolist()
        return Update(policy, value, mean_entropy, mean_divergence, self.learning_rate, share)

    def _follow(self, divergence: float) -> None:
        """Adapts the learning rate to the divergence of a minibatch or an update."""
        settings = self.settings
        if settings.target_divergence is not None:
            if divergence > 2.0 * settings.target_divergence:
                self.learning_rate = max(self.learning_rate / 1.5, settings.min_learning_rate)
            elif 0.0 < divergence < 0.5 * settings.target_divergence:
                self.learning_rate = min(self.learning_rate * 1.5, settings.max_learning_rate)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate

    def state(self) -> dict[str, Any]:
        """Returns everything that a resumed training run needs, for ``torch.save``."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "learning_rate": self.learning_rate,
            "steps": self.steps,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from what ``state`` returned; call ``begin_episodes`` next."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.learning_rate = float(state["learning_rate"])
        self.steps = int(state["steps"])


class RunningNormalization(nn.Module):  # type: ignore[misc]  # mypy does not follow the library
    """Subtracts the mean and divides by the deviation of all rows seen, as buffers of the model.

    Args:
        size: numbers per row.
    """

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, size: int, bound: float = 5.0) -> None:
        super().__init__()
        self.bound = bound
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))
        self.register_buffer("count", torch.tensor(1e-4, dtype=torch.float64))

    @torch.no_grad()
    def see(self, rows: Tensor) -> None:
        """Adds rows, shape (n, size), to the statistics."""
        count = float(rows.shape[0])
        total = float(self.count) + count
        difference = rows.mean(0) - self.mean
        share = count / total
        self.variance += (rows.var(0, unbiased=False) - self.variance) * share + difference.square() * share * (
            1.0 - share
        )
        self.mean += difference * share
        self.count.fill_(total)

    def forward(self, rows: Tensor) -> Tensor:
        """Returns normalised rows."""
        normalised: Tensor = ((rows - self.mean) / (self.variance + 1e-8).sqrt()).clamp(-self.bound, self.bound)
        return normalised


def _tensors(observations: Observations) -> dict[str, Tensor]:
    """The arrays as tensors; copied, because environments write the next step into the same memory."""
    return {name: torch.from_numpy(np.array(value)) for name, value in observations.items()}
