"""Typed records of everything that a2perf writes to disk, each with a schema version.

Records are ``msgspec`` structs: decoding checks every field and names the path of a wrong one. Readers accept any
record whose ``schema`` is not newer than theirs; unknown fields are ignored, and a missing field takes its default.
Units are part of the field's name (``_s`` seconds, ``_ns`` nanoseconds, ``_bytes``, ``_kwh``, ``_w``).
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

SCHEMA = 1


class RunState(enum.Enum):
    """Where a run stands. ``running`` in a bundle whose writer is gone means that the run was killed."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class FailureKind(enum.Enum):
    """Why a run failed. Only ``infrastructure`` is the host's fault; all others are the participant's."""

    CONTRACT = "contract"
    EXCEPTION = "exception"
    EXIT = "exit"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    DISK = "disk"
    BAD_OUTPUT = "bad_output"
    OUTPUT_LIMIT = "output_limit"
    FORBIDDEN = "forbidden"
    INFRASTRUCTURE = "infrastructure"


class Record(msgspec.Struct, kw_only=True):
    """Base of every record."""


class Failure(Record, kw_only=True):
    """What went wrong, in words that a participant can act on.

    Attributes:
        kind: the class of failure.
        where: the call or phase, ``"train"``, ``"load_policy"``, ``"infer_once (call 5)"``.
        message: one or two sentences.
        traceback: the participant's own traceback, where there was one.
        exit_code: status of a participant process that ended by itself.
        signal: name of the signal that ended it, ``"SIGKILL"``.
        log: path of the captured output, relative to the bundle.
    """

    kind: FailureKind
    where: str
    message: str
    traceback: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    log: str | None = None


class Episode(Record, kw_only=True):
    """One rollout as the evaluator saw it; nothing in it comes from the participant but its actions.

    Attributes:
        index: position in the run, from 0.
        seed: seed of ``env.reset``.
        episode_return: undiscounted sum of rewards.
        length: number of environment steps.
        terminated: the task ended the episode.
        truncated: a time limit ended it.
        termination: the environment's word for the reason, where it gives one.
        clipped_actions: how many actions lay outside the box and were clipped into it.
        wall_s: wall time of the rollout, participant and environment together.
        reward_terms: mean over the steps of each reward term that the environment reports.
        success: whether the environment says that the episode succeeded, where it says so.
        final_info: scalar and short-vector entries of the last ``info``.
    """

    index: int
    seed: int
    episode_return: float
    length: int
    terminated: bool
    truncated: bool
    termination: str | None = None
    clipped_actions: int = 0
    wall_s: float = 0.0
    reward_terms: dict[str, float] = msgspec.field(default_factory=dict)
    success: bool | None = None
    final_info: dict[str, Any] = msgspec.field(default_factory=dict)


class LatencySummary(Record, kw_only=True):
    """Summary of repeated calls, in seconds.

    Attributes:
        includes: what one value covers, ``"infer_once only"`` or ``"round trip"``.
        clock: whose clock measured it, ``"participant process"`` or ``"evaluator"``.
        count: number of values in the summary (warm-up calls are not among them).
        warmup_count: calls made before, counted apart.
        first_s: the first call of all, warm-up included.
        throughput_hz: calls per second, the inverse of the mean.
    """

    includes: str
    clock: str
    count: int
    warmup_count: int
    first_s: float
    mean_s: float
    std_s: float
    min_s: float
    median_s: float
    p90_s: float
    p99_s: float
    max_s: float
    throughput_hz: float


class RolloutResults(Record, kw_only=True):
    """``metrics/rollouts.json``: the episodes of one task and their summary."""

    schema: int = SCHEMA
    task: str
    env_id: str
    episodes: list[Episode]


class LatencyResults(Record, kw_only=True):
    """``metrics/latency.json``: inference latency of one run; raw values lie in ``metrics/latency.npz``."""

    schema: int = SCHEMA
    observations: str
    infer_once: LatencySummary | None = None
    preprocess_observation: LatencySummary | None = None
    round_trip: LatencySummary | None = None


class TrainResults(Record, kw_only=True):
    """``metrics/train.json``: what the training phase took.

    Attributes:
        wall_s: wall time of ``train()`` alone, measured by the evaluator.
        participant_wall_s: wall time from the start of the participant process to its end.
        exit_reason: ``"returned"``, ``"time limit"``, ``"energy limit"`` or the failure's kind.
        artifact_bytes: size of what was written under ``artifacts/``.
        artifact_files: number of files there.
    """

    schema: int = SCHEMA
    wall_s: float
    participant_wall_s: float
    exit_reason: str
    artifact_bytes: int
    artifact_files: int


class Attempt(Record, kw_only=True):
    """One start of the run; a resumed bundle has several."""

    started_at: str
    host: str
    pid: int
    boot_id: str
    finished_at: str | None = None
    outcome: str | None = None


class SubmissionIdentity(Record, kw_only=True):
    """Which code ran: the folder's name, a hash over its files, and its git state where it has one."""

    name: str
    path: str
    sha256: str
    git_commit: str | None = None
    git_dirty: bool | None = None


class SandboxRecord(Record, kw_only=True):
    """How the participant process was confined, and which guarantees were in force.

    Attributes:
        level: the level that was in force.
        asked: the level that was asked for, or ``"strongest"``.
        network: whether it was allowed to reach the network.
        limits: the bounds on its process tree, by name.
        guarantees: what was enforced, one sentence each.
        missing: what was not, first that which was asked for.
    """

    level: str
    asked: str | None = None
    network: bool = False
    limits: dict[str, float] = msgspec.field(default_factory=dict)
    guarantees: list[str] = msgspec.field(default_factory=list)
    missing: list[str] = msgspec.field(default_factory=list)


class PythonEnvRecord(Record, kw_only=True):
    """Under which Python the participant process ran.

    Attributes:
        kind: ``"shared"`` (the evaluator's packages) or ``"isolated"`` (an environment made of requirements.txt).
        python_version: its version; empty for a shared interpreter that is not the evaluator's.
        key: name of the isolated environment, a hash of all that it is made of.
        packages: the versions installed in an isolated environment.
        installer: ``"uv"`` or ``"pip"``.
        build_s: how long building took, this time or the earlier one.
        reused: whether it was built before.
    """

    kind: str
    python_version: str = ""
    key: str | None = None
    packages: dict[str, str] = msgspec.field(default_factory=dict)
    installer: str | None = None
    build_s: float | None = None
    reused: bool = False


class Manifest(Record, kw_only=True):
    """``manifest.json`` of a bundle; everything needed to judge, resume or rebuild the run."""

    schema: int = SCHEMA
    a2perf_version: str
    mode: str
    domain: str
    task: str
    env_id: str | None
    env_kwargs: dict[str, Any]
    env_fingerprint: str | None
    submission: SubmissionIdentity
    root_seed: int
    seeds: dict[str, Any]
    participant_args: dict[str, str]
    command: list[str] = msgspec.field(default_factory=list)
    config_sha256: str
    state: RunState
    attempts: list[Attempt]
    sandbox: SandboxRecord | None = None
    python_env: PythonEnvRecord | None = None
    exit_code: int | None = None
    exit_reason: str | None = None
    failure: Failure | None = None
    host: dict[str, Any] = msgspec.field(default_factory=dict)
    python: dict[str, str] = msgspec.field(default_factory=dict)
    timings_s: dict[str, float] = msgspec.field(default_factory=dict)
    tracking: dict[str, Any] = msgspec.field(default_factory=dict)
    tracker_failures: list[dict[str, str]] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)
    checksum: str | None = None
    files: dict[str, str] = msgspec.field(default_factory=dict)
