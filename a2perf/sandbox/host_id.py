"""The id of the host that a participant has where the evaluator is root.

Drawn per run, so that participants are strangers to the host and to each other: the kernel counts, and lets signal,
trace and lock, per id. No account, container tool or directory service of a common Linux system uses the range
(systemd's ``UIDS-GIDS`` lists it as unused). A container with few ids of its own uses a small one instead.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

RANGE = range(0x70000000, 0x80000000)
SMALL_RANGE = range(60706, 61184)


def draw() -> int | None:
    """Returns an id, or ``None`` where the evaluator is not root or a container gives it no other id."""
    if os.geteuid() != 0:
        return None
    maps = [Path("/proc/self", name).read_text() for name in ("uid_map", "gid_map")]
    for ids in (RANGE, SMALL_RANGE):
        if all(_covers(text.splitlines(), ids) for text in maps):
            return ids.start + secrets.randbelow(len(ids))
    return None


def _covers(lines: Iterable[str], ids: range) -> bool:
    """Returns whether one line of a map of ids (``user_namespaces(7)``) has all of them."""
    for line in lines:
        first, _, count = map(int, line.split())
        if first <= ids.start and ids.stop <= first + count:
            return True
    return False
