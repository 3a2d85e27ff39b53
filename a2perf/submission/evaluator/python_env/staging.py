"""Copies the submission's packages for the installer: exactly the checked files are installed.

The installer sees only the copies, next to the new environment. Files in the submission's folder could change between
the check and the installation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from a2perf import stranger_files
from a2perf.errors import SubmissionError
from a2perf.submission.evaluator.python_env.requirements import (
    MAX_LOCAL_BYTES,
    PRE_RELEASES,
    RequirementLine,
    content_of,
    hashes_of,
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
    if content_of(line.folder, line.local, max_bytes=MAX_LOCAL_BYTES, copy=target)[0] != line.content:
        raise SubmissionError(
            f"{line.place}: {shown(line.local)} changed while it was read", hint="do not change files during a run"
        )
    return target
