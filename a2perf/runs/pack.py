"""Packs finished runs into one file.

A packed file holds what a copy keeps: names, contents, empty folders, and the permissions that a manifest lists. The
same runs give the same bytes on every machine. ``packed_format`` defines the format and its limits.
"""

from __future__ import annotations

import os
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import filelock

from a2perf.errors import ConfigError, UserError
from a2perf.records import RunState
from a2perf.runs.bundles.inventory import find_bundles, read_manifest
from a2perf.runs.bundles.layout import LOCK
from a2perf.runs.packed.packed_archive import (
    CHUNK_BYTES,
    FILE_MODE,
    FILE_OTHERS,
    FOLDER_MODE,
    FOLDER_OTHERS,
    is_packed,
)
from a2perf.runs.packed.packed_format import (
    MARKER,
    MAX_CONTENT_BYTES,
    MAX_MEMBERS,
    MAX_WRITTEN_BYTES,
    SUFFIX,
    Member,
    is_bomb,
    link_problem,
    marker,
    name_problem,
    names_problem,
    order,
)
from a2perf.stranger_files import Bounds, FolderEntry, Kind, open_regular, printable, walk
from a2perf.system import permissions

_LEVEL = 9
_SPLIT, _KEEP = "pack the runs into several files", "keep this run as a folder"


def pack(runs: Sequence[Path], target: Path | None = None, *, force: bool = False) -> Path:
    """Packs bundles, run roots or folders of runs into one file, by default ``<name>.zip`` beside a single folder.

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
    try:
        with filelock.FileLock(bundle / LOCK, timeout=0):
            return False
    except filelock.Timeout:
        return True
    except OSError:  # a read-only copy of another user; its manifest was the evaluator's last write
        return False


def _write(out: BinaryIO, tops: dict[str, Path]) -> None:
    found = sorted(_listed(tops), key=lambda item: order(item[0]))
    if len(found) > MAX_MEMBERS:
        raise UserError(f"there are more than {MAX_MEMBERS} files and folders", hint=_SPLIT)
    if (problem := names_problem([MARKER, *(member.name for member, _ in found)])) is not None:
        raise UserError(f"these runs cannot be packed: {problem}", hint=_KEEP)
    if sum(member.size for member, _ in found) > MAX_CONTENT_BYTES:
        raise UserError(f"there are more than {MAX_CONTENT_BYTES >> 30} GiB", hint=_SPLIT)
    links = {member.name: member.target for member, _ in found if member.kind is Kind.LINK}
    try:
        # Readers refuse the 64-bit extension. `zipfile` dates a member that has no date 1 January 1980.
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, allowZip64=False, compresslevel=_LEVEL) as archive:
            with archive.open(zipfile.ZipInfo(MARKER), "w") as stream:
                stream.write(marker(links))
            archive.getinfo(MARKER).external_attr = (stat.S_IFREG | 0o644) << 16
            for member, folder in found:
                if member.kind is Kind.FOLDER:
                    archive.mkdir(member.name, member.mode)
                elif member.kind is Kind.FILE:
                    _write_file(archive, member, folder)
    except zipfile.LargeZipFile as error:
        raise UserError("the packed file would be larger than 2 GiB", hint=_SPLIT) from error


def _write_file(archive: zipfile.ZipFile, member: Member, folder: Path) -> None:
    """Writes a file deflated, or stored if that is not larger or if deflate exceeds the ratio that readers accept."""
    with os.fdopen(open_regular(folder, member.name.partition("/")[2]), "rb") as source:
        # Negative bits: ZIP stores raw deflate without the header of zlib.
        coder = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        packed_size = sum(len(coder.compress(piece)) for piece in _pieces(source, member)) + len(coder.flush())
        deflated = packed_size < member.size and not is_bomb(member.size, packed_size)
        with archive.open(member.name if deflated else zipfile.ZipInfo(member.name), "w") as stream:
            for piece in _pieces(source, member):
                stream.write(piece)
    archive.getinfo(member.name).external_attr = (stat.S_IFREG | member.mode) << 16


def _pieces(source: BinaryIO, member: Member) -> Iterator[bytes]:
    source.seek(0)
    left = member.size
    while left >= 0 and (piece := source.read(CHUNK_BYTES)):
        left -= len(piece)
        yield piece
    if left:
        raise UserError(
            f"{printable(member.name)} was changed while it was packed", hint="pack the run when it has ended"
        )


def _listed(tops: dict[str, Path]) -> Iterator[tuple[Member, Path]]:
    for top, folder in tops.items():
        yield _planned(top, folder, folder.stat()), folder
        for entry in walk(folder, Bounds(entries=MAX_MEMBERS)):
            yield _planned(f"{top}/{entry.path}", folder, entry.status, entry), folder


def _planned(name: str, folder: Path, status: os.stat_result, entry: FolderEntry | None = None) -> Member:
    kind = Kind.FOLDER if entry is None else entry.kind
    shown = printable(str(folder.parent / name))
    if kind not in (Kind.FILE, Kind.FOLDER, Kind.LINK):
        raise UserError(f"{shown} is a {kind}, which cannot be packed", hint=_KEEP)
    target = entry.target() if entry is not None and kind is Kind.LINK else ""
    if (problem := name_problem(name) or (link_problem(name, target) if target else None)) is not None:
        raise UserError(f"the name {shown} {problem}, and cannot be packed", hint=_KEEP)
    if kind is Kind.LINK:
        return Member(name, kind, 0o777, target=target)
    mode = permissions(status)
    if mode & 0o7000:
        raise UserError(f"{shown} has a set-id or sticky bit, which packed files never hold", hint=_KEEP)
    if kind is Kind.FOLDER:
        return Member(name, kind, mode & FOLDER_MODE | FOLDER_OTHERS)
    if status.st_size > MAX_WRITTEN_BYTES:
        raise UserError(f"{shown} is larger than 2 GiB, and cannot be packed", hint=_KEEP)
    return Member(name, kind, mode & FILE_MODE | FILE_OTHERS, size=status.st_size)
