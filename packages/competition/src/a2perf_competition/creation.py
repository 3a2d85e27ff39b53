"""Creates a competition: draws the secrets, generates the held-out tasks, and writes the hash to publish first.

A profile gives the terms, tasks, reference results, guide and template; the organizer can add designs.
"""

from __future__ import annotations

import math
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from a2perf.domains.competition_profile import CompetitionProfile
from a2perf.domains.registry import HeldOutTask, get_domain, load_attribute
from a2perf.errors import ConfigError
from a2perf.records import Record
from a2perf.runs.bundles.attempts import now
from a2perf.sandbox import STRONGEST
from a2perf.storage import json_text, read_record, sha256_of, write_atomic, write_record
from a2perf.submission.templates import create_submission
from a2perf_competition.records import (
    AUDIT,
    COMMITMENT,
    EVALUATOR,
    SECRET,
    TERMS,
    AuditTerms,
    Commitment,
    Competition,
    CompetitionTerms,
    Evaluator,
    ProfileTerms,
    PublicTask,
    Secret,
    commitment_of,
    gin_files,
    load,
    task_content,
    task_file,
)
from a2perf_competition.required_runs import LIMITS, gin_texts

DESIGNS, TEMPLATE, GUIDE, REFERENCES = "designs", "template", "README.md", "references.json"

_SALT_BYTES = 32
_GENERATOR_SEEDS = 2**62
_POSITIVE = ("episodes", "call_timeout_s", *LIMITS)


HeldOutGenerator = Callable[[int, int], Sequence[HeldOutTask]]


def create(
    folder: Path, terms: CompetitionTerms, held_out: HeldOutGenerator | None = None, audit: bytes | None = None
) -> Competition:
    """Creates a competition in an empty or new folder.

    Args:
        terms: the public terms; ``founded_at`` is filled in.
        held_out: generates the secret tasks from their number and a seed; the domain's generator by default.
        audit: what ``a2perf audit --json`` printed for the public task.

    Raises:
        ConfigError: the folder is in use, or the terms are wrong.
    """
    _check_unused(folder)
    domain = get_domain(terms.domain)
    domain.task(terms.public_task)  # raises if unknown
    if held_out is None and domain.held_out is not None:
        held_out = load_attribute(domain.held_out)
    if held_out is None and terms.held_out:
        raise ConfigError(f"{domain.name} has no generator of held-out tasks", hint="use --held-out 0")
    _check(terms)
    if audit is not None:
        terms.audit = AuditTerms.of(audit)
        if not any(name.startswith(f"{terms.public_task}: ") for name in terms.audit.verdicts):
            raise ConfigError(f"the audit is not of {terms.public_task}", hint="give one of the public task")
    terms.founded_at = now()
    generator_seed = secrets.randbelow(_GENERATOR_SEEDS)
    generated = held_out(terms.held_out, generator_seed) if held_out else []
    secret = Secret(salt=secrets.token_hex(_SALT_BYTES), generator_seed=generator_seed, tasks=list(generated))
    private = folder / "private"
    private.mkdir(parents=True, mode=0o700)
    private.chmod(0o700)
    write_record(private / SECRET, secret)
    (private / SECRET).chmod(0o600)
    write_tasks(private, secret.tasks, mode=0o600)
    public = folder / "public"
    evaluator = Evaluator.current()
    write_record(public / TERMS, terms)
    write_record(public / EVALUATOR, evaluator)
    for name, text in gin_texts(terms).items():
        write_atomic(public / name, text)
    write_tasks(public, terms.further_tasks)
    if audit is not None:
        write_atomic(public / AUDIT, audit)
    commitment = commitment_of(terms, secret, evaluator, gin_files(public))
    # written last: a folder without this file is not a competition
    write_record(public / COMMITMENT, Commitment(commitment=commitment, founded_at=terms.founded_at))
    return load(folder)


def _check_unused(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is not empty", hint="choose a new folder; a competition is created once")


def write_tasks(folder: Path, tasks: Iterable[HeldOutTask], *, mode: int = 0o644) -> None:
    """Writes tasks in the files that runs read."""
    for task in tasks:
        write_atomic(task_file(folder, task.name), json_text(task_content(task)), mode=mode)


def _check(terms: CompetitionTerms) -> None:
    for name in _POSITIVE:
        if not 0 < getattr(terms, name) < math.inf:
            raise ConfigError(
                f"{name.replace('_', '-')} {getattr(terms, name)} is not positive and finite", hint="give more than 0"
            )
    if terms.sandbox == STRONGEST:
        raise ConfigError(f"the level {STRONGEST} depends on the host", hint="name the level, such as bubblewrap")
    if terms.held_out < 0:
        raise ConfigError(f"held-out {terms.held_out} is negative", hint="give 0 or more")
    if not terms.seeds or len(set(terms.seeds)) != len(terms.seeds):
        raise ConfigError("the root seeds are missing or repeated", hint="give each seed once")


class References(Record, kw_only=True):
    """``references.json`` in ``public`` and ``private``: return of each reference entry, by task and by its name."""

    schema: int = 1
    returns: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)


def create_from_profile(
    folder: Path,
    profile: CompetitionProfile,
    name: str,
    *,
    terms: Mapping[str, Any],
    settings: Mapping[str, str],
    designs: Sequence[str] = (),
    references: bool = True,
    audit: bytes | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Competition:
    """Creates a competition of a profile in an empty or new folder.

    Args:
        folder: its folder; ``public`` then also has a guide, a template and the reference results.
        terms: fields of ``CompetitionTerms`` that differ from the profile's.
        settings: settings of the profile, as text.
        designs: sources of further public designs.
        references: compute the results of the reference entries.
        audit: as in ``create``.

    Raises:
        ConfigError: the folder is in use, or a term, a setting or a design is wrong.
        UserError: a design cannot be read.
    """
    _check_unused(folder)
    agreed = CompetitionTerms(
        name=name, domain=profile.domain, public_task=profile.public_task, **{**profile.terms, **terms}
    )
    settled = {**profile.settled(settings), "time_limit_s": agreed.call_timeout_s}
    with tempfile.TemporaryDirectory(prefix="a2perf-designs-") as work:
        tasks = [PublicTask(**vars(task)) for task in profile.public_tasks(settled)]
        home = folder.resolve() / "public" / DESIGNS
        for source in designs:
            progress(f"importing {source}")
            tasks.append(_imported(profile, source, Path(work), home, settled))
        names = [agreed.public_task, *(task.name for task in tasks)]
        if repeated := sorted({one for one in names if names.count(one) > 1}):
            raise ConfigError(f"two tasks are named {repeated[0]}", hint="rename the folder or file of the design")
        agreed.profile = ProfileTerms(name=profile.name, settings=profile.arguments(settled), tasks=tasks)
        made = create(folder, agreed, lambda count, seed: profile.held_out(count, seed, settled), audit)
        if any(Path(work).iterdir()):
            shutil.copytree(work, home)
    create_submission(made.public / TEMPLATE, profile.template)
    results = _references(made, profile, settled, progress) if references else {}
    write_atomic(made.public / GUIDE, profile.guide(name, settled, results))
    return made


def read_references(competition: Competition) -> dict[str, dict[str, float]]:
    """Returns the returns of the reference entries on public and secret tasks, by task and by name."""
    found: dict[str, dict[str, float]] = {}
    for folder in (competition.public, competition.private):
        if (folder / REFERENCES).is_file():
            found |= read_record(folder / REFERENCES, References).returns
    return found


def _imported(
    profile: CompetitionProfile, source: str, work: Path, home: Path, settings: Mapping[str, Any]
) -> PublicTask:
    try:
        name = profile.import_design(source, work)
    except FileExistsError:
        raise ConfigError(f"two designs have the name of {source}", hint="rename the folder or file") from None
    files = {
        f"public/{DESIGNS}/{path.relative_to(work).as_posix()}": sha256_of(path)
        for path in sorted((work / name).rglob("*"))
        if path.is_file()
    }
    return PublicTask(**vars(profile.design_task(name, home / name, settings)), files=files)


def _references(
    made: Competition, profile: CompetitionProfile, settings: Mapping[str, Any], progress: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Writes the results of the reference entries; returns those on public tasks."""
    results: list[dict[str, dict[str, float]]] = []
    for tasks, folder in ((made.terms.public_tasks, made.public), (made.secret.tasks, made.private)):
        found = {}
        for task in tasks:
            progress(f"reference placements of {task.name}")
            found[task.name] = profile.references(task.env_id, task.kwargs, settings)
        write_record(folder / REFERENCES, References(returns=found))
        results.append(found)
    (made.private / REFERENCES).chmod(0o600)
    return results[0]
