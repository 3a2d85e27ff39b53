"""Checks the signatures of bundles and of verdicts against trusted keys, for the pages of a leaderboard."""

from __future__ import annotations

from pathlib import Path

from a2perf.errors import MissingDependency, UserError
from a2perf.report.leaderboard.entries import ReproductionCheck, Signature, SignatureCheck
from a2perf.runs import signing
from a2perf.runs.layout import REPRODUCTION_SUFFIX
from a2perf.runs.reproduction import ReproductionMark, mark_of, read_reproduction


def signature_check(trusted_keys: Path | None) -> SignatureCheck:
    """Returns the function that checks the signature of a bundle.

    Raises:
        ConfigError: no key was found, or one cannot be read.
        MissingDependency: keys are given, but the library that checks signatures is not installed.
    """
    names = _names(trusted_keys)

    def check(bundle: Path) -> Signature:
        try:
            verdict = signing.verify(bundle, None)
        except MissingDependency as error:
            return Signature(state="not checked", detail=error.message)
        if verdict.problems or verdict.key_id is None:
            return Signature(state="invalid", detail=(verdict.problems or ["no key"])[0])
        if verdict.key_id in names:
            return Signature(state="signed", detail=names[verdict.key_id])
        return Signature(state="unknown key", detail=verdict.key_id)

    return check


def reproduction_check(trusted_keys: Path | None, folder: Path | None) -> ReproductionCheck:
    """Returns the function that looks up the verdict about a bundle.

    Raises:
        ConfigError: no key was found, or one cannot be read.
    """
    names = _names(trusted_keys)
    others: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob(f"*{REPRODUCTION_SUFFIX}")) if folder is not None else ():
        try:
            others.setdefault(read_reproduction(path).manifest_sha256, []).append(path)
        except (UserError, OSError):  # it counts for no bundle
            continue

    def check(bundle: Path) -> ReproductionMark | None:
        try:
            known = others.get(signing.manifest_sha256(bundle), ()) if others else ()
        except (UserError, OSError):
            return None
        return mark_of(bundle, names=names, others=known)

    return check


def _names(trusted_keys: Path | None) -> dict[str, str]:
    """Returns the names of the trusted keys by key id."""
    if trusted_keys is None:
        return {}
    return {signing.key_id(raw): name for name, raw in signing.trusted_keys(trusted_keys)}
