"""Runs entrants: training on the public task, then the public and every secret task, each run with its own outcome.

An entrant's failure is its own. The runs go through the durable queue of experiments, so the same command finishes what
a killed one left, and entrants can be added until the secrets are revealed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.errors import ConfigError, UserError
from a2perf.launch.competition import gin_files
from a2perf.launch.competition.founding import task_files
from a2perf.launch.competition.records import REVEALED, Competition
from a2perf.launch.entry import Entry
from a2perf.launch.experiment import QUEUE_FILE, classify, prepare
from a2perf.launch.interface import Launcher, Resources, RunCommand
from a2perf.launch.plan import EVALUATOR_MEMORY_BYTES, LOCK_WAIT_S
from a2perf.launch.queue import Queue
from a2perf.launch.scheduler import Event, Summary, drive
from a2perf.sandbox import get_sandbox
from a2perf.submission.folder_content import identify_submission
from a2perf.submission.participant_python import REQUIREMENTS
from a2perf.submission.python_env import read_requirements

PYTHON_ENVS = ("auto", "shared", "isolated")
"""``auto``: an environment of its own for each entrant whose requirements this a2perf's packages do not satisfy."""


@dataclass(frozen=True)
class Entrants:
    """Who is run, and how.

    Attributes:
        submissions: folders; their names have to differ.
        python_env: one of ``PYTHON_ENVS``.
        find_links: folders of wheels for environments of their own.
        sandbox: replaces that of the terms; a weaker one needs ``allow_weaker``.
        allow_weaker: whether guarantees that this host cannot enforce may be missing.
        retry_failed: whether failed runs are run again.
    """

    submissions: tuple[Path, ...]
    python_env: str = "auto"
    find_links: tuple[Path, ...] = ()
    sandbox: str | None = None
    allow_weaker: bool = False
    retry_failed: bool = False


@dataclass(frozen=True)
class Outcomes:
    """What a call came to: the entries of its entrants as they stand, and what it did."""

    entries: Sequence[Entry]
    summary: Summary


def conduct(
    competition: Competition,
    entrants: Entrants,
    launcher: Launcher,
    workers: int,
    *,
    on_event: Callable[[Event], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcomes:
    """Runs the entrants, or what is left of them.

    Args:
        competition: whose.
        entrants: who, and how.
        launcher: where; the caller closes it.
        workers: how many runs at the same time.
        on_event: see ``drive``.
        stop: see ``drive``.

    Raises:
        ConfigError: a folder or setting is wrong, or the secrets lie where an entrant could read them.
        UserError: the secrets were revealed already, or the sandbox cannot be had on this host.
    """
    planned = entries_of(competition, entrants)
    with Queue(competition.runs / QUEUE_FILE) as queue:
        prepare(queue, planned, retry_failed=entrants.retry_failed)
        keys = [entry.key for entry in planned]
        queue.restrict(keys)
        summary = drive(queue, launcher, workers, classify=classify, on_event=on_event, stop=stop)
        return Outcomes(queue.entries(keys), summary)


def entries_of(competition: Competition, entrants: Entrants) -> list[Entry]:
    """Returns the runs of the entrants, seed by seed, so that a cut-off competition can be compared.

    Raises:
        ConfigError, UserError: see ``conduct``.
    """
    _check(competition, entrants)
    terms, entries = competition.terms, []
    for seed in terms.seeds:
        for folder in entrants.submissions:
            before: str | None = None
            plans = [(terms.public_task, "inference", competition.private / gin_files.PUBLIC)]
            plans += [
                (task.name, "inference", task_files(competition.private, task.name)[2])
                for task in competition.secret.tasks
            ]
            if terms.train:
                gin_file = competition.public / gin_files.TRAINING
                trained = _entry(competition, entrants, folder, terms.public_task, "train", gin_file, seed)
                entries.append(trained)
                before = trained.key
            for task, mode, gin_file in plans:
                one = _entry(competition, entrants, folder, task, mode, gin_file, seed)
                entries.append(Entry(one.key, one.command, one.data, after=before))
    return entries


def _entry(
    competition: Competition, entrants: Entrants, folder: Path, task: str, mode: str, gin_file: Path, seed: int
) -> Entry:
    folder, terms = folder.resolve(), competition.terms
    home = competition.runs / folder.name
    root, trained = (home / name / f"seed_{seed}" for name in (task, terms.public_task))
    isolated = _is_isolated(folder, entrants.python_env)
    sandbox = entrants.sandbox or terms.sandbox
    flags = [
        "--participant-module-path", str(folder),
        "--submission-gin-config-path", str(gin_file),
        "--root-dir", str(root),
        "--seed", str(seed),
        "--sandbox", sandbox,
        "--python-env", "isolated" if isolated else "shared",
        *(word for path in entrants.find_links for word in ("--python-env-find-links", str(path.absolute()))),
        *(("--allow-weaker",) if entrants.allow_weaker else ()),
        *(("--extra-gin-bindings", f"Submission.trained_root_dir = {str(trained)!r}") if terms.train else ()),
    ]  # fmt: skip
    identity = [
        identify_submission(folder).sha256, competition.commitment.commitment, task, mode, seed, sandbox, isolated,
    ]  # fmt: skip
    memory = None if terms.memory_limit_bytes is None else terms.memory_limit_bytes + EVALUATOR_MEMORY_BYTES
    name = f"{folder.name}/{task}/seed_{seed}/{mode}"
    command = RunCommand.evaluator(
        flags,
        name=name,
        env={"A2PERF_LOCK_WAIT_S": str(LOCK_WAIT_S)},
        log=root / f"{mode}.log",
        resources=Resources(memory_bytes=memory),
        domain=terms.domain,
        readable=(folder, competition.private, competition.public, *entrants.find_links),
        writable=(home,),
    )
    data: dict[str, Any] = {
        "submission": folder.name,
        "task": task,
        "seed": seed,
        "mode": mode,
        "split": "public" if task == terms.public_task else "held out",
        "root": str(root),
        "bundle": str(root / mode),
    }
    return Entry(f"{name}@{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]}", command, data)


def _is_isolated(folder: Path, python_env: str) -> bool:
    if python_env != "auto":
        return python_env == "isolated"
    try:
        return bool(read_requirements(folder / REQUIREMENTS).unsatisfied_here())
    except UserError:
        return True  # its own run says what is wrong with the file, and it alone fails


def _check(competition: Competition, entrants: Entrants) -> None:
    if (competition.folder / REVEALED).exists():
        raise UserError(
            "the secrets of this competition were revealed: nobody can be evaluated on them any more",
            mend="found a new competition with `a2perf competition init`",
        )
    if entrants.python_env not in PYTHON_ENVS:
        raise ConfigError(f"--python-env {entrants.python_env!r} is not valid", mend=f"use {', '.join(PYTHON_ENVS)}")
    names = [folder.resolve().name for folder in entrants.submissions]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two submissions are named {repeated[0]}", mend="rename one of the folders")
    for folder in entrants.submissions:
        if not folder.is_dir():
            raise ConfigError(f"the submission folder {folder} does not exist", mend="give the folder of a submission")
        if competition.folder.is_relative_to(folder.resolve()):
            raise ConfigError(
                f"the competition lies inside the submission {folder}, which could read its secrets",
                mend="move the competition elsewhere",
            )
    if not entrants.allow_weaker:
        get_sandbox(entrants.sandbox or competition.terms.sandbox)  # said here once, not by every run
