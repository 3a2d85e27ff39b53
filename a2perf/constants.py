"""The enums of gin files (``%BenchmarkMode.TRAIN``); records store their values. The module of an evaluator."""

from __future__ import annotations

import enum

EVALUATOR = "a2perf.submission.main_submission"


class BenchmarkMode(enum.Enum):
    """The mode of a run."""

    TRAIN = "train"
    INFERENCE = "inference"
    GENERALIZATION = "generalization"


class BenchmarkDomain(enum.Enum):
    """The built-in domains; the value is the name of the folder in ``a2perf.domains``.

    A domain of another package is selected by its registered name.
    """

    QUADRUPED_LOCOMOTION = "quadruped_locomotion"
    CIRCUIT_TRAINING = "circuit_training"
    WEB_NAVIGATION = "web_navigation"


class SystemMetrics(enum.Enum):
    """Cost metrics a gin file can select."""

    INFERENCE_TIME = "inference_time"
    TRAINING_TIME = "training_time"
    MEMORY_USAGE = "memory_usage"


class ReliabilityMetrics(enum.Enum):
    """Reliability metrics a gin file can select (names of the earlier public platform)."""

    IqrWithinRuns = "IqrWithinRuns"
    IqrAcrossRuns = "IqrAcrossRuns"
    LowerCVaROnDiffs = "LowerCVaROnDiffs"
    LowerCVaROnDrawdown = "LowerCVaROnDrawdown"
    LowerCVarOnAcross = "LowerCVarOnAcross"
    LowerCVaROnAcross = "LowerCVarOnAcross"  # noqa: PIE796 -- alias: the consistent spelling
    MedianPerfDuringTraining = "MedianPerfDuringTraining"
    MadAcrossRollouts = "MadAcrossRollouts"
    IqrAcrossRollouts = "IqrAcrossRollouts"
    StddevAcrossRollouts = "StddevAcrossRollouts"
    UpperCVaRAcrossRollouts = "UpperCVaRAcrossRollouts"
    LowerCVaRAcrossRollouts = "LowerCVaRAcrossRollouts"


class ExitCode(enum.IntEnum):
    """Exit status of commands that run submissions."""

    SUCCESS = 0
    PARTICIPANT_FAILED = 1
    USAGE = 2
    INFRASTRUCTURE = 3


LONGEST_EPISODE = 10_000
"""Steps after which an episode is truncated if its environment registers no limit."""
