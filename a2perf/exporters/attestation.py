"""Results as in-toto attestations: signed statements about a bundle that tools of the software supply chain can check.

A file ``<bundle>.intoto.jsonl`` beside the bundle holds two DSSE envelopes, each with an in-toto Statement v1
(https://in-toto.io/Statement/v1): the scores with their provenance (predicate ``EVALUATION``), and whether the run
passed (predicate ``TEST_RESULT`` of in-toto). The subjects are the bundle's manifest and the submission. The manifest
lists the hashes of all other files, so the statements cover the whole bundle, and the bundle itself stays unchanged.
Needs the package ``cryptography`` (extra ``signing``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from a2perf.errors import UserError
from a2perf.exporters.dsse import envelope_lines, open_envelope, read_envelopes, seal
from a2perf.exporters.given_runs import RunSource, runs_of
from a2perf.exporters.predicates import EVALUATION, TEST_RESULT, evaluation, run_test_result, verdict_test_result
from a2perf.records import Manifest
from a2perf.runs.bundle import integrity
from a2perf.runs.inventory import read_manifest
from a2perf.runs.layout import ATTESTATION_SUFFIX
from a2perf.runs.run import BUNDLE, Run
from a2perf.runs.signing import manifest_sha256, trusted_keys, unchanged_manifest
from a2perf.storage import json_text, write_atomic

STATEMENT = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"


class AttestedSubject(msgspec.Struct, kw_only=True):
    """What a statement is about: a name, and its digests by algorithm."""

    name: str = ""
    digest: dict[str, str] = msgspec.field(default_factory=dict)


class InTotoStatement(msgspec.Struct, kw_only=True):
    """An in-toto statement: its version, subjects, and a predicate of the type that ``predicateType`` names."""

    type: str = msgspec.field(name="_type")
    subject: list[AttestedSubject]
    predicate_type: str = msgspec.field(name="predicateType")
    predicate: dict[str, Any]


class JudgedComparison(Protocol):
    """A comparison of ``a2perf.compare``."""

    @property
    def judgements(self) -> Mapping[str, Sequence[Any]]:
        """The verdict on each task (``env`` and ``verdict``) by candidate."""


@dataclass(frozen=True)
class AttestationVerdict:
    """The result of verifying an attestation.

    Attributes:
        problems: one sentence per problem; empty if every statement is valid and signed with a trusted key.
        statements: the statements with a trusted signature; others are never returned.
        signers: names of the trusted keys that signed all of them.
        key_ids: short ids of these keys.
    """

    problems: list[str]
    statements: list[InTotoStatement]
    signers: list[str]
    key_ids: list[str]

    def __bool__(self) -> bool:
        return not self.problems


def attest(run: RunSource, key: str | Path, *, output: str | Path | None = None) -> Path:
    """Writes a signed attestation of one run.

    Args:
        run: a ``Result``, a ``Run``, or the path of one bundle, packed or not.
        key: private Ed25519 key that ``a2perf sign --new-key`` created.
        output: the file; by default ``<bundle>.intoto.jsonl`` beside the bundle.

    Returns:
        The file. It holds one envelope per line.

    Raises:
        UserError: the run is not a bundle, has not ended, or was changed after it ended.
        ConfigError: the key cannot be read, or others can read it.
        MissingDependency: the package ``cryptography`` is not installed.

    Example:
        >>> from a2perf.exporters.attestation import attest, verify_attestation
        >>> run = a2perf.read_runs("results/recorded/learning/numpy_ars.zip")[0]
        >>> file = attest(run, "my.key", output="run.intoto.jsonl")
        >>> verify_attestation(file, "my.key.pub", bundle=run).problems
        []
    """
    recorded = _one_bundle(run)
    statements = statements_of(recorded)
    path = Path(output) if output is not None else attestation_path(recorded.folder.path)
    return _write(statements, Path(key), path)


def attest_verdict(
    verdicts: Mapping[str, str] | JudgedComparison,
    runs: RunSource | Iterable[RunSource],
    key: str | Path,
    output: str | Path,
) -> Path:
    """Writes a signed test result for the verdict of a comparison.

    Args:
        verdicts: a comparison of ``a2perf.compare``, or ``"PASS"``, ``"INCONCLUSIVE"`` or ``"REGRESSION"`` by name of
            the task or test.
        runs: the compared runs; all of them are subjects.
        key: private Ed25519 key that ``a2perf sign --new-key`` created.
        output: the file.

    Returns:
        The file.

    Raises:
        UserError: a verdict is unknown, or a run is not a bundle, has not ended, or was changed after it ended.
        ConfigError: the key cannot be read, or others can read it.
        MissingDependency: the package ``cryptography`` is not installed.

    Example:
        >>> from a2perf.exporters.attestation import attest_verdict
        >>> runs = a2perf.read_runs("results/recorded/learning")
        >>> comparison = a2perf.compare(runs, baseline="minimal")
        >>> file = attest_verdict(comparison, runs, "my.key", "verdict.intoto.jsonl")
    """
    subjects: list[AttestedSubject] = []
    for run in runs_of(runs):
        bundle = _bundle_path(run)
        subjects += _subjects(bundle, unchanged_manifest(bundle), name=run.key)
    distinct = {tuple(subject.digest.items()): subject for subject in subjects}
    return _write(
        [_statement(list(distinct.values()), TEST_RESULT, verdict_test_result(_by_name(verdicts)))],
        Path(key),
        Path(output),
    )


def _by_name(given: Mapping[str, str] | JudgedComparison) -> dict[str, str]:
    if isinstance(given, Mapping):
        return {name: str(getattr(verdict, "value", verdict)) for name, verdict in given.items()}
    several = len(given.judgements) > 1
    return {
        f"{candidate} on {judgement.env}" if several else judgement.env: judgement.verdict.value
        for candidate, judgements in given.judgements.items()
        for judgement in judgements
    }


def statements_of(run: RunSource) -> list[InTotoStatement]:
    """Returns the unsigned statements about one run: its scores, and its test result.

    Raises:
        UserError: as for ``attest``.
    """
    recorded = _one_bundle(run)
    bundle = recorded.folder.path
    manifest = unchanged_manifest(bundle)
    subjects = _subjects(bundle, manifest)
    return [
        _statement(subjects, EVALUATION, evaluation(recorded, manifest)),
        _statement(subjects, TEST_RESULT, run_test_result(recorded, manifest)),
    ]


def attestation_path(bundle: Path) -> Path:
    """Returns the default file of a bundle's attestation: beside the bundle, because a bundle never changes."""
    return bundle.with_name(bundle.name + ATTESTATION_SUFFIX)


def verify_attestation(
    path: str | Path,
    trusted: str | Path | Sequence[tuple[str, bytes]],
    bundle: RunSource | None = None,
) -> AttestationVerdict:
    """Checks an attestation: its signatures, its statements, and the bundle that they are about.

    Args:
        path: the file.
        trusted: file or folder of public keys, or name and 32 bytes of each key.
        bundle: also check that the statements are about this bundle, that it is unchanged, and that its scores are
            the attested ones.

    Returns:
        The problems, the statements with a trusted signature, and their signers.

    Raises:
        UserError: the file or the keys cannot be read.
        MissingDependency: the package ``cryptography`` is not installed.

    Example:
        >>> from a2perf.exporters.attestation import attest, verify_attestation
        >>> run = a2perf.read_runs("results/recorded/learning/numpy_ars.zip")[0]
        >>> verdict = verify_attestation(attest(run, "my.key", output="run.intoto.jsonl"), "my.key.pub")
        >>> verdict.signers, verdict.statements[1].predicate["result"]
        (['my.key'], 'WARNED')
    """
    keys = trusted_keys(Path(trusted)) if isinstance(trusted, str | Path) else list(trusted)
    problems: list[str] = []
    statements: list[InTotoStatement] = []
    signers: list[set[tuple[str, str]]] = []
    for number, envelope in enumerate(read_envelopes(Path(path)), start=1):
        try:
            opened = open_envelope(envelope, keys)
        except ValueError as error:
            problems.append(f"line {number}: the envelope cannot be read: {error}")
            continue
        if not opened.signers:
            problems.append(f"line {number}: no trusted key has signed it, or it was changed after signing")
            continue
        signers.append(set(opened.signers))
        try:
            statements.append(_read_statement(opened.payload, opened.payload_type))
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    if bundle is not None and statements:
        problems += _against_bundle(statements, _one_bundle(bundle))
    common = sorted(set.intersection(*signers)) if signers else []
    if signers and not common:
        problems.append("no single trusted key has signed all statements")
    return AttestationVerdict(problems, statements, [name for name, _ in common], [key for _, key in common])


def _write(statements: Sequence[InTotoStatement], key: Path, path: Path) -> Path:
    envelopes = [seal(json_text(msgspec.to_builtins(one)).encode(), PAYLOAD_TYPE, key) for one in statements]
    write_atomic(path, envelope_lines(envelopes))
    return path


def _statement(subjects: list[AttestedSubject], kind: str, predicate: dict[str, Any]) -> InTotoStatement:
    return InTotoStatement(type=STATEMENT, subject=subjects, predicate_type=kind, predicate=predicate)


def _subjects(bundle: Path, manifest: Manifest, name: str | None = None) -> list[AttestedSubject]:
    submission = manifest.submission
    return [
        AttestedSubject(name=f"{name or manifest.mode}/manifest.json", digest={"sha256": manifest_sha256(bundle)}),
        AttestedSubject(name=f"submission/{submission.name}", digest={"sha256": submission.sha256}),
    ]


def _one_bundle(given: RunSource) -> Run:
    runs = runs_of(given)
    if len(runs) != 1:
        raise UserError(f"{given} holds {len(runs)} runs, and an attestation is about one", hint="give one bundle")
    # Read again: what is signed comes from the files, even if the object in memory was changed.
    return runs_of(_bundle_path(runs[0]))[0]


def _bundle_path(run: Run) -> Path:
    if run.folder.layout != BUNDLE:
        raise UserError(
            f"{run.folder.path} is not a bundle ({run.folder.layout}): it has no manifest of hashes",
            hint="give a run that `a2perf run` recorded",
        )
    return run.folder.path


def _read_statement(payload: bytes, payload_type: str) -> InTotoStatement:
    if payload_type != PAYLOAD_TYPE:
        raise ValueError(f"its payload is of type {payload_type!r}, and {PAYLOAD_TYPE!r} is valid")
    try:
        found = msgspec.json.decode(payload, type=InTotoStatement)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"its payload is not an in-toto statement: {error}") from error
    if found.type != STATEMENT:
        raise ValueError(f"its statement is of type {found.type!r}, and {STATEMENT!r} is valid")
    if not found.subject or not all(subject.digest for subject in found.subject):
        raise ValueError("its statement has a subject without a digest, or none")
    return found


def _against_bundle(statements: Sequence[InTotoStatement], run: Run) -> list[str]:
    bundle = run.folder.path
    manifest = read_manifest(bundle)
    problems = integrity(bundle, manifest)
    wanted = {subject.digest["sha256"] for subject in _subjects(bundle, manifest)}
    for statement in statements:
        attested = {subject.digest.get("sha256") for subject in statement.subject}
        if not wanted <= attested:
            problems.append(f"the statement {statement.predicate_type} is about another bundle")
        elif statement.predicate_type == EVALUATION and not problems:
            problems += _different_scores(statement.predicate, evaluation(run, manifest))
    return problems


def _different_scores(attested: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Compares scores of the same formulas; another version of them may give other numbers."""
    if any(attested.get(name) != found[name] for name in ("rules", "profile")):
        return []
    given = attested.get("scores")
    scores = [score for score in given if isinstance(score, Mapping)] if isinstance(given, list) else []
    values = {str(score.get("name")): score.get("value") for score in scores}
    return [
        f"the attested {score['name']} is {values[score['name']]}, and the bundle gives {score['value']}"
        for score in found["scores"]
        if score["name"] in values and not _equal(values[score["name"]], score["value"])
    ]


def _equal(attested: object, found: object) -> bool:
    if isinstance(attested, int | float) and isinstance(found, int | float):
        return abs(attested - found) <= 1e-9 * max(abs(attested), abs(found))  # rounding differs between machines
    return attested == found
