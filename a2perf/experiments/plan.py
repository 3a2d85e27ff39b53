"""The plan of an experiment: submissions x tasks x modes x seeds, as queue entries, each with its bundle.

The gin files are parsed here once per submission and task, so that a mistake is said before anything runs. A run's key
is made of what makes its bundle *the same run*: submission's content, configuration, task, mode, seed and arguments.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2perf.constants import BenchmarkMode
from a2perf.errors import ConfigError
from a2perf.launch.entry import Entry
from a2perf.launch.interface import Resources, RunCommand
from a2perf.submission import configuration
from a2perf.submission.evaluator.folder_content import identify_submission
from a2perf.submission.evaluator.identity import RunTask
from a2perf.submission.gin_origin import is_inside, locate
from a2perf.submission.main_submission import task_bindings
from a2perf.submission.options import parse_participant_args
from a2perf.submission.participant_settings import TRUST_FLAG

LOCK_WAIT_S = 20
"""How long a run waits for the bundle of an evaluator that is on its way out."""


@dataclass(frozen=True)
class Experiment:
    """What is to be run.

    Attributes:
        root: folder of the experiment; the runs lie in ``<submission>/<task>/seed_<n>/<mode>`` below it.
        submissions: folders; their names have to differ.
        gin_configs: one file per mode, in the order in which a seed goes through them.
        tasks: names of tasks; empty for the one that the gin files configure.
        seeds: root seeds.
        domain: name of a domain, as for a single run.
        bindings: gin bindings for every run.
        flags: further flags of the evaluator for every run.
        participant_args: as on the command line, ``k=v,...``.
        resources: of each run; ``memory_bytes`` is the participant's, the launcher is asked for more.
    """

    root: Path
    submissions: tuple[Path, ...]
    gin_configs: tuple[str, ...]
    tasks: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    domain: str | None = None
    bindings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    participant_args: str = ""
    resources: Resources = field(default_factory=Resources)


EVALUATOR_MEMORY_BYTES = 2**30
"""What a launcher that bounds whole runs adds to the participant's memory for the evaluator."""


@dataclass(frozen=True)
class _Configured:
    """One gin file under one task."""

    gin_file: Path
    mode: str
    domain: str
    task: str
    digest: str
    reads: tuple[Path, ...]


def plan(experiment: Experiment) -> list[Entry]:
    """Returns the entries of an experiment, a seed's modes one after the other.

    The order is seed by seed: every submission and task has its first seed before any has its second, so that an
    experiment that is cut off can be compared.

    Raises:
        ConfigError: a folder, file, task, seed or configuration is wrong, or two runs would share a bundle.
    """
    _check(experiment)
    parse_participant_args(experiment.participant_args)
    rows: list[tuple[Path, str, list[_Configured]]] = []
    for submission in experiment.submissions:
        digest = identify_submission(submission, root=experiment.root).sha256
        for task in experiment.tasks or (None,):
            rows.append((submission, digest, _configured(experiment, submission, task)))
    entries: list[Entry] = []
    for seed in experiment.seeds:
        for submission, digest, chain in rows:
            last_of: dict[Path, str] = {}
            for item in chain:
                entry = _entry(experiment, submission, digest, item, seed)
                root = Path(entry.data["root"])
                entries.append(_after(entry, last_of.get(root)))
                last_of[root] = entry.key
    places = [entry.data["bundle"] for entry in entries]
    if repeated := sorted({place for place in places if places.count(place) > 1}):
        raise ConfigError(
            f"two of these runs would write {repeated[0]}", hint="give each mode of a task one gin file only"
        )
    return entries


def _check(experiment: Experiment) -> None:
    names = [folder.resolve().name for folder in experiment.submissions]
    for folder in experiment.submissions:
        if not folder.is_dir():
            kind = "is a file" if folder.exists() else "does not exist"
            raise ConfigError(
                f"the submission folder {folder} {kind}", hint="give the folder that holds train.py and inference.py"
            )
    seeds = [str(seed) for seed in experiment.seeds]
    for what, values in (("submission", names), ("task", list(experiment.tasks)), ("seed", seeds)):
        if repeated := sorted({value for value in values if values.count(value) > 1}):
            raise ConfigError(
                f"the {what} {repeated[0]} is given twice", hint=f"give each {what} once, by its own name"
            )
    if negative := [seed for seed in experiment.seeds if seed < 0]:
        raise ConfigError(f"{negative[0]} is not a seed", hint="use whole numbers that are not negative")


def _configured(experiment: Experiment, submission: Path, task: str | None) -> list[_Configured]:
    """Parses every gin file for one submission and task; a generalization takes the task of the file before it."""
    from a2perf.submission import submission_util  # makes the configurable names known to gin

    found: list[_Configured] = []
    trusted = TRUST_FLAG in experiment.flags
    for given in experiment.gin_configs:
        file = locate(given, submission=submission.resolve(), domain=experiment.domain, trusted=trusted)
        path = file.path
        if not trusted:
            _check_owner(path, submission, experiment)
        configuration.load(file, [*task_bindings(experiment.domain, task), *experiment.bindings], trusted=trusted)
        arguments: dict[str, Any] = {"domain": experiment.domain} if experiment.domain else {}
        settings = submission_util.Submission(**arguments, participant_module_path=str(submission))
        mode, domain = BenchmarkMode(settings.mode).value, str(settings.domain)
        if mode == "generalization":
            name = task or (found[0].task if found else "all")
        else:
            name = RunTask.configured(domain).name
        reads = [Path(name) for name in (settings.evaluation_seeds_file, settings.datasets_path) if name]
        found.append(
            _Configured(path, mode, domain, name.replace("/", "_"), configuration.digest(), (path, *reads))
        )  # fmt: skip
    configuration.clear()
    return found


def _check_owner(path: Path, submission: Path, experiment: Experiment) -> None:
    """Refuses a gin file of one submission for the runs of another, where it would count as the organizer's."""
    for other in experiment.submissions:
        if not is_inside(path, submission) and is_inside(path, other):
            raise ConfigError(
                f"the gin file {path} lies in the submission {other.resolve().name}, and would configure "
                f"{submission.resolve().name} too",
                hint="move it outside of the submissions",
            )


def _entry(experiment: Experiment, submission: Path, digest: str, item: _Configured, seed: int) -> Entry:
    name = f"{submission.resolve().name}/{item.task}/seed_{seed}/{item.mode}"
    root = experiment.root / submission.resolve().name / item.task / f"seed_{seed}"
    identity = [digest, item.digest, item.domain, item.task, item.mode, seed, experiment.participant_args]
    identity += [flag for flag in experiment.flags if flag == "--public-seeds"]
    flags = [
        "--participant-module-path", str(submission.resolve()),
        "--submission-gin-config-path", str(item.gin_file),
        "--root-dir", str(root),
        "--seed", str(seed),
        *_flag("--domain", experiment.domain),
        *_flag("--task", item.task if experiment.tasks else None),
        *_flag("--participant-args", experiment.participant_args or None),
        *_flag("--memory-limit-bytes", experiment.resources.memory_bytes),
        *(word for binding in experiment.bindings for word in ("--extra-gin-bindings", binding)),
        *experiment.flags,
    ]  # fmt: skip
    command = RunCommand.evaluator(
        flags,
        name=name,
        env={"A2PERF_LOCK_WAIT_S": str(LOCK_WAIT_S)},
        log=root / f"{item.mode}.log",
        resources=_of_run(experiment.resources),
        domain=item.domain,
        readable=(submission.resolve(), *(path.expanduser().absolute() for path in item.reads)),
        writable=(root,),
    )
    data: dict[str, Any] = {
        "submission": submission.resolve().name,
        "task": item.task,
        "seed": seed,
        "mode": item.mode,
        "root": str(root),
        "bundle": str(root / item.mode),
    }
    return Entry(f"{name}@{_short_hash(identity)}", command, data)


def _of_run(wanted: Resources) -> Resources:
    memory = None if wanted.memory_bytes is None else wanted.memory_bytes + EVALUATOR_MEMORY_BYTES
    return Resources(wanted.cpus, memory, wanted.gpus, wanted.wall_s)


def _after(entry: Entry, key: str | None) -> Entry:
    return Entry(entry.key, entry.command, entry.data, after=key)


def _flag(name: str, value: Any) -> Sequence[str]:
    return () if value is None else (name, str(value))


def _short_hash(identity: list[Any]) -> str:
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
