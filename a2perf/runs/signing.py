"""Signs bundles with Ed25519 and verifies signatures.

A signature is a statement about one manifest. The manifest lists all other files, so one signature covers the whole
bundle. It is stored beside the manifest as ``signature.json``. The signed bytes are the statement in canonical form:
JSON with sorted keys and no spaces. A valid signature does not prove who the signer is; for that, the verifier needs a
list of trusted keys. Needs the package ``cryptography`` (extra ``signing``).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from a2perf.errors import ConfigError, MissingDependency, UserError, command_line, install_hint
from a2perf.records import Manifest, Record, RunState
from a2perf.runs.bundles.agreement import integrity
from a2perf.runs.bundles.attempts import now
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.inventory import MAX_MANIFEST_BYTES, find_bundles, read_manifest
from a2perf.runs.bundles.layout import MANIFEST, SIGNATURE
from a2perf.runs.packed.packed_archive import packed_place
from a2perf.storage import json_text, parse_record, write_atomic, write_json
from a2perf.stranger_files import printable
from a2perf.system import POSIX

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ALGORITHM = "Ed25519"
PUBLIC_SUFFIX = ".pub"
_KEY_ID_LENGTH = 16
_MAX_SIGNATURE_BYTES = 1 << 16


class Statement(Record, kw_only=True):
    """The signed statement.

    Attributes:
        signed_at: time of signing according to the signer, ISO 8601 in UTC.
    """

    schema: int = 1
    algorithm: str = ALGORITHM
    manifest_sha256: str
    submission_sha256: str
    signed_at: str


class KeySignature(Record, kw_only=True):
    """A signature: the public key as base64 of its 32 bytes, and the signature as base64."""

    public_key: str
    signature: str

    def raw_key(self) -> bytes:
        """Returns the bytes of the public key; raises ``ValueError`` if its text is not canonical base64."""
        return _decoded(self.public_key)

    def fits(self, data: bytes) -> bool:
        """Returns whether the key has signed these bytes.

        Raises:
            ValueError: the key or the signature is not canonical base64, or the key is not an Ed25519 key.
            MissingDependency: the library is not installed.
        """
        public = _library()[1].Ed25519PublicKey.from_public_bytes(self.raw_key())
        from cryptography.exceptions import InvalidSignature

        try:
            public.verify(_decoded(self.signature), data)
        except InvalidSignature:
            return False
        return True


class BundleSignature(KeySignature, kw_only=True):
    """``signature.json``; the schema version is part of the statement, so it is signed."""

    statement: Statement


@dataclass(frozen=True)
class SignatureVerdict:
    """The result of verifying a bundle; without problems it is sound, signed and trusted."""

    problems: list[str]
    key_id: str | None = None
    signer: str | None = None
    signed_at: str | None = None


def new_key(file: Path) -> Path:
    """Creates a private key, readable only by its owner, and ``file.pub``; returns the path of the latter.

    Raises:
        ConfigError: one of the files exists; a key is never overwritten.
        MissingDependency: the library is not installed.
    """
    serialization, ed25519 = _library()
    public_file = file.with_name(file.name + PUBLIC_SUFFIX)
    for path in (file, public_file):
        if path.exists():
            raise ConfigError(f"{path} exists already", hint="choose another name; a key is never overwritten")
    private = ed25519.Ed25519PrivateKey.generate()
    encoding = serialization.Encoding.PEM
    secret = private.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    open_text = private.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    write_atomic(file, secret, mode=0o600)
    write_atomic(public_file, open_text)
    return public_file


def sign(bundle: Path, key_file: Path) -> BundleSignature:
    """Signs a finished bundle and writes ``signature.json`` into it.

    Raises:
        ConfigError: the key cannot be read, or others can read it.
        UserError: the bundle is not finished, or was changed after the run; it is not signed then.
        MissingDependency: the library is not installed.
    """
    private = read_private_key(key_file)
    if packed_place(bundle) is not None:
        raise UserError(f"{bundle} is packed, and packed files are never changed", hint="sign the run, then pack it")
    manifest = read_manifest(bundle)
    if manifest.state not in (RunState.FINISHED, RunState.FAILED):
        raise UserError(f"{bundle} is not finished (state: {manifest.state.value})", hint="sign it when it has ended")
    if problems := integrity(files_of(bundle), manifest):
        raise UserError(
            f"{bundle} is not what was recorded: {problems[0]}", hint=command_line("a2perf", "validate", bundle)
        )
    sha256, submission = manifest_sha256(bundle), manifest.submission.sha256
    statement = Statement(manifest_sha256=sha256, submission_sha256=submission, signed_at=now())
    signature = BundleSignature(statement=statement, **signed(private, _canonical(statement)))
    write_json(bundle / SIGNATURE, msgspec.to_builtins(signature))
    return signature


def verify(bundle: Path, trusted: Iterable[tuple[str, bytes]] | None) -> SignatureVerdict:
    """Checks a bundle: its files, its signature, and whether the key is trusted; without a list any key is.

    Raises:
        MissingDependency: the library is not installed.
    """
    _library()
    try:
        manifest = read_manifest(bundle)
    except UserError as error:
        return SignatureVerdict([error.message])
    problems = integrity(files_of(bundle), manifest)
    if manifest.state not in (RunState.FINISHED, RunState.FAILED):
        problems.append(f"the run is not finished (state: {manifest.state.value})")
    if (files := files_of(bundle)).status(SIGNATURE) is None:
        return SignatureVerdict([*problems, "it is not signed"])
    try:
        text = files.read(SIGNATURE, _MAX_SIGNATURE_BYTES)
        found = parse_record(text, BundleSignature, "its content")
        raw, fits = found.raw_key(), found.fits(_canonical(found.statement))
    except (UserError, ValueError) as error:
        return SignatureVerdict([*problems, f"{SIGNATURE} cannot be read: {getattr(error, 'message', error)}"])
    # The signature covers the statement only; this detects changes of the file around it.
    if text != json_text(msgspec.to_builtins(found)).encode():
        problems.append(f"{SIGNATURE} was changed")
    if not fits:
        problems.append("the signature does not fit its statement")
    problems += _against(found.statement, bundle, manifest)
    key, signer = key_id(raw), None
    if trusted is not None:
        signer = next((name for name, other in trusted if other == raw), None)
        if signer is None:
            problems.append(f"it is signed with the key {key}, which is not trusted")
    return SignatureVerdict(problems, key, signer, found.statement.signed_at)


def bundles_of(given: Iterable[str]) -> list[Path]:
    """Returns the bundles in and below folders, each once; a folder without one is a ``ConfigError``."""
    found: dict[Path, None] = {}
    for name in given:
        path = Path(name)
        below = find_bundles(path) if path.is_dir() or packed_place(path) is not None else []
        if not below:
            raise ConfigError(
                f"{printable(name)} holds no bundle", hint="give the --root_dir of a run, or a bundle below it"
            )
        found |= dict.fromkeys(below)
    return list(found)


def trusted_keys(given: Path) -> list[tuple[str, bytes]]:
    """Returns name and raw bytes of the public keys in a file, or in all ``.pub`` and ``.pem`` files of a folder.

    The name is that of the file without suffix, numbered if it holds several keys.

    Raises:
        ConfigError: there is no key, or a key cannot be read.
        MissingDependency: the library is not installed.
    """
    serialization, ed25519 = _library()
    files = sorted(path for path in given.iterdir() if path.suffix in (".pub", ".pem")) if given.is_dir() else [given]
    keys = []
    for file in files:
        for number, block in enumerate(_pem_blocks(file), start=1):
            try:
                key = serialization.load_pem_public_key(block)
            except Exception as error:  # for invalid keys the library raises exceptions of many types
                raise ConfigError(f"{file} holds no public key: {error}", hint=_KEY_HINT) from error
            if not isinstance(key, ed25519.Ed25519PublicKey):
                raise ConfigError(f"{file} holds a key that is not of type {ALGORITHM}", hint=_KEY_HINT)
            keys.append((file.stem if number == 1 else f"{file.stem}#{number}", key.public_bytes_raw()))
    if not keys:
        raise ConfigError(f"{given} holds no public key", hint=_KEY_HINT)
    return keys


def key_id(raw: bytes) -> str:
    """Returns the short name of a public key: the first 16 hexadecimal digits of the hash of its 32 bytes."""
    return hashlib.sha256(raw).hexdigest()[:_KEY_ID_LENGTH]


_KEY_HINT = "create one with `a2perf sign --new-key FILE` and publish FILE.pub"


def _against(statement: Statement, bundle: Path, manifest: Manifest) -> list[str]:
    problems = []
    if statement.algorithm != ALGORITHM:
        problems.append(f"it is signed with {statement.algorithm}, which is not {ALGORITHM}")
    if statement.manifest_sha256 != manifest_sha256(bundle):
        problems.append("manifest.json is not the one that was signed")
    elif statement.submission_sha256 != manifest.submission.sha256:
        problems.append("the signature is about another submission")
    return problems


def manifest_sha256(bundle: Path) -> str:
    """Returns the SHA-256 of the bytes of a bundle's manifest, which lists the hashes of all other files."""
    return hashlib.sha256(files_of(bundle).read(MANIFEST, MAX_MANIFEST_BYTES)).hexdigest()


def _canonical(statement: Statement) -> bytes:
    return json.dumps(msgspec.to_builtins(statement), sort_keys=True, separators=(",", ":")).encode()


def signed(private: Ed25519PrivateKey, data: bytes) -> dict[str, str]:
    """Returns the fields of the ``KeySignature`` of some bytes."""
    texts = {"public_key": private.public_key().public_bytes_raw(), "signature": private.sign(data)}
    return {name: base64.b64encode(raw).decode() for name, raw in texts.items()}


def _decoded(text: str) -> bytes:
    """Decodes base64; accepts only the canonical one of several texts for the same bytes."""
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("not the canonical base64")
    return data


def read_private_key(file: Path) -> Ed25519PrivateKey:
    """Reads a private key that ``new_key`` created.

    Raises:
        ConfigError: it cannot be read, is not an Ed25519 key without a pass phrase, or others can read it.
        MissingDependency: the library is not installed.
    """
    serialization, ed25519 = _library()
    try:
        status, data = os.stat(file), file.read_bytes()
    except OSError as error:
        raise ConfigError(f"the key {file} cannot be read: {error.strerror}", hint=_KEY_HINT) from error
    if POSIX and status.st_mode & 0o077:
        raise ConfigError(f"the private key {file} can be read by others", hint=command_line("chmod", "600", file))
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except Exception as error:  # for invalid keys the library raises exceptions of many types
        raise ConfigError(f"{file} holds no private key without a pass phrase: {error}", hint=_KEY_HINT) from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise ConfigError(f"{file} holds a key that is not of type {ALGORITHM}", hint=_KEY_HINT)
    private: Ed25519PrivateKey = key
    return private


def _pem_blocks(file: Path) -> list[bytes]:
    end = b"-----END PUBLIC KEY-----"
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", hint=_KEY_HINT) from error
    return [part + end for part in data.split(end)[:-1]] or [data]


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "signing needs the package cryptography, which is not installed", hint=install_hint("signing")
        ) from error
    return serialization, ed25519
