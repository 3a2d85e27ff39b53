"""Policy and value over the candidates of a page, for `a2perf_baselines.learning.torch.ppo`.

Each candidate is scored with the same weights: its features, the embedded caption and kind of the element, and the
product of the embedded key and caption, which learns which words mean the same. The value sees the sum over the
candidates. Rows behind the valid ones cost nothing.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from a2perf_baselines.learning.torch.ppo import ActorCritic
from a2perf_baselines.web_navigation.pairs import BUCKETS, FEATURES, PAGE_FEATURES

_INVALID = -1e9
_PER_PAGE = 0.1


class CandidatePolicy(ActorCritic):
    """Scores candidates.

    Args:
        width: of the hidden layers.
        embedding: size of an embedded key or caption; that of an embedded kind is half of it.
        seed: of the first weights.
        compare_words: whether features that compare texts are seen.
    """

    seen: Tensor

    def __init__(self, width: int = 32, embedding: int = 8, seed: int = 0, *, compare_words: bool = True) -> None:
        super().__init__()
        compared = [name.startswith(("resemblance", "best")) for name in FEATURES]
        self.register_buffer("seen", torch.tensor([compare_words or not one for one in compared]).float())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            keys, captions, kinds = BUCKETS
            self.key, self.caption = nn.Embedding(keys, embedding), nn.Embedding(captions, embedding)
            self.kind = nn.Embedding(kinds, embedding // 2)
            for table in (self.key, self.caption, self.kind):
                nn.init.normal_(table.weight, std=0.3)
            self.first = nn.Linear(len(FEATURES) + 2 * embedding + embedding // 2, width)
            self.last = nn.Linear(width, 1)
            nn.init.orthogonal_(self.last.weight, 0.01)
            nn.init.zeros_(self.last.bias)
            self.critic = nn.Sequential(nn.Linear(width + len(PAGE_FEATURES), width), nn.ReLU(), nn.Linear(width, 1))

    def _distribution(self, observations: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Returns log probabilities of all rows, shape (n, rows), and values, shape (n,)."""
        features = observations["features"]
        count, rows = features.shape[:2]
        valid = torch.arange(rows) < observations["rows"][:, None]
        places = valid.view(-1).nonzero().squeeze(1)
        owners = torch.div(places, rows, rounding_mode="floor")
        numbers = observations["numbers"].view(count * rows, -1).index_select(0, places).int()
        caption = self.caption(numbers[:, 1])
        given = torch.cat(
            [
                features.view(count * rows, -1).index_select(0, places) * self.seen,
                self.key(numbers[:, 0]) * caption,
                caption,
                self.kind(numbers[:, 2]),
            ],
            dim=1,
        )
        hidden = torch.relu(self.first(given))
        scores = self.last(hidden).squeeze(1)
        table = torch.full((count * rows,), _INVALID).index_put((places,), scores).view(count, rows)
        pooled = torch.zeros(count, hidden.shape[1]).index_add(0, owners, hidden) * _PER_PAGE
        values = self.critic(torch.cat([pooled, observations["page"]], dim=1)).squeeze(1)
        return table.log_softmax(dim=1), values

    def value(self, observations: dict[str, Tensor]) -> Tensor:
        """Returns values, shape (n,)."""
        return self._distribution(observations)[1]

    def act(self, observations: dict[str, Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draws a row per table; returns rows, log probabilities and values, each of shape (n,)."""
        table, values = self._distribution(observations)
        rows = torch.multinomial(table.exp(), 1, generator=generator)
        return rows.squeeze(1), table.gather(1, rows).squeeze(1), values

    def best(self, observations: dict[str, Tensor]) -> Tensor:
        """Returns the most probable row per table, shape (n,)."""
        return self._distribution(observations)[0].argmax(dim=1)

    def evaluate(self, observations: dict[str, Tensor], actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns log probabilities of the rows, entropies, and values, each of shape (n,)."""
        table, values = self._distribution(observations)
        entropy = -(table.exp() * table.clamp(min=-50.0)).sum(dim=1)
        return table.gather(1, actions[:, None]).squeeze(1), entropy, values

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the arrays of the actor, by the names that the NumPy scorer reads."""
        found = {name: getattr(self, name).weight for name in ("key", "caption", "kind")}
        for name in ("first", "last"):
            layer = getattr(self, name)
            found |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
        arrays = {name: tensor.detach().numpy().copy() for name, tensor in found.items()}
        arrays["first.weight"][:, : len(FEATURES)] *= self.seen.numpy()
        return arrays
