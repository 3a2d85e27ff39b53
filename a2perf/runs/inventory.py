"""The closed list of everything below a bundle, and where bundles lie.

When a run ends, ``record_files`` lists every file, folder and link of its bundle in the manifest; ``problems`` compares
the list with the disk. Nothing is followed: a link is an entry with a target, and fifos, sockets and devices are never
part of a bundle. Manifests from before the list hold only the hash of each regular file; for them everything else on
disk is a problem, but for what those versions left themselves.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from a2perf import stranger_files
from a2perf.errors import UserError
from a2perf.records import InventoryItem, Manifest, RunState
from a2perf.storage import json_text, parse_record
from a2perf.stranger_files import (
    Bounds,
    Entry,
    Kind,
    StrangerFileError,
    chunks,
    printable,
    read_regular_file,
    walk,
)

MANIFEST, SIGNATURE, LOCK = "manifest.json", "signature.json", ".lock"
MODES = ("train", "inference", "generalization")
VERSION = 2
"""Of the list; 1 is the hash of every regular file and nothing else."""

MAX_MANIFEST_BYTES = 256 << 20
_CHECKSUM_SINCE = 1  # schema of the manifest
_BOUNDS = Bounds(entries=2_000_000)
_HOLES_BYTES = 16 << 30  # more than this without content would take minutes to hash and holds no information
_SPARSE = "not hashed: almost nothing of its size is stored"
_STANDARD_FOLDERS = ("metrics", "logs", "artifacts", "media")
_PARTS = (MANIFEST, "config.gin", "logs", "journal.jsonl", LOCK)
_ARCHIVED = re.compile(rf"({'|'.join(MODES)})-\d{{8}}T\d{{6}}\.\d+")
_MOST_PROBLEMS = 100
# What a copy under another umask changes is left out: who else may read, write as the group, or enter a folder.
_FILE_MODE, _FOLDER_MODE = 0o7713, 0o5702


def record_files(bundle: Path, manifest: Manifest) -> None:
    """Lists everything below the bundle in its manifest; what cannot be listed becomes a warning of the run."""
    manifest.files, manifest.inventory, manifest.inventory_version = {}, {}, VERSION
    errors: list[str] = []
    try:
        for entry in walk(bundle, _BOUNDS, on_error=lambda error: errors.append(error.message)):
            if entry.path in (MANIFEST, SIGNATURE, LOCK):
                continue
            name = _key(entry.path, VERSION)
            manifest.inventory[name] = _item(entry)
            if entry.kind is Kind.FILE:
                try:
                    manifest.files[name] = _hash(entry)
                except StrangerFileError as error:  # mode 000 of another user: validation says it again
                    errors.append(error.message)
    except StrangerFileError as error:
        errors.append(error.message)
    manifest.warnings += [f"not in the inventory: {message}" for message in errors[:_MOST_PROBLEMS]]


def hash_files(bundle: Path) -> dict[str, str]:
    """Returns the SHA-256 of every regular file of a bundle but its manifest, signature and lock, by relative path."""
    return {
        _key(entry.path, 1): _hash(entry)
        for entry in walk(bundle, _BOUNDS)
        if entry.kind is Kind.FILE and entry.path not in (MANIFEST, SIGNATURE, LOCK)
    }


def read_manifest(bundle: Path) -> Manifest:
    """Reads the manifest of a bundle, which may be a stranger's.

    Raises:
        UserError: it does not exist, is not a regular file, is larger than any manifest, or is not a valid record.
    """
    return parse_record(_manifest_bytes(bundle), Manifest, str(bundle / MANIFEST))


def problems(bundle: Path, manifest: Manifest, *, unpublished: Iterable[str] = ()) -> list[str]:
    """Compares the bundle of an ended run with its manifest.

    Args:
        bundle: the folder.
        manifest: its manifest, as ``read_manifest`` returns it.
        unpublished: folders at the top of the bundle that may be missing or incomplete; nothing may be added to them.

    Returns:
        One sentence for everything that was added, removed or changed since, at most ``_MOST_PROBLEMS``; empty for a
        run that is not over, since its manifest lists nothing yet.
    """
    if manifest.state not in (RunState.FINISHED, RunState.FAILED):
        return []
    found = manifest_problems(bundle)
    if not manifest.files and not manifest.inventory:
        return [*found, f"{MANIFEST} lists no files"]
    seen: set[str] = set()
    folders = {os.path.dirname(name) for name in manifest.files}
    folders |= {parent for name in list(folders) for parent in _parents(name)}
    errors: list[str] = []
    try:
        for entry in walk(Path(os.path.realpath(bundle)), _BOUNDS, on_error=lambda error: errors.append(error.message)):
            name = _key(entry.path, manifest.inventory_version)
            seen.add(name)
            if entry.path in (MANIFEST, SIGNATURE, LOCK):
                found += _own(entry)
            elif manifest.inventory_version < VERSION:
                found += _against_hashes(entry, name, manifest, folders)
            else:
                found += _against_inventory(entry, name, manifest)
            if len(found) > _MOST_PROBLEMS:
                return [*found[:_MOST_PROBLEMS], "further problems are not listed"]
    except StrangerFileError as error:
        return [*found, *errors, error.message]
    absent = tuple(unpublished)
    expected = {**manifest.files, **manifest.inventory}
    found += [
        f"{_shown(name)} is missing" for name in expected if name not in seen and name.partition("/")[0] not in absent
    ]
    return [*found, *errors][:_MOST_PROBLEMS]


def manifest_problems(bundle: Path) -> list[str]:
    """Compares the manifest's bytes with what a2perf wrote."""
    try:
        text = _manifest_bytes(bundle).decode("utf-8", "surrogateescape")
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
    """Returns the checksum of a manifest's content, which its field ``checksum`` holds."""
    canonical = json.dumps({**data, "checksum": None}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()


def is_bundle(folder: Path) -> bool:
    """Whether a folder is a bundle: named after a mode, with anything that the evaluator writes into one."""
    return folder.name in MODES and any(os.path.lexists(folder / name) for name in _PARTS)


def is_archived(folder: Path) -> bool:
    """Whether a folder is a bundle that a later attempt of the same run has replaced."""
    return folder.parent.name == "attic" and _ARCHIVED.fullmatch(folder.name) is not None


def find_bundles(top: Path, *, archived: bool = False) -> list[Path]:
    """Finds the bundles at or below a folder, in a stable order.

    Below a bundle nothing is a bundle, whatever a participant wrote there; links are not followed.

    Args:
        top: a bundle, which counts under any name if it holds a manifest, or a folder that holds some.
        archived: also return the earlier attempts in ``attic``.
    """
    if os.path.lexists(top / MANIFEST) or is_bundle(top):
        return [top]
    found: list[Path] = []
    for text, names, files in stranger_files.folders(top, _BOUNDS):
        folder = Path(text)
        kept = []
        for name in sorted(names):
            inner = folder / name
            if inner.is_symlink() or (is_archived(inner) and not archived):
                continue
            if is_bundle(inner) or os.path.lexists(inner / MANIFEST):
                found.append(inner)
            else:
                kept.append(name)
        names[:] = kept
        del files
    return sorted(found)


def is_listed(manifest: Manifest | None, name: str) -> bool:
    """Whether a reader may take a file of the bundle: its manifest lists it, or lists nothing, as before the end."""
    if manifest is None or not (manifest.files or manifest.inventory):
        return True
    return _key(name, manifest.inventory_version) in manifest.files


def listed_file(bundle: Path, manifest: Manifest | None, name: str) -> Path | None:
    """Returns the path of a regular file of a bundle; None if a link is part of it, or it is not listed."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or not is_listed(manifest, name):
        return None
    folders = [bundle.joinpath(*parts[:count]) for count in range(1, len(parts))]
    try:
        regular = stat.S_ISREG((bundle / name).lstat().st_mode)
    except OSError:
        return None
    return bundle / name if regular and not any(folder.is_symlink() for folder in folders) else None


def _manifest_bytes(bundle: Path) -> bytes:
    folder = Path(os.path.realpath(bundle))
    if not os.path.lexists(folder / MANIFEST):
        raise UserError(f"{bundle / MANIFEST} does not exist", hint="give the folder of a run made by a2perf")
    return read_regular_file(folder, MANIFEST, max_bytes=MAX_MANIFEST_BYTES)


def _own(entry: Entry) -> list[str]:
    """Checks the three files that no list holds: regular, not executable, the lock empty."""
    if entry.kind is not Kind.FILE:
        return [f"{entry.path} is a {entry.kind}, not a regular file"]
    if entry.path == LOCK:
        return [f"{LOCK} is not empty"] if entry.status.st_size else []
    mode = stat.S_IMODE(entry.status.st_mode)
    if mode & _FILE_MODE != 0o600:
        return [f"the mode of {entry.path} was changed: {mode:04o}"]
    return []


def _against_inventory(entry: Entry, name: str, manifest: Manifest) -> list[str]:
    listed, found = manifest.inventory.get(name), _item(entry)
    if listed is None:
        return [f"{_shown(name)}: a {entry.kind} that is not in the manifest"]
    if found.kind != listed.kind:
        return [f"{_shown(name)} was a {listed.kind} and is a {found.kind}"]
    if entry.kind not in (Kind.FILE, Kind.FOLDER, Kind.LINK):
        return [f"{_shown(name)} is a {entry.kind}, which cannot be part of a bundle"]
    changed = []
    if found.mode != listed.mode:
        changed.append(f"the mode of {_shown(name)} was changed: {found.mode}, recorded {listed.mode}")
    if found.target != listed.target:
        changed.append(f"the link {_shown(name)} was changed after the run")
    if entry.kind is Kind.FILE:
        changed += _content(entry, name, manifest, listed.size)
    return changed


def _against_hashes(entry: Entry, name: str, manifest: Manifest, folders: set[str]) -> list[str]:
    """Compares with a manifest that lists regular files only."""
    if entry.kind is Kind.FILE:
        if name not in manifest.files:
            return [f"{_shown(name)} is not in the manifest"]
        if stat.S_IMODE(entry.status.st_mode) & 0o6000:
            return [f"the mode of {_shown(name)} was changed: it has a set-id bit"]
        return _content(entry, name, manifest, None)
    if entry.kind is Kind.FOLDER and (entry.path in folders or entry.path in _STANDARD_FOLDERS):
        return []
    return [f"{_shown(name)}: a {entry.kind} that is not in the manifest"]


def _content(entry: Entry, name: str, manifest: Manifest, size: int | None) -> list[str]:
    if size is None or size == entry.status.st_size:
        digest = _hash(entry)
        if digest == _SPARSE:
            return [f"{_shown(name)} was {_SPARSE}"]
        if manifest.files.get(name) == digest:
            return []
    return [f"{_shown(name)} was changed after the run"]


def _item(entry: Entry) -> InventoryItem:
    status = entry.status
    if entry.kind is Kind.LINK:
        return InventoryItem(kind=entry.kind.value, target=_key(entry.target(), VERSION))
    kept = stat.S_IMODE(status.st_mode) & (_FOLDER_MODE if entry.kind is Kind.FOLDER else _FILE_MODE)
    return InventoryItem(
        kind=entry.kind.value, mode=f"{kept:04o}", size=status.st_size if entry.kind is Kind.FILE else None
    )


def _hash(entry: Entry) -> str:
    if entry.status.st_size - entry.status.st_blocks * 512 > _HOLES_BYTES:
        return _SPARSE
    digest = hashlib.sha256()
    descriptor = entry.open()
    try:
        for piece in chunks(descriptor, entry.path, max_bytes=entry.status.st_size):
            digest.update(piece)
    finally:
        os.close(descriptor)
    return digest.hexdigest()


def _key(path: str, version: int) -> str:
    """Returns the name under which a manifest, which is UTF-8, holds a path; different paths have different names."""
    text = path.replace("\\", "\\\\") if version >= VERSION else path
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _shown(name: str) -> str:
    return printable(name)
