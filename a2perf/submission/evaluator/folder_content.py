"""Which code a submission is: one hash over everything that its participant can read from its folder.

The hash covers every file, folder, link (as its target's text) and executable bit, at any depth and under any name:
byte code, caches, virtual environments and version control are code as well. Modification times, owners and extended
attributes are not covered. Left out is only the folder inside the submission that the evaluator itself writes bundles
to; it is hidden from the participant where the sandbox hides anything. Nothing of the folder is executed, and no
program runs in it: the commit is read as text.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path

from a2perf.errors import ConfigError, SubmissionError
from a2perf.records import Manifest, SubmissionIdentity
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
"""Of the hash. Scheme 1 left out caches, virtual environments, ``runs``, version control, links, modes and folders."""

BOUNDS = Bounds(entries=200_000, depth=200, bytes=8 * 2**30)
"""Of a submission: names, folders inside each other, and the sum of the apparent sizes of its files."""

_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin", "/etc/alternatives", "/dev/null")
_MOST_LISTED = 20
_REFERENCE = re.compile(r"ref: (refs/[\w./+-]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HEAD_BYTES = 4096
_PACKED_REFS_BYTES = 16 * 2**20


def identify_submission(folder: Path, *, root: Path | None = None) -> SubmissionIdentity:
    """Hashes a submission's folder and reads its commit.

    Args:
        folder: the submission; where it is a link, what it leads to.
        root: where bundles are written; if that is inside the submission, see ``bundle_folder``.

    Raises:
        SubmissionError: the folder holds what no submission may hold (a fifo, a socket, a device), cannot be read, or
            is larger than ``BOUNDS``; the message names the file.
        ConfigError: ``root`` is the submission itself.
    """
    top = folder.resolve()
    if printable(str(top)) != str(top)[:1000]:
        raise SubmissionError(
            f"the path of the submission, {printable(str(top))}, has characters that no record can hold",
            hint="rename the folder: UTF-8 without control characters",
        )
    left_out = bundle_folder(top, root)
    not_covered = [] if left_out is None else [f"{printable(left_out)}/"]
    digest = hashlib.sha256(b"a2perf submission 2\0")
    try:
        for entry in walk(top, BOUNDS, without=() if left_out is None else (left_out,)):
            digest.update(_line(entry))
            if entry.kind is Kind.LINK and _leads_out(entry, top) and len(not_covered) < _MOST_LISTED:
                not_covered.append(f"{printable(entry.path)} -> {printable(entry.target())}")
    except BoundExceeded as error:
        most = f"{BOUNDS.entries:,} files, {BOUNDS.depth} folders inside each other or {BOUNDS.bytes:,} bytes"
        raise SubmissionError(
            f"the submission {printable(str(folder))} is too large: {error.message}",
            hint=f"keep it within {most}; data and virtual environments belong outside of it",
        ) from error
    except StrangerFileError as error:
        raise SubmissionError(f"the submission {printable(str(folder))}: {error.message}", hint=error.hint) from error
    return SubmissionIdentity(
        name=top.name,
        path=str(folder),
        sha256=digest.hexdigest(),
        scheme=SCHEME,
        not_covered=not_covered,
        git_commit=commit_of(top),
    )


def bundle_folder(folder: Path, root: Path | None) -> str | None:
    """Returns the name of the folder directly below a submission that ``root`` is in; None if it is elsewhere.

    All of it is the evaluator's: the bundles of other seeds and tasks of an experiment lie beside those of this run.

    Args:
        folder: the submission, resolved.
        root: where bundles are written.

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
            hint="choose a folder outside, or --root_dir runs/one",
        )
    return real.relative_to(folder).parts[0]


def note_changes(manifest: Manifest, root: Path) -> None:
    """Hashes the submission of a run that has ended again, and notes in its manifest if it is another one now."""
    recorded = manifest.submission
    if recorded.scheme != SCHEME:
        return
    try:
        same = identify_submission(Path(recorded.path), root=root).sha256 == recorded.sha256
    except (SubmissionError, ConfigError):
        same = False
    if not same and not recorded.changed:
        recorded.changed = True
        manifest.warnings.append("the submission's files changed while it ran: its hash is that of the start")


def commit_of(folder: Path) -> str | None:
    """Returns the commit that the repository around a folder has checked out, as its files say; None without one.

    No git runs: git obeys the configuration of the repository, which may be the participant's and may name programs.
    Worktrees and submodules, whose ``.git`` is a file that leads elsewhere, have no commit here.
    """
    top = folder.resolve()
    for above in (top, *top.parents):
        if os.path.lexists(above / ".git"):
            with suppress(StrangerFileError, OSError, UnicodeDecodeError), opened(above, ".git") as repository:
                return _commit(repository)
            return None
    return None


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
    """Returns what the hash takes of one entry; no other tree has the same sequence of lines."""
    name = os.fsencode(entry.path) + b"\0"
    if entry.kind is Kind.FOLDER:
        return b"d" + name
    if entry.kind is Kind.LINK:
        return b"l" + name + os.fsencode(entry.target()) + b"\0"
    if entry.kind is not Kind.FILE:
        raise NotRegular(
            entry.path, f"is a {entry.kind}", hint="a submission holds files, folders and links; remove it"
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
    """Whether a link leads to a file of the host that is neither the submission's nor of the system or this Python."""
    found = Path(os.path.realpath(top / entry.path))
    inside = (top, *map(Path, _SYSTEM), Path(sys.base_prefix), Path(sys.prefix))
    return not any(found.is_relative_to(place) for place in inside)
