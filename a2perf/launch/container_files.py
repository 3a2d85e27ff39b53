"""Ownership of a run's files while a container uses them.

If the launcher runs as root, the container runs as an ordinary user, and the run's files belong to that user until the
container ends. For any other user the container runs as that user, and ownership does not change.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from a2perf.errors import UserError
from a2perf.launch.run_spec import RunCommand
from a2perf.runs.bundles.layout import ATTIC
from a2perf.submission.evaluator import seed_secret

USER = 1000
MADE_BY_RUNS = ("train", "inference", "generalization", "metrics", ATTIC)
"""Names that the evaluator creates in a root directory; only these change owner."""


def container_user() -> str:
    """Returns the user of a run in its container: this user, or an ordinary one if this user is root."""
    return f"{os.geteuid()}:{os.getegid()}" if os.geteuid() != 0 else f"{USER}:{USER}"


def check_readable(command: RunCommand) -> None:
    """Checks that the container's user can read the run's inputs; a denied read would look like a failure of the run.

    Raises:
        UserError: only root can read one of the files.
    """
    if os.geteuid() != 0:
        return
    for top in command.readable:
        for path in (top, *(top.rglob("*") if top.is_dir() else ())):
            wanted = 0o005 if path.is_dir() else 0o004
            if not path.is_symlink() and path.stat().st_mode & wanted != wanted and path.stat().st_uid != USER:
                raise UserError(
                    f"the user of a container, {container_user()}, cannot read {path}", hint=f"chmod -R o+rX {top}"
                )


@contextlib.contextmanager
def lent_seed_secret(command: RunCommand) -> Iterator[Path]:
    """Yields a file with a command's or this evaluator's seed secret that the container's user can read.

    It exists until the container runs. A bind mount keeps its file alive, so the copy that root makes for an ordinary
    user is unlinked once it is mounted.
    """
    given = command.env.get(seed_secret.VARIABLE)
    file = seed_secret.place() if given is None else Path(given)
    secret = seed_secret.read(file)
    if os.geteuid() != 0:
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="a2perf-seed-secret-") as copy:  # mode 0600
        copy.write(secret)
        copy.flush()
        os.fchown(copy.fileno(), USER, USER)
        yield Path(copy.name)


def give_folders(folders: tuple[Path, ...], user: int, group: int) -> None:
    """As root, changes the owner of run folders and of the files of the run in them; follows no links."""
    if os.geteuid() != 0:
        return
    for folder in folders:
        os.chown(folder, user, group, follow_symlinks=False)
        for made in MADE_BY_RUNS:
            for parent, names, files in os.walk(folder / made):
                for path in (parent, *(os.path.join(parent, name) for name in (*names, *files))):
                    with contextlib.suppress(FileNotFoundError):
                        os.chown(path, user, group, follow_symlinks=False)
