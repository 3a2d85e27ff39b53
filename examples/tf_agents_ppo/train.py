"""Proximal policy optimisation with TF-Agents; networks and settings are in the file named like the domain.

Arguments: the fields of `Settings` in that file, over ``configs/<task>.gin``; the same call goes on after a kill.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from a2perf import training


def train(**participant_args: str) -> None:
    """Trains on the run's environment until its steps are made or its time is used up."""
    part = importlib.import_module(training.domain_name())
    settings = training.read_settings(part.Settings, participant_args, Path(__file__).parent)
    with training.begin(settings) as run:
        part.train(run)


if __name__ == "__main__":
    training.main(train)
