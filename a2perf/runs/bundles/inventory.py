"""The inventory of a bundle, and the search for bundles.

When a run ends, ``record_files`` lists every file, folder and link of its bundle in the manifest; ``problems`` compares
the list with the disk. Links are not followed: a link is an entry with a target. Fifos, sockets and devices are never
part of a bundle. Older manifests hold only the hash of each regular file. For them every other entry on disk is a
problem, except the files that those versions created.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from a2perf.errors import UserError
from a2perf.records import InventoryItem, Manifest, RunState
from a2perf.runs.bundles.files import RUN_BOUNDS, BundleFile, BundleFiles, FileStatus, files_of, folders_of, kind_at
from a2perf.runs.bundles.layout import (
    ARTIFACTS,
    CONFIG,
    EARLIER_CONFIG,
    FOLDERS,
    JOURNAL,
    LOCK,
    LOGS,
    MANIFEST,
    MODES,
    PROGRAM_MODES,
    SIGNATURE,
    is_archived,
)
from a2perf.runs.packed.packed_archive import packed_top
from a2perf.storage import json_text, parse_record
from a2perf.stranger_files import BoundExceeded, Kind, StrangerFileError, printable
from a2perf.system import POSIX

VERSION = 2
"""Version of the list; version 1 holds only the hash of every regular file."""

MAX_MANIFEST_BYTES = 256 << 20
_PIECE_BYTES = 1 << 20
_CHECKSUM_SINCE = 1  # schema of the manifest
_HOLES_BYTES = 16 << 30  # a sparse file with larger holes would take minutes to hash
_SPARSE = "not hashed: almost nothing of its size is stored"
_PARTS = (MANIFEST, CONFIG, EARLIER_CONFIG, LOGS, JOURNAL, LOCK)
_OWN = (MANIFEST, SIGNATURE, LOCK)  # never listed
_MAX_PROBLEMS = 100
# Permission bits that depend on the umask of a copy (group and others) do not count.
_FILE_MODE, _FOLDER_MODE = 0o7713, 0o5702


def record_files(bundle: Path, manifest: Manifest) -> None:
    """Lists all entries below the bundle in its manifest; entries that cannot be listed become warnings of the run."""
    manifest.files, manifest.inventory, manifest.inventory_version = {}, {}, VERSION
    errors: list[str] = []
    try:
        for file in files_of(bundle).entries("", RUN_BOUNDS, lambda error: errors.append(error.message)):
            status = file.status
            if status.path in _OWN:
                continue
            name = _key(status.path, VERSION)
            manifest.inventory[name] = _item(status)
            if status.kind is Kind.FILE:
                try:
                    manifest.files[name] = _hash(file, status)
                except StrangerFileError as error:  # mode 000 of another user; validation reports it too
                    errors.append(error.message)
    except StrangerFileError as error:
        errors.append(error.message)
    manifest.warnings += [f"not in the inventory: {message}" for message in errors[:_MAX_PROBLEMS]]


def hash_files(bundle: Path) -> dict[str, str]:
    """Returns the SHA-256 of every regular file of a bundle by relative path, without manifest, signature and lock."""
    return {
        _key(status.path, 1): _hash(file, status)
        for file in files_of(bundle).entries("", RUN_BOUNDS)
        if (status := file.status).kind is Kind.FILE and status.path not in _OWN
    }


def stored_artifacts(bundle: Path) -> dict[str, str]:
    """Returns the hashes of the artifacts on disk as ``record_files`` lists them; unreadable files are left out."""
    found: dict[str, str] = {}
    with suppress(StrangerFileError):
        for file in files_of(bundle).entries(ARTIFACTS, RUN_BOUNDS, lambda error: None):
            if file.status.kind is Kind.FILE:
                with suppress(StrangerFileError):
                    found[_key(file.status.path, VERSION)] = _hash(file, file.status)
    return found


def artifacts_sha256(files: Mapping[str, str]) -> str | None:
    """Returns one hash over the artifacts among the hashes of a bundle's files; None without artifacts."""
    kept = {name: digest for name, digest in files.items() if name.startswith(f"{ARTIFACTS}/")}
    return f"sha256:{hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()}" if kept else None


def read_manifest(bundle: Path) -> Manifest:
    """Reads the manifest of a bundle, which may come from another person; raises ``UserError`` if that fails."""
    return manifest_in(files_of(bundle))


def manifest_in(files: BundleFiles) -> Manifest:
    """Returns the manifest among the files of a bundle; see ``read_manifest``."""
    return parse_record(_manifest_bytes(files), Manifest, str(files.path / MANIFEST))


def problems(files: BundleFiles, manifest: Manifest, *, unpublished: Iterable[str] = ()) -> list[str]:
    """Returns the additions, removals and changes in the bundle of an ended run, at most ``_MAX_PROBLEMS`` sentences.

    The manifest of a run that has not ended lists nothing yet.

    Args:
        unpublished: folders at the top of the bundle that may be missing or incomplete; nothing may be added to them.
    """
    if manifest.state not in (RunState.FINISHED, RunState.FAILED):
        return []
    found = manifest_problems(files)
    if not manifest.files and not manifest.inventory:
        return [*found, f"{MANIFEST} lists no files"]
    seen: set[str] = set()
    folders = {os.path.dirname(name) for name in manifest.files}
    folders |= {str(parent) for name in list(folders) for parent in PurePosixPath(name).parents} - {"."}
    errors: list[str] = []
    try:
        for file in files.entries("", RUN_BOUNDS, lambda error: errors.append(error.message)):
            status = file.status
            name = _key(status.path, manifest.inventory_version)
            seen.add(name)
            if status.path in _OWN:
                found += _own(status)
            elif manifest.inventory_version < VERSION:
                found += _against_hashes(file, status, name, manifest, folders)
            else:
                found += _against_inventory(file, status, name, manifest)
            if len(found) > _MAX_PROBLEMS:
                return [*found[:_MAX_PROBLEMS], "further problems are not listed"]
    except StrangerFileError as error:
        return [*found, *errors, error.message]
    absent = tuple(unpublished)
    expected = {**manifest.files, **manifest.inventory}
    found += [
        f"{_shown(name)} is missing" for name in expected if name not in seen and name.partition("/")[0] not in absent
    ]
    return [*found, *errors][:_MAX_PROBLEMS]


def manifest_problems(files: BundleFiles) -> list[str]:
    """Compares the manifest's content with its checksum."""
    try:
        text = _manifest_bytes(files).decode("utf-8", "surrogateescape")
        data = json.loads(text)
    except (UserError, ValueError, RecursionError) as error:
        return [getattr(error, "message", f"{MANIFEST} is not JSON")]
    if not isinstance(data, dict):
        return [f"{MANIFEST} is not a record"]
    recorded = data.get("checksum")
    if recorded is None:
        schema = data.get("schema", _CHECKSUM_SINCE)
        return [] if schema < _CHECKSUM_SINCE else [f"{MANIFEST} has no checksum: it was changed after the run"]
    if checksum(data) == recorded and json_text(data) == text:
        return []
    return [f"{MANIFEST} was changed after the run"]


def checksum(data: dict[str, Any]) -> str:
    """Returns the checksum of a manifest's content without its field ``checksum``."""
    canonical = json.dumps({**data, "checksum": None}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()


def is_bundle(folder: Path) -> bool:
    """Whether a folder is a bundle: named after a mode, with at least one of the evaluator's files.

    The bundle of a program needs a manifest: the names of its modes are common names of folders.
    """
    if folder.name in PROGRAM_MODES:
        return kind_at(folder / MANIFEST) is not None
    return folder.name in MODES and any(kind_at(folder / name) is not None for name in _PARTS)


def find_bundles(top: Path, *, archived: bool = False) -> list[Path]:
    """Finds the bundles in and below a folder, in a stable order.

    A folder below a bundle never counts as a bundle, because a participant may have written it. Links are not followed.
    ``top`` itself is a bundle under any name if it holds a manifest. ``archived`` adds the attempts in ``attic``.
    """
    top = packed_top(top)
    if kind_at(top / MANIFEST) is not None or is_bundle(top):
        return [top]
    found: list[Path] = []
    for text, names, _ in folders_of(top):
        folder = Path(text)
        kept = []
        for name in sorted(names):
            inner = folder / name
            if kind_at(inner) is Kind.LINK or (is_archived(inner) and not archived):
                continue
            if is_bundle(inner) or kind_at(inner / MANIFEST) is not None:
                found.append(inner)
            else:
                kept.append(name)
        names[:] = kept
    return sorted(found)


def is_listed(manifest: Manifest | None, name: str) -> bool:
    """Whether a reader may use a file of the bundle: the manifest lists it, or lists nothing because the run runs."""
    if manifest is None or not (manifest.files or manifest.inventory):
        return True
    return _key(name, manifest.inventory_version) in manifest.files


def _manifest_bytes(files: BundleFiles) -> bytes:
    if files.status(MANIFEST) is None:
        raise UserError(f"{files.path / MANIFEST} does not exist", hint="give the folder of a run that a2perf recorded")
    return files.read(MANIFEST, MAX_MANIFEST_BYTES)


def _own(status: FileStatus) -> list[str]:
    """Checks the three files that are never listed: regular, not executable, the lock empty."""
    if status.kind is not Kind.FILE:
        return [f"{status.path} is a {status.kind}, not a regular file"]
    if status.path == LOCK:
        return [f"{LOCK} is not empty"] if status.size else []
    if status.mode & _FILE_MODE != 0o600:
        return [f"the mode of {status.path} was changed: {status.mode:04o}"]
    return []


def _against_inventory(file: BundleFile, status: FileStatus, name: str, manifest: Manifest) -> list[str]:
    listed, found = manifest.inventory.get(name), _item(status)
    if listed is None:
        return [f"{_shown(name)}: a {status.kind} that is not in the manifest"]
    if found.kind != listed.kind:
        return [f"{_shown(name)} was a {listed.kind} and is a {found.kind}"]
    if status.kind not in (Kind.FILE, Kind.FOLDER, Kind.LINK):
        return [f"{_shown(name)} is a {status.kind}, which cannot be part of a bundle"]
    changed = []
    if POSIX and found.mode != listed.mode:
        changed.append(f"the mode of {_shown(name)} was changed: {found.mode}, recorded {listed.mode}")
    if found.target != listed.target:
        changed.append(f"the link {_shown(name)} was changed after the run")
    if status.kind is Kind.FILE:
        changed += _content(file, status, name, manifest, listed.size)
    return changed


def _against_hashes(
    file: BundleFile, status: FileStatus, name: str, manifest: Manifest, folders: set[str]
) -> list[str]:
    """Compares with a manifest that lists regular files only."""
    if status.kind is Kind.FILE:
        if name not in manifest.files:
            return [f"{_shown(name)} is not in the manifest"]
        if status.mode & 0o6000:
            return [f"the mode of {_shown(name)} was changed: it has a set-id bit"]
        return _content(file, status, name, manifest, None)
    if status.kind is Kind.FOLDER and (status.path in folders or status.path in FOLDERS):
        return []
    return [f"{_shown(name)}: a {status.kind} that is not in the manifest"]


def _content(file: BundleFile, status: FileStatus, name: str, manifest: Manifest, size: int | None) -> list[str]:
    if size is None or size == status.size:
        try:
            digest = _hash(file, status)
        except OSError as error:  # a broken disk, or a damaged packed file
            return [f"{_shown(name)} cannot be read: {error.strerror or _shown(str(error))}"]
        if digest == _SPARSE:
            return [f"{_shown(name)} was {_SPARSE}"]
        if manifest.files.get(name) == digest:
            return []
    return [f"{_shown(name)} was changed after the run"]


def _item(status: FileStatus) -> InventoryItem:
    if status.kind is Kind.LINK:
        return InventoryItem(kind=status.kind.value, target=_key(status.target, VERSION))
    kept = status.mode & (_FOLDER_MODE if status.kind is Kind.FOLDER else _FILE_MODE)
    return InventoryItem(
        kind=status.kind.value, mode=f"{kept:04o}", size=status.size if status.kind is Kind.FILE else None
    )


def _hash(file: BundleFile, status: FileStatus) -> str:
    if status.size - status.stored > _HOLES_BYTES:
        return _SPARSE
    digest = hashlib.sha256()
    left = status.size
    with file.open() as stream:
        while data := stream.read(_PIECE_BYTES):
            left -= len(data)
            if left < 0:
                raise BoundExceeded("bytes", status.path, "grew while it was read")
            digest.update(data)
    return digest.hexdigest()


def _key(path: str, version: int) -> str:
    """Returns the name of a path in a manifest, which is UTF-8; different paths get different names."""
    text = path.replace("\\", "\\\\") if version >= VERSION else path
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def _shown(name: str) -> str:
    return printable(name)
