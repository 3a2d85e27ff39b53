"""A mailbox in git: each folder ``ENTRANT/NAME`` of a remote's default branch is an entry. Nothing is checked out.

An upload is named ``NAME-TREE`` by the hash of the folder's tree, so the entries and the mailbox tell what was pulled
already, and a changed folder is another entry. Who may push to which folder is a matter of the remote.
"""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path

from a2perf.errors import UserError
from a2perf.stranger_files import printable
from a2perf_competition.archive import git
from a2perf_competition.entrants import PLAIN_NAME

PULL_S = 60.0
"""Time between two pulls, and the longest one, in seconds."""
_DIGITS = 12


def pull(folder: Path, remote: str, known: Container[tuple[str, str]]) -> dict[str, str]:
    """Fetches a remote and puts its new entries into the mailbox of a host.

    Args:
        known: entrant and name of each entry that the host has.

    Returns:
        What is wrong, by the path in the remote.
    """
    try:
        return _pull(folder, remote, known)
    except UserError as error:
        return {"git": printable(error.message)}


def _pull(folder: Path, remote: str, known: Container[tuple[str, str]]) -> dict[str, str]:
    clone, problems = folder / "remote.git", {}
    if not (clone / "HEAD").exists():
        clone.mkdir(exist_ok=True)
        git(clone, "init", "--quiet", "--bare")
    git(clone, "fetch", "--quiet", "--depth=1", "--no-tags", "--", remote, "+HEAD:refs/heads/pulled", wall_s=PULL_S)
    for line in filter(None, git(clone, "ls-tree", "-dr", "-z", "pulled", wall_s=PULL_S).split("\0")):
        about, _, path = line.partition("\t")
        entrant, _, name = path.partition("/")
        if not name or "/" in name:
            continue
        upload = f"{name}-{about.split()[2][:_DIGITS]}"
        target = folder / "inbox" / entrant / f"{upload}.tar"
        if not (PLAIN_NAME.fullmatch(entrant) and PLAIN_NAME.fullmatch(upload)):
            problems[printable(path)] = "not a plain name of an entrant or of an entry"
        elif (entrant, upload) not in known and not target.exists():
            target.parent.mkdir(exist_ok=True)
            part = target.with_name(f".{upload}.part")
            git(clone, "archive", "--format=tar", f"--output={part}", f"pulled:{path}", wall_s=PULL_S)
            os.rename(part, target)
    return problems
