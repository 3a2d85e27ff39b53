"""Creates a competition: draws the secrets, generates the held-out tasks, and writes the hash to publish first."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from a2perf.domains.registry import HeldOutTask, get_domain, load_attribute
from a2perf.errors import ConfigError
from a2perf.experiments.competition import gin_files
from a2perf.experiments.competition.records import (
    COMMITMENT,
    EVALUATOR,
    SECRET,
    TERMS,
    Commitment,
    Competition,
    CompetitionTerms,
    Evaluator,
    PublicTask,
    Secret,
    SecretTask,
    commitment_of,
    gin_hashes,
    load,
)
from a2perf.runs.bundle import now
from a2perf.storage import json_text, write_atomic, write_record

_SALT_BYTES = 32
_GENERATOR_SEEDS = 2**62


HeldOutGenerator = Callable[[int, int], Sequence[HeldOutTask]]


def create(folder: Path, terms: CompetitionTerms, held_out: HeldOutGenerator | None = None) -> Competition:
    """Creates a competition in an empty or new folder.

    Args:
        terms: the public terms; ``founded_at`` is filled in.
        held_out: generates the secret tasks from their number and a seed; the domain's generator by default.

    Returns:
        The competition; ``public/`` may be published now.

    Raises:
        ConfigError: the folder is in use, or the terms are wrong.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is not empty", hint="choose a new folder; a competition is created once")
    domain = get_domain(terms.domain)
    domain.task(terms.public_task)  # raises if unknown
    if held_out is None and domain.held_out is not None:
        held_out = load_attribute(domain.held_out)
    if held_out is None and terms.held_out:
        raise ConfigError(f"{domain.name} has no generator of held-out tasks", hint="use --held-out 0")
    _check(terms)
    terms.founded_at = now()
    generator_seed = secrets.randbelow(_GENERATOR_SEEDS)
    generated = held_out(terms.held_out, generator_seed) if held_out else []
    secret = Secret(
        salt=secrets.token_hex(_SALT_BYTES),
        generator_seed=generator_seed,
        tasks=[
            SecretTask(name=task.name, env_id=task.env_id, kwargs=dict(task.kwargs), told=dict(task.told))
            for task in generated
        ],
    )
    # Commit to the records as they will be read from their files: JSON turns tuples into lists.
    secret = msgspec.json.decode(msgspec.json.encode(secret), type=Secret)
    private = folder / "private"
    private.mkdir(parents=True, mode=0o700)
    private.chmod(0o700)
    write_record(private / SECRET, secret)
    (private / SECRET).chmod(0o600)
    write_tasks(private, secret.tasks, mode=0o600)
    _write_public(folder / "public", terms, secret)
    return load(folder)


def task_file(folder: Path, name: str) -> Path:
    """Returns the file of a secret task, or of a public task besides the first one."""
    return folder / "tasks" / f"{name}.json"


def write_tasks(folder: Path, tasks: Iterable[PublicTask | SecretTask], *, mode: int = 0o644) -> None:
    """Writes tasks in the files that runs read."""
    for task in tasks:
        write_atomic(task_file(folder, task.name), json_text(task.content()), mode=mode)


def _write_public(public: Path, terms: CompetitionTerms, secret: Secret) -> None:
    evaluator = Evaluator.current()
    write_record(public / TERMS, terms)
    write_record(public / EVALUATOR, evaluator)
    for name, text in gin_files.texts(terms).items():
        write_atomic(public / name, text)
    write_tasks(public, terms.further_tasks)
    commitment = commitment_of(terms, secret, evaluator, gin_hashes(public))
    # written last: a folder without this file is not a competition
    write_record(public / COMMITMENT, Commitment(commitment=commitment, founded_at=terms.founded_at))


def _check(terms: CompetitionTerms) -> None:
    for name in ("episodes", "call_timeout_s", "load_timeout_s"):
        if getattr(terms, name) <= 0:
            raise ConfigError(
                f"{name.replace('_', '-')} {getattr(terms, name)} is not positive", hint="give more than 0"
            )
    if terms.held_out < 0:
        raise ConfigError(f"held-out {terms.held_out} is negative", hint="give 0 or more")
    if not terms.seeds or len(set(terms.seeds)) != len(terms.seeds):
        raise ConfigError("the root seeds are missing or repeated", hint="give each seed once")
