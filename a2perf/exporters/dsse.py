"""Signed envelopes: Dead Simple Signing Envelope (DSSE) v1 with Ed25519, one envelope per line of a file.

https://github.com/secure-systems-lab/dsse. An envelope holds a payload, its type, and signatures over both. It does not
hold the public key: a verifier must already have it. Needs the package ``cryptography`` (extra ``signing``).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from a2perf.errors import UserError
from a2perf.runs.signing import decoded_base64, key_id, public_key_of, read_private_key
from a2perf.storage import read_bounded

MAX_FILE_BYTES = 64 << 20
_MAX_ENVELOPES, _MAX_SIGNATURES = 1000, 32
_HINT = "create it with `a2perf export attestation BUNDLE --key FILE`"


class EnvelopeSignature(msgspec.Struct, kw_only=True, frozen=True):
    """One signature of an envelope: base64 of its bytes, and a name of the key that only helps to find the key."""

    sig: str
    keyid: str = ""


class Envelope(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """An envelope as it is stored; ``payload`` is base64."""

    payload: str
    payload_type: str
    signatures: list[EnvelopeSignature]


@dataclass(frozen=True)
class OpenedEnvelope:
    """The payload of an envelope and the trusted keys that signed it.

    Attributes:
        payload: the signed bytes; untrusted if ``signers`` is empty.
        payload_type: the signed type of the payload.
        signers: name and short id (16 hexadecimal digits) of each trusted key with a valid signature.
    """

    payload: bytes
    payload_type: str
    signers: tuple[tuple[str, str], ...]


def seal(payload: bytes, payload_type: str, key_file: Path) -> Envelope:
    """Signs a payload.

    Args:
        payload: any bytes.
        payload_type: media type of the payload.
        key_file: private key of ``a2perf sign --new-key``.

    Raises:
        ConfigError: the key cannot be read, or others can read it.
        MissingDependency: the package ``cryptography`` is not installed.
    """
    private = read_private_key(key_file)
    mark = private.sign(_pre_authentication_encoding(payload, payload_type))
    return Envelope(
        payload=base64.b64encode(payload).decode(),
        payload_type=payload_type,
        signatures=[
            EnvelopeSignature(
                sig=base64.b64encode(mark).decode(), keyid=_keyid(private.public_key().public_bytes_raw())
            )
        ],
    )


def open_envelope(envelope: Envelope, trusted: Sequence[tuple[str, bytes]]) -> OpenedEnvelope:
    """Returns the payload of an envelope and the trusted keys that signed it.

    Args:
        envelope: the envelope.
        trusted: name and 32 bytes of each trusted key, as ``a2perf.runs.signing.trusted_keys`` returns them.

    Raises:
        ValueError: the payload or a signature is not base64.
        MissingDependency: the package ``cryptography`` is not installed.
    """
    payload = decoded_base64(envelope.payload)
    signed = _pre_authentication_encoding(payload, envelope.payload_type)
    marks = [decoded_base64(signature.sig) for signature in envelope.signatures[:_MAX_SIGNATURES]]
    # The key's name is not signed, so every trusted key is tried.
    signers = [(name, key_id(raw)) for name, raw in trusted if any(_fits(raw, mark, signed) for mark in marks)]
    return OpenedEnvelope(payload, envelope.payload_type, tuple(signers))


def envelope_lines(envelopes: Iterable[Envelope]) -> str:
    """Returns envelopes as JSON lines."""
    return "".join(msgspec.json.encode(envelope).decode() + "\n" for envelope in envelopes)


def read_envelopes(path: Path) -> list[Envelope]:
    """Reads a file with one envelope per line; it may come from another person.

    Raises:
        UserError: it cannot be read, is too large, or a line is not an envelope.
    """
    try:
        lines = read_bounded(path, MAX_FILE_BYTES).splitlines()
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}", hint=_HINT) from error
    if not lines or len(lines) > _MAX_ENVELOPES:
        raise UserError(
            f"{path} has {len(lines)} lines, and 1 to {_MAX_ENVELOPES} signed envelopes are valid",
            hint=_HINT,
        )
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(msgspec.json.decode(line, type=Envelope))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UserError(
                f"{path}, line {number}, is not a signed envelope (DSSE): {error}",
                hint=_HINT,
            ) from error
    return found


def _pre_authentication_encoding(payload: bytes, payload_type: str) -> bytes:
    """Returns the bytes that are signed, section "Protocol" of the specification."""
    kind = payload_type.encode("utf-8", "surrogatepass")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _fits(raw: bytes, mark: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        public_key_of(raw).verify(mark, signed)
    except InvalidSignature:
        return False
    return True


def _keyid(raw: bytes) -> str:
    """Returns the key's name as securesystemslib computes it, because its verifier ignores any other name."""
    key = {"keytype": "ed25519", "keyval": {"public": raw.hex()}, "scheme": "ed25519"}
    return hashlib.sha256(json.dumps(key, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
