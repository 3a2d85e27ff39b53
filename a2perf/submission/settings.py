"""The settings of one run, in six records that check their values. It runs nothing and does not depend on gin.

``Submission`` joins the records; a function that needs the settings of one takes that record. A gin file binds a
setting under either name, ``Limits.cpu_limit`` or ``Submission.cpu_limit``. A field that is also a command-line option
is declared with ``option``. ``run_options`` derives the flags from it, for the evaluator and for every command that
starts runs.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Union

import msgspec

from a2perf.constants import BenchmarkDomain, BenchmarkMode
from a2perf.domains.registry import get_domain
from a2perf.errors import ConfigError, did_you_mean
from a2perf.runs.bundles.layout import MANIFEST, METRICS
from a2perf.sandbox import STRONGEST
from a2perf.submission.given_paths import settled
from a2perf.submission.run_services import wanted_services

CHOICES = {
    "inference_data": ("fresh", "sampled"),
    "python_env": ("shared", "isolated"),
    "fresh_policy": ("run", "episode"),
}
"""The valid values of enumerated settings."""

_AT_LEAST_ONE = (
    "num_inference_episodes",
    "num_generalization_episodes",
    "repeats",
    "concurrent_episodes",
    "batch",
)
_MOST_S = 2_000_000.0  # 23 days: the system calls that wait count 2**31 milliseconds
AT_MOST = {
    "train_time_limit_s": _MOST_S,
    "run_time_limit_s": _MOST_S,
    "call_timeout_s": _MOST_S,
    "load_timeout_s": _MOST_S,
    "memory_limit_bytes": 2**50,
    "cpu_limit": 2**16,
    "process_limit": 2**22,
    "artifact_limit_bytes": 2**50,
    "batch": 2**12,
}
"""The largest valid value of each limit on the participant's processes."""

RUN_TIME_LIMITS_S = {
    BenchmarkMode.TRAIN: 7 * 86_400.0,
    BenchmarkMode.INFERENCE: 86_400.0,
    BenchmarkMode.GENERALIZATION: 86_400.0,
}
"""The limit of a whole run, in seconds, if none is set."""

ALL_PERTURBATIONS = "all"
"""Stands for every perturbation of the domain."""

NEUTRAL = {
    "root_dir": "place of the bundle",
    "participant_module_path": "the hash of the submission's content counts",
    "metric_values_dir": "place of copies of the results",
    "run_offline_metrics_only": "reads a recorded run and starts none",
}
"""Settings that are not part of a run's identity, with the reason: they cannot change a number or a claim."""

_IN_MANIFEST = (
    "mode",
    "domain",
    "seed",
    "participant_args",
    "repeats",
    "perturbations",
    "concurrent_episodes",
    "services",
)
"""Settings that are part of the identity under fields of the manifest."""

_BY_CONTENT = ("seeds_from", "held_out_task", "evaluation_seeds_file")


def option(
    default: Any,
    help: str,
    *,
    metavar: str | None = None,
    one_run: bool = False,
    takes_value: bool = False,
    path: bool = False,
) -> Any:
    """Declares a setting that is also an option of the commands.

    Args:
        one_run: whether it is an option of a single run only, not of every run of an experiment.
        takes_value: whether a boolean option can also be given as ``--name=False``.
    """
    metadata = {"help": help, "metavar": metavar, "one_run": one_run, "takes_value": takes_value, "path": path}
    return field(default=default, metadata=metadata)


def _path(default: Any = None) -> Any:
    return field(default=default, metadata={"path": True})


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """How much the participant's processes may use.

    Attributes:
        train_time_limit_s: wall time of training in seconds, or None: of the whole process tree, from the start of the
            interpreter to the end of its last process. Reaching it is not a failure.
        train_energy_limit_kwh: energy above idle of the same processes, or None. Reaching it is not a failure.
        run_time_limit_s: wall time of a whole run in seconds, resumed attempts included; by default one day, for
            training seven days. Reaching it is a failure of the kind ``timeout``.
        call_timeout_s: limit of one ``infer_once`` call in seconds; waits for a processor do not count.
        load_timeout_s: limit of starting the interpreter, importing the submission and ``load_policy``, in seconds. An
            environment that returns nothing for this time and that of a call ends the run.
        memory_limit_bytes: of each process and of all together; by default a share of the host's memory for all; 0 for
            no limit.
        cpu_limit: number of processors that the processes may use together, or None.
        process_limit: number of participant processes, or None.
        artifact_limit_bytes: total size of the artifacts, or None. An isolated environment may have this size too.
    """

    train_time_limit_s: float | None = None
    train_energy_limit_kwh: float | None = None
    run_time_limit_s: float | None = option(
        None, "Wall-clock limit of a whole run. Default: 1 day, for training 7 days.", metavar="SECONDS"
    )
    call_timeout_s: float = 60.0
    load_timeout_s: float = 300.0
    memory_limit_bytes: int | None = option(
        None, "Memory limit of the participant. Default: a share of the host's memory; 0: none.", metavar="BYTES"
    )
    cpu_limit: float | None = None
    process_limit: int | None = 512
    artifact_limit_bytes: int | None = 16 * 2**30

    @property
    def stall_s(self) -> float:
        """Seconds without a call of the policy after which the environment is taken to hang."""
        return self.load_timeout_s + self.call_timeout_s


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """What the participant's processes can reach.

    Attributes:
        sandbox: a level, also of an installed package; ``"strongest"`` is bubblewrap if this host offers it, else
            process.
        network: whether the participant may use the network.
        services: see ``run_services``; by default those that the gin file asks for.
        readable_paths: files and folders to read in addition to the submission and its interpreter.
        hidden_paths: files and folders that the participant must not see, even inside a readable folder.
        datasets_path: folder of Minari datasets; the participant gets it as ``MINARI_DATASETS_PATH``.
        pass_environment: names of further environment variables that the participant gets.
    """

    sandbox: str = option(
        STRONGEST,
        "Sandbox level: none, process, bubblewrap or docker. Default: bubblewrap if this host offers it, else process.",
        metavar="LEVEL",
    )
    allow_weaker: bool = option(
        False, "Run even if this host cannot provide the sandbox level or a limit; the record lists what is missing."
    )
    network: bool = False
    services: Sequence[Any] | None = None
    readable_paths: Sequence[str] = _path(())
    hidden_paths: Sequence[str] = _path(())
    datasets_path: str | None = option(None, "Folder of Minari datasets.", metavar="DIR", path=True)
    pass_environment: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """Which episodes are played, and which calls are timed.

    Attributes:
        num_inference_steps: number of timed calls of ``infer_once`` before the scored steps; 0 makes none. By default
            the scored steps are timed alone; if they are fewer than 300, further calls follow them, at most 1,000, for
            at most the time of the scored episodes plus one second.
        num_warmup_steps: number of calls before the timed ones, unless 0 of these were asked for.
        num_inference_episodes: episodes in inference mode.
        num_generalization_episodes: episodes per task in generalization mode.
        generalization_tasks: names of the tasks; by default the domain's list.
        repeats: plays of each scored episode; the first one is scored.
        concurrent_episodes: episodes of a task at the same time. Above 1, ``fresh_policy`` is ``"episode"``, and the
            episodes are those that would be played in turn.
        batch: episodes that are played together: the policy gets their observations in one call of ``infer_batch``.
            One of them is played again alone, and other actions fail the run. No latency is measured.
        inference_data: ``"fresh"`` measures latency on observations of rollouts that the policy has not seen before,
            ``"sampled"`` on random samples of the observation space (as the earlier platform did).
        seed: root seed of everything random in the run.
        public_seeds: by default, seeds depend on a secret of the evaluator too, see ``seeds``.
        evaluation_seeds_file: file of episode seeds that the participant never sees.
        held_out_task: file of the task of the inference mode, instead of ``create_domain``. The participant is given a
            public task of the same kind.
        fresh_policy: ``"run"`` loads the policy once for all episodes. ``"episode"`` starts a new participant process
            for each, which then remembers nothing in processes and files; counters of the kernel can carry a few bits.
    """

    num_inference_steps: int | None = None
    num_warmup_steps: int = 10
    num_inference_episodes: int = 1
    num_generalization_episodes: int = 1
    generalization_tasks: Sequence[str] | None = None
    repeats: int = option(
        1, "Play each scored episode this many times with the same seed, to measure consistency.", metavar="N"
    )
    perturbations: Sequence[str] = option(
        (), "Play each episode under this perturbation too, or under all; repeatable.", metavar="NAME"
    )
    concurrent_episodes: int = option(
        1, "Episodes to play at the same time, each with a new participant process.", metavar="N"
    )
    batch: int = option(
        1, "Episodes to play together, with one call of infer_batch for their observations.", metavar="N"
    )
    inference_data: str = "fresh"
    seed: int = 0
    public_seeds: bool = option(
        False, "Derive every seed from the root seed alone, so the submission can compute them too; for comparisons."
    )
    seeds_from: str | None = option(
        None, "Use the seeds recorded in this bundle, for example to repeat a run.", metavar="BUNDLE", path=True
    )
    evaluation_seeds_file: str | None = _path()
    held_out_task: str | None = _path()
    fresh_policy: str = "run"

    @property
    def studies_reliability(self) -> bool:
        """Whether the run plays more than the scored episodes."""
        return self.repeats > 1 or bool(self.perturbations)


@dataclass(frozen=True, kw_only=True)
class PythonEnv:
    """Which Python the participant uses.

    Attributes:
        python_env: ``"shared"``, or ``"isolated"``: an environment from its requirements.txt, kept for later runs.
        participant_python: interpreter, or base of an isolated environment; by default the evaluator's.
    """

    python_env: str = option(
        "shared",
        "Packages of the participant: shared (those of a2perf) or isolated (installed from its requirements.txt).",
        metavar="KIND",
    )
    participant_python: str | None = option(None, "Interpreter of the participant process.", metavar="FILE", path=True)

    @property
    def shares_packages(self) -> bool:
        """Whether the participant runs with the interpreter and the packages of the evaluator."""
        return self.python_env == "shared" and self.participant_python is None


@dataclass(frozen=True, kw_only=True)
class Trackers:
    """How costs are sampled.

    Attributes:
        measure_emissions: write the classic emissions file, unless ``track_emissions_decorator.save_to_file`` is
            ``False``, and codecarbon's own if ``track_emissions_decorator`` asks for them. Time, memory, power and
            energy are always in the bundle, sampled every second or, if that is less, every
            ``track_emissions_decorator.measure_power_secs``.
    """

    measure_emissions: bool = False


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Which results are written, and where.

    Attributes:
        root_dir: folder of the run; each mode writes one bundle in it.
        record_frames: number of pictures of the first episode; 0 records none.
        record_videos: number of episodes recorded as video.
    """

    root_dir: str | None = None
    metric_values_dir: str | None = option(
        None, "Folder of the classic result files. Default: ROOT/metrics.", metavar="DIR", one_run=True, path=True
    )
    run_offline_metrics_only: bool = option(
        False, "Recompute the metrics of a recorded run without running it.", one_run=True, takes_value=True
    )
    record_frames: int = 8
    record_videos: int = 0

    @property
    def root(self) -> Path:
        """The run's root folder."""
        return Path(str(self.root_dir))


RECORDS: Mapping[str, type] = {
    "Recording": Recording,
    "Episodes": Episodes,
    "Limits": RunLimits,
    "Confinement": Confinement,
    "PythonEnv": PythonEnv,
    "Trackers": Trackers,
}
"""The records by their name in gin files, in the order of their options."""


@dataclass(frozen=True, kw_only=True)
class Submission(Trackers, PythonEnv, Confinement, RunLimits, Episodes, Recording):
    """One run of one submission: the settings of all records; every field can be bound in a gin file.

    Attributes:
        mode: what to run: the enum, or ``"train"``, ``"inference"`` or ``"generalization"``.
        domain: the enum or a registered name.
        participant_module_path: the submission's folder.
        participant_args: arguments of ``train`` and ``load_policy``; the values are strings.
        trained_root_dir: root directory of the training run that made the policy; by default this run's.
        time_participant_code: accepted for older files: False is the same as ``num_inference_steps = 0``.
        plot_metrics: accepted for older files, without effect; the report draws the plots.
        reliability_metrics: accepted for older files, without effect; `a2perf score` writes every metric.
    """

    mode: BenchmarkMode | str | None = None
    domain: BenchmarkDomain | str | None = None
    participant_module_path: str | None = None
    participant_args: dict[str, str] = field(default_factory=dict)
    trained_root_dir: str | None = _path()
    time_participant_code: InitVar[bool] = True
    plot_metrics: InitVar[bool] = True
    reliability_metrics: InitVar[Sequence[Any] | None] = None

    def __post_init__(self, time_participant_code: bool, plot_metrics: bool, _: Any) -> None:
        for entry in fields(self):
            check_value(entry.name, str(entry.type), getattr(self, entry.name))
        check_value("time_participant_code", "bool", time_participant_code)
        check_value("plot_metrics", "bool", plot_metrics)
        if not time_participant_code:
            object.__setattr__(self, "num_inference_steps", 0)
        if self.mode is None:
            raise ConfigError(
                "Submission.mode is not set",
                hint=f"add `Submission.mode = {_choices(BenchmarkMode)}` to the gin file",
            )
        if self.domain is None:
            raise ConfigError(
                "Submission.domain is not set",
                hint=f"add `Submission.domain = {_choices(BenchmarkDomain)}` to the gin file, or `--domain NAME`",
            )
        object.__setattr__(self, "mode", _mode(self.mode))
        object.__setattr__(self, "domain", get_domain(self.domain).name)
        for name, valid in CHOICES.items():
            given = getattr(self, name)
            if given not in valid:
                raise ConfigError(
                    f"Submission.{name} = {given!r} is not valid{did_you_mean(given, valid)}",
                    hint=f"use {', '.join(map(repr, valid[:-1]))} or {valid[-1]!r}",
                )
        if self.concurrent_episodes > 1:
            object.__setattr__(self, "fresh_policy", "episode")
        if self.batch > 1 and self.fresh_policy == "episode":
            raise ConfigError(
                "Submission.batch needs one policy for all episodes",
                hint="remove fresh_policy = 'episode' and concurrent_episodes",
            )
        object.__setattr__(self, "perturbations", _perturbations(str(self.domain), self.perturbations))
        services = wanted_services() if self.services is None else tuple(self.services)
        object.__setattr__(self, "services", services)
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ConfigError(f"Submission.{name} = {getattr(self, name)} is not valid", hint="use 1 or more")
        for name, most in AT_MOST.items():
            if (getattr(self, name) or 0) > most:
                raise ConfigError(
                    f"Submission.{name} = {getattr(self, name):g} is not valid", hint=f"use at most {most:,.0f}"
                )

    def identity(self) -> dict[str, Any]:
        """Returns the settings of a run's identity that have no field in its manifest, by name, as JSON values.

        Small files of the organizer and bundles count by their content, other paths by their place.
        """
        found: dict[str, Any] = {}
        for entry in fields(self):
            if entry.name in NEUTRAL or entry.name in _IN_MANIFEST:
                continue
            value = getattr(self, entry.name)
            if entry.metadata.get("path") and value:
                named = content_of if entry.name in _BY_CONTENT else _place
                value = named(value) if isinstance(value, str) else [named(item) for item in value]
            found[entry.name] = list(value) if isinstance(value, tuple) else value
        for service in self.services or ():
            found |= service.identity()
        return found

    @property
    def values(self) -> Path:
        """The folder of the classic result files."""
        if self.metric_values_dir:
            return settled(self.metric_values_dir, self.folder, "Submission.metric_values_dir")
        return self.root / METRICS

    @property
    def folder(self) -> Path:
        """The submission's folder."""
        return Path(str(self.participant_module_path))


def owner_of(configurable: str, name: str) -> str:
    """Returns the name under which gin stores a setting: ``"Submission"`` for those of the records."""
    is_record = configurable in RECORDS and name in {entry.name for entry in fields(RECORDS[configurable])}
    return "Submission" if is_record else configurable


def _place(given: str) -> str:
    return given if "://" in given else str(Path(given).expanduser().absolute())


def content_of(given: str) -> str:
    """Returns the hash of a file or of a bundle's manifest, for an identity; its place if it cannot be read."""
    path = Path(_place(given))
    try:
        with (path / MANIFEST if path.is_dir() else path).open("rb") as stream:
            return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    except OSError:  # the reader of the file explains it
        return str(path)


def _mode(given: BenchmarkMode | str) -> BenchmarkMode:
    if isinstance(given, BenchmarkMode):
        return given
    names = [mode.value for mode in BenchmarkMode]
    if given.lower() not in names:
        raise ConfigError(
            f"Submission.mode = {given!r} is not a mode{did_you_mean(given.lower(), names)}",
            hint=f"choose one of: {', '.join(names)}",
        )
    return BenchmarkMode(given.lower())


def _perturbations(domain_name: str, given: Sequence[str]) -> tuple[str, ...]:
    domain = get_domain(domain_name)
    if twice := sorted({name for name in given if given.count(name) > 1}):
        raise ConfigError(f"Submission.perturbations lists {twice[0]!r} twice", hint="list each perturbation once")
    for name in given:
        if name != ALL_PERTURBATIONS:
            domain.perturbation(name)
    every = ALL_PERTURBATIONS in given
    return tuple(known.name for known in domain.perturbations if every or known.name in given)


def _choices(kind: type[enum.Enum]) -> str:
    return " | ".join(f"%{kind.__name__}.{member.name}" for member in kind)


_ENUMS: dict[str, type[enum.Enum]] = {"BenchmarkMode": BenchmarkMode, "BenchmarkDomain": BenchmarkDomain}
_TYPES: dict[str, tuple[Any, str]] = {
    "bool": (bool, "True or False"),
    "int": (Annotated[int, msgspec.Meta(ge=0)], "an integer, 0 or more"),
    "float": (Annotated[float, msgspec.Meta(gt=0)], "a number above 0"),
    "str": (str, "a string in quotation marks"),
    "Sequence[str]": (list[str], "a list of strings"),
    "Sequence[Any]": (list[Any], "a list"),
    "dict[str, str]": (dict[Any, Any], "a dictionary of strings"),
    "None": (None, "None"),
}
"""The type that each annotation accepts, and its description."""


def check_value(name: str, annotation: str, value: Any) -> None:
    """Checks the type of a setting's value.

    Args:
        annotation: its type as it is annotated in ``Submission``.

    Raises:
        ConfigError: the value has another type, or is out of range.
    """
    kinds = [kind.strip() for kind in annotation.split("|")]
    if any(isinstance(value, _ENUMS[kind]) for kind in kinds if kind in _ENUMS):
        return
    try:
        msgspec.convert(value, Union[tuple(_TYPES[kind][0] for kind in kinds if kind in _TYPES)])  # noqa: UP007
    except msgspec.ValidationError:
        valid = " or ".join(_choices(_ENUMS[kind]) if kind in _ENUMS else _TYPES[kind][1] for kind in kinds)
        raise ConfigError(f"Submission.{name} = {value!r} is not valid", hint=f"use {valid}") from None
