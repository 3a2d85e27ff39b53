"""Files that survive a crash: atomic replacement and append-only journals.

A reader never sees half a file: a file is written under a temporary name in the same folder, flushed to disk and
renamed (POSIX ``rename`` is atomic within a file system). A journal has one JSON object per line. A line that a crash
cut off is skipped by readers and overwritten by the next append.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeVar

from a2perf.errors import UserError
from a2perf.fault_point import fault_point
from a2perf.plain_text import terminal_text
from a2perf.system import files as os

if TYPE_CHECKING:
    from a2perf.records import Record

_SURROGATE = re.compile("[\ud800-\udfff]")

R = TypeVar("R", bound="Record")
MAX_JSON_BYTES = 64 << 20
"""Largest JSON document without a schema; in memory it takes about twenty times as much."""
MAX_RECORD_BYTES = 256 << 20
"""Largest record."""
MAX_VALUES = 4_000_000
"""Most values of one file that may be held as Python objects, which take about half a gigabyte: the bound that all
readers of foreign files share. It also bounds their time without a clock: equal files give equal results."""
MAX_JOURNAL_BYTES, MAX_LINE_BYTES = 2 << 30, 16 << 20
_SYNC_S = 0.1
_on_a_line = functools.partial(json.dumps, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def write_atomic(path: Path, data: bytes | str | Iterable[bytes], *, mode: int = 0o644) -> None:
    """Replaces ``path`` by ``data``, or by its parts in turn, atomically; creates parent folders.

    Raises:
        OSError: the file system refused (full, read-only, no permission); ``path`` is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [data.encode()] if isinstance(data, str) else [data] if isinstance(data, bytes) else data
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines(parts)
            stream.flush()
            os.fsync(stream.fileno())  # before the rename: after a power failure the file could be empty otherwise
        # mkstemp creates files that only their owner may read.
        os.chmod(temporary, mode)
        fault_point(f"write {path.name}")
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` as indented JSON with sorted keys, atomically; NaN and infinities become null.

    JSON has no NaN, and parsers of other languages have to read every file of a bundle.
    """
    write_atomic(path, json_text(value))


def json_text(value: Any) -> str:
    """Returns the text that ``write_json`` writes; surrogates, which UTF-8 cannot encode, are escaped."""
    text = json.dumps(_finite(value), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    # Control characters are written as JSON escapes: printing the file cannot control a terminal.
    return terminal_text(_SURROGATE.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text))


def read_json(path: Path) -> Any:
    """Reads one JSON document.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not JSON, not a regular file or larger than ``MAX_JSON_BYTES``; the message names it.
    """
    return parse_json(read_bounded(path, MAX_JSON_BYTES), str(path))


def parse_json(data: bytes, path: str) -> Any:
    """Returns the document in the content of the JSON file at ``path``.

    Raises:
        ValueError: it is not JSON, or has more than ``MAX_VALUES`` values; the message names the file.
    """
    if values_of_json(data) > MAX_VALUES:
        raise ValueError(f"{path}: holds more than {MAX_VALUES} values")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # ValueError also for integers with too many digits
        raise ValueError(f"{path}: not a JSON document ({error})") from error


def values_of_json(data: bytes) -> int:
    """Returns an upper bound on the values in a JSON text, before it is decoded: commas and brackets in texts count."""
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def read_bounded(path: Path, most: int) -> bytes:
    """Returns the content of a regular file; other kinds are not opened, because reading a pipe could block forever.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a regular file, or larger than ``most`` bytes.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path}: not a regular file")
    if status.st_size > most:
        raise ValueError(f"{path}: larger than {most >> 20} MiB")
    # Non-blocking, as a pipe may have replaced the file since the check; one more byte shows that the file has grown.
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path}: larger than {most >> 20} MiB")
    return data


def write_record(path: Path, record: Record) -> None:
    """Writes a record like ``write_json``, except for the exponents of floats: much faster, in half the memory."""
    import msgspec

    write_atomic(path, msgspec.json.format(record_text(record), indent=2) + "\n")


def record_text(record: Record) -> str:
    """Returns a record as JSON without line breaks; see ``json_text`` for characters."""
    import msgspec

    try:
        text = msgspec.json.encode(record, order="sorted").decode()
    except UnicodeEncodeError:  # a surrogate
        text = msgspec.json.format(json_text(msgspec.to_builtins(record)), indent=-1)
    return terminal_text(text)


def read_record(path: Path, kind: type[R]) -> R:
    """Reads a record and checks every field.

    Raises:
        UserError: the file is missing, is not JSON, has an invalid field (named), or has a newer schema.
    """
    try:
        data = read_bounded(path, MAX_RECORD_BYTES)
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist", hint="give the folder of a run recorded by a2perf") from error
    except ValueError as error:
        raise UserError(str(error), hint="copy or record the file again") from error
    return parse_record(data, kind, str(path))


def parse_record(data: bytes, kind: type[R], path: str) -> R:
    """Returns the record in the content of a file; see ``read_record``. ``path`` names it in messages."""
    import msgspec

    from a2perf.records import SCHEMA

    if values_of_json(data) > MAX_VALUES:
        raise UserError(f"{path} holds more than {MAX_VALUES} values", hint="split the run")
    try:
        record = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UserError(
            f"{path} is not a valid {kind.__name__} record: {error}", hint="copy or record the file again"
        ) from error
    schema = getattr(record, "schema", SCHEMA)
    if schema > SCHEMA:
        raise UserError(
            f"{path} has schema {schema}; this version of a2perf reads schemas up to {SCHEMA}",
            hint="use the version of a2perf that wrote it, or a newer one",
        )
    return record


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes as 64 lower-case hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def journal_entries(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yields every complete entry of an open journal up to the first damaged line."""
    while line := stream.readline(MAX_LINE_BYTES):
        if not line.endswith(b"\n"):
            return
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(entry, dict):
            return
        yield entry


class Journal:
    """An append-only file of JSON objects, one per line.

    Entries survive the death of the process. They survive a power failure when ``append`` has returned, except those
    within ``_SYNC_S`` of the entry before, which follow with the next or at the end.

    Args:
        path: the file; created on the first append.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._due_s = 0.0

    def append(self, entry: dict[str, Any]) -> None:
        """Appends one entry; if the file system refuses (``OSError``), earlier entries stay readable."""
        import msgspec

        if self._descriptor is None:
            self._open()
        assert self._descriptor is not None
        try:
            line = msgspec.json.encode(entry) + b"\n"
        except (TypeError, OverflowError):  # an array, or an integer of more than 64 bits
            line = _on_a_line(_finite(entry)).encode() + b"\n"
        written = 0
        while written < len(line):
            written += os.write(self._descriptor, line[written:])
        if time.monotonic() >= self._due_s:
            os.fsync(self._descriptor)
            self._due_s = time.monotonic() + _SYNC_S

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yields every complete entry up to the first damaged line, such as one that a crash cut off.

        Raises:
            ValueError: it is not a regular file, or larger than ``MAX_JOURNAL_BYTES``.
        """
        if not self.path.exists():
            return
        status = self.path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_JOURNAL_BYTES:
            raise ValueError(f"{self.path}: not a regular file of at most {MAX_JOURNAL_BYTES >> 30} GiB")
        with self.path.open("rb") as stream:
            yield from journal_entries(stream)

    def close(self) -> None:
        """Closes the file; a later append reopens it."""
        if self._descriptor is not None:
            try:
                os.fsync(self._descriptor)
            finally:
                os.close(self._descriptor)
                self._descriptor = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        complete = 0
        with self.path.open("rb") as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                complete += len(line)
        if complete != os.fstat(self._descriptor).st_size:
            os.ftruncate(self._descriptor, complete)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:
        return _finite(value.item())
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    return value
