"""Errors of this domain's environments: each is a `UserError` and the type that older code catches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import ConfigError, SubmissionError, UserError


class ArgumentError(ConfigError, ValueError):
    """An argument of the environment is unknown, out of its range, or does not fit the design."""


class InfeasibleActionError(SubmissionError, ValueError):
    """An action outside the mask.

    Attributes:
        mask: the padded mask that it breaks, shape (max_grid_size^2,).
    """

    action: Any
    mask: NDArray[Any]

    def __init__(self, action: Any, mask: NDArray[Any] | None = None, node: str = "") -> None:
        if isinstance(action, InfeasibleActionError):
            UserError.__init__(self, action)
            self.action, self.mask = action.action, action.mask
            return
        mask = np.zeros(0) if mask is None else mask
        UserError.__init__(
            self,
            f"action {action} is infeasible for {node or 'the current macro'}: the mask allows "
            f"{np.count_nonzero(mask)} of {len(mask)} cells",
            hint="choose an action where observation['mask'] (or info['action_mask']) is 1",
        )
        self.action, self.mask = action, mask
