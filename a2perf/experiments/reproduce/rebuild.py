"""Rebuilds a run from its record: submission by hash, environment, settings, seeds and the artifacts of its training.

A bundle may come from another person. Its gin file is therefore read as data, and only settings that describe the
evaluation are taken over. How the submission is confined, which interpreter and files it gets and what it may reach
are decided by the caller's request, never by the bundle.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from a2perf.constants import BenchmarkMode
from a2perf.domains.any_environment import qualified_id, register
from a2perf.domains.package_code import environment_package, package_sha256
from a2perf.domains.registry import find_environment, get_domain, stored_fingerprint
from a2perf.errors import ConfigError, SubmissionError, UserError
from a2perf.experiments.planning import PlannedRun, recorded_bindings
from a2perf.experiments.protocol_plan import trains
from a2perf.experiments.reproduce.selection import manifest_of, trained_of
from a2perf.launch.run_spec import Resources, RunSpec
from a2perf.records import Manifest, TrainResults
from a2perf.runs.bundles import layout
from a2perf.runs.bundles.files import BundleFiles, configuration_name, files_of
from a2perf.runs.bundles.inventory import MAX_MANIFEST_BYTES
from a2perf.runs.run import Run
from a2perf.runs.signing import manifest_sha256
from a2perf.sandbox.limits import participants_bytes
from a2perf.storage import parse_record, write_atomic
from a2perf.stranger_files import Kind, printable
from a2perf.submission.evaluator.playing.seeds import RunSeeds, spawn_seeds
from a2perf.submission.evaluator.submitted.folder_content import SCHEME, identify_submission
from a2perf.submission.participant.forms import is_submission
from a2perf.submission.participant_gin import Binding, to_gin
from a2perf.submission.participant_settings import permitted
from a2perf.submission.run_options import RunOptions
from a2perf.submission.settings import RUN_TIME_LIMITS_S, RunLimits

EVALUATION = (
    "num_inference_steps",
    "num_warmup_steps",
    "num_inference_episodes",
    "num_generalization_episodes",
    "time_participant_code",
    "inference_data",
    "batch",
    "generalization_tasks",
    "train_time_limit_s",
    "train_energy_limit_kwh",
    "python_env",
    "fresh_policy",
    "repeats",
    "perturbations",
)
"""Settings that describe an evaluation or a training run; all others belong to the host that runs it."""

PROTECTION = tuple(entry.name for entry in fields(RunLimits) if entry.name not in EVALUATION)
"""Limits that protect the host: a record can only lower those of the caller."""

_OF_THE_HOST = {
    "held_out_task": "it evaluated a task file of the organizer",
    "datasets_path": "it read offline datasets: give --datasets-path",
    "pass_environment": "it got environment variables, and their values are not recorded",
    "network": "it could use the network, and the repetition cannot",
    "readable_paths": "it could read further files of the host",
    "participant_python": "it ran with another interpreter: give --participant-python",
}
_BLOCKING = ("held_out_task",)
_NOT_ENVIRONMENT = ("root_dir", "env_wrappers", "gym_env_wrappers", "framework")
_MAX_CONFIG_BYTES = 1 << 20
_MAX_ARTIFACT_BYTES = 64 << 30
_SEED_STEP = 1_000_003
"""Distance between the root seeds of repetitions: further apart than the seeds of any experiment."""
_FRESH_STREAM = 1000
"""First stream of the seeds of fresh episodes; those of generalization tasks are below."""


@dataclass(frozen=True, kw_only=True)
class ReproduceRequest:
    """The request of `a2perf reproduce`; the fields are the arguments of ``a2perf.reproduce``.

    Attributes:
        output: folder of the repetitions and verdicts; None for ``<path>-reproduced``, with the verdicts beside the
            bundles that lie in a folder.
    """

    paths: Sequence[Path]
    submissions: Sequence[Path] = ()
    allow_changed: bool = False
    trust_bundle: bool = False
    train: bool = False
    options: RunOptions = field(default_factory=RunOptions)
    resources: Resources = field(default_factory=Resources)
    entry: str | None = None
    sample_size: str | None = None
    sample_seed: int = 0
    episodes: int | None = None
    output: Path | None = None
    key: Path | None = None
    force: bool = False

    def __post_init__(self) -> None:
        """Checks the options."""
        if self.allow_changed and not self.submissions:
            raise ConfigError(
                "--allow-changed needs --submission DIR", hint="name the folder with the code that may run"
            )

    def trains(self, bundle: Run) -> bool:
        """Returns whether the training run of a bundle is repeated too."""
        return self.train and trained_of(bundle) is not None

    @property
    def folder(self) -> Path:
        """The folder of the repetitions."""
        if self.output is not None:
            return self.output.absolute()
        first = self.paths[0].absolute()
        return first.with_name(f"{first.name.removesuffix('.zip')}-reproduced")


@dataclass(frozen=True)
class RebuiltRun:
    """A recorded run that can be executed again.

    Attributes:
        work: folder of its repetitions, absolute.
        notes: differences to the recorded run that follow from its record.
    """

    recorded: Run
    submission: Path
    work: Path
    notes: tuple[str, ...]
    request: ReproduceRequest

    def specs(self, number: int) -> list[RunSpec]:
        """Returns one repetition: the training run, if it is repeated, and the evaluation.

        Args:
            number: 0 repeats the recorded seeds; every other number has fresh episodes.
        """
        root = self.work / f"run_{number}"
        found: list[RunSpec] = []
        trained = trained_of(self.recorded)
        if self.request.train and trained is not None:
            found.append(self._spec(trained, number, root, None))
        elif trained is not None and not (root / "train" / layout.ARTIFACTS).exists():
            copy_artifacts(files_of(trained.folder.path), root / "train" / layout.ARTIFACTS)
        found.append(self._spec(self.recorded, number, root, found[-1] if found else None))
        return found

    def _spec(self, recorded: Run, number: int, root: Path, after: RunSpec | None) -> RunSpec:
        manifest = manifest_of(recorded)
        place = self.work / "record" / f"run_{number}" / manifest.mode
        lines = [f"{name} = {to_gin(value)}" for name, value in _settings(recorded, self.request).items()]
        # The evaluator reads the seeds from a manifest in a folder, and the bundle may be in a packed file.
        write_atomic(place / layout.MANIFEST, files_of(recorded.folder.path).read(layout.MANIFEST, MAX_MANIFEST_BYTES))
        seeds = self._episode_seeds(manifest, number)
        if seeds is not None:
            write_atomic(place / "episode_seeds.txt", "".join(f"{seed}\n" for seed in seeds))
            lines.append(f"Submission.evaluation_seeds_file = {str(place / 'episode_seeds.txt')!r}")
        gin_file = place / "run.gin"
        write_atomic(gin_file, "\n".join(["import a2perf.submission.submission_util", *lines, ""]))
        root_seed, options = manifest.root_seed, self.request.options.with_(seeds_from=str(place))
        if number > 0:  # fresh seeds of everything random, the same on every host
            root_seed, options = root_seed + _SEED_STEP * number, self.request.options.with_(public_seeds=True)
        run = PlannedRun(
            submission=self.submission,
            gin_file=gin_file,
            root=root,
            seed=root_seed,
            options=options,
            resources=self.request.resources,
            readable=(place,),
        )
        return run.spec(
            f"{recorded.folder.label}#{number}",
            manifest.mode,
            {"submission": manifest.submission.name, "task": manifest.task, "seed": root_seed, "repetition": number},
            identity=[
                manifest_sha256(recorded.folder.path),
                present_conditions(manifest, self.submission),
                lines,
                options.words(),
                self.request.train,
                number,
            ],
            domain=manifest.domain,
            after=after,
        )

    def _episode_seeds(self, manifest: Manifest, number: int) -> list[int] | None:
        """Returns the seeds of the episodes; None if the evaluator derives the recorded ones itself."""
        if manifest.mode != "inference":
            return None
        recorded = manifest.seeds.get("episodes") or []
        if number > 0:
            return fresh_seeds(manifest, number, len(recorded))
        derived = manifest.seeds.get("evaluation") != "file" and recorded == RunSeeds.recorded(
            manifest.root_seed, manifest.seeds
        ).draw("episodes", len(recorded))
        return None if derived else recorded


def rebuild(recorded: Run, work: Path, request: ReproduceRequest) -> tuple[RebuiltRun | None, list[str]]:
    """Rebuilds a recorded evaluation.

    Returns:
        The run, or None and what is missing, one sentence each.
    """
    missing: list[str] = []
    notes: list[str] = []
    manifest = manifest_of(recorded)
    submission = find_submission(manifest, request, missing)
    missing += _environment_problems(manifest, trusted=request.trust_bundle)
    try:
        given = _recorded_settings(manifest, _bindings(recorded))
        for name, why in _OF_THE_HOST.items():
            if given.get(name) and request.options.get(name) is None:
                (missing if name in _BLOCKING else notes).append(why)
        if given.get("python_env") == "built" and request.options.get("python_env") is None:
            missing.append("its packages were built from source; only wheels are installed (--python-env isolated)")
        _settings(recorded, request)
    except UserError as error:
        missing.append(f"its configuration cannot be read: {error.message}")
    if submission is not None:
        missing += _training_problems(recorded, submission, request)
    if missing or submission is None:
        return None, missing
    return RebuiltRun(recorded, submission, work.absolute(), tuple(notes), request), []


def find_submission(manifest: Manifest, request: ReproduceRequest, missing: list[str]) -> Path | None:
    """Returns the folder with the recorded submission; None, with the reason in ``missing``, if it was not found."""
    recorded = manifest.submission
    given = [folder for place in request.submissions for folder in _submissions_in(place)]
    changed: list[Path] = []
    for folder in [*given, Path(recorded.path)]:
        if not (folder.is_dir() and is_submission(folder)):
            continue
        left_out = next((name for name in recorded.not_covered if name.endswith("/")), None)
        try:
            found = identify_submission(folder, root=None if left_out is None else folder / left_out)
        except (SubmissionError, ConfigError):
            continue
        if recorded.scheme == SCHEME and found.sha256 == recorded.sha256:
            return folder.resolve()
        # A path from a bundle never selects code that the bundle does not name by its hash.
        if folder in given and found.name == recorded.name:
            changed.append(folder)
    if changed and request.allow_changed:
        return changed[0].resolve()
    what = f"the submission {recorded.name} with the hash {recorded.sha256[:12]}"
    if changed and recorded.scheme != SCHEME:
        why = f"{changed[0]} cannot be compared with it: the record has an older kind of hash"
    elif changed:
        why = f"the files of {changed[0]} are different"
    else:
        why = f"it is not in {', '.join(map(str, [*request.submissions, recorded.path]))}"
    hint = "repeat with the changed one: --allow-changed" if changed else "give its folder: --submission DIR"
    missing.append(f"{what}: {why} ({hint})")
    return None


def fresh_seeds(manifest: Manifest, number: int, count: int) -> list[int]:
    """Returns the seeds of the episodes of repetition ``number``, all different and none of them recorded."""
    known = set(manifest.seeds.get("episodes") or [])
    drawn = spawn_seeds(manifest.root_seed, "episodes", 2 * count + 64, stream=_FRESH_STREAM + number)
    return [seed for seed in dict.fromkeys(drawn) if seed not in known][:count]


def copy_artifacts(files: BundleFiles, target: Path) -> None:
    """Copies the artifacts of a recorded training run; links and other special files are left out.

    A copy, because a policy may write into the folder of its artifacts.

    Raises:
        UserError: they are larger than ``_MAX_ARTIFACT_BYTES``.
    """
    if sum(entry.status.size for entry in files.entries(layout.ARTIFACTS)) > _MAX_ARTIFACT_BYTES:
        raise UserError(
            f"the artifacts of {files.path} are larger than {_MAX_ARTIFACT_BYTES >> 30} GiB",
            hint="repeat the training run instead: --train",
        )
    unfinished = target.with_name(f".{target.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for entry in files.entries(layout.ARTIFACTS):
        status = entry.status
        place = unfinished / status.path.removeprefix(f"{layout.ARTIFACTS}/")
        if status.kind is Kind.FOLDER:
            place.mkdir(parents=True, exist_ok=True)
        elif status.kind is Kind.FILE:
            place.parent.mkdir(parents=True, exist_ok=True)
            with entry.open() as source, place.open("wb") as copy:
                shutil.copyfileobj(source, copy)
            place.chmod(0o644 | (status.mode & 0o100))
    unfinished.replace(target)


def _submissions_in(place: Path) -> list[Path]:
    if is_submission(place):
        return [place]
    inner = sorted(place.iterdir()) if place.is_dir() else []
    return [folder for folder in inner if folder.is_dir() and is_submission(folder)]


def _bindings(recorded: Run) -> dict[str, Any]:
    """Returns the literal bindings of the recorded configuration by ``"Configurable.parameter"``."""
    files = files_of(recorded.folder.path)
    name = configuration_name(files)
    return recorded_bindings(files.read(name, _MAX_CONFIG_BYTES), name)


def _recorded_settings(manifest: Manifest, bindings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings in force by name: those of the manifest include flags and defaults, the bindings do not."""
    owner = "Submission."
    bound = {name.removeprefix(owner): value for name, value in bindings.items() if name.startswith(owner)}
    found = {**bound, **manifest.settings}
    if manifest.settings:
        found |= {"repeats": manifest.repeats, "perturbations": manifest.perturbations}
    return found


def _settings(recorded: Run, request: ReproduceRequest) -> dict[str, Any]:
    """Returns the bindings of the repetition."""
    manifest, given = manifest_of(recorded), _bindings(recorded)
    settings = _recorded_settings(manifest, given)
    found: dict[str, Any] = {"Submission.mode": manifest.mode, "Submission.domain": manifest.domain}
    found |= {f"Submission.{name}": settings[name] for name in EVALUATION if name in settings}
    recorded_limits = {name: settings[name] for name in PROTECTION if name in settings}
    limits = recorded_limits if request.trust_bundle else _lower(recorded_limits, manifest.mode)
    found |= {f"Submission.{name}": value for name, value in limits.items()}
    if manifest.concurrent_episodes > 1:
        found["Submission.fresh_policy"] = "episode"
    found["Submission.participant_args"] = dict(manifest.participant_args)
    # Timed calls stay, even if no latency is claimed: they advance the random state of a stochastic policy.
    found["Submission.record_frames"] = 0
    environment = {
        name: value
        for name, value in given.items()
        if name.startswith("create_domain.") and name.partition(".")[2] not in _NOT_ENVIRONMENT
    }
    if manifest.env_id is not None:
        environment = {"create_domain.env_name": _environment_id(manifest)}
        environment |= {f"create_domain.{name}": value for name, value in manifest.env_kwargs.items()}
    elif not request.trust_bundle:
        environment = {}
    return {**found, **environment}


def _lower(recorded: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """Returns those of the recorded limits that are lower than the defaults of this host, which hold for the others."""
    defaults: dict[str, Any] = {entry.name: entry.default for entry in fields(RunLimits)}
    defaults["run_time_limit_s"] = RUN_TIME_LIMITS_S[BenchmarkMode(mode)]
    defaults["memory_limit_bytes"] = participants_bytes()
    return {
        name: value
        for name, value in recorded.items()
        if isinstance(value, int | float) and value > 0 and (defaults[name] is None or value < defaults[name])
    }


def _environment_id(manifest: Manifest) -> str:
    """Returns the id of the recorded environment, with its package if that has to be imported."""
    module = "" if manifest.environment is None else manifest.environment.module
    return qualified_id(str(manifest.env_id), module) if module else str(manifest.env_id)


def _environment_problems(manifest: Manifest, *, trusted: bool) -> list[str]:
    try:
        get_domain(manifest.domain)
        tasks = manifest.settings.get("generalization_tasks") or ()
        for named in map(str, tasks) if manifest.env_id is None else [_environment_id(manifest)]:
            if ":" in named and not trusted:  # importing it executes code
                return [f"the package of its environment {printable(named)} would be imported (accept: --trust-bundle)"]
        if manifest.env_id is not None:
            find_environment(register(_environment_id(manifest)))
    except ConfigError as error:
        return [f"its environment: {error.message}"]
    if bad := [name for name in manifest.env_kwargs if not name.isidentifier()]:
        return [f"its environment: {printable(bad[0])} is not the name of an argument"]
    if trusted or manifest.env_id is None:
        return []
    arguments = {"env_name": manifest.env_id, **manifest.env_kwargs}
    try:
        permitted([Binding(f"create_domain.{name}", value, 0) for name, value in arguments.items()], layout.MANIFEST)
    except ConfigError:
        named = ", ".join(f"{name}={value!r}" for name, value in manifest.env_kwargs.items())
        return [f"its environment has arguments of no registered task: {printable(named)} (accept: --trust-bundle)"]
    return []


def _training_problems(recorded: Run, submission: Path, request: ReproduceRequest) -> list[str]:
    """Returns why the policy of the recorded training run is not available."""
    trained = trained_of(recorded)
    if trained is None:
        return [] if not trains(submission) else ["the bundle of its training run"]
    if request.train:
        return []
    files = files_of(trained.folder.path)
    try:
        content = files.read(layout.TRAIN, _MAX_CONFIG_BYTES)
        trained_files = parse_record(content, TrainResults, layout.TRAIN)
    except (UserError, OSError):
        return [f"the record of its training run, {layout.TRAIN}"]
    expected = trained_files.artifact_files - trained_files.training_files
    present = sum(1 for entry in files.entries(layout.ARTIFACTS) if entry.status.kind is Kind.FILE)
    if present < expected:
        return [
            f"{expected - present} of {expected} artifacts that an evaluation may need are not in the bundle "
            "(repeat the training run too: --train)"
        ]
    return []


def current_fingerprint(manifest: Manifest) -> str:
    """Returns the fingerprint that this version of a2perf stores for the recorded environment; ``""`` without one."""
    return (stored_fingerprint(manifest.env_id) if manifest.env_id else None) or ""


def present_conditions(manifest: Manifest, submission: Path) -> dict[str, str]:
    """Returns the hashes of what a repetition here would run: a2perf, the environment's package, the submission."""
    found = {"a2perf": package_sha256(), "submission": identify_submission(submission).sha256}
    if manifest.environment is not None and manifest.env_id is not None:
        found["environment"] = environment_package(manifest.env_id).sha256
    return found
