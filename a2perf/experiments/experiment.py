"""An experiment: submissions x tasks x modes x seeds, as run specifications, each with its bundle.

The gin files are parsed here once per submission and task, so a mistake is reported before anything runs. The key of a
run is made of what makes its bundle *the same run*: the submission's content, configuration, task, mode, seed and
arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2perf.constants import BenchmarkMode
from a2perf.errors import ConfigError
from a2perf.experiments.evaluator_run import evaluator_run, identity_hash
from a2perf.launch.run_spec import Resources, RunSpec
from a2perf.submission import configuration
from a2perf.submission.evaluator.folder_content import identify_submission
from a2perf.submission.evaluator.identity import RunTask
from a2perf.submission.gin_origin import is_inside, locate
from a2perf.submission.main_submission import task_bindings
from a2perf.submission.options import parse_participant_args
from a2perf.submission.run_options import TRUST_FLAG


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
    """Returns the runs of an experiment, a seed's modes one after the other.

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


def _run(
    experiment: Experiment, submission: Path, digest: str, item: _Configured, seed: int, after: str | None
) -> RunSpec:
    name = submission.resolve().name
    identity = [digest, item.digest, item.domain, item.task, item.mode, seed, experiment.participant_args]
    identity += [flag for flag in experiment.flags if flag == "--public-seeds"]
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
