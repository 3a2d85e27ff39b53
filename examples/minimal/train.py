"""Nothing to learn: the random policy is complete as it is."""

from __future__ import annotations


def train(**participant_args: str) -> None:
    """Returns at once."""
