"""Completes an environment after the installation: checks it, makes the evaluator its owner, adds the interpreter.

Packages are installed into an empty folder. Only afterwards ``pyvenv.cfg``, the interpreter's links and the activation
scripts are added from a skeleton that no package could modify. A package that contains one of these is refused.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from a2perf import stranger_files
from a2perf.errors import SubmissionError
from a2perf.submission.evaluator.python_env.requirements import shown

MAX_ENTRIES = 400_000
MAX_DEPTH = 60
MAX_SCRIPT_BYTES = 1024 * 1024
STAMP = "a2perf-environment.json"
LOG = "a2perf-environment.log"
RESERVED = (STAMP, LOG)
_INSTALLERS_OWN = (".lock", ".gitignore", "CACHEDIR.TAG")


def prepare(environment: Path) -> None:
    """Creates the empty folder for packages; ``lib64`` is a link to ``lib``."""
    (environment / "lib").mkdir(parents=True)
    (environment / "lib64").symlink_to("lib")


def accept(environment: Path, *, max_bytes: int) -> int:
    """Checks everything that was installed and makes the evaluator its owner.

    Raises:
        SubmissionError: it contains links or special files, is too large, or has an invalid name.
    """
    size, user, group = 0, os.geteuid(), os.getegid()
    bounds = stranger_files.Bounds(entries=MAX_ENTRIES, depth=MAX_DEPTH, bytes=max_bytes)
    try:
        for entry in stranger_files.walk(environment, bounds):
            if entry.kind is stranger_files.Kind.LINK and (entry.path, entry.target()) == ("lib64", "lib"):
                continue
            if entry.kind not in (stranger_files.Kind.FILE, stranger_files.Kind.FOLDER):
                raise stranger_files.NotRegular(entry.path, f"is a {entry.kind}, which a package may not contain")
            path, mode = environment / entry.path, entry.status.st_mode
            if entry.status.st_uid != user:
                os.chown(path, user, group, follow_symlinks=False)
            is_file = entry.kind is stranger_files.Kind.FILE
            wanted = (0o755 if mode & stat.S_IXUSR else 0o644) if is_file else 0o755
            if stat.S_IMODE(mode) != wanted:
                path.chmod(wanted)
            size += entry.status.st_size if is_file else 0
    except stranger_files.BoundExceeded as error:
        raise SubmissionError(
            f"the environment is larger than the organizer allows: {error.message}",
            hint="require fewer or smaller packages, or raise Submission.artifact_limit_bytes",
        ) from error
    except stranger_files.StrangerFileError as error:
        raise SubmissionError(f"a package is not valid: {error.message}", hint="require another version") from error
    return size


def complete(environment: Path, skeleton: Path, final: Path) -> None:
    """Adds the skeleton, and replaces the build folder in scripts by the final folder.

    Raises:
        SubmissionError: a package contains a file that belongs to the interpreter.
    """
    for name in _INSTALLERS_OWN:
        if (environment / name).is_file():
            (environment / name).unlink()
    for name in RESERVED:
        _refuse(environment / name)
    programs = environment / "bin"
    if not programs.is_dir():
        _refuse(programs)
        programs.mkdir()
    for script in programs.iterdir():
        _rewrite(script, skeleton, final)
    config = skeleton / "pyvenv.cfg"
    config.write_text(config.read_text(encoding="utf-8").replace(str(skeleton), str(final)), encoding="utf-8")
    _move(config, environment / config.name)
    for program in sorted((skeleton / "bin").iterdir()):
        if program.is_symlink() or not program.name.startswith("pip"):
            _rewrite(program, skeleton, final)
            _move(program, programs / program.name)


def _move(source: Path, target: Path) -> None:
    _refuse(target)
    shutil.move(source, target)


def _refuse(path: Path) -> None:
    if os.path.lexists(path):
        raise SubmissionError(
            f"a package contains {shown(path.name)}, which belongs to the environment itself",
            hint="require another version of the package",
        )


def _rewrite(script: Path, skeleton: Path, final: Path) -> None:
    if script.is_symlink() or not script.is_file() or script.stat().st_size > MAX_SCRIPT_BYTES:
        return
    data = script.read_bytes()
    if os.fsencode(skeleton) in data and b"\0" not in data:
        script.write_bytes(data.replace(os.fsencode(skeleton), os.fsencode(final)))


def is_intact(environment: Path, interpreter: Path) -> bool:
    """Returns whether the ``python`` of an environment is still a link to its base interpreter."""
    program = environment / "bin" / "python"
    config = environment / "pyvenv.cfg"
    return (
        program.is_symlink()
        and os.path.realpath(program) == os.path.realpath(interpreter)
        and config.is_file()
        and not config.is_symlink()
        and not environment.is_symlink()
    )
