"""An experiment: submissions x tasks x modes x seeds, as run specifications, each with its bundle.

The gin files are parsed here once per submission and task, so mistakes are reported before anything runs. The key of a
run contains its identity: the submission's content, configuration, task, mode, seed and arguments.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from a2perf.constants import BenchmarkMode
from a2perf.errors import ConfigError
from a2perf.experiments.evaluator_run import evaluator_run, identity_hash
from a2perf.experiments.needs import require_folder
from a2perf.launch import QUEUE_FILE, Queue, QueueEntry, Resources, RunSpec
from a2perf.runs.bundles.files import files_of, kind_at
from a2perf.runs.packed.packed_archive import packed_place, packed_top
from a2perf.stranger_files import Kind
from a2perf.submission import configuration
from a2perf.submission.evaluator.submitted.folder_content import identify_submission
from a2perf.submission.evaluator.submitted.identity import RunTask
from a2perf.submission.gin_origin import is_inside, locate
from a2perf.submission.main_submission import task_bindings
from a2perf.submission.options import parse_participant_args
from a2perf.submission.run_options import TRUST_FLAG, identity_words


@dataclass(frozen=True)
class Experiment:
    """The plan of an experiment.

    Attributes:
        root: folder of the experiment; each bundle is ``<submission>/<task>/seed_<n>/<mode>`` below it.
        gin_configs: one file per mode, in the order of execution.
        tasks: names of tasks; empty for the task that the gin files configure.
        resources: resources of each run; ``memory_bytes`` is the participant's, the evaluator's is added to it.
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


@dataclass(frozen=True)
class _Configured:
    """One gin file under one task."""

    gin_file: Path
    mode: str
    domain: str
    task: str
    digest: str
    reads: tuple[Path, ...]


def plan(experiment: Experiment) -> list[RunSpec]:
    """Returns the runs of an experiment.

    They are sorted by seed: every submission and task finishes its first seed before any starts its second. An
    interrupted experiment therefore still allows comparisons.

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
    specs: list[RunSpec] = []
    for seed in experiment.seeds:
        for submission, digest, chain in rows:
            last_of: dict[str, str] = {}
            for item in chain:
                specs.append(_run(experiment, submission, digest, item, seed, last_of.get(item.task)))
                last_of[item.task] = specs[-1].key
    places = [spec.data["bundle"] for spec in specs]
    if repeated := sorted({place for place in places if places.count(place) > 1}):
        raise ConfigError(
            f"two of these runs would write {repeated[0]}", hint="give each mode of a task one gin file only"
        )
    return specs


def _check(experiment: Experiment) -> None:
    names = [folder.resolve().name for folder in experiment.submissions]
    for folder in experiment.submissions:
        require_folder(folder)
    seeds = [str(seed) for seed in experiment.seeds]
    for what, values in (("submission", names), ("task", list(experiment.tasks)), ("seed", seeds)):
        if repeated := sorted({value for value in values if values.count(value) > 1}):
            raise ConfigError(
                f"the {what} {repeated[0]} is given twice", hint=f"give each {what} once, by its own name"
            )
    if negative := [seed for seed in experiment.seeds if seed < 0]:
        raise ConfigError(f"{negative[0]} is not a seed", hint="use whole numbers that are not negative")


def _configured(experiment: Experiment, submission: Path, task: str | None) -> list[_Configured]:
    """Parses every gin file for one submission and task; generalization uses the task of the file before it."""
    from a2perf.submission import submission_util  # registers the configurable names with gin

    found: list[_Configured] = []
    trusted = TRUST_FLAG in experiment.flags
    of_task = task_bindings(experiment.domain, task)
    for given in experiment.gin_configs:
        folder = submission.resolve()
        file = locate(given, submission=folder, domain=experiment.domain, task=task, trusted=trusted)
        path = file.path
        for other in () if trusted else experiment.submissions:
            # it would be trusted like the organizer's
            if not is_inside(path, submission) and is_inside(path, other):
                raise ConfigError(
                    f"the gin file {path} is part of the submission {other.resolve().name}, and would configure "
                    f"{submission.resolve().name} too",
                    hint="move it out of the submissions",
                )
        configuration.load(file, experiment.bindings, task=of_task, trusted=trusted)
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


def _run(
    experiment: Experiment, submission: Path, digest: str, item: _Configured, seed: int, after: str | None
) -> RunSpec:
    name = submission.resolve().name
    identity = [digest, item.digest, item.domain, item.task, item.mode, seed, experiment.participant_args]
    identity += [*identity_words(experiment.flags), sorted(asdict(experiment.resources).items())]
    flags = [
        "--seed", str(seed),
        *_flag("--domain", experiment.domain),
        *_flag("--task", item.task if experiment.tasks else None),
        *_flag("--participant-args", experiment.participant_args or None),
        *_flag("--memory-limit-bytes", experiment.resources.memory_bytes),
        *(word for binding in experiment.bindings for word in ("--extra-gin-bindings", binding)),
        *experiment.flags,
    ]  # fmt: skip
    return evaluator_run(
        f"{name}/{item.task}/seed_{seed}/{item.mode}",
        experiment.root / name / item.task / f"seed_{seed}",
        item.mode,
        submission=submission.resolve(),
        gin_file=item.gin_file,
        flags=flags,
        digest=identity_hash(identity),
        data={"submission": name, "task": item.task, "seed": seed, "mode": item.mode},
        domain=item.domain,
        resources=experiment.resources,
        readable=[path.expanduser().absolute() for path in item.reads],
        after=after,
    )


def _flag(name: str, value: Any) -> Sequence[str]:
    return () if value is None else (name, str(value))


def read_progress(root: Path) -> list[QueueEntry]:
    """Returns the runs of an experiment, from its root folder or from a packed file of it.

    A run of a launcher that no longer runs counts as waiting.

    Raises:
        ConfigError: the folder holds no experiment.
    """
    with _queue_file(root) as file, Queue(file) as queue:
        queue.reap()  # runs of a dead launcher are no longer running
        return queue.entries()


@contextlib.contextmanager
def _queue_file(root: Path) -> Iterator[Path]:
    """Yields the queue of an experiment; for a packed one, a copy, because SQLite opens only files."""
    top = packed_top(root)
    is_packed = packed_place(top) is not None
    if not (kind_at(top / QUEUE_FILE) is Kind.FILE if is_packed else (top / QUEUE_FILE).is_file()):
        raise ConfigError(f"{root} holds no experiment", hint="give the --root-dir of an experiment of several runs")
    if not is_packed:
        yield top / QUEUE_FILE
        return
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / QUEUE_FILE
        with files_of(top).open(QUEUE_FILE) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        yield copy
