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

PUBLIC_SEEDS, KEYED_SEEDS = 1, 2
"""Schemes of ``Manifest.seeds``: derived from the root seed alone, or from a secret key too."""


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
        outside: the evaluator knows that the cause lies outside of the run, so that the run may resume by itself.
    """

    kind: FailureKind
    where: str
    message: str
    traceback: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    log: str | None = None
    outside: bool = False


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


class StepCosts(Record, kw_only=True):
    """What one step of a phase took on average, in seconds: the round trip, and processor time of the process tree.

    Attributes:
        steps: number of calls.
        account: where the tree's time comes from, ``"cgroup_v1"``, ``"cgroup_v2"``, ``"task_clock"`` or ``"proc_stat"``
            (without children that nobody waited for).
        round_trip_s: mean wall time of a call.
        tree_s: processor time of the whole tree, calls and the time between them together.
        in_calls_s: of the living processes, from the request to the answer.
        between_calls_s: of the same, from an answer to the next request.
        short_lived_s: of processes that came and went, at whatever moment.
        flags: what contradicts the round trips, see ``submission.step_account``; empty for an honest policy.
    """

    steps: int
    account: str
    round_trip_s: float
    tree_s: float
    in_calls_s: float
    between_calls_s: float
    short_lived_s: float
    flags: list[str] = msgspec.field(default_factory=list)


class RolloutResults(Record, kw_only=True):
    """``metrics/rollouts.json``: the episodes of one task and their summary.

    Attributes:
        costs: of their steps; None where nobody measured them, and of the last attempt where there were several.
    """

    schema: int = SCHEMA
    task: str
    env_id: str
    episodes: list[Episode]
    costs: StepCosts | None = None


class LatencyResults(Record, kw_only=True):
    """``metrics/latency.json``: inference latency of one run; raw values lie in ``metrics/latency.npz``.

    Attributes:
        observations: how many and which: ``"fresh"`` from rollouts, each asked once; ``"sampled"`` from the observation
            space; ``"recorded"`` by versions that asked what the policy had answered before.
        processor_time: of the whole process tree per step, the time between calls included.
        costs: means of the same with what contradicts the round trips.
    """

    schema: int = SCHEMA
    observations: str
    infer_once: LatencySummary | None = None
    preprocess_observation: LatencySummary | None = None
    round_trip: LatencySummary | None = None
    processor_time: LatencySummary | None = None
    costs: StepCosts | None = None


class TrainResults(Record, kw_only=True):
    """``metrics/train.json``: what the training phase took.

    Attributes:
        wall_s: wall time of ``train()`` alone, measured by the evaluator; the sum over the attempts of the bundle.
        participant_wall_s: wall time from the start of the participant process to its end, in the last attempt.
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
    """One start of the run: a resumed bundle has several, and so has a run that was started again from scratch.

    Attributes:
        number: from 1 over all attempts, those in the attic included; 0 in records of before.
        start_ticks: start of the evaluator's process in clock ticks after the boot; None in older records. With host,
            ``boot_id``, ``pid_namespace`` and ``pid`` it names the process for good.
        pid_namespace: in which ``pid`` counts; empty in older records.
        finished_at: of an attempt that was killed, its last heartbeat.
        outcome: its exit reason, or ``"killed"``.
        exit_code: status of the evaluator, where it came to one.
        reason: why it was started although the run had ended before, ``"--retry-infrastructure"``; empty otherwise.
        participant_started_at: written before the first instruction of the participant; None if there was none. What
            happens afterwards may be the participant's doing.
        wall_s: of the attempt, by the evaluator's clock, to its end or its last heartbeat.
        train_s: of ``train()`` in it.
        net_kwh: energy above idle of the participant's tree in it.
        gross_kwh: energy; None where the attempt was killed.
        archived: folder below ``attic`` that holds its bundle; None for the attempts of this bundle.
    """

    number: int = 0
    started_at: str
    host: str
    pid: int
    boot_id: str
    start_ticks: int | None = None
    pid_namespace: str = ""
    finished_at: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    reason: str = ""
    participant_started_at: str | None = None
    wall_s: float | None = None
    train_s: float | None = None
    net_kwh: float | None = None
    gross_kwh: float | None = None
    archived: str | None = None


class SubmissionIdentity(Record, kw_only=True):
    """Which code ran: the folder's name, a hash over its files, and the commit that it says it is.

    Attributes:
        sha256: over all that the participant can read from the folder, but for ``not_covered``.
        scheme: rule of the hash. 1, of earlier versions, left out caches, virtual environments, ``runs`` and links.
        not_covered: the evaluator's own folder inside the submission, which is hidden where the sandbox hides
            anything, and links to files outside, which are refused where it does not; the first 20.
        changed: whether the files were others when the run ended.
        git_commit: what the folder's repository has checked out, as its files say; git is never run for it.
        git_dirty: whether the folder had changes; only of code that is its user's own.
    """

    name: str
    path: str
    sha256: str
    scheme: int = 1
    not_covered: list[str] = msgspec.field(default_factory=list)
    changed: bool = False
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
        sandbox: level at which the packages of an isolated environment were opened and installed.
    """

    kind: str
    python_version: str = ""
    key: str | None = None
    packages: dict[str, str] = msgspec.field(default_factory=dict)
    installer: str | None = None
    build_s: float | None = None
    reused: bool = False
    sandbox: str | None = None


class InventoryItem(Record, kw_only=True):
    """One name below a bundle; the hash of a regular file stands in ``Manifest.files``.

    Attributes:
        kind: ``"file"``, ``"folder"`` or ``"link"``; anything else is not valid.
        mode: four octal digits: the owner's permissions, set-id and sticky bits, who may execute a file, and whether
            everybody may write; ``""`` for a link.
        size: bytes of a file.
        target: text of a link.
    """

    kind: str
    mode: str = ""
    size: int | None = None
    target: str | None = None


class ConfigurationRecord(Record, kw_only=True):
    """The gin file of a run.

    Attributes:
        file: its path: below the submission's folder, below the packaged files, or where the organizer keeps it.
        origin: ``"organizer"``, ``"packaged"`` or ``"participant"`` (it lies in the submission's folder).
        trusted: whether gin evaluated it; a participant's file is read as data unless the organizer trusts it.
        sha256: of its content.
    """

    file: str
    origin: str
    trusted: bool
    sha256: str


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
    configuration: ConfigurationRecord | None = None
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
    inventory_version: int = 1
    inventory: dict[str, InventoryItem] = msgspec.field(default_factory=dict)
    a2perf_sha256: str = ""
