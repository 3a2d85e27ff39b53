"""Packed runs, which may come from another person: unpacked into the cache, they are read as folders.

The whole structure of a packed file is checked before any content is read, see ``packed_format``.
"""

from __future__ import annotations

import hashlib
import shutil
import stat
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from a2perf import assets
from a2perf.errors import ConfigError, UserError
from a2perf.runs.packed.packed_format import BEGINNING_BYTES, SUFFIX, Member, Refused, checked_members, is_marked
from a2perf.stranger_files import Kind, NotRegular, Unreadable, printable
from a2perf.system import files as os

# Permissions of group and others come from the umask and differ between copies of one run, so they are not packed.
FILE_MODE, FILE_OTHERS, FOLDER_MODE, FOLDER_OTHERS = 0o713, 0o044, 0o702, 0o055
CHUNK_BYTES = 1 << 20
_DAY_S = 86_400
_UNUSED_S = 30 * _DAY_S
"""Unpacked files that nobody read for so long are deleted from the cache."""
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError)


class PackedFileError(UserError):
    """The file is damaged, hostile, or not a packed run."""


def packed_members(file: Path) -> list[Member]:
    """Returns every file, folder and link of a packed file, each folder before its content.

    Raises:
        PackedFileError: it is not in the form that ``a2perf pack`` writes, or exceeds a limit.
        NotRegular, Unreadable: it is not a regular file, or cannot be opened.
    """
    with _opened(file) as (_, members):
        return list(members)


def unpack(file: Path, folder: Path) -> list[Path]:
    """Writes the content of a packed file below a folder, and returns the folders at its top: the inverse of ``pack``.

    The content is written to a temporary folder first and then renamed: an interrupted call leaves nothing behind.

    Raises:
        ConfigError: one of them exists already.
        PackedFileError: the file is not a packed run, or it is damaged or hostile.
        UserError: it cannot be written, for example because the disk is full.
    """
    # The umask can only be read by setting it.
    umask = os.umask(0)
    os.umask(umask)
    return _unpacked(file, folder, umask)


def _unpacked(file: Path, folder: Path, umask: int) -> list[Path]:
    with _opened(file) as (archive, members):
        tops = [folder / member.name for member in members if "/" not in member.name]
        for top in tops:
            if os.path.lexists(top):
                raise ConfigError(f"{top} exists already", hint="choose another folder with -o DIR")
        folder.mkdir(parents=True, exist_ok=True)
        size = sum(member.size for member in members)
        if size > shutil.disk_usage(folder).free:
            raise UserError(
                f"{printable(str(file))} unpacks to {size} bytes, more than {folder} has free",
                hint="free some space",
            )
        work = Path(tempfile.mkdtemp(prefix=".unpack.", suffix=".tmp", dir=folder))
        try:
            _write(archive, members, work, folder, umask)
        except OSError as error:
            raise UserError(
                f"{printable(str(file))} cannot be unpacked into {folder}: {error.strerror}", hint="free some space"
            ) from error
        except _DAMAGE as error:
            raise PackedFileError(
                f"{printable(str(file))} is damaged: {printable(str(error))}", hint="get the file again"
            ) from error
        finally:
            _remove(work)
    return tops


def _write(archive: zipfile.ZipFile, members: Sequence[Member], work: Path, folder: Path, umask: int) -> None:
    for member in members:
        place = work / member.name
        if member.kind is Kind.FOLDER:
            place.mkdir(mode=0o700)
            continue
        if member.kind is Kind.LINK:  # safe: its target stays inside the run, and no member lies below a link
            place.symlink_to(member.target)
            continue
        with archive.open(member.name) as source, place.open("xb") as out:
            shutil.copyfileobj(source, out, CHUNK_BYTES)
        # The bits for others are not signed, so they are set as `pack` sets them, not as the archive has them.
        os.chmod(place, (member.mode & FILE_MODE | FILE_OTHERS) & ~(umask & FILE_OTHERS))
    for member in reversed(members):  # parents last: they must stay writable until then
        if member.kind is Kind.FOLDER:
            place = work / member.name
            if "/" not in member.name:  # renaming requires write permission, because the folder's `..` changes
                place = place.rename(folder / member.name)
            os.chmod(place, (member.mode & FOLDER_MODE | FOLDER_OTHERS) & ~(umask & FOLDER_OTHERS))


def on_disk(path: Path) -> Path:
    """Returns where the entry at a path is on disk: in the cache if the path leads into a packed file.

    Raises:
        PackedFileError: the packed file is damaged or hostile.
        ConfigError: the cache cannot be written.
    """
    place = packed_place(path)
    return path if place is None else _in_cache(place[0].absolute()) / place[1]


def is_packed(path: Path | str) -> bool:
    """Returns whether a regular file starts like a packed run; its content is not checked."""
    text = os.fspath(path)
    try:
        if not text.endswith(SUFFIX) or not stat.S_ISREG((status := os.stat(text)).st_mode):
            return False
        return _begins_marked(text, _version(status))
    except (OSError, ValueError):
        return False


def packed_place(path: Path) -> tuple[Path, str] | None:
    """Splits a path into a packed file and the name inside of it, ``""`` for the file itself; None for other paths."""
    if SUFFIX not in (text := path.as_posix()):
        return None
    at = text.find(SUFFIX)
    while at >= 0:
        end = at + len(SUFFIX)
        if end == len(text) or text[end] == "/":
            if is_packed(text[:end]):
                return Path(text[:end]), text[end:].strip("/")
            if not os.path.isdir(text[:end]):
                return None
        at = text.find(SUFFIX, end)
    return None


def packed_top(path: Path) -> Path:
    """Returns the only folder at the top of a packed file, or the path itself for anything else; see ``on_disk``."""
    place = packed_place(path)
    if place is None or place[1]:
        return path
    tops = os.listdir(on_disk(path))
    return path / tops[0] if len(tops) == 1 else path


def unpacked_path(path: Path) -> Path:
    """Returns the path that an entry of a packed file would have after unpacking the file beside itself."""
    place = packed_place(path)
    return path if place is None else place[0].parent / place[1]


def _in_cache(file: Path) -> Path:
    """Returns the folder of the cache with the content of a packed file; unpacks it if it is not there."""
    version = _version(os.stat(file))
    home = assets.cache_dir() / "packed"
    folder = home / hashlib.sha256(os.fsencode(f"{file}\0{version}")).hexdigest()[:40]
    if folder.is_dir():
        if time.time() - folder.stat().st_mtime > _DAY_S:
            os.utime(folder)  # used today
        return folder
    try:
        home.mkdir(parents=True, exist_ok=True)
        _sweep(home)
        work = Path(tempfile.mkdtemp(dir=home))
    except OSError as error:
        raise ConfigError(
            f"{home} is not writable: {error.strerror}", hint="export A2PERF_CACHE_DIR=DIR with a writable folder"
        ) from error
    try:
        _unpacked(file, work, 0)  # nobody else can open the folder that mkdtemp made
        with suppress(OSError):  # another process was faster
            work.rename(folder)
    finally:
        _remove(work)
    return folder


def _sweep(home: Path) -> None:
    for folder in home.iterdir():
        if time.time() - folder.stat().st_mtime > _UNUSED_S:
            _remove(folder)


def _remove(folder: Path) -> None:
    # rmtree cannot empty a folder without write permission, and runs may hold such folders.
    for inner, _, _ in os.walk(folder):
        os.chmod(inner, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _opened(file: Path) -> Iterator[tuple[zipfile.ZipFile, list[Member]]]:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # opening a fifo must not block
    except OSError as error:
        raise Unreadable(str(file), f"cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb", buffering=0) as stream:  # a system without pread moves the position
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegular(str(file), "is not a regular file")
        try:
            archive, members = checked_members(stream, descriptor)
        except Refused as error:
            message = f"{printable(str(file))}: {error}"
            raise PackedFileError(message, hint="ask for a file made by `a2perf pack`") from error
        yield archive, members


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@lru_cache(maxsize=1024)
def _begins_marked(path: str, version: tuple[int, ...]) -> bool:
    # Only a part of the cache's key: a changed file is examined again.
    del version
    with open(path, "rb") as stream:
        return is_marked(stream.read(BEGINNING_BYTES))
