"""What a competition consists of on disk, and the commitment that ties its public and its secret half together.

``public/`` may be handed out at once: the terms, the hash of the secrets, and gin files for the public split.
``private/`` holds the secrets until they are revealed. The commitment is SHA-256 over the canonical JSON (sorted keys,
no spaces) of terms and secrets together; the secrets hold a random salt, so nobody can try out guesses against it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from a2perf.errors import ConfigError, UserError
from a2perf.records import Record
from a2perf.storage import read_record

TERMS, COMMITMENT, SECRET, REVEALED = "terms.json", "commitment.json", "secret.json", "revealed.json"
METHOD = "sha256 of the canonical JSON (sorted keys, no spaces, UTF-8) of {secret: secret.json, terms: terms.json}"


class Terms(Record, kw_only=True):
    """``public/terms.json``: what everybody knows before anybody enters.

    Attributes:
        name: the competition's name.
        domain: name of the domain.
        public_task: the task that entrants train on and are first evaluated on.
        held_out: how many secret tasks there are.
        episodes: scored episodes of each run.
        latency_steps: timed calls of each run.
        seeds: root seeds; each entrant is run with each.
        train: whether ``train()`` runs first; otherwise entrants bring what they need in their folder.
        train_time_limit_s: limit of ``train()``, in seconds.
        call_timeout_s: limit of one ``infer_once``, in seconds.
        load_timeout_s: limit of ``load_policy`` with the imports, in seconds.
        memory_limit_bytes: of an entrant's processes.
        sandbox: how entrants are confined.
        founded_at: time, ISO 8601 in UTC.
    """

    schema: int = 1
    name: str
    domain: str
    public_task: str
    held_out: int
    episodes: int = 10
    latency_steps: int = 100
    seeds: list[int] = msgspec.field(default_factory=lambda: [0])
    train: bool = True
    train_time_limit_s: float | None = None
    call_timeout_s: float = 10.0
    load_timeout_s: float = 300.0
    memory_limit_bytes: int | None = None
    sandbox: str = "bubblewrap"
    founded_at: str = ""


class SecretTask(Record, kw_only=True):
    """A secret task: what ``HeldOutTask`` says, and the seeds of its episodes."""

    name: str
    env_id: str
    kwargs: dict[str, Any]
    told: dict[str, Any]
    seeds: list[int]


class Secret(Record, kw_only=True):
    """``private/secret.json``: everything that is committed to.

    Attributes:
        salt: 32 random bytes as hexadecimal digits.
        generator_seed: of the domain's generator of held-out tasks.
        tasks: what it generated, with the seeds of the episodes.
        public_seeds: seeds of the scored episodes on the public task, secret too.
    """

    schema: int = 1
    salt: str
    generator_seed: int
    tasks: list[SecretTask]
    public_seeds: list[int]


class Commitment(Record, kw_only=True):
    """``public/commitment.json``: the hash that is published first."""

    schema: int = 1
    commitment: str
    method: str = METHOD
    founded_at: str = ""


@dataclass(frozen=True)
class Competition:
    """A competition on disk.

    Attributes:
        folder: its folder.
        terms: what everybody knows.
        commitment: what was published.
        secret: the secrets, verified against the commitment.
    """

    folder: Path
    terms: Terms
    commitment: Commitment
    secret: Secret

    @property
    def public(self) -> Path:
        """What may be handed out."""
        return self.folder / "public"

    @property
    def private(self) -> Path:
        """What nobody else may read before the reveal."""
        return self.folder / "private"

    @property
    def runs(self) -> Path:
        """Root of all runs: ``<submission>/<task>/seed_<n>/<mode>``."""
        return self.folder / "runs"


def commitment_of(terms: Terms, secret: Secret) -> str:
    """Returns the hash that ties terms and secrets together, 64 hexadecimal digits."""
    both = {"secret": msgspec.to_builtins(secret), "terms": msgspec.to_builtins(terms)}
    canonical = json.dumps(both, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def load(folder: Path) -> Competition:
    """Reads a competition and proves that nothing of it changed since it was founded.

    Raises:
        ConfigError: there is no competition in the folder.
        UserError: terms or secrets are not those of the commitment.
    """
    public, private = folder / "public", folder / "private"
    if not (public / COMMITMENT).is_file():
        raise ConfigError(f"{folder} holds no competition", mend="make one with `a2perf competition init`")
    terms = read_record(public / TERMS, Terms)
    commitment = read_record(public / COMMITMENT, Commitment)
    secret = read_record(private / SECRET, Secret)
    if commitment_of(terms, secret) != commitment.commitment:
        raise UserError(
            f"terms or secrets in {folder} are not those of the published commitment {commitment.commitment[:16]}...",
            mend="restore them; a competition whose terms change has to be founded anew",
        )
    return Competition(folder.absolute(), terms, commitment, secret)
