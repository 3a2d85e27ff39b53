"""The user id on the host that a participant gets if the evaluator is root.

Each run draws its own: the kernel decides per id who may signal, trace and lock, and counts resources per id. A drawn
id separates participants from the host and from each other. No account, container tool or directory service of a common
Linux system uses the range (systemd's ``UIDS-GIDS`` lists it as unused). A container with few ids uses a small range.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

RANGE = range(0x70000000, 0x80000000)
SMALL_RANGE = range(60706, 61184)


def draw() -> int | None:
    """Returns an id, or ``None`` if the evaluator is not root or its container maps no other id."""
    if os.geteuid() != 0:
        return None
    maps = [Path("/proc/self", name).read_text() for name in ("uid_map", "gid_map")]
    for ids in (RANGE, SMALL_RANGE):
        if all(_covers(text.splitlines(), ids) for text in maps):
            return ids.start + secrets.randbelow(len(ids))
    return None


def _covers(lines: Iterable[str], ids: range) -> bool:
    """Returns whether one line of an id map (``user_namespaces(7)``) covers all of ``ids``."""
    for line in lines:
        first, _, count = map(int, line.split())
        if first <= ids.start and ids.stop <= first + count:
            return True
    return False
