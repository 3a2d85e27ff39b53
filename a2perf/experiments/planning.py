"""Plans runs of the evaluator for every command that starts some: submissions x tasks x seeds x gin files.

``PlannedRun`` is one run, ``plan_runs`` a grid of runs. The gin files of a grid are parsed here once per submission and
task, so mistakes are reported before anything runs. A run root holds one bundle per mode and its log: ``<root>/<mode>``
and ``<root>/<mode>.log``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from a2perf.domains.any_environment import register
from a2perf.errors import ConfigError
from a2perf.launch.run_spec import Resources, RunCommand, RunSpec
from a2perf.runs.bundles.layout import bundle_path
from a2perf.submission.given_paths import submission_folder
from a2perf.submission.options import parse_participant_args
from a2perf.submission.participant_gin import parse
from a2perf.submission.run_options import TRUST_FLAG, RunOptions, identity_words

LOCK_WAIT_S = 20
"""How long a run waits for the lock of a bundle while an earlier evaluator ends, in seconds."""

EVALUATOR_MEMORY_BYTES = 2**30
"""Memory for the evaluator, added to the participant's by launchers that limit whole runs, in bytes."""

_DIGEST_DIGITS = 16
_GRACE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run: a submission, a task, a seed and a gin file. The gin file decides about a value that is not given.

    Attributes:
        root: run root.
        task: name of a task, or id of an environment with the package that registers it.
        flags: further flags of the evaluator.
        env: variables for the evaluator.
        resources: resources of the run; ``memory_bytes`` is the participant's.
        readable: files and folders that it reads beside the submission, the gin file and those of its options.
        writable: folders that it writes; by default the run root and that of its options.
    """

    submission: Path
    gin_file: str | Path
    root: str | Path
    participant_args: str = ""
    domain: str | None = None
    task: str | None = None
    seed: int | None = None
    options: RunOptions = field(default_factory=RunOptions)
    bindings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()

    def words(self) -> list[str]:
        """Returns the flags of the evaluator's command line."""
        found = [
            "--participant-module-path",
            str(self.submission),
            "--submission-gin-config-path",
            str(self.gin_file),
            "--root-dir",
            str(self.root),
        ]
        for name in ("participant_args", "domain", "task", "seed"):
            value = getattr(self, name)
            if value not in (None, ""):
                found += [f"--{name.replace('_', '-')}", str(value)]
        bindings = (word for one in self.bindings for word in ("--extra-gin-bindings", one))
        return [*found, *self.options.words(), *bindings, *self.flags]

    def command(self, **attributes: Any) -> RunCommand:
        """Returns the command of the evaluator; ``attributes`` are those of ``RunCommand`` that differ."""
        folder, wanted = self.submission.resolve(), self.resources
        # A launcher ends a run only if its evaluator did not keep the limit.
        wall_s = None if wanted.wall_s is None else wanted.wall_s + _GRACE_S
        memory = None if wanted.memory_bytes is None else wanted.memory_bytes + EVALUATOR_MEMORY_BYTES
        read = [Path(path).expanduser() for path in (self.gin_file, self.options.get("datasets_path")) if path]
        written = self.writable or [path for path in (self.root, self.options.get("metric_values_dir")) if path]
        given: dict[str, Any] = {
            "name": folder.name,
            "env": dict(self.env),
            "resources": replace(wanted, wall_s=wall_s, memory_bytes=memory),
            "domain": self.domain,
            "readable": (folder, *(path.absolute() for path in (*read, *self.readable) if path.exists())),
            "writable": tuple(Path(path).expanduser().absolute() for path in written),
        }
        return RunCommand.evaluator(self.words(), **{**given, **attributes})

    def spec(
        self,
        name: str,
        mode: str,
        labels: Mapping[str, Any],
        *,
        identity: Iterable[Any],
        domain: str | None = None,
        after: RunSpec | None = None,
    ) -> RunSpec:
        """Returns the run as one of many, with its own log.

        Args:
            name: of the run, unique in the experiment.
            mode: name of the bundle's folder in the run root.
            labels: description of the run for people: ``submission``, ``task``, ``seed``, ...
            identity: what the run is, as JSON values; a run with another identity is another run.
            domain: its domain, if ``self.domain`` does not name it.
            after: the run that must finish first.
        """
        root = Path(self.root)
        command = self.command(
            name=name,
            env={"A2PERF_LOCK_WAIT_S": str(LOCK_WAIT_S), **self.env},
            log=root / f"{mode}.log",
            domain=self.domain or domain,
        )
        data = {**labels, "mode": mode, "root": str(root), "bundle": str(bundle_path(root, mode))}
        digest = identity_hash([*identity, mode])
        return RunSpec(f"{name}@{digest[:_DIGEST_DIGITS]}", command, data, None if after is None else after.key)


def identity_hash(identity: Sequence[Any]) -> str:
    """Returns the SHA-256 of the values that identify a run, as hexadecimal digits."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def recorded_bindings(content: bytes, source: str) -> dict[str, Any]:
    """Returns the values of a recorded configuration by ``"Configurable.parameter"``.

    Raises:
        ConfigError: it contains more than literal bindings.
    """
    return {".".join(binding.name.split(".")[-2:]): binding.value for binding in parse(content, source)}


def plan_runs(
    root: Path,
    submissions: Sequence[Path],
    gin_files: Sequence[str],
    *,
    tasks: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    place: Callable[[str, int], Path] | None = None,
    **settings: Any,
) -> list[RunSpec]:
    """Plans a grid of runs, sorted by seed: an interrupted experiment still allows comparisons.

    Args:
        root: folder of the experiment.
        gin_files: one file per mode, in the order of execution.
        tasks: names of tasks or ids of environments; empty for the task that the gin files configure.
        place: run root of a task, as it was given, and a seed; by default ``<submission>/<task>/seed_<seed>`` below
            the root.
        settings: the further fields of ``PlannedRun``, the same for every run.

    Raises:
        ConfigError: a folder, file, task, seed or configuration is wrong, or two runs would share a bundle.
    """
    from a2perf.submission.evaluator.submitted.folder_content import identify_submission

    _refuse_repeated(submissions, tasks, seeds)
    parse_participant_args(settings.get("participant_args", ""))
    rows: list[tuple[str, str, list[_ModeOfRun]]] = []
    for folder in submissions:
        content = identify_submission(folder, root=root).sha256
        template = PlannedRun(submission=folder.resolve(), gin_file="", root=root, **settings)
        for task in tasks or (None,):
            run = replace(template, task=task)
            rows.append((folder.resolve().name, content, _modes(run, gin_files, submissions)))
    specs: list[RunSpec] = []
    for seed in seeds:
        for name, content, modes in rows:
            last_of: dict[str, RunSpec] = {}
            for item in modes:
                where = root / name / item.label / f"seed_{seed}"
                if place is not None:
                    where = place(item.run.task or item.label, seed)
                run = replace(item.run, seed=seed, root=where)
                flags = identity_words((*run.options.words(), *run.flags))
                resources = sorted(asdict(run.resources).items())
                last_of[item.label] = run.spec(
                    f"{where.relative_to(root).as_posix()}/{item.mode}",
                    item.mode,
                    {"submission": name, "task": item.label, "seed": seed},
                    identity=[
                        content,
                        item.digest,
                        item.domain,
                        item.label,
                        seed,
                        run.participant_args,
                        flags,
                        resources,
                    ],
                    domain=item.domain,
                    after=last_of.get(item.label),
                )
                specs.append(last_of[item.label])
    places = [spec.data["bundle"] for spec in specs]
    if repeated := sorted({bundle for bundle in places if places.count(bundle) > 1}):
        raise ConfigError(
            f"two of these runs would write {repeated[0]}", hint="give each mode of a task one gin file only"
        )
    return specs


def domain_of(run: PlannedRun) -> str:
    """Returns the domain of a run, which may be that of its task or of its gin file.

    Raises:
        ConfigError: the task or the configuration is wrong.
    """
    return run.domain or _modes(run, [str(run.gin_file)], ())[0].domain


@dataclass(frozen=True)
class _ModeOfRun:
    """One gin file under one task.

    Attributes:
        label: the task's name in paths.
        digest: hash of the configuration.
    """

    run: PlannedRun
    mode: str
    domain: str
    label: str
    digest: str


def _modes(run: PlannedRun, gin_files: Sequence[str], submissions: Sequence[Path]) -> list[_ModeOfRun]:
    """Parses every gin file for one submission and task; generalization uses the task of the file before it."""
    from a2perf.constants import BenchmarkMode
    from a2perf.submission import configuration, submission_util  # registers the configurable names with gin
    from a2perf.submission.evaluator.submitted.identity import RunTask
    from a2perf.submission.gin_origin import is_inside, locate
    from a2perf.submission.main_submission import task_bindings

    found: list[_ModeOfRun] = []
    trusted = run.options.trusts_submission or TRUST_FLAG in run.flags
    of_task = task_bindings(run.domain, run.task)
    for given in gin_files:
        file = locate(given, submission=run.submission, domain=run.domain, task=run.task, trusted=trusted)
        for other in () if trusted else submissions:
            # it would be trusted like the organizer's
            if not is_inside(file.path, run.submission) and is_inside(file.path, other):
                raise ConfigError(
                    f"the gin file {file.path} is part of the submission {other.resolve().name}, and would configure "
                    f"{run.submission.name} too",
                    hint="move it out of the submissions",
                )
        configuration.load(file, run.bindings, task=of_task, trusted=trusted)
        arguments: dict[str, Any] = {"domain": run.domain} if run.domain else {}
        settings = submission_util.Submission(**arguments, participant_module_path=str(run.submission))
        mode, domain = BenchmarkMode(settings.mode).value, str(settings.domain)
        if mode != "generalization":
            label = RunTask.configured(domain).name
        elif run.task is not None:
            label = register(run.task)
        else:
            label = found[0].label if found else "all"
        reads = (Path(name).expanduser() for name in (settings.evaluation_seeds_file, settings.datasets_path) if name)
        planned = replace(run, gin_file=file.path, readable=(*run.readable, *reads))
        found.append(_ModeOfRun(planned, mode, domain, label.replace("/", "_"), configuration.digest()))
    configuration.clear()
    return found


def _refuse_repeated(submissions: Sequence[Path], tasks: Sequence[str], seeds: Sequence[int]) -> None:
    for folder in submissions:
        submission_folder(folder)
    names = [folder.resolve().name for folder in submissions]
    for what, values in (("submission", names), ("task", list(tasks)), ("seed", [str(seed) for seed in seeds])):
        if repeated := sorted({value for value in values if values.count(value) > 1}):
            raise ConfigError(
                f"the {what} {repeated[0]} is given twice", hint=f"give each {what} once, by its own name"
            )
    if negative := [seed for seed in seeds if seed < 0]:
        raise ConfigError(f"{negative[0]} is not a seed", hint="use whole numbers that are not negative")
