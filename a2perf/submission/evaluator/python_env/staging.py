"""Copies what an installer is given out of the submission, so that what was checked is what is installed.

The copies lie beside the environment that is made; the installer never sees the submission's folder, where files can
change between the check and the installation.
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
    """Writes a file for the installer, and copies the local packages that it names.

    Args:
        lines: requirements; options among them are left out.
        path: the file, in a folder that the installer only reads.
        sources: folder for packages that are built, which the installer may write.
        max_bytes: how much one wheel may unpack to.

    Raises:
        SubmissionError: a wheel is broken or too large, or a file changed since it was read.
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
            raise SubmissionError(f"{line.place}: {error.message}", hint="leave the file as it is") from error
        if line.builds:
            texts.append(f"{copy.as_uri()}{line.extras}{hashes_of(line)}")
        else:
            check_wheel(copy, line.place, max_bytes=max_bytes)
            texts.append(f"{line.name}{line.extras} @ {copy.as_uri()}{hashes_of(line)}")
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def _copy(line: RequirementLine, home: Path) -> Path:
    """Copies the file or folder that a line names; it still is what was read for the key of the environment."""
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
        raise SubmissionError(f"{line.place}: {shown(line.local)} changed while it was read")
    return target


def _copy_file(descriptor: int, path: str, target: Path) -> hashlib._Hash:
    digest = hashlib.sha256()
    with target.open("xb") as stream:
        for data in stranger_files.chunks(descriptor, path, max_bytes=MAX_LOCAL_BYTES):
            digest.update(data)
            stream.write(data)
    return digest
