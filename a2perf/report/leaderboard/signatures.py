"""Checks the signatures of bundles against trusted keys, for the pages of a leaderboard."""

from __future__ import annotations

from pathlib import Path

from a2perf.errors import MissingDependency
from a2perf.report.leaderboard.entries import Signature, SignatureCheck
from a2perf.runs import signing


def signature_check(trusted_keys: Path | None) -> SignatureCheck:
    """Returns the function that checks the signature of a bundle.

    Args:
        trusted_keys: file or folder of public keys; without it the key of every valid signature is unknown.

    Raises:
        ConfigError: no key was found, or one cannot be read.
        MissingDependency: keys are given, but the library that checks signatures is not installed.
    """
    names = (
        {} if trusted_keys is None else {signing.key_id(raw): name for name, raw in signing.trusted_keys(trusted_keys)}
    )

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
