"""The enums that gin files name (``%BenchmarkMode.TRAIN``) and that records store by value."""

from __future__ import annotations

import enum


class BenchmarkMode(enum.Enum):
    """What one run does with a submission."""

    TRAIN = "train"
    INFERENCE = "inference"
    GENERALIZATION = "generalization"


class BenchmarkDomain(enum.Enum):
    """The built-in domains: each member registers the folder of that name in ``a2perf.domains``.

    A domain of another package is named by the string that it registered.
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
    """Exit status of every a2perf command that runs a submission."""

    SUCCESS = 0
    PARTICIPANT_FAILED = 1
    USAGE = 2
    INFRASTRUCTURE = 3
