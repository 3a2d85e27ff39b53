"""What a competition consists of on disk, and the commitment that ties its public and its secret half together.

``public/`` may be handed out at once: the terms, the gin files, the code that evaluates, the commitment, and later the
list of entrants. ``private/`` holds the secrets until they are revealed. The commitment is SHA-256 over the canonical
JSON (sorted keys, no spaces) of everything that decides results; the secrets hold a random salt, so that guesses cannot
be tried out against it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from a2perf._version import __version__
from a2perf.errors import ConfigError, UserError
from a2perf.records import Record
from a2perf.runs.files import files_of, names_at
from a2perf.storage import read_record
from a2perf.submission.evaluator.own_code import installed_packages, package_sha256, python_version

TERMS, COMMITMENT, SECRET, REVEALED = "terms.json", "commitment.json", "secret.json", "revealed.json"
EVALUATOR, ENTRANTS = "evaluator.json", "entrants.json"
METHOD = (
    "sha256 of the canonical JSON (sorted keys, no spaces, UTF-8) of {evaluator: evaluator.json, "
    "gin: {name: sha256 of each gin file}, secret: secret.json, terms: terms.json}"
)

_MAX_GIN_BYTES = 1 << 20


class CompetitionTerms(Record, kw_only=True):
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


class Evaluator(Record, kw_only=True):
    """``public/evaluator.json``: the code that evaluates.

    Attributes:
        a2perf_version: its version.
        a2perf_sha256: hash of the package's content, which every manifest repeats.
        python: implementation and version.
        packages: version of every installed distribution.
    """

    schema: int = 1
    a2perf_version: str
    a2perf_sha256: str
    python: str
    packages: dict[str, str]

    @classmethod
    def current(cls) -> Evaluator:
        """Returns the code that runs now."""
        return cls(
            a2perf_version=__version__,
            a2perf_sha256=package_sha256(),
            python=python_version(),
            packages=installed_packages(),
        )

    def differences(self, other: Evaluator) -> list[str]:
        """Returns how another evaluator differs from this one, in words."""
        found = [
            f"{name} is {getattr(other, name)}, committed {getattr(self, name)}"
            for name in ("a2perf_version", "a2perf_sha256", "python")
            if getattr(self, name) != getattr(other, name)
        ]
        names = sorted({*self.packages, *other.packages})
        changed = [name for name in names if self.packages.get(name) != other.packages.get(name)]
        found += [
            f"the package {name} is {other.packages.get(name, 'not installed')}, committed "
            f"{self.packages.get(name, 'not installed')}"
            for name in changed[:5]
        ]
        return found


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
        evaluator: the code that evaluates.
    """

    folder: Path
    terms: CompetitionTerms
    commitment: Commitment
    secret: Secret
    evaluator: Evaluator

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
        """Root of all runs: ``<entrant>/<hash of the task>/seed_<n>/<mode>``."""
        return self.folder / "runs"


def place_of(secret: Secret, entrant: int, task: str, seed: int, mode: str) -> str:
    """Returns the folder of a run below its entrant's: ``<12 digits>/seed_<n>``.

    The entrant sees the path, so it tells nothing of the task before the salt is revealed.
    """
    words = f"{entrant}/{task}/{seed}/{mode}".encode()
    return f"{hmac.new(bytes.fromhex(secret.salt), words, 'sha256').hexdigest()[:12]}/seed_{seed}"


def canonical_sha256(content: Any) -> str:
    """Returns the SHA-256 of the canonical JSON of a record or of plain data."""
    canonical = json.dumps(msgspec.to_builtins(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def commitment_of(terms: CompetitionTerms, secret: Secret, evaluator: Evaluator, gin: Mapping[str, str]) -> str:
    """Returns the hash that ties together everything that decides results, 64 hexadecimal digits.

    Args:
        terms: what everybody knows.
        secret: what nobody else knows yet.
        evaluator: the code that evaluates.
        gin: the SHA-256 of each gin file by its name.
    """
    return canonical_sha256({"evaluator": evaluator, "gin": dict(gin), "secret": secret, "terms": terms})


def gin_hashes(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of every gin file in a folder, by name."""
    return {
        name: hashlib.sha256(files_of(folder).read(name, _MAX_GIN_BYTES)).hexdigest()
        for name in names_at(folder)
        if name.endswith(".gin")
    }


def load(folder: Path) -> Competition:
    """Reads a competition and proves that nothing of it changed since it was made.

    Raises:
        ConfigError: there is no competition in the folder.
        UserError: something is not what was committed to.
    """
    folder = folder.resolve()
    public, private = folder / "public", folder / "private"
    if not (public / COMMITMENT).is_file():
        raise ConfigError(f"{folder} holds no competition", hint="make one with `a2perf competition init`")
    terms = read_record(public / TERMS, CompetitionTerms)
    commitment = read_record(public / COMMITMENT, Commitment)
    if not (public / EVALUATOR).is_file():
        raise UserError(
            f"the competition in {folder} was made by an earlier a2perf, which committed to terms and secrets only",
            hint="continue with that version, or make a new competition",
        )
    secret = read_record(private / SECRET, Secret)
    evaluator = read_record(public / EVALUATOR, Evaluator)
    if commitment_of(terms, secret, evaluator, gin_hashes(public)) != commitment.commitment:
        raise UserError(
            f"terms, gin files, code or secrets in {folder} are not those of the published commitment "
            f"{commitment.commitment[:16]}...",
            hint="restore them; a competition whose terms change has to be made again",
        )
    return Competition(folder, terms, commitment, secret, evaluator)
