"""The settings of one run: a typed record that checks its own values, runs nothing and knows no gin.

A field that is also an option of the commands is declared with ``option`` and nowhere else: ``run_options`` makes the
command-line flags from it, for the evaluator and for every command that starts runs.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Union

import msgspec

from a2perf.constants import BenchmarkDomain, BenchmarkMode
from a2perf.domains.registry import get_domain
from a2perf.errors import ConfigError, did_you_mean
from a2perf.sandbox import DEFAULT_SCRATCH_BYTES, STRONGEST

CHOICES = {
    "inference_data": ("fresh", "sampled"),
    "python_env": ("shared", "isolated"),
    "fresh_policy": ("run", "episode"),
}
"""The values of the settings that have few."""

_AT_LEAST_ONE = ("num_inference_episodes", "num_generalization_episodes", "num_recorded_observations")


def option(
    default: Any, help: str, *, metavar: str | None = None, one_run: bool = False, takes_value: bool = False,
    path: bool = False,
) -> Any:  # fmt: skip
    """Declares a setting that is also an option of the commands.

    Args:
        default: of the setting; an option that is not given leaves the setting to the gin file.
        help: what ``--help`` says.
        metavar: what ``--help`` shows for the value.
        one_run: whether it is an option of a single run only, not of every run of an experiment.
        takes_value: whether a boolean option may be given as ``--name=False`` too.
        path: whether the value names a file or folder.
    """
    metadata = {"help": help, "metavar": metavar, "one_run": one_run, "takes_value": takes_value, "path": path}
    return field(default=default, metadata=metadata)


def _path(default: Any = None) -> Any:
    """Declares a setting that names a file or folder."""
    return field(default=default, metadata={"path": True})


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One run of one submission; every field can be bound in a gin file (``submission_util`` registers it).

    Attributes:
        mode: what to do; the enum or ``"train"``, ``"inference"``, ``"generalization"``.
        domain: the enum or a registered name.
        root_dir: folder of the run; each mode makes a bundle below it.
        metric_values_dir: where the classic result files go; ``<root_dir>/metrics`` by default.
        participant_module_path: the submission's folder.
        participant_args: passed to ``train`` and ``load_policy``; the values are strings.
        run_offline_metrics_only: recompute the metrics from the recorded bundle and run nothing.
        num_inference_steps: calls of ``infer_once`` that are timed.
        num_warmup_steps: calls made before, counted apart.
        num_inference_episodes: rollouts of the inference mode.
        num_generalization_episodes: rollouts per task of the generalization mode.
        time_participant_code: whether the latency phase runs at all.
        measure_emissions: whether the classic emissions file is published, with codecarbon's own outputs where
            ``track_emissions_decorator`` asks for them; time, memory, power and energy are always in the bundle.
        inference_data: ``"fresh"`` times on observations of rollouts, each as the policy meets it for the first time;
            ``"sampled"`` on random samples of the observation space (the earlier platform's way). ``"recorded"`` is
            accepted for older files and means ``"fresh"``.
        num_recorded_observations: accepted for older files; every timed call has an observation of its own.
        generalization_tasks: names of the tasks; the domain's own list by default.
        num_parallel_tasks: tasks that run at the same time; by default one per two processors, at least one.
        reliability_metrics: selection for the report; all by default.
        seed: root seed of everything random in the run.
        public_seeds: whether all seeds follow from the root seed alone, which the participant can find; by default
            they are keyed with a secret of the evaluator, see ``seeds``.
        seeds_from: a bundle: the seeds are those of its record, as on the host that made it.
        fresh_policy: ``"run"`` loads the policy once for all episodes, ``"episode"`` starts a new participant process
            for each one, so that nothing is remembered.
        held_out_task: file of a task that the inference mode runs instead of the one of ``create_domain``; the
            participant hears of a public task of its kind.
        trained_root_dir: root directory of the training run that the policy comes from; this run's own by default.
        evaluation_seeds_file: file of episode seeds that the participant never sees.
        train_time_limit_s: wall-clock limit of ``train()`` in seconds; None is no limit. Reaching it is no failure.
        train_energy_limit_kwh: energy above idle in kWh that ``train()`` may use; None is no limit. Reaching it is no
            failure.
        call_timeout_s: limit of one ``infer_once`` in seconds.
        load_timeout_s: limit of importing the submission and of ``load_policy`` in seconds.
        memory_limit_bytes: memory limit of each participant process and of all of them together; None is no limit.
        cpu_limit: how many processors' worth of time the participant gets; None is no limit.
        process_limit: how many processes it may have; None is no limit.
        file_size_limit_bytes: how large one file that it writes may be; None is no limit.
        artifact_limit_bytes: how much it may write to its artifact folder; None is no limit.
        scratch_limit_bytes: size of its ``/tmp`` and of its ``/dev/shm`` where the sandbox gives it its own.
        output_limit_bytes: how much of its standard output and error is kept, each.
        sandbox: ``"none"``, ``"process"``, ``"bubblewrap"`` or ``"docker"``; ``"strongest"`` is the better one of
            process and bubblewrap that this host offers.
        allow_weaker: whether to run when the sandbox or a limit that was asked for cannot be had here; the manifest
            then says what is missing.
        network: whether the participant may reach the network.
        readable_paths: files and folders of the host that it may read beside its submission and its interpreter.
        hidden_paths: files and folders that it must not see even where something readable holds them.
        python_env: ``"shared"`` runs the participant with the evaluator's packages, ``"isolated"`` in an environment
            of its own that is made of its requirements.txt, kept and used again.
        python_env_find_links: folders of wheels that an isolated environment may be made of, beside the index.
        python_env_offline: whether an isolated environment is made without the index.
        python_env_builds: whether packages without a wheel may be built for it, which runs their code in the sandbox
            of the installation.
        python_env_size_bytes: size of the largest isolated environment.
        participant_python: interpreter of the participant process, or the one an isolated environment is made of;
            the evaluator's own by default.
        datasets_path: folder of Minari datasets; the participant gets it as ``MINARI_DATASETS_PATH``.
        pass_environment: names of further environment variables that the participant gets.
        clip_actions: clip finite actions into the box (as the earlier platform did) instead of refusing them.
        record_frames: frames of the picture strip of the first episode; 0 makes none.
        record_videos: episodes of which a video is made.
        sampling_interval_s: longest period of the trackers in seconds; 1 by default.
        plot_metrics: accepted for older files; the report makes the plots.
    """

    mode: BenchmarkMode | str | None = None
    domain: BenchmarkDomain | str | None = None
    root_dir: str | None = None
    metric_values_dir: str | None = option(
        None, "Where the classic result files go; ROOT/metrics by default.", metavar="DIR", one_run=True, path=True
    )
    participant_module_path: str | None = None
    participant_args: dict[str, str] = field(default_factory=dict)
    run_offline_metrics_only: bool = option(
        False, "Recompute the metrics of a recorded run and run nothing.", one_run=True, takes_value=True
    )
    num_inference_steps: int = 1000
    num_warmup_steps: int = 10
    num_inference_episodes: int = 1
    num_generalization_episodes: int = 1
    time_participant_code: bool = True
    measure_emissions: bool = False
    inference_data: str = "fresh"
    num_recorded_observations: int = 1000
    generalization_tasks: Sequence[str] | None = None
    num_parallel_tasks: int | None = None
    reliability_metrics: Sequence[Any] | None = None
    seed: int = 0
    public_seeds: bool = option(
        False,
        "Derive every seed from the root seed alone, as the submission can, too; for comparisons and teaching.",
    )
    seeds_from: str | None = option(
        None, "Repeat with the seeds that a bundle of another host recorded.", metavar="BUNDLE", path=True
    )
    fresh_policy: str = "run"
    held_out_task: str | None = _path()
    trained_root_dir: str | None = _path()
    evaluation_seeds_file: str | None = _path()
    train_time_limit_s: float | None = None
    train_energy_limit_kwh: float | None = None
    call_timeout_s: float = 60.0
    load_timeout_s: float = 300.0
    memory_limit_bytes: int | None = option(
        None, "Memory of each participant process and of all of them together.", metavar="BYTES"
    )
    cpu_limit: float | None = None
    process_limit: int | None = 512
    file_size_limit_bytes: int | None = None
    artifact_limit_bytes: int | None = 16 * 2**30
    scratch_limit_bytes: int = DEFAULT_SCRATCH_BYTES
    output_limit_bytes: int = 10 * 2**20
    sandbox: str = option(
        STRONGEST,
        "How the participant process is confined: none, process, bubblewrap or docker; by default the better one of "
        "process and bubblewrap that this host offers.",
        metavar="LEVEL",
    )
    allow_weaker: bool = option(False, "Run although the sandbox or a limit cannot be had here; it is recorded.")
    network: bool = False
    readable_paths: Sequence[str] = _path(())
    hidden_paths: Sequence[str] = _path(())
    python_env: str = option(
        "shared",
        "Packages of the participant process: shared (a2perf's own) or isolated (made of its requirements.txt).",
        metavar="KIND",
    )
    python_env_find_links: Sequence[str] = option(
        (), "Folder of wheels for an isolated environment.", metavar="DIR", path=True
    )
    python_env_offline: bool = False
    python_env_builds: bool = False
    python_env_size_bytes: int = 8 * 1024**3
    participant_python: str | None = option(None, "Interpreter of the participant process.", metavar="FILE", path=True)
    datasets_path: str | None = option(None, "Folder of datasets.", metavar="DIR", path=True)
    pass_environment: Sequence[str] = ()
    clip_actions: bool = True
    record_frames: int = 8
    record_videos: int = 0
    sampling_interval_s: float | None = None
    plot_metrics: bool = True

    def __post_init__(self) -> None:
        for entry in fields(self):
            _check(entry.name, str(entry.type), getattr(self, entry.name))
        if self.mode is None:
            raise ConfigError(
                "Submission.mode is not set", hint=f"add `Submission.mode = {_choices(BenchmarkMode)}` to the gin file"
            )
        if self.domain is None:
            raise ConfigError(
                "Submission.domain is not set",
                hint=f"add `Submission.domain = {_choices(BenchmarkDomain)}` to the gin file, or give `--domain NAME`",
            )
        object.__setattr__(self, "mode", _mode(self.mode))
        object.__setattr__(self, "domain", get_domain(self.domain).name)
        if self.inference_data == "recorded":
            object.__setattr__(self, "inference_data", "fresh")
        for name, valid in CHOICES.items():
            given = getattr(self, name)
            if given not in valid:
                raise ConfigError(
                    f"Submission.{name} = {given!r} is not valid{did_you_mean(given, valid)}",
                    hint=f"use {valid[0]!r} or {valid[1]!r}",
                )
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ConfigError(f"Submission.{name} = {getattr(self, name)} is not valid", hint="use 1 or more")

    @property
    def root(self) -> Path:
        """The run's root folder."""
        return Path(str(self.root_dir))

    @property
    def folder(self) -> Path:
        """The submission's folder."""
        return Path(str(self.participant_module_path))


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


def _choices(kind: type[enum.Enum]) -> str:
    return " | ".join(f"%{kind.__name__}.{member.name}" for member in kind)


_ENUMS: dict[str, type[enum.Enum]] = {"BenchmarkMode": BenchmarkMode, "BenchmarkDomain": BenchmarkDomain}
_TYPES: dict[str, tuple[Any, str]] = {
    "bool": (bool, "True or False"),
    "int": (Annotated[int, msgspec.Meta(ge=0)], "a whole number that is not negative"),
    "float": (Annotated[float, msgspec.Meta(gt=0)], "a number above 0"),
    "str": (str, "a string in quotation marks"),
    "Sequence[str]": (list[str], "a list of strings"),
    "Sequence[Any]": (list[Any], "a list"),
    "dict[str, str]": (dict[Any, Any], "a dictionary of strings"),
    "None": (None, "None"),
}
"""What each annotation of a setting accepts, as a type and in words."""


def _check(name: str, annotation: str, value: Any) -> None:
    kinds = [kind.strip() for kind in annotation.split("|")]
    if any(isinstance(value, _ENUMS[kind]) for kind in kinds if kind in _ENUMS):
        return
    try:
        msgspec.convert(value, Union[tuple(_TYPES[kind][0] for kind in kinds if kind in _TYPES)])  # noqa: UP007
    except msgspec.ValidationError:
        valid = " or ".join(_choices(_ENUMS[kind]) if kind in _ENUMS else _TYPES[kind][1] for kind in kinds)
        raise ConfigError(f"Submission.{name} = {value!r} is not valid", hint=f"use {valid}") from None
