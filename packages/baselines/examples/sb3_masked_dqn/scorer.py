"""The network: it values one candidate at a time, and never prefers an invalid one.

The first column of a table of candidates is 1 where a candidate is valid; values of others lie below all valid ones.
"""

from __future__ import annotations

import torch
from torch import nn

INVALID = -1e8


def make_scorer(features: int, width: int) -> nn.Sequential:
    """Returns the network that values one candidate from its features (without the first column)."""
    return nn.Sequential(
        nn.Linear(features - 1, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
    )


def candidate_values(scorer: nn.Module, tables: torch.Tensor) -> torch.Tensor:
    """Returns the value of each candidate, shape (batch, n); all 0 in tables without a valid one.

    Args:
        scorer: made by `make_scorer`.
        tables: float32, shape (batch, n, features).
    """
    valid = tables[..., 0] > 0
    values = torch.full(valid.shape, INVALID, dtype=tables.dtype)
    values[valid] = scorer(tables[valid][:, 1:]).squeeze(-1)
    return torch.where(valid.any(dim=1, keepdim=True), values, torch.zeros_like(values))
