"""Nothing to learn: the solver is written down."""

from __future__ import annotations


def train(**participant_args: str) -> None:
    """Returns at once."""
