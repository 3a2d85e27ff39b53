"""Copies the submission's packages for the installer: exactly the checked files are installed.

The installer sees only the copies, next to the new environment. Files in the submission's folder could change between
the check and the installation.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from a2perf import stranger_files
from a2perf.errors import SubmissionError
from a2perf.submission.evaluator.python_env.requirements import (
    MAX_LOCAL_BYTES,
    PRE_RELEASES,
    RequirementLine,
    files_of_package,
    hashes_of,
    open_local,
    shown,
)
from a2perf.submission.evaluator.python_env.wheel_check import check_wheel


def write_requirements(lines: Sequence[RequirementLine], path: Path, sources: Path, *, max_bytes: int) -> None:
    """Writes a requirements file for the installer and copies its local packages.

    Args:
        lines: requirements; options among them are skipped.
        path: the file, in a folder that is read-only for the installer.
        sources: folder for packages that are built, which is writable for the installer.

    Raises:
        SubmissionError: a wheel is broken or too large, or a file has changed since it was read.
    """
    texts = []
    for number, line in enumerate(lines):
        if line.text == PRE_RELEASES:
            continue
        if not line.local:
            texts.append(line.text)
            continue
        home = (sources if line.builds else path.parent) / f"{path.stem}-{number}"
        home.mkdir(parents=True)
        try:
            copy = _copy(line, home)
        except stranger_files.StrangerFileError as error:
            raise SubmissionError(f"{line.place}: {error.message}", hint="do not change files during a run") from error
        if line.builds:
            texts.append(f"{copy.as_uri()}{line.extras}{hashes_of(line)}")
        else:
            check_wheel(copy, line.place, max_bytes=max_bytes)
            texts.append(f"{line.name}{line.extras} @ {copy.as_uri()}{hashes_of(line)}")
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def _copy(line: RequirementLine, home: Path) -> Path:
    """Copies the file or folder of a line, and checks that it has not changed since the environment's key was made."""
    assert line.folder is not None
    target = home / (PurePosixPath(line.local).name or "package")
    with open_local(line.folder, line.local) as descriptor:
        if stranger_files.Kind.of(os.fstat(descriptor).st_mode) is stranger_files.Kind.FILE:
            digest = _copy_file(descriptor, line.local, target)
        else:
            target.mkdir()
            whole = hashlib.sha256()
            for entry in files_of_package(descriptor):
                place = target / entry.path
                place.parent.mkdir(parents=True, exist_ok=True)
                file = entry.open()
                try:
                    whole.update(os.fsencode(entry.path) + b"\0" + _copy_file(file, entry.path, place).digest())
                finally:
                    os.close(file)
            digest = whole
    if digest.hexdigest() != line.content:
        raise SubmissionError(
            f"{line.place}: {shown(line.local)} changed while it was read", hint="do not change files during a run"
        )
    return target


def _copy_file(descriptor: int, path: str, target: Path) -> hashlib._Hash:
    digest = hashlib.sha256()
    with target.open("xb") as stream:
        for data in stranger_files.chunks(descriptor, path, max_bytes=MAX_LOCAL_BYTES):
            digest.update(data)
            stream.write(data)
    return digest
