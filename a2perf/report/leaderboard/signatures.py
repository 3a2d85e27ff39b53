"""Signatures of bundles and of verdicts, checked against trusted keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from a2perf.errors import MissingDependency, UserError
from a2perf.records import Record
from a2perf.runs.bundles.layout import REPRODUCTION_SUFFIX
from a2perf.runs.bundles.reproduction import ReproductionMark, mark_of, read_reproduction
from a2perf.runs.packed import signing

SignatureState = Literal["signed", "unknown key", "unsigned", "invalid", "not checked"]


class Signature(Record, kw_only=True):
    """State of a bundle's signature; ``detail`` is the key, or why the signature is invalid.

    Attributes:
        state: ``"signed"`` by a trusted key, ``"unknown key"`` for a valid signature by any other key, ``"invalid"``
            if signature and bundle disagree, ``"not checked"`` if the library that checks signatures is missing.
    """

    state: SignatureState
    detail: str = ""


@dataclass(frozen=True)
class Trust:
    """Keys that are trusted, and verdicts of `a2perf reproduce`.

    Attributes:
        names: of the keys, by id; without any the key of every valid signature is unknown.
        verdicts: by hash of the manifest, those that do not lie beside the bundle.
    """

    names: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, list[Path]] = field(default_factory=dict)

    @classmethod
    def read(cls, trusted_keys: Path | None, reproductions: Path | None = None) -> Self:
        """Reads public keys from a file or folder, and verdicts from the folder of `a2perf reproduce -o`.

        Raises:
            ConfigError: no key was found, or one cannot be read.
            MissingDependency: keys are given, but the library that checks signatures is not installed.
        """
        keys = () if trusted_keys is None else signing.trusted_keys(trusted_keys)
        verdicts: dict[str, list[Path]] = {}
        for path in sorted(reproductions.rglob(f"*{REPRODUCTION_SUFFIX}")) if reproductions is not None else ():
            try:
                verdicts.setdefault(read_reproduction(path).manifest_sha256, []).append(path)
            except (UserError, OSError):  # it counts for no bundle
                continue
        return cls({signing.key_id(raw): name for name, raw in keys}, verdicts)

    def signature(self, bundle: Path) -> Signature:
        """Checks the signature of a bundle that has a ``signature.json``."""
        try:
            verdict = signing.verify(bundle, None)
        except MissingDependency as error:
            return Signature(state="not checked", detail=error.message)
        if verdict.problems or verdict.key_id is None:
            return Signature(state="invalid", detail=(verdict.problems or ["no key"])[0])
        if verdict.key_id in self.names:
            return Signature(state="signed", detail=self.names[verdict.key_id])
        return Signature(state="unknown key", detail=verdict.key_id)

    def reproduction(self, bundle: Path) -> ReproductionMark | None:
        """Returns the verdict of repeating the run of a bundle, if one counts."""
        try:
            others = self.verdicts.get(signing.manifest_sha256(bundle), ()) if self.verdicts else ()
        except (UserError, OSError):
            return None
        return mark_of(bundle, names=self.names, others=others)
