"""Identifies a submission's code: one hash over everything that the participant can read from its folder.

The hash covers every file, folder, link (the text of its target) and executable bit, at any depth and under any name.
Byte code, caches, virtual environments and version control count as code. Modification times, owners and extended
attributes are not covered. Only the folder inside the submission to which the evaluator writes bundles is left out; a
sandbox that can hide files hides it from the participant. Nothing in the folder is executed, and no program runs in it:
the commit is read as text.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path

from a2perf.errors import ConfigError, SubmissionError, UserError
from a2perf.records import Manifest, SubmissionIdentity, SubmissionInfo
from a2perf.runs.submission_info import FILE, read_submission_info
from a2perf.stranger_files import (
    BoundExceeded,
    Bounds,
    FolderEntry,
    Kind,
    NotRegular,
    StrangerFileError,
    Unreadable,
    chunks,
    opened,
    printable,
    read_regular_file,
    walk,
)

SCHEME = 2
"""Version of the hash. Version 1 ignored caches, virtual environments, ``runs``, version control, links, modes and
empty folders."""

BOUNDS = Bounds(entries=200_000, depth=200, bytes=8 * 2**30)
"""Limits of a submission: number of names, nested folders, and total apparent size of its files."""

_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin", "/etc/alternatives", "/dev/null")
_MOST_LISTED = 20
_REFERENCE = re.compile(r"ref: (refs/[\w./+-]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HEAD_BYTES = 4096
_PACKED_REFS_BYTES = 16 * 2**20


def identify_submission(folder: Path, *, root: Path | None = None) -> SubmissionIdentity:
    """Hashes a submission's folder and reads its commit.

    Args:
        root: where bundles are written; if that is inside the submission, see ``bundle_folder``.

    Raises:
        SubmissionError: the folder contains a fifo, a socket or a device, cannot be read, or exceeds ``BOUNDS``; the
            message names the file.
        ConfigError: ``root`` is the submission itself.
    """
    top = folder.resolve()
    if printable(str(top)) != str(top)[:1000]:
        raise SubmissionError(
            f"the path of the submission, {printable(str(top))}, is not UTF-8 or contains control characters",
            hint="rename the folder",
        )
    left_out = bundle_folder(top, root)
    not_covered = [] if left_out is None else [f"{printable(left_out)}/"]
    info = _info(top)
    weights = [] if info is None else [name.strip("/") for name in info.weights]
    missing = set(weights)
    digest, code, policy = (hashlib.sha256(b"a2perf submission 2\0") for _ in range(3))
    try:
        for entry in walk(top, BOUNDS, without=() if left_out is None else (left_out,)):
            line = _line(entry)
            digest.update(line)
            of_weights = [name for name in weights if f"{entry.path}/".startswith(f"{name}/")]
            missing.difference_update(of_weights)
            if of_weights:
                policy.update(line)
            elif entry.path != FILE:
                code.update(line)
            if entry.kind is Kind.LINK and _leads_out(entry, top) and len(not_covered) < _MOST_LISTED:
                not_covered.append(f"{printable(entry.path)} -> {printable(entry.target())}")
    except BoundExceeded as error:
        most = f"{BOUNDS.entries:,} files, {BOUNDS.depth} nested folders and {BOUNDS.bytes:,} bytes"
        raise SubmissionError(
            f"the submission {printable(str(folder))} is too large: {error.message}",
            hint=f"move data and virtual environments out of the folder; the limits are {most}",
        ) from error
    except StrangerFileError as error:
        raise SubmissionError(f"the submission {printable(str(folder))}: {error.message}", hint=error.hint) from error
    if missing:
        names = ", ".join(sorted(missing))
        raise SubmissionError(
            f"the submission {printable(str(folder))}: {FILE} names weights that do not exist: {names}",
            hint="give paths of files or folders below the folder of the submission",
        )
    if info is not None and info.code:
        code.update(info.code.encode())
    return SubmissionIdentity(
        name=top.name,
        path=str(folder),
        sha256=digest.hexdigest(),
        scheme=SCHEME,
        not_covered=not_covered,
        git_commit=commit_of(top),
        info=info,
        code_sha256=code.hexdigest() if info is not None and weights else "",
        policy_sha256=(info.policy or policy.hexdigest()) if info is not None and weights else "",
    )


def bundle_folder(folder: Path, root: Path | None) -> str | None:
    """Returns the top-level folder of a submission that contains ``root``; None if ``root`` is elsewhere.

    The whole folder counts as the evaluator's: it also contains the bundles of other seeds and tasks of an experiment.

    Raises:
        ConfigError: ``root`` is the submission itself.
    """
    if root is None:
        return None
    real = Path(os.path.realpath(root))
    if not real.is_relative_to(folder):
        return None
    if real == folder:
        raise ConfigError(
            f"the root directory {root} is the submission itself",
            hint="give a folder outside of the submission, for example `--root-dir ../runs`",
        )
    return real.relative_to(folder).parts[0]


def note_changes(manifest: Manifest, root: Path) -> None:
    """Hashes the submission again after its run, and notes in the manifest if it has changed."""
    recorded = manifest.submission
    if recorded.scheme != SCHEME:
        return
    try:
        same = identify_submission(Path(recorded.path), root=root).sha256 == recorded.sha256
    except (SubmissionError, ConfigError):
        same = False
    if not same and not recorded.changed:
        recorded.changed = True
        manifest.warnings.append("the submission's files changed during the run; the hash is that of the start")


def commit_of(folder: Path) -> str | None:
    """Returns the commit checked out in the repository around a folder, or None.

    Reads the repository's files instead of running git: git executes programs that the repository's configuration
    names, and the repository may be the participant's. Worktrees and submodules have no commit here, because their
    ``.git`` is a file that points elsewhere.
    """
    top = folder.resolve()
    for above in (top, *top.parents):
        if os.path.lexists(above / ".git"):
            with suppress(StrangerFileError, OSError, UnicodeDecodeError), opened(above, ".git") as repository:
                return _commit(repository)
            return None
    return None


def _info(top: Path) -> SubmissionInfo | None:
    """Returns the content of the submission's ``a2perf.toml``; an invalid file stops a run before it starts."""
    try:
        return read_submission_info(top)
    except UserError as error:
        raise SubmissionError(f"the submission {printable(str(top))}: {error.message}", hint=error.hint) from error


def _commit(repository: int) -> str | None:
    head = read_regular_file(repository, "HEAD", max_bytes=_HEAD_BYTES).decode().strip()
    if reference := _REFERENCE.fullmatch(head):
        with suppress(StrangerFileError):
            head = read_regular_file(repository, reference[1], max_bytes=_HEAD_BYTES).decode().strip()
        if head.startswith("ref:"):
            packed = read_regular_file(repository, "packed-refs", max_bytes=_PACKED_REFS_BYTES).decode()
            lines = (line.split(" ", 1) for line in packed.splitlines())
            head = next((parts[0] for parts in lines if parts[1:] == [reference[1]]), "")
    return head if _COMMIT.fullmatch(head) else None


def _line(entry: FolderEntry) -> bytes:
    """Returns the bytes of one entry for the hash; different trees always have different sequences of them."""
    name = os.fsencode(entry.path) + b"\0"
    if entry.kind is Kind.FOLDER:
        return b"d" + name
    if entry.kind is Kind.LINK:
        return b"l" + name + os.fsencode(entry.target()) + b"\0"
    if entry.kind is not Kind.FILE:
        raise NotRegular(
            entry.path, f"is a {entry.kind}", hint="remove it; a submission contains only files, folders and links"
        )
    content = hashlib.sha256()
    descriptor = entry.open()
    try:
        before = os.fstat(descriptor)
        for chunk in chunks(descriptor, entry.path, max_bytes=before.st_size):
            content.update(chunk)
    except OSError as error:
        raise Unreadable(entry.path, f"cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    return (b"x" if before.st_mode & stat.S_IXUSR else b"f") + name + content.digest()


def _leads_out(entry: FolderEntry, top: Path) -> bool:
    """Returns whether a link leads to a file outside of the submission, the system and this Python."""
    found = Path(os.path.realpath(top / entry.path))
    inside = (top, *map(Path, _SYSTEM), Path(sys.base_prefix), Path(sys.prefix))
    return not any(found.is_relative_to(place) for place in inside)
