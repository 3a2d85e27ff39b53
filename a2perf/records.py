"""Typed records of everything that a2perf writes to disk, each with a schema version.

Records are ``msgspec`` structs: decoding checks every field and names the path of an invalid one. Readers accept any
record with a ``schema`` that is not newer than theirs. Unknown fields are ignored, and a missing field takes its
default. Units are part of the field's name (``_s`` seconds, ``_ns`` nanoseconds, ``_bytes``, ``_kwh``, ``_w``).
"""

from __future__ import annotations

import enum
import hashlib
from typing import Any

import msgspec

SCHEMA = 1

SCORED_EPISODE, FURTHER_EPISODE = "episode", "further episode"
"""Kinds of the entries of a journal that hold an episode."""

PUBLIC_SEEDS, KEYED_SEEDS = 1, 2
"""Schemes of ``Manifest.seeds``: derived from the root seed alone, or from a secret key too."""


class RunState(enum.Enum):
    """State of a run. ``running`` in a bundle without a living writer means that the run was killed."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class FailureKind(enum.Enum):
    """Why a run failed. ``infrastructure`` is caused by the host, every other kind by the participant.

    ``budget``: a call to a language model was refused, because a budget was used up, and the participant failed.
    ``bad_output`` is an answer that is not an action; ``illegal`` is an action that breaks a rule of the task.
    """

    CONTRACT = "contract"
    EXCEPTION = "exception"
    EXIT = "exit"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    DISK = "disk"
    BAD_OUTPUT = "bad_output"
    ILLEGAL = "illegal"
    OUTPUT_LIMIT = "output_limit"
    FORBIDDEN = "forbidden"
    BUDGET = "budget"
    INFRASTRUCTURE = "infrastructure"


class Record(msgspec.Struct, kw_only=True):
    """Base of every record."""


class Failure(Record, kw_only=True):
    """A failure of a run, described for the participant.

    Attributes:
        kind: the class of failure.
        where: the call or phase, ``"train"``, ``"load_policy"``, ``"infer_once (call 5)"``.
        message: one or two sentences.
        traceback: the participant's traceback, if any.
        exit_code: exit status of the participant process, if it exited.
        signal: name of the signal that ended it, ``"SIGKILL"``.
        log: path of the captured output, relative to the bundle.
        outside: whether the cause is known to be outside of the run; such a run may resume automatically.
        resumable: whether the same command continues the run, but nothing does so automatically: the cause may be
            outside or the participant's doing, such as a failed call to a language model.
    """

    kind: FailureKind
    where: str
    message: str
    traceback: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    log: str | None = None
    outside: bool = False
    resumable: bool = False


class ActionRecord(Record, kw_only=True):
    """The actions of an episode in compact form; see ``submission.evaluator.action_record`` for the rules.

    Attributes:
        sha256: hash over the exact actions.
        bins: number of bins per dimension of a continuous action space; None for a discrete one.
        sequence: one integer per step: the action, or a number that stands for its bins; empty if the space has no
            such number or the episode is too long.
        histograms: per dimension the number of steps in each bin; empty for a space with one integer, because the
            sequence gives its distribution.
    """

    sha256: str
    bins: int | None = None
    sequence: list[int] = msgspec.field(default_factory=list)
    histograms: list[list[int]] = msgspec.field(default_factory=list)


class Episode(Record, kw_only=True):
    """One rollout, as recorded by the evaluator; the participant contributes its actions and its confidence.

    Attributes:
        index: position in the run, from 0.
        seed: seed of ``env.reset``.
        episode_return: undiscounted sum of rewards.
        length: number of environment steps.
        terminated: whether the task ended the episode.
        truncated: whether a time limit ended it.
        termination: reason given by the environment, if any.
        clipped_actions: number of actions outside of the box that were clipped.
        wall_s: wall time of the rollout, participant and environment together.
        reward_terms: mean over the steps of each reward term that the environment reports.
        success: whether the episode succeeded, if the environment reports it.
        final_info: scalar and short-vector entries of the last ``info``.
        task_index: position of the seed among the seeds of the run; None in older records, which have no other
            position than ``index``.
        repeat: number of the repetition with this seed, from 0.
        perturbation: name of the perturbation of the environment; empty for the environment as it is.
        confidence: what the policy reported after the episode, in [0, 1]; None if it reports none.
        policy_cpu_s: processor time of the participant's process tree, from the first step to the last; None unless
            the run has repeats or perturbations.
        actions: None unless the run has repeats or perturbations.
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
    task_index: int | None = None
    repeat: int = 0
    perturbation: str = ""
    confidence: float | None = None
    policy_cpu_s: float | None = None
    actions: ActionRecord | None = None


class LatencySummary(Record, kw_only=True):
    """Summary of repeated calls, in seconds.

    Attributes:
        includes: what one value covers, ``"infer_once only"`` or ``"round trip"``.
        clock: process that measured it, ``"participant process"`` or ``"evaluator"``.
        count: number of values in the summary, without warm-up calls.
        warmup_count: number of warm-up calls before them.
        first_s: duration of the very first call, warm-up included.
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
    """Mean cost of one step of a phase, in seconds: the round trip, and processor time of the process tree.

    Attributes:
        steps: number of calls.
        account: source of the tree's time: ``"cgroup_v1"``, ``"cgroup_v2"``, ``"task_clock"`` or ``"proc_stat"``
            (without children that no process waited for).
        round_trip_s: mean wall time of a call.
        tree_s: processor time of the whole tree, during calls and between them.
        in_calls_s: processor time of the living processes, from the request to the answer.
        between_calls_s: processor time of the living processes, from an answer to the next request.
        short_lived_s: processor time of processes that ended in the meantime.
        transport_s: mean wall time of a call that reaches no code of the submission; None if it was not measured.
        transport_cpu_s: processor time of the tree for such a call, a part of ``tree_s``.
        flags: processor time that the round trips do not include, or that is spent in few calls, see
            ``submission.evaluator.step_account``.
    """

    steps: int
    account: str
    round_trip_s: float
    tree_s: float
    in_calls_s: float
    between_calls_s: float
    short_lived_s: float
    transport_s: float | None = None
    transport_cpu_s: float | None = None
    flags: list[str] = msgspec.field(default_factory=list)


class BatchCheck(Record, kw_only=True):
    """How the episodes of a run were played together, and whether one of them is the same alone.

    Attributes:
        rows: the most observations per call.
        episode: the one that was played again alone; None if none was played in the last attempt.
        equal: whether its actions were equal bit for bit; False if they differed by rounding.
    """

    rows: int
    episode: int | None = None
    equal: bool = False


class RolloutResults(Record, kw_only=True):
    """``metrics/rollouts.json``: the episodes of one task and their summary.

    Attributes:
        episodes: the scored episodes, each seed once.
        costs: mean costs of their steps; None if not measured, and those of the last attempt if there were several.
        further: episodes for reliability only: the same seeds again, or with a perturbation of the environment.
        batch: how they were played together; None for one observation per call.
    """

    schema: int = SCHEMA
    task: str
    env_id: str
    episodes: list[Episode]
    costs: StepCosts | None = None
    further: list[Episode] = msgspec.field(default_factory=list)
    batch: BatchCheck | None = None


class LatencyResults(Record, kw_only=True):
    """``metrics/latency.json``: inference latency of one run; raw values are in ``metrics/latency.npz``.

    Attributes:
        observations: number and source: ``"fresh"`` from rollouts, each used once; ``"sampled"`` from the observation
            space; ``"recorded"`` in earlier versions, which used observations that the policy had seen before.
        processor_time: processor time of the whole process tree per step, including the time between calls.
        costs: means of the same calls, with flags.
    """

    schema: int = SCHEMA
    observations: str
    infer_once: LatencySummary | None = None
    preprocess_observation: LatencySummary | None = None
    round_trip: LatencySummary | None = None
    processor_time: LatencySummary | None = None
    costs: StepCosts | None = None


class TrainResults(Record, kw_only=True):
    """``metrics/train.json``: result of the training phase.

    Attributes:
        wall_s: wall time of the participant's process tree, from its first instruction to the end of its last process,
            summed over the attempts of the bundle. Earlier versions recorded ``train()`` alone.
        participant_wall_s: the same in the last attempt.
        call_wall_s: the part of it between the request to train and the answer: the import of train.py and ``train()``;
            None in earlier versions.
        exit_reason: ``"returned"``, ``"time limit"``, ``"energy limit"`` or the failure's kind.
        artifact_bytes: total size of the files in ``artifacts/``.
        artifact_files: number of files in ``artifacts/``.
        training_files: files among them that no evaluation reads, such as checkpoints, and that were left out when the
            bundle was shipped.
    """

    schema: int = SCHEMA
    wall_s: float
    participant_wall_s: float
    exit_reason: str
    artifact_bytes: int
    artifact_files: int
    training_files: int = 0
    call_wall_s: float | None = None


class Attempt(Record, kw_only=True):
    """One start of the run. A resumed run has several attempts, as has a run that was started again.

    Attributes:
        number: number of the attempt from 1, archived attempts included; 0 in older records.
        start_ticks: start of the evaluator process in clock ticks since boot; None in older records. Together with
            ``host``, ``boot_id``, ``pid_namespace`` and ``pid`` it identifies the process uniquely.
        pid_namespace: namespace of ``pid``; empty in older records.
        finished_at: end of the attempt; for a killed attempt its last heartbeat.
        outcome: its exit reason, or ``"killed"``.
        exit_code: exit status of the evaluator, if it exited.
        reason: option that restarted a run that had ended, ``"--retry infrastructure"``; empty otherwise.
        participant_started_at: written before the participant's code runs for the first time; None if it never ran.
            Later events may be caused by the participant.
        wall_s: wall time by the evaluator's clock, up to its end or its last heartbeat.
        train_s: wall time of the participant's process tree in a training run.
        net_kwh: energy above idle of the participant's tree.
        gross_kwh: energy including idle; None if the attempt was killed.
        archived: folder in ``attic`` with its bundle; None for attempts of this bundle.
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


class SubmissionInfo(Record, kw_only=True):
    """Description of a submission from its ``a2perf.toml``; see ``runs.submission_info`` for the bounds.

    Attributes:
        title: display name.
        kind: ``"random"``, ``"scripted"``, ``"search"``, ``"pre-trained"``, ``"imitation"``, ``"learned"`` or
            ``"language-model"``.
        link: http(s) address of code or paper.
        framework: libraries that it uses.
        summary: one sentence.
        weights: files and folders of the submission that hold a trained policy and no code.
        code: hash of the code inside ``weights``, if there is any.
        policy: hash of the trained policy, if its files differ each time they are written.
    """

    title: str = ""
    kind: str = ""
    authors: list[str] = msgspec.field(default_factory=list)
    link: str = ""
    framework: str = ""
    summary: str = ""
    weights: list[str] = msgspec.field(default_factory=list)
    code: str = ""
    policy: str = ""


class SubmissionIdentity(Record, kw_only=True):
    """Identity of the code: the folder's name, a hash over its files, and its commit.

    Attributes:
        sha256: hash over everything that the participant can read from the folder, except ``not_covered``.
        scheme: version of the hash. Version 1 omitted caches, virtual environments, ``runs`` and links.
        not_covered: the evaluator's folder inside the submission, which sandboxes that hide files hide, and links to
            files outside, which other sandboxes refuse; the first 20.
        changed: whether the files had changed when the run ended.
        git_commit: commit checked out in the folder's repository, read from its files without running git.
        git_dirty: whether the folder had uncommitted changes; recorded only for the user's own code.
        info: content of its ``a2perf.toml``; None without one.
        code_sha256: hash over the files other than its ``a2perf.toml`` and the weights that this declares, which
            trained policies of one algorithm share; ``""`` if it declares none. A claim of the submission.
        policy_sha256: hash of the trained policy; ``""`` if no weights are declared.
    """

    name: str
    path: str
    sha256: str
    scheme: int = 1
    not_covered: list[str] = msgspec.field(default_factory=list)
    changed: bool = False
    git_commit: str | None = None
    git_dirty: bool | None = None
    info: SubmissionInfo | None = None
    code_sha256: str = ""
    policy_sha256: str = ""

    @property
    def version(self) -> str:
        """Hash of the code, of the whole folder if it declares no weights."""
        return self.code_sha256 or self.sha256


class SandboxRecord(Record, kw_only=True):
    """How the participant process was confined.

    Attributes:
        level: the sandbox level in use.
        asked: the requested level, or ``"strongest"``.
        network: whether the network was allowed.
        limits: the bounds on its process tree, by name.
        derived: by name, how a bound was derived from the host; another host gives another bound.
        guarantees: what was enforced, one phrase each.
        missing: what was not prevented, one phrase each; first the properties that were requested.
    """

    level: str
    asked: str | None = None
    network: bool = False
    limits: dict[str, float] = msgspec.field(default_factory=dict)
    derived: dict[str, str] = msgspec.field(default_factory=dict)
    guarantees: list[str] = msgspec.field(default_factory=list)
    missing: list[str] = msgspec.field(default_factory=list)


class PythonEnvRecord(Record, kw_only=True):
    """The Python of the participant process.

    Attributes:
        kind: ``"shared"`` (the evaluator's packages) or ``"isolated"`` (an environment built from requirements.txt).
        python_version: its version; empty for a shared interpreter that is not the evaluator's.
        key: name of the isolated environment, a hash of its inputs.
        packages: installed versions by name; empty in older records of a shared interpreter.
        installer: ``"uv"`` or ``"pip"``.
        build_s: duration of the build, this time or earlier.
        reused: whether it was built before.
        builds: whether code of packages could run while it was built, by an earlier version. No cost of a run counts
            that, so such runs are not ranked.
        sandbox: sandbox level of the installation of an isolated environment.
    """

    kind: str
    python_version: str = ""
    key: str | None = None
    packages: dict[str, str] = msgspec.field(default_factory=dict)
    installer: str | None = None
    build_s: float | None = None
    reused: bool = False
    builds: bool = False
    sandbox: str | None = None


class InventoryItem(Record, kw_only=True):
    """One entry of a bundle; the hash of a regular file is in ``Manifest.files``.

    Attributes:
        kind: ``"file"``, ``"folder"`` or ``"link"``; anything else is invalid.
        mode: four octal digits: the owner's permissions, set-ID and sticky bits, execute permissions of a file, and
            write permission for everybody; ``""`` for a link.
        size: size of a file in bytes.
        target: target of a link.
    """

    kind: str
    mode: str = ""
    size: int | None = None
    target: str | None = None


class ConfigurationRecord(Record, kw_only=True):
    """The gin file of a run.

    Attributes:
        file: its path, relative to the submission or to the packaged files if it is one of them.
        origin: ``"organizer"``, ``"packaged"`` or ``"participant"`` (inside the submission's folder).
        trusted: whether gin evaluated it; a participant's file is read as data unless the organizer trusts it.
        sha256: hash of its content.
    """

    file: str
    origin: str
    trusted: bool
    sha256: str


class TaskView(Record, kw_only=True):
    """The form in which a run showed its task, if it is not the default of the domain.

    Attributes:
        task: the task that its results are ranked on.
        arguments: arguments of the environment that only change what the participant observes and how it writes its
            actions.
    """

    task: str
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        """What was observed, ``"text"``."""
        return ", ".join(map(str, self.arguments.values()))


class EnvironmentPackage(msgspec.Struct, kw_only=True, frozen=True):
    """The package of an environment that is not a2perf's; ``sha256`` is over the names and contents of its files."""

    name: str
    version: str
    module: str
    sha256: str


class Manifest(Record, kw_only=True):
    """``manifest.json`` of a bundle: everything needed to judge, resume or repeat the run."""

    schema: int = SCHEMA
    a2perf_version: str
    mode: str
    domain: str
    task: str
    env_id: str | None
    env_kwargs: dict[str, Any]
    env_fingerprint: str | None
    environment: EnvironmentPackage | None = None
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
    repeats: int = 1
    concurrent_episodes: int = 1
    perturbations: list[str] = msgspec.field(default_factory=list)
    models: list[str] = msgspec.field(default_factory=list)
    view: TaskView | None = None
    settings: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def env_identity(self) -> str:
        """What the environment is, as a hash; ``""`` if unknown.

        An environment of a2perf is its behaviour, which the version in its id promises and the fingerprint guards. The
        fingerprint plays three short episodes, so for another package the hash of its files is part of the identity.
        """
        if not self.env_fingerprint or self.environment is None or not self.environment.sha256:
            return self.env_fingerprint or ""
        return hashlib.sha256(f"{self.env_fingerprint} {self.environment.sha256}".encode()).hexdigest()
