"""The files of a competition, and the commitment to its public and secret parts.

``public/`` can be published at once: the terms, the gin files, the evaluator's code, the commitment, and later the list
of entrants. ``private/`` holds the secrets until the reveal. The commitment is SHA-256 over the canonical JSON (sorted
keys, no spaces) of all inputs that decide the results. The secrets contain a random salt; without it, anybody could
test guesses against the commitment.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from a2perf._version import __version__
from a2perf.domains.package_code import package_sha256
from a2perf.domains.registry import HeldOutTask, get_domain
from a2perf.errors import ConfigError, UserError
from a2perf.records import Record
from a2perf.runs.bundles.files import files_of, names_at
from a2perf.storage import read_record
from a2perf.stranger_files import printable
from a2perf.submission.evaluator.process.own_code import installed_packages, python_version

TERMS, COMMITMENT, SECRET, REVEALED = "terms.json", "commitment.json", "secret.json", "revealed.json"
EVALUATOR, ENTRANTS, SEED_SECRET, AUDIT = "evaluator.json", "entrants.json", "seed_secret", "audit.json"
METHOD = (
    "sha256 of the canonical JSON (sorted keys, no spaces, UTF-8) of {evaluator: evaluator.json, "
    "gin: {name: sha256 of each gin file}, secret: secret.json, terms: terms.json}"
    "; seeds: from the HMAC-SHA256, with the salt as key, of the canonical JSON of {folders: the sorted sha256 of the "
    "entrants in entrants.json, nonces: {nonce_sha256 of each entrant that has one: its nonce in draw.json, or an empty"
    " text}}, used as the seed secret of every run"
)

_MAX_GIN_BYTES = 1 << 20
_MAX_AUDIT_BYTES = 16 << 20


@dataclass(frozen=True)
class PublicTask(HeldOutTask):
    """A public task.

    Attributes:
        files: SHA-256 of each data file of the task by its path below the competition's folder.
    """

    files: Mapping[str, str] = field(default_factory=dict)


class ProfileTerms(Record, kw_only=True):
    """The part of the terms that comes from a competition profile.

    Attributes:
        settings: arguments of the environment of every task, such as the weights of a cost.
    """

    name: str
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    tasks: list[PublicTask] = msgspec.field(default_factory=list)


class AuditTerms(Record, kw_only=True):
    """``public/audit.json``: its SHA-256, and the verdict of each check, such as ``dog_pace: same_seed``."""

    sha256: str
    verdicts: dict[str, str]

    @classmethod
    def of(cls, content: bytes) -> Self:
        """Reads what ``a2perf audit --json`` prints.

        Raises:
            ConfigError: the content is something else.
        """
        try:
            every = [(one["subject"], check) for one in msgspec.json.decode(content) for check in one["findings"]]
            found = {f"{subject}: {check['check']}": check["verdict"] for subject, check in every}
            return msgspec.convert({"sha256": hashlib.sha256(content).hexdigest(), "verdicts": found}, cls)
        except (msgspec.DecodeError, LookupError, TypeError) as error:
            hint = "write it with `a2perf audit TASK --json`"
            raise ConfigError(f"{AUDIT} cannot be read: {printable(str(error))}", hint=hint) from error


class CompetitionTerms(Record, kw_only=True):
    """``public/terms.json``: the terms, published before the first entry.

    Attributes:
        public_task: the task of training and of the first evaluation.
        latency_steps: timed calls of each run.
        seeds: root seeds; each entrant runs with every one.
        train: whether ``train()`` runs first; otherwise the entrants' folders contain trained policies.
        call_timeout_s: limit of one ``infer_once``, in seconds.
        load_timeout_s: limit of ``load_policy`` with the imports, in seconds.
        train_time_limit_s: wall time of ``train()``, in seconds; None leaves only ``run_time_limit_s``.
        run_time_limit_s: wall time of a whole run, in seconds.
        memory_limit_bytes: memory of an entrant's processes. This and the other limits are numbers: a limit that
            follows from the host or from the runs at the same time could decide who fails.
        cpu_limit: processors of an entrant's processes together.
        process_limit: number of an entrant's processes.
        artifact_limit_bytes: disk space of an entrant's artifacts.
        nonces_required: whether an entry that commits no nonce is refused.
        founded_at: time, ISO 8601 in UTC.
        profile: the part that comes from a competition profile. It is left out of the file, and so of the commitment,
            if there is none, as in files of earlier versions.
        audit: the audit of the public task, left out in the same way.
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
    run_time_limit_s: float = 86_400.0
    memory_limit_bytes: int = 4 * 2**30
    cpu_limit: float = 1.0
    process_limit: int = 512
    artifact_limit_bytes: int = 16 * 2**30
    nonces_required: bool = False
    sandbox: str = "bubblewrap"
    founded_at: str = ""
    profile: ProfileTerms | msgspec.UnsetType = msgspec.UNSET
    audit: AuditTerms | msgspec.UnsetType = msgspec.UNSET

    @property
    def further_tasks(self) -> list[PublicTask]:
        """Public tasks besides the first one."""
        return self.profile.tasks if isinstance(self.profile, ProfileTerms) else []

    @property
    def environment_settings(self) -> dict[str, Any]:
        """Arguments of the environment that the profile adds to those of the first public task."""
        return self.profile.settings if isinstance(self.profile, ProfileTerms) else {}

    @property
    def public_tasks(self) -> list[PublicTask]:
        """The task that entries train on, and the further ones, on which they are only evaluated."""
        first = get_domain(self.domain).task(self.public_task)
        kwargs = {**first.kwargs, **self.environment_settings}
        return [PublicTask(self.public_task, first.env_id, kwargs, told={}), *self.further_tasks]

    @property
    def limits(self) -> dict[str, float]:
        """The bounds on an entrant's processes, by their names in the manifest of a run."""
        return {
            "memory_bytes": self.memory_limit_bytes,
            "cpus": self.cpu_limit,
            "processes": self.process_limit,
            "artifact_bytes": self.artifact_limit_bytes,
        }


class Secret(Record, kw_only=True):
    """``private/secret.json``: the secret part of the commitment.

    Attributes:
        salt: 32 random bytes as hexadecimal digits.
    """

    schema: int = 1
    salt: str
    generator_seed: int
    tasks: list[HeldOutTask]

    def __post_init__(self) -> None:
        bytes.fromhex(self.salt)  # the error of another text names the file when it is read

    def seed_secret(self, folders: Iterable[str], nonces: Mapping[str, str]) -> bytes:
        """Returns the secret from which all seeds of all runs derive, 32 bytes.

        The organizer commits to the salt before anyone enters, and entrants reveal their nonces after the list is
        closed, so no one who knows the one can still choose by the other.

        Args:
            folders: the hash of each entrant's folder; their order does not matter.
            nonces: each committed nonce by its SHA-256; an empty text if it was not revealed.
        """
        content = _canonical({"folders": sorted(folders), "nonces": nonces})
        return hmac.digest(bytes.fromhex(self.salt), content, "sha256")


class Evaluator(Record, kw_only=True):
    """``public/evaluator.json``: the code of the evaluator.

    Attributes:
        a2perf_sha256: hash of the package's content; every manifest contains it too.
        competition_sha256: hash of the content of this package.
    """

    schema: int = 1
    a2perf_version: str
    a2perf_sha256: str
    competition_sha256: str
    python: str
    packages: dict[str, str]

    @classmethod
    def current(cls) -> Evaluator:
        """Returns the running code."""
        return cls(
            a2perf_version=__version__,
            a2perf_sha256=package_sha256(),
            competition_sha256=package_sha256(Path(__file__).parent),
            python=python_version(),
            packages=installed_packages(),
        )

    def differences(self, other: Evaluator) -> list[str]:
        """Returns how another evaluator differs from this one, one sentence per difference."""
        own, others = self._parts(), other._parts()
        changed = [name for name in dict.fromkeys([*own, *others]) if own.get(name) != others.get(name)]
        return [
            f"{name} is {others.get(name, 'not installed')}, committed {own.get(name, 'not installed')}"
            for name in changed[:8]
        ]

    def _parts(self) -> dict[str, str]:
        code = {name: getattr(self, name) for name in ("a2perf_version", "a2perf_sha256", "competition_sha256")}
        packages = {f"the package {name}": version for name, version in sorted(self.packages.items())}
        return {**code, "python": self.python, **packages}


class Commitment(Record, kw_only=True):
    """``public/commitment.json``: the hash to publish first."""

    schema: int = 1
    commitment: str
    method: str = METHOD
    founded_at: str = ""


@dataclass(frozen=True)
class Competition:
    """A competition on disk.

    Attributes:
        secret: the secrets, verified against the commitment.
    """

    folder: Path
    terms: CompetitionTerms
    commitment: Commitment
    secret: Secret
    evaluator: Evaluator

    @property
    def public(self) -> Path:
        """Folder of the public files."""
        return self.folder / "public"

    @property
    def private(self) -> Path:
        """Folder of the secrets until the reveal."""
        return self.folder / "private"

    @property
    def runs(self) -> Path:
        """Root of all runs: ``<entrant>/<hash of the task>/seed_<n>/<mode>``."""
        return self.folder / "runs"


def place_of(secret: Secret, entrant: str, task: str, seed: int, mode: str) -> str:
    """Returns the folder of a run below its entrant's: ``<12 digits>/seed_<n>``.

    The entrant can see the path, so it is derived from the task with the salt and reveals nothing without it.
    """
    words = f"{entrant}/{task}/{seed}/{mode}".encode()
    return f"{hmac.new(bytes.fromhex(secret.salt), words, 'sha256').hexdigest()[:12]}/seed_{seed}"


def task_file(folder: Path, name: str) -> Path:
    """Returns the file of a secret task, or of a public task besides the first one."""
    return folder / "tasks" / f"{name}.json"


def task_content(task: HeldOutTask) -> dict[str, Any]:
    """Returns the content of the file that runs read."""
    return {"name": task.name, "env_id": task.env_id, "kwargs": task.kwargs, "told": task.told}


def canonical_sha256(content: Any) -> str:
    """Returns the SHA-256 of the canonical JSON of a record or of plain data."""
    return hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: Any) -> bytes:
    text = json.dumps(msgspec.to_builtins(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def commitment_of(terms: CompetitionTerms, secret: Secret, evaluator: Evaluator, gin: Mapping[str, bytes]) -> str:
    """Returns the commitment: the hash over all inputs that decide the results, 64 hexadecimal digits."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in gin.items()}
    return canonical_sha256({"evaluator": evaluator, "gin": hashes, "secret": secret, "terms": terms})


def has_sealed_audit(terms: CompetitionTerms, folder: Path) -> bool:
    """Returns whether the audit in a folder is the one of the terms, which may have none."""
    audit = terms.audit
    return not isinstance(audit, AuditTerms) or audit == AuditTerms.of(files_of(folder).read(AUDIT, _MAX_AUDIT_BYTES))


def gin_files(folder: Path) -> dict[str, bytes]:
    """Returns the content of every gin file in a folder, by name."""
    return {name: files_of(folder).read(name, _MAX_GIN_BYTES) for name in names_at(folder) if name.endswith(".gin")}


def load(folder: Path) -> Competition:
    """Reads a competition and verifies that it has not changed since its creation.

    Raises:
        ConfigError: the folder is not a competition.
        UserError: a file differs from the commitment.
    """
    folder = folder.resolve()
    public, private = folder / "public", folder / "private"
    if not (public / COMMITMENT).is_file():
        raise ConfigError(f"{folder} holds no competition", hint="create one with `a2perf competition init`")
    terms = read_record(public / TERMS, CompetitionTerms)
    commitment = read_record(public / COMMITMENT, Commitment)
    if not (public / EVALUATOR).is_file():
        raise UserError(
            f"the competition in {folder} was created by an earlier a2perf, which committed to terms and secrets only",
            hint="continue with that version, or create a new competition",
        )
    secret = read_record(private / SECRET, Secret)
    evaluator = read_record(public / EVALUATOR, Evaluator)
    sealed = commitment_of(terms, secret, evaluator, gin_files(public)) == commitment.commitment
    if not (sealed and has_sealed_audit(terms, public)):
        raise UserError(
            f"terms, audit, gin files, code or secrets in {folder} are not those of the published commitment "
            f"{commitment.commitment[:16]}...",
            hint="restore them; new terms need a new competition",
        )
    return Competition(folder, terms, commitment, secret, evaluator)
