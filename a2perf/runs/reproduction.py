"""The record of a reproduction: what repeating a recorded run says about its numbers.

The record lies beside the bundle, ``<mode>.reproduction.json``, or in another folder. It names the bundle by the hash
of its manifest, so it counts for no other run. A signature (Ed25519, as of bundles) covers everything else in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from a2perf.errors import MissingDependency, UserError
from a2perf.records import SCHEMA, Record
from a2perf.runs import signing
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.layout import REPRODUCTION_SUFFIX
from a2perf.storage import parse_record, write_record
from a2perf.stranger_files import StrangerFileError

ENVIRONMENT = ("environment fingerprint", "files of the environment")
"""Names of the changed conditions that concern the environment."""

Outcome = Literal["CONFIRMED", "REFUTED", "INCONCLUSIVE", "NOT CHECKED", "REFUSED"]
"""A verdict; or the run could not be repeated, or its bundle was changed after the run."""
Method = Literal["bit-equal", "statistical", "none"]
Unit = Literal["episodes of equal seeds", "episodes", "training runs"]
SignedState = Literal["signed", "unknown key", "unsigned", "not checked"]
_BY_WEIGHT: tuple[Outcome, ...] = ("REFUTED", "CONFIRMED", "INCONCLUSIVE")
"""The verdicts that count for a bundle; among equally trusted ones the first wins."""

_MAX_BYTES = 16 << 20
_DOMAIN = b"a2perf reproduction 1\0"  # a signature of another kind of statement never fits


class ChangedCondition(Record, kw_only=True):
    """One difference between the recorded run and its repetition: a package, the kernel, a hash.

    Attributes:
        recorded: value of the bundle; ``"not recorded"`` if it has none.
    """

    name: str
    recorded: str
    repeated: str


class FirstDifference(Record, kw_only=True):
    """The first value that is not bit-equal.

    Attributes:
        step: index of the step; None if the bundle records no steps.
        array: name of the value: ``"reward"``, ``"episode_return"``, ``"final_info.density"``.
    """

    task: str
    episode: int
    step: int | None = None
    array: str
    recorded: str
    repeated: str


class ReturnComparison(Record, kw_only=True):
    """A comparison of repeated with recorded returns that are not bit-equal.

    Attributes:
        unit: ``"episodes of equal seeds"`` (pairs), ``"episodes"`` or ``"training runs"``.
        recorded: mean of the record, as ``repeated`` that of the repetition, in units of the return.
        low: lower end of the interval of repeated minus recorded; None if there is no spread to compare with.
        margin: deviation within which both count as equal.
        look: number of looks at growing data that share the chance of an error, this one included.
        needed: about how many repeated episodes would settle it; None if no number is known.
    """

    unit: Unit
    recorded: float
    repeated: float
    recorded_n: int
    repeated_n: int
    low: float | None
    high: float | None
    confidence: float
    margin: float
    look: int = 1
    needed: int | None = None


class RepeatedRun(Record, kw_only=True):
    """One repetition.

    Attributes:
        path: its bundle, below the folder of the reproduction.
        seeds: ``"recorded"`` or ``"fresh"``.
    """

    path: str
    seeds: Literal["recorded", "fresh"]
    state: str
    manifest_sha256: str = ""


class Reproduction(Record, kw_only=True):
    """``<mode>.reproduction.json``: the verdict about one bundle.

    Attributes:
        bundle: label of the bundle in the folder that was given.
        manifest_sha256: of the bundle's manifest, which lists the hashes of all its files.
        method: ``"bit-equal"`` if every recorded value of every episode was repeated exactly.
        statement: the comparison of episodes or training runs; None if they are bit-equal or were not repeated.
        conditions: hashes of what was repeated here: environment, submission, a2perf. The verdict is void for others.
        changed: what differs between the recorded run and its repetition.
        missing: what is missing for a repetition, one sentence each.
        host: the host of the repetitions, as in a manifest, without its name.
        same_host: whether the run was recorded on that host; None if unknown.
        finished_at: ISO 8601, UTC.
    """

    schema: int = SCHEMA
    a2perf_version: str
    a2perf_sha256: str
    bundle: str
    manifest_sha256: str
    submission: str
    submission_sha256: str
    domain: str
    task: str
    mode: str
    root_seed: int
    verdict: Outcome
    method: Method = "none"
    trained: bool = False
    reason: str
    statement: ReturnComparison | None = None
    conditions: dict[str, str] = msgspec.field(default_factory=dict)
    changed: list[ChangedCondition] = msgspec.field(default_factory=list)
    first_difference: FirstDifference | None = None
    episodes: int = 0
    equal_episodes: int = 0
    missing: list[str] = msgspec.field(default_factory=list)
    checked: list[str] = msgspec.field(default_factory=list)
    runs: list[RepeatedRun] = msgspec.field(default_factory=list)
    host: dict[str, Any] = msgspec.field(default_factory=dict)
    same_host: bool | None = None
    finished_at: str
    signature: signing.KeySignature | None = None

    @property
    def other_environment(self) -> bool:
        """Whether the repetition had another environment than the record. Then only equality says something."""
        return any(item.name in ENVIRONMENT for item in self.changed)

    def mark(self, *, trusted: bool) -> str:
        """Returns the verdict in a few words; of the word of a stranger neither date nor host counts."""
        word = {"CONFIRMED": "reproduced", "REFUTED": "not reproduced", "INCONCLUSIVE": "reproduction open"}
        text = word.get(self.verdict, "not checked")
        if not trusted:
            return f"{text}, as the bundle states"
        where = {True: " on the same host", False: " on another host", None: ""}[self.same_host]
        return f"{text} {self.finished_at[:10]}{where}"


class ReproductionMark(Record, kw_only=True):
    """A verdict that counts for a bundle, for a page that shows the bundle."""

    verdict: Outcome
    text: str
    detail: str
    signature: SignedState


def place_of(bundle: Path) -> Path:
    """Returns the path of the record beside a bundle."""
    return bundle.with_name(f"{bundle.name}{REPRODUCTION_SUFFIX}")


def write_reproduction(path: Path, found: Reproduction, key_file: Path | None = None) -> None:
    """Writes a record; with a private key, it is signed first, see ``signing.read_private_key``."""
    if key_file is not None:
        private = signing.read_private_key(key_file)
        found.signature = signing.KeySignature(**signing.signed(private, _signed_bytes(found)))
    write_record(path, found)


def read_reproduction(path: Path) -> Reproduction:
    """Reads a record, which may come from another person and be in a packed file; an invalid one is a ``UserError``."""
    return parse_record(files_of(path.parent).read(path.name, _MAX_BYTES), Reproduction, str(path))


def mark_of(
    bundle: Path, *, names: Mapping[str, str] | None = None, others: Iterable[Path] = ()
) -> ReproductionMark | None:
    """Returns the verdict that counts for a bundle.

    The reader's own verdicts and those with a trusted signature outweigh a record that comes with the bundle, which is
    its author's word. Among equals a refutation wins. Dates decide nothing. A record about another manifest, with an
    invalid signature, without a verdict, that cannot be read, or that refutes another environment does not count.

    Args:
        names: names of trusted keys by key id.
        others: the reader's own records.
    """
    found: list[tuple[bool, ReproductionMark]] = []
    try:
        sha256 = signing.manifest_sha256(bundle)
    except (UserError, OSError):
        return None
    own = list(others)
    for path in (place_of(bundle), *own):
        try:
            record = read_reproduction(path)
            if record.manifest_sha256 != sha256 or record.verdict not in _BY_WEIGHT:
                continue
            if record.other_environment and record.verdict != "CONFIRMED":
                continue
            mark = _mark(record, names or {}, own=path in own)
        except (UserError, StrangerFileError, OSError, ValueError):
            continue
        if mark is not None:
            found.append((path in own or mark.signature == "signed", mark))
    return max(found, key=lambda pair: (pair[0], -_BY_WEIGHT.index(pair[1].verdict)))[1] if found else None


def _mark(record: Reproduction, names: Mapping[str, str], *, own: bool) -> ReproductionMark | None:
    state: SignedState = "unsigned"
    signed = "verdict not signed"
    if record.signature is not None:
        try:
            if (key := signer(record)) is None:
                return None
            state = "signed" if key in names else "unknown key"
            signed = f"verdict signed by {names[key]}" if key in names else f"verdict signed with the unknown key {key}"
        except MissingDependency:
            state, signed = "not checked", "signature of the verdict not checked"
    text = record.mark(trusted=own or state == "signed")
    return ReproductionMark(verdict=record.verdict, text=text, detail=f"{record.reason}; {signed}", signature=state)


def signer(record: Reproduction) -> str | None:
    """Returns the id of the key that signed a record; None without a signature that fits.

    Raises:
        ValueError: the signature cannot be read.
        MissingDependency: the library that checks signatures is not installed.
    """
    signature = record.signature
    fits = signature is not None and signature.fits(_signed_bytes(record))
    return signing.key_id(signature.raw_key()) if signature is not None and fits else None


def _signed_bytes(found: Reproduction) -> bytes:
    content = {**msgspec.to_builtins(found), "signature": None}
    return _DOMAIN + json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
