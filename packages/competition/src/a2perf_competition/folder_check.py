"""Checks an entrant's folder in a separate process with resource limits, because its content is untrusted.

``python -m a2perf_competition.folder_check FOLDER`` prints the result as JSON. Fifos, endless or sparse
files, deep trees and hostile requirements can only end this process.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from a2perf.errors import UserError
from a2perf.records import Record
from a2perf.stranger_files import printable, read_regular_file
from a2perf.system import resource

MEMORY_BYTES = 4 << 30
WALL_S = 120.0
NONCE = "nonce.sha256"
"""File of an entry with the SHA-256 of the nonce that the entrant reveals once the list is closed."""

TRIES = 3
"""Attempts to read a folder. One killed reader may be an accident; after three the folder is the cause."""

_KILLS = (-getattr(signal, "SIGKILL", 0), -signal.SIGTERM)
_MOST_WORDS = 2000


class FolderCheck(Record, kw_only=True):
    """The result of checking an entrant's folder.

    Attributes:
        sha256: hash of its content; empty if the folder is refused.
        needs_packages: whether it requires packages that this installation does not have.
        nonce_sha256: content of its file ``NONCE``; empty without one.
        refused: why it cannot run; empty if it can.
        killed: whether it is refused because every reader was killed.
    """

    sha256: str = ""
    scheme: int = 0
    needs_packages: bool = False
    nonce_sha256: str = ""
    refused: str = ""
    killed: bool = False


def examine(folder: Path) -> FolderCheck:
    """Checks an entrant's folder; any problem becomes the reason for refusing it.

    Args:
        folder: absolute path; a link in its last part is refused, because the entrant may have made it.
    """
    if folder.is_symlink():
        return FolderCheck(refused="it is a link, which could lead to the competition or to another entrant")
    if not folder.is_dir():
        return FolderCheck(refused="it is not a folder")
    for _ in range(TRIES):
        check, status = _read(folder)
        if status not in _KILLS:
            break
    return check


def _read(folder: Path) -> tuple[FolderCheck, int | None]:
    """Returns the result of a reader process and its exit status; ``None`` as status after a timeout."""
    command = [sys.executable, "-P", "-m", __name__, str(folder)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
            env=environment,
            cwd="/",
            timeout=WALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return FolderCheck(refused=f"its folder could not be read within {WALL_S:g} s"), None
    try:
        return msgspec.json.decode(done.stdout, type=FolderCheck), done.returncode
    except msgspec.DecodeError:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
        how = f"status {done.returncode}" if done.returncode >= 0 else signal.Signals(-done.returncode).name
        refused = f"reading its folder ended with {how}: {printable(last[0])}"
        return FolderCheck(refused=refused[:_MOST_WORDS], killed=done.returncode in _KILLS), done.returncode


def _main(folder: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    bound = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    from a2perf.submission.evaluator.process.participant_python import REQUIREMENTS
    from a2perf.submission.evaluator.python_env import read_requirements
    from a2perf.submission.evaluator.submitted.folder_content import identify_submission

    try:
        identity = identify_submission(folder)
        found = FolderCheck(sha256=identity.sha256, scheme=identity.scheme)
        if os.path.lexists(folder / NONCE):
            text = read_regular_file(folder, NONCE, max_bytes=_MOST_WORDS).decode(errors="replace").strip()
            if not re.fullmatch("[0-9a-f]{64}", text):
                raise UserError(f"{NONCE} does not hold a SHA-256, 64 hexadecimal digits")
            found.nonce_sha256 = text
        found.needs_packages = bool(read_requirements(folder / REQUIREMENTS).unsatisfied_here())
    except UserError as error:
        message = error.message.replace(str(folder), folder.name)  # the organizer's paths are not published
        found = FolderCheck(refused=printable(message.replace("\n", " "))[:_MOST_WORDS])
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        found = FolderCheck(refused=printable(f"{type(error).__name__}: {error}")[:_MOST_WORDS])
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
