"""Nothing to train: these policies were trained before and are fetched by checksum (`a2perf data fetch`)."""

from __future__ import annotations


def train(**participant_args: str) -> None:
    """Returns at once."""
