"""Train a policy here and write it to the folder `A2PERF_ARTIFACTS`; `inference.py` loads it."""

from __future__ import annotations


def train(**participant_args: str) -> None:
    """Does nothing: a random policy is not trained."""
