"""Checks an untrusted wheel before an installer opens it: its names, its unpacked size and its metadata.

Nothing is unpacked, and all reads are bounded. The format is defined in PEP 427 and in the binary distribution format
of packaging.python.org. A wheel with false sizes passes here, but reaches the limits of the sandbox later.
"""

from __future__ import annotations

import csv
import errno
import re
import stat
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from a2perf.errors import SubmissionError
from a2perf.submission.evaluator.python_env.requirements import shown

MAX_ENTRIES = 60_000
MAX_DIRECTORY_BYTES = 16 * 1024 * 1024
MAX_METADATA_BYTES = 2 * 1024 * 1024
MAX_RECORD_BYTES = 16 * 1024 * 1024
MAX_RATIO = 50
FREE_BYTES = 64 * 1024 * 1024
"""Unpacked size above which ``MAX_RATIO`` applies."""

_SCHEMES = ("purelib", "platlib", "headers", "scripts", "data")
_END, _END_64 = b"PK\x05\x06", b"PK\x06\x07"
_REBUILD = "build the wheel again with a current build tool"


_MALFORMED = (
    zlib.error,
    struct.error,
    NotImplementedError,
    RuntimeError,
    ValueError,
    EOFError,
    LookupError,
    ArithmeticError,
    OSError,
)
"""Exceptions that ``zipfile`` and the metadata parsers raise for malformed bytes."""


class _Broken(Exception):
    """A wheel is invalid; the message continues a sentence that starts with its name."""


def check_wheel(path: Path, place: str, *, max_bytes: int) -> None:
    """Checks one wheel.

    Args:
        path: the wheel with its original name, in a folder that no other process writes to.

    Raises:
        SubmissionError: it is broken, has names outside of the environment, or is too large when unpacked.
    """
    try:
        with path.open("rb") as file:
            # The list of members is bounded before zipfile reads it into memory.
            size = file.seek(0, 2)
            start = max(0, size - (1 << 16) - 42)
            file.seek(start)
            tail = file.read()
            at = tail.rfind(_END)
            if at < 0 or len(tail) - at < 22:
                raise _Broken("is not a zip file")
            if tail[max(0, at - 20) : at].startswith(_END_64):
                raise _Broken("is a ZIP64 archive, which is larger than allowed")
            entries, length = struct.unpack_from("<HL", tail, at + 10)
            if entries > MAX_ENTRIES or length > MAX_DIRECTORY_BYTES:
                raise _Broken(f"has more than {MAX_ENTRIES} members")
            with zipfile.ZipFile(file) as archive:
                _check_members(archive.infolist(), path.stat().st_size, max_bytes)
                _check_info(archive, path.name)
    except _Broken as error:
        raise SubmissionError(f"{place}: {shown(path.name)} {error}", hint=_REBUILD) from error
    except (zipfile.BadZipFile, *_MALFORMED) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # EINVAL: a seek to an invalid offset
            raise
        reason = shown(str(error)) or type(error).__name__
        raise SubmissionError(
            f"{place}: {shown(path.name)} is not a readable wheel: {reason}", hint=_REBUILD
        ) from error


def _check_members(members: list[zipfile.ZipInfo], size: int, max_bytes: int) -> None:
    if len(members) > MAX_ENTRIES:
        raise _Broken(f"has more than {MAX_ENTRIES} members")
    names: set[str] = set()
    total = 0
    for member in members:
        _check_name(member.filename)
        mode = member.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _Broken(f"contains {shown(member.filename)!r}, which is not a regular file")
        if member.flag_bits & 0x1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _Broken(f"contains {shown(member.filename)!r}, which is encrypted or has an unsupported compression")
        if member.filename in names:
            raise _Broken(f"contains {shown(member.filename)!r} twice")
        names.add(member.filename)
        total += member.file_size
    if total > max_bytes:
        raise _Broken(f"unpacks to {total} bytes; an environment may have at most {max_bytes}")
    if total > max(FREE_BYTES, MAX_RATIO * size):
        raise _Broken(f"unpacks to {total} bytes, more than {MAX_RATIO} times its size of {size}")


def _check_name(name: str) -> None:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in name.split("/") or "\\" in name or not name.isprintable():
        raise _Broken(f"contains a path outside of the environment: {shown(name)!r}")
    if len(name) > 1000 or any(len(part.encode(errors="replace")) > 255 for part in parts) or len(parts) > 40:
        raise _Broken(f"contains a name that is too long: {shown(name)!r}")
    top, _, rest = name.partition("/")
    if top.endswith(".data") and rest:
        scheme, _, inner = rest.partition("/")
        if scheme not in _SCHEMES or inner.startswith("/"):
            raise _Broken(f"contains {shown(name)!r}, which does not belong to any folder of an environment")
        if scheme == "data" and (inner.partition("/")[0] in ("pyvenv.cfg", "lib64") or is_interpreter(inner)):
            raise _Broken(f"contains {shown(name)!r}, which would replace a part of the interpreter")
        if scheme == "scripts" and is_interpreter(f"bin/{inner}"):
            raise _Broken(f"contains {shown(name)!r}, which would replace a part of the interpreter")


def is_interpreter(path: str) -> bool:
    """Returns whether a path below an environment is a program or script of the environment itself."""
    return re.fullmatch(r"bin/(python[\d.]*|pythonw|pypy[\d.]*|activate.*|Activate.*|deactivate.*)", path) is not None


def _check_info(archive: zipfile.ZipFile, file_name: str) -> None:
    try:
        name, version = parse_wheel_filename(file_name)[:2]
    except InvalidWheelFilename as error:
        raise _Broken("does not have a valid wheel file name") from error
    tops = {member.partition("/")[0] for member in archive.namelist() if "/" in member}
    infos = [top for top in tops if top.endswith(".dist-info")]
    if len(infos) != 1:
        raise _Broken(f"has {len(infos)} folders *.dist-info; exactly one is required")
    info = infos[0]
    if canonicalize_name(info.removesuffix(".dist-info").partition("-")[0]) != name:
        raise _Broken(f"has the metadata of another package: {shown(info)}")
    _read(archive, f"{info}/WHEEL", MAX_METADATA_BYTES)
    raw, _ = parse_email(_read(archive, f"{info}/METADATA", MAX_METADATA_BYTES))
    if canonicalize_name(raw.get("name", "")) != name or not raw.get("version"):
        raise _Broken(f"has a METADATA that does not match {name} {version}")
    for text in raw.get("requires_dist", []):
        try:
            url = Requirement(text).url
        except (InvalidRequirement, RecursionError) as error:
            raise _Broken(f"has a METADATA with an invalid requirement: {shown(text)!r}") from error
        if url is not None or "$" in text:
            raise _Broken(f"requires {shown(text)!r}; URLs and variables are not allowed in requirements")
    try:
        rows = list(csv.reader(_read(archive, f"{info}/RECORD", MAX_RECORD_BYTES).decode("utf-8").splitlines()))
    except csv.Error as error:
        raise _Broken("has an invalid RECORD") from error
    for row in rows:
        if row and (len(row) != 3 or row[0].startswith("/") or ".." in row[0].split("/")):
            raise _Broken(f"has an invalid RECORD: {shown(','.join(row))!r}")


def _read(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    try:
        with archive.open(name) as file:
            data = file.read(most + 1)
    except KeyError as error:
        raise _Broken(f"has no {shown(name)}") from error
    if len(data) > most:
        raise _Broken(f"has a {shown(name)} larger than {most} bytes")
    return data
