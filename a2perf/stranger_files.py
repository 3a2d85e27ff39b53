"""Reads files in an untrusted folder without following links and without blocking.

Every step is relative to the descriptor of an open folder, and no step follows a symbolic link. So a name refers to the
same file from the check to the read, at any depth (even beyond ``PATH_MAX``). Fifos, sockets and devices are reported
and never opened. Names that are not UTF-8 contain surrogate escapes, as everywhere in Python: ``os.fsencode`` returns
their bytes, and ``printable`` makes them safe to print. Standard library only.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePath

from a2perf.errors import UserError
from a2perf.system import files as os

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CHUNK_BYTES = 1024 * 1024
_NO_NAMES: tuple[str, ...] = ()


class StrangerFileError(UserError):
    """A file in an untrusted folder cannot be read safely.

    Args:
        path: relative to the folder.
        message: predicate of a sentence that starts with the path.
    """

    def __init__(self, path: str | StrangerFileError, message: str = "", *, hint: str | None = None) -> None:
        text = path if isinstance(path, StrangerFileError) else f"{printable(path)} {message}"
        super().__init__(text, hint=hint)
        self.path: str = path.path if isinstance(path, StrangerFileError) else path


class BoundExceeded(StrangerFileError):
    """A folder exceeds a bound: ``"entries"``, ``"depth"``, ``"bytes"`` or ``"seconds"``."""

    def __init__(
        self, bound: str | BoundExceeded, path: str = "", message: str = "", *, hint: str | None = None
    ) -> None:
        super().__init__(bound if isinstance(bound, BoundExceeded) else path, message, hint=hint)
        self.bound: str = bound.bound if isinstance(bound, BoundExceeded) else bound


class NotRegular(StrangerFileError):
    """A link, a folder, a fifo, a socket or a device where a regular file (or a folder) is expected."""


class Unreadable(StrangerFileError):
    """A file cannot be opened or has been deleted."""


class Kind(StrEnum):
    """The type of a directory entry."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"

    @classmethod
    def of(cls, mode: int) -> Kind:
        """Returns the kind of an ``st_mode``."""
        return _KINDS.get(stat.S_IFMT(mode), cls.DEVICE)


_KINDS = {
    stat.S_IFREG: Kind.FILE,
    stat.S_IFDIR: Kind.FOLDER,
    stat.S_IFLNK: Kind.LINK,
    stat.S_IFIFO: Kind.FIFO,
    stat.S_IFSOCK: Kind.SOCKET,
}


@dataclass(frozen=True)
class Bounds:
    """Bounds on a walk; beyond them ``BoundExceeded`` is raised.

    Attributes:
        depth: nested folders; one descriptor stays open per level.
        bytes: total apparent size of regular files (a sparse file counts in full); ``None`` for no bound.
        seconds: duration of the walk; ``None`` for no bound.
    """

    entries: int = 200_000
    depth: int = 200
    bytes: int | None = None
    seconds: float | None = None


DEFAULT_BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One entry below the folder.

    Attributes:
        path: relative to the folder, with ``/`` between names.
        status: result of ``lstat``.
        folder: descriptor of the folder that contains it; the walk closes it after the last entry of that folder.
    """

    path: str
    kind: Kind
    status: os.stat_result
    folder: int = field(repr=False)

    @property
    def name(self) -> str:
        """The last part of ``path``."""
        return self.path.rpartition("/")[2]

    def target(self) -> str:
        """Returns the text of a link.

        Raises:
            Unreadable: it is not a link any more.
        """
        try:
            return os.readlink(self.name, dir_fd=self.folder)
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def open(self) -> int:
        """Returns a descriptor of a regular file, for reading; the caller closes it.

        Raises:
            NotRegular: it is not a regular file.
            Unreadable: it cannot be opened, or it has been replaced.
        """
        if self.kind is not Kind.FILE:
            raise NotRegular(self.path, f"is a {self.kind}, not a regular file")
        descriptor = _open_regular(self.name, self.folder, self.path)
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) != (self.status.st_dev, self.status.st_ino):
            os.close(descriptor)
            raise Unreadable(self.path, "was replaced while it was read")
        return descriptor


def walk(
    folder: Path | int,
    bounds: Bounds = DEFAULT_BOUNDS,
    *,
    without: Container[str] = (),
    on_error: Callable[[StrangerFileError], None] | None = None,
) -> Iterator[FolderEntry]:
    """Yields everything below a folder, each folder before its content, names sorted by their bytes.

    Args:
        folder: an open descriptor, which stays open, or a path. The last part of the path may not be a link; resolve
            the path first to allow one.
        on_error: called for an entry that cannot be listed or has been deleted; the walk continues with the next one.
            By default the error is raised.

    Raises:
        BoundExceeded: a bound is exceeded.
        NotRegular: ``folder`` is not a folder, or a folder below it was replaced during the walk.
        Unreadable: a folder cannot be opened or listed (mode 000 of another user), or an entry was deleted.
    """
    counter = _Counter(bounds)
    top = os.dup(folder) if isinstance(folder, int) else _open_top(folder)
    stack: list[tuple[int, str, Iterator[str]]] = [(top, "", iter(_NO_NAMES))]
    try:
        # Listed only once it is on the stack: if listing fails, the descriptor still has to be closed.
        stack[0] = (top, "", _names(top, "", counter))
        while stack:
            descriptor, above, names = stack[-1]
            if (name := next(names, None)) is None:
                os.close(descriptor)
                stack.pop()
                continue
            if above + name in without:
                continue
            try:
                entry = _entry(above + name, name, descriptor)
                counter.check(entry, depth=len(stack))
                yield entry
                if entry.kind is Kind.FOLDER:
                    stack.append((_open_folder(name, descriptor, entry.path), f"{entry.path}/", iter(_NO_NAMES)))
                    stack[-1] = (*stack[-1][:2], _names(stack[-1][0], stack[-1][1], counter))
            except (NotRegular, Unreadable) as error:
                if on_error is None:
                    raise
                on_error(error)
    finally:
        for descriptor, _, _ in stack:
            os.close(descriptor)


def folders(top: Path, bounds: Bounds = DEFAULT_BOUNDS) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields each folder with the names of its subfolders and of all other entries, like ``os.walk`` from the top down.

    The walk does not enter links, nor folders that the caller removes from the list. Unlike ``os.walk`` of Python 3.11
    it does not recurse, so a deep tree ends at ``PATH_MAX`` instead of raising an error.

    Raises:
        BoundExceeded: there are more than ``bounds.entries`` names.
    """
    counter = _Counter(bounds)
    stack = [os.fspath(top)]
    while stack:
        folder = stack.pop()
        inner: list[str] = []
        others: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    counter.listed(entry.path)
                    (inner if _leads_to_folder(entry) else others).append(entry.name)
        except OSError:  # it cannot be listed, or its path is too long
            continue
        yield folder, inner, others
        stack += [path for name in reversed(inner) if not os.path.islink(path := os.path.join(folder, name))]


def open_beneath(folder: Path | int, relative: str | PurePath, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
    """Opens a path below a folder; no part of it may be a link, ``..`` or absolute.

    Args:
        folder: its path (the last part may not be a link) or an open descriptor.
        relative: the path of a file or folder that exists, unless ``flags`` create it.
        flags: flags of ``os.open``; opening a fifo never blocks.

    Returns:
        A descriptor, which the caller closes. Check its type with ``os.fstat``, or use ``open_regular``.

    Raises:
        NotRegular: a part of the path is a link, or one before the last is not a folder.
        Unreadable: it does not exist, cannot be opened, or leaves the folder.
    """
    text = os.fspath(relative)
    parts = _parts(text)
    descriptor = os.dup(folder) if isinstance(folder, int) else _open_top(folder)
    try:
        for index, part in enumerate(parts[:-1]):
            inner = _open_folder(part, descriptor, "/".join(parts[: index + 1]))
            os.close(descriptor)
            descriptor = inner
        try:
            quiet = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            return os.open(parts[-1], flags | quiet, mode, dir_fd=descriptor)
        except OSError as error:
            raise _refused(text, parts[-1], descriptor, error) from error
    finally:
        os.close(descriptor)


def open_regular(folder: Path | int, relative: str | PurePath) -> int:
    """Opens a regular file below a folder for reading, see ``open_beneath``; the caller closes the descriptor.

    Raises:
        NotRegular: it is not a regular file, or a part of its path is a link.
        Unreadable: it does not exist, cannot be opened, or leaves the folder.
    """
    text = os.fspath(relative)
    *above, name = _parts(text)
    with opened(folder, "/".join(above)) as descriptor:
        return _open_regular(name, descriptor, text)


def read_regular_file(folder: Path | int, relative: str | PurePath, *, max_bytes: int) -> bytes:
    """Returns the content of a regular file below a folder; raises what ``open_regular`` and ``chunks`` raise."""
    text = os.fspath(relative)
    descriptor = open_regular(folder, relative)
    try:
        return b"".join(chunks(descriptor, text, max_bytes=max_bytes))
    except OSError as error:
        raise _unreadable(text, error) from error
    finally:
        os.close(descriptor)


def read_file(path: Path, *, max_bytes: int) -> bytes:
    """Returns the content of a regular file at a trusted path; see ``read_regular_file``.

    Only the last part may not be a link.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if path.parent.is_dir() else -1
    if folder < 0:
        raise Unreadable(str(path), "does not exist")
    try:
        return read_regular_file(folder, path.name, max_bytes=max_bytes)
    finally:
        os.close(folder)


def chunks(descriptor: int, path: str, *, max_bytes: int) -> Iterator[bytes]:
    """Yields the content of an open file in pieces.

    Raises:
        BoundExceeded: the file is larger than ``max_bytes``; never yields more than that.
    """
    if os.fstat(descriptor).st_size > max_bytes:  # refuses a huge sparse file before reading it
        raise _too_large(path, max_bytes)
    remaining = max_bytes
    # One byte more than allowed shows that the file has grown since the check above.
    while data := os.read(descriptor, min(_CHUNK_BYTES, remaining + 1)):
        if len(data) > remaining:
            raise _too_large(path, max_bytes)
        remaining -= len(data)
        yield data


@contextmanager
def opened(folder: Path | int, relative: str = "") -> Iterator[int]:
    """Yields a descriptor of a folder or of a subfolder, and closes it afterwards; raises what ``walk`` raises."""
    if relative in ("", "."):
        descriptor = os.dup(folder) if isinstance(folder, int) else _open_top(folder)
    else:
        descriptor = open_beneath(folder, relative, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def printable(path: str) -> str:
    """Returns a path as printable text: control characters and bytes that are not UTF-8 are escaped."""
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown)[:1000]


def _parts(text: str) -> list[str]:
    parts = [part for part in text.split("/") if part not in ("", ".")]
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise Unreadable(ascii(text), "is not a valid file name") from error
    if text.startswith("/") or ".." in parts or "\0" in text or not parts:
        raise Unreadable(text, "is not a path below its folder")
    return parts


class _Counter:
    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.entries = 0
        self.bytes = 0
        self.end = None if bounds.seconds is None else time.monotonic() + bounds.seconds

    def listed(self, path: str) -> None:
        """Counts one name while its folder is being listed: the list itself must not exceed the bound."""
        self.entries += 1
        if self.entries > self.bounds.entries:
            raise BoundExceeded("entries", path, f"exceeds the limit of {self.bounds.entries} names")
        self._check_time(path)

    def check(self, entry: FolderEntry, *, depth: int) -> None:
        if entry.kind is Kind.FOLDER and depth >= self.bounds.depth:
            raise BoundExceeded("depth", entry.path, f"exceeds the limit of {self.bounds.depth} nested folders")
        if entry.kind is Kind.FILE and self.bounds.bytes is not None:
            self.bytes += entry.status.st_size
            if self.bytes > self.bounds.bytes:
                raise _too_large(entry.path, self.bounds.bytes)
        self._check_time(entry.path)

    def _check_time(self, path: str) -> None:
        if self.end is not None and time.monotonic() > self.end:
            raise BoundExceeded("seconds", path, f"was reached after the time limit of {self.bounds.seconds:g} s")


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _entry(path: str, name: str, folder: int) -> FolderEntry:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        raise _unreadable(path, error) from error
    return FolderEntry(path, Kind.of(status.st_mode), status, folder)


def _names(descriptor: int, above: str, counter: _Counter) -> Iterator[str]:
    found = []
    try:
        with os.scandir(descriptor) as names:
            for item in names:
                counter.listed(above + item.name)
                found.append(item.name)
    except OSError as error:
        raise _unreadable(above or ".", error) from error
    # Surrogate escapes have another place among strings than the bytes that they stand for.
    return iter(sorted(found, key=os.fsencode))


def _open_top(folder: Path) -> int:
    try:
        return os.open(folder, _FOLDER)
    except OSError as error:
        raise _refused(str(folder), str(folder), None, error) from error


def _open_folder(name: str, above: int, path: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except OSError as error:
        raise _refused(path, name, above, error) from error


def _open_regular(name: str, above: int, path: str) -> int:
    try:
        # Check before opening: opening a device can have side effects, such as rewinding a tape.
        kind = Kind.of(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
        if kind is not Kind.FILE:
            raise NotRegular(path, f"is a {kind}, not a regular file")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        descriptor = os.open(name, flags, dir_fd=above)
    except OSError as error:
        raise _refused(path, name, above, error) from error
    # Checked again: another file may have taken the name between the check and the opening.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(path, "is not a regular file")
    return descriptor


def _refused(path: str, name: str, above: int | None, error: OSError) -> StrangerFileError:
    with suppress(OSError):
        kind = Kind.of(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
        if kind is Kind.LINK:
            return NotRegular(path, "is a link, which is not followed")
        if kind is not Kind.FOLDER and isinstance(error, NotADirectoryError):
            return NotRegular(path, f"is a {kind}, not a folder")
    return _unreadable(path, error)


def _unreadable(path: str, error: OSError) -> Unreadable:
    return Unreadable(path, f"cannot be read: {error.strerror}")


def _too_large(path: str, most: int) -> BoundExceeded:
    return BoundExceeded("bytes", path, f"exceeds the limit of {most} bytes", hint="make it smaller")
