"""Packs finished runs into one file, and unpacks such a file.

A packed file holds what a copy keeps: names, contents, empty folders, and the permissions that a manifest lists. The
same runs give the same bytes on every machine. ``packed_format`` defines the format and its limits.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import filelock

from a2perf.errors import ConfigError, UserError
from a2perf.records import RunState
from a2perf.runs.inventory import find_bundles, read_manifest
from a2perf.runs.layout import LOCK
from a2perf.runs.packed_archive import is_packed, opened_archive
from a2perf.runs.packed_format import (
    DEFLATED,
    MARKER,
    MAX_CONTENT_BYTES,
    MAX_FILE_BYTES,
    MAX_MEMBER_BYTES,
    MAX_MEMBERS,
    MAX_RATIO,
    RATIO_FREE_BYTES,
    SUFFIX,
    Member,
    end_of_archive,
    link_problem,
    marker,
    name_problem,
    names_problem,
    order,
)
from a2perf.stranger_files import Bounds, FolderEntry, Kind, chunks, printable, walk

_LEVEL = 9
_CHUNK_BYTES = 1 << 20
# Permissions of group and others come from the umask and differ between copies of one run, so they are not packed.
_FILE_MODE, _FILE_OTHERS, _FOLDER_MODE, _FOLDER_OTHERS = 0o713, 0o044, 0o702, 0o055


def pack(runs: Sequence[Path], target: Path | None = None, *, force: bool = False) -> Path:
    """Packs bundles, run roots or folders of runs into one file; the runs stay unchanged.

    Args:
        runs: folders with different names; each keeps its name in the packed file.
        target: the file; by default ``<name>.zip`` beside a single folder.
        force: replace an existing file.

    Returns:
        The packed file.

    Raises:
        ConfigError: a folder does not exist or holds no run, two have the same name, or the file exists.
        UserError: a run is not finished, is being written, or holds an entry that cannot be packed.
    """
    tops: dict[str, Path] = {}
    for given in runs:
        folder = Path(os.path.abspath(given))
        if not folder.is_dir():
            raise ConfigError(f"{printable(str(given))} is not a folder", hint="give a bundle, or a folder of runs")
        if folder.name in tops:
            raise ConfigError(f"two folders are named {printable(folder.name)}", hint="pack them into two files")
        tops[folder.name] = folder
    if target is None:
        if len(tops) != 1:
            raise ConfigError("several folders are given and no file", hint="add -o FILE.zip")
        target = next(iter(tops.values())).with_name(f"{next(iter(tops))}{SUFFIX}")
    if target.suffix != SUFFIX:
        raise ConfigError(f"{target} does not end in {SUFFIX}", hint=f"name the file {target.name}{SUFFIX}")
    if target.exists() and not force:
        raise ConfigError(f"{target} exists already", hint="choose another name, or add --force to replace it")
    for folder in tops.values():
        _check_ended(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as out:
            _write(out, tops)
            out.flush()
            os.fsync(out.fileno())
        # mkstemp creates a file that only its owner can read.
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def unpack(file: Path, folder: Path) -> list[Path]:
    """Writes the content of a packed file below a folder: the inverse of ``pack``.

    The content is written to a temporary folder first and then renamed: an interrupted call leaves nothing behind.

    Args:
        file: a packed file.
        folder: created if it does not exist.

    Returns:
        The folders that were written, one per name at the top of the packed file.

    Raises:
        ConfigError: one of them exists already.
        PackedFileError: the file is not a packed run, or it is damaged or hostile.
        UserError: the content of a member is damaged.
    """
    archive = opened_archive(file)
    tops = [folder / name for name in archive.tops()]
    for top in tops:
        if os.path.lexists(top):
            raise ConfigError(f"{top} exists already", hint="choose another folder with -o DIR")
    folder.mkdir(parents=True, exist_ok=True)
    # The umask can only be read by setting it.
    umask = os.umask(0)
    os.umask(umask)
    work = Path(tempfile.mkdtemp(prefix=".unpack.", suffix=".tmp", dir=folder))
    try:
        for member in archive.members.values():
            place = work / member.name
            if member.kind is Kind.FOLDER:
                place.mkdir(mode=0o700)
                continue
            if member.kind is Kind.LINK:  # safe: its target stays inside the run, and no member lies below a link
                place.symlink_to(member.target)
                continue
            try:
                with archive.open(member.name) as source, place.open("xb") as out:
                    shutil.copyfileobj(source, out, _CHUNK_BYTES)
            except OSError as error:
                if error.errno is not None:
                    raise
                raise UserError(f"{printable(str(file))}: {error}", hint="get the file again") from error
            # The bits for others are not signed, so they are set as `pack` sets them, whatever the archive says.
            os.chmod(place, (member.mode & _FILE_MODE | _FILE_OTHERS) & ~(umask & _FILE_OTHERS))
        for member in reversed(
            archive.members.values()
        ):  # parents last: a read-only folder must stay writable until then
            if member.kind is Kind.FOLDER:
                mode = member.mode & _FOLDER_MODE | _FOLDER_OTHERS
                os.chmod(work / member.name, mode & ~(umask & _FOLDER_OTHERS))
        for top in tops:
            _move(work / top.name, top)
    finally:
        _remove(work)
    return tops


def _check_ended(folder: Path) -> None:
    if is_packed(folder):
        raise ConfigError(f"{folder} is packed already", hint="give the folder of a run")
    bundles = find_bundles(folder)
    if not bundles:
        from a2perf.runs import find_runs

        find_runs([folder])  # runs of other layouts have no state; raises if there are none either
    for bundle in bundles:
        state = read_manifest(bundle).state
        if state not in (RunState.FINISHED, RunState.FAILED):
            raise UserError(
                f"{printable(str(bundle))} is not finished (state: {state.value})",
                hint="pack it when it has ended; the command that made it resumes it",
            )
        if _is_locked(bundle):
            raise UserError(f"another process is writing {printable(str(bundle))}", hint="pack it when it has ended")


def _is_locked(bundle: Path) -> bool:
    if not (bundle / LOCK).is_file():
        return False
    lock = filelock.FileLock(bundle / LOCK, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        return True
    except OSError:  # a read-only copy of another user; its manifest was the evaluator's last write
        return False
    lock.release()
    return False


def _write(out: BinaryIO, tops: dict[str, Path]) -> None:
    found = sorted(_listed(tops), key=lambda item: order(item[0]))
    if len(found) > MAX_MEMBERS:
        raise UserError(f"there are more than {MAX_MEMBERS} files and folders", hint="pack the runs into several files")
    if (problem := names_problem([MARKER, *(member.name for member, _ in found)])) is not None:
        raise UserError(f"these runs cannot be packed: {problem}", hint="keep this run as a folder")
    if sum(member.size for member, _ in found) > MAX_CONTENT_BYTES:
        raise UserError(f"there are more than {MAX_CONTENT_BYTES >> 30} GiB", hint="pack the runs into several files")
    first, content = marker({member.name: member.target for member, _ in found if member.kind is Kind.LINK})
    out.write(first.local_header() + content)
    members = [first]
    for member, path in found:
        if member.kind is Kind.LINK:
            continue
        members.append(_write_member(out, member, path))
        if out.tell() > MAX_FILE_BYTES:
            raise UserError("the packed file would be larger than 4 GiB", hint="pack the runs into several files")
    out.write(end_of_archive(members, out.tell()))
    if out.tell() > MAX_FILE_BYTES:
        raise UserError("the packed file would be larger than 4 GiB", hint="pack the runs into several files")


def _listed(tops: dict[str, Path]) -> Iterator[tuple[Member, Path]]:
    for top, folder in tops.items():
        yield _planned(top, folder, folder.stat()), folder
        for entry in walk(folder, Bounds(entries=MAX_MEMBERS)):
            yield _planned(f"{top}/{entry.path}", folder, entry.status, entry), folder / entry.path


def _planned(name: str, folder: Path, status: os.stat_result, entry: FolderEntry | None = None) -> Member:
    kind = Kind.FOLDER if entry is None else entry.kind
    shown = printable(str(folder.parent / name))
    keep = "keep this run as a folder"
    if kind not in (Kind.FILE, Kind.FOLDER, Kind.LINK):
        raise UserError(f"{shown} is a {kind}, which cannot be packed", hint=keep)
    target = entry.target() if entry is not None and kind is Kind.LINK else ""
    if (problem := name_problem(name) or (link_problem(name, target) if target else None)) is not None:
        raise UserError(f"the name {shown} {problem}, and cannot be packed", hint=keep)
    if kind is Kind.LINK:
        return Member(name, kind, 0o777, target=target)
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o7000:
        raise UserError(f"{shown} has a set-id or sticky bit, which packed files never hold", hint=keep)
    if kind is Kind.FOLDER:
        return Member(name, kind, mode & _FOLDER_MODE | _FOLDER_OTHERS)
    if status.st_size > MAX_MEMBER_BYTES:
        raise UserError(f"{shown} is larger than 4 GiB, and cannot be packed", hint=keep)
    return Member(name, kind, mode & _FILE_MODE | _FILE_OTHERS, size=status.st_size)


def _write_member(out: BinaryIO, planned: Member, path: Path) -> Member:
    """Writes a member deflated, or stored if that is not larger or if deflate exceeds the ratio that readers accept."""
    start = out.tell()
    if planned.kind is Kind.FOLDER or planned.size == 0:
        member = replace(planned, size=0, offset=start)
        out.write(member.local_header())
        return member
    member = _write_content(out, replace(planned, method=DEFLATED, offset=start), path)
    bomb = member.size > RATIO_FREE_BYTES and member.size > MAX_RATIO * member.packed_size
    if bomb or member.packed_size >= member.size:
        out.seek(start)
        out.truncate()
        member = _write_content(out, replace(planned, offset=start), path)
    end = out.tell()
    # Checksum and sizes are known only now; the format has no data descriptors behind members.
    out.seek(start)
    out.write(member.local_header())
    out.seek(end)
    return member


def _write_content(out: BinaryIO, member: Member, path: Path) -> Member:
    out.write(member.local_header())
    # Negative bits: ZIP stores raw deflate without the header of zlib.
    coder = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS) if member.method == DEFLATED else None
    crc = size = packed = 0
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        for piece in chunks(descriptor, str(path), max_bytes=member.size):
            crc, size = zlib.crc32(piece, crc), size + len(piece)
            packed += out.write(piece if coder is None else coder.compress(piece))
    finally:
        os.close(descriptor)
    if coder is not None:
        packed += out.write(coder.flush())
    if size != member.size:
        raise UserError(
            f"{printable(str(path))} was changed while it was packed", hint="pack the run when it has ended"
        )
    return replace(member, crc=crc, packed_size=packed)


def _move(source: Path, target: Path) -> None:
    """Renames a folder; the kernel requires write permission on it, because its ``..`` changes."""
    mode = stat.S_IMODE(source.stat().st_mode)
    os.chmod(source, mode | 0o200)
    os.rename(source, target)
    os.chmod(target, mode)


def _remove(folder: Path) -> None:
    # rmtree cannot empty a folder without write permission, and runs may hold such folders.
    for inner, _, _ in os.walk(folder):
        os.chmod(inner, 0o700)
    shutil.rmtree(folder)
