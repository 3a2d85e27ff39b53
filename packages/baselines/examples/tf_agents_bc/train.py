"""Behavioural cloning with TF-Agents; what is cloned, and how, is in the file named like the domain.

Arguments: the fields of `Settings` in that file, over ``configs/<task>.gin``; the same command resumes after a kill.
"""

from __future__ import annotations

from pathlib import Path

from a2perf_baselines import learning


def train(**participant_args: str) -> None:
    """Trains on the run's environment until its steps are made or its time is used up."""
    folder = Path(__file__).parent
    part = learning.domain_module(folder)
    settings = learning.read_settings(part.Settings, participant_args, folder)
    with learning.begin(settings) as run:
        part.train(run)


if __name__ == "__main__":
    learning.main(train)
