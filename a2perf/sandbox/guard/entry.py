"""What the guard's child does before it runs bubblewrap: changes its id, mounts the stage and sets bounds.

If the evaluator is root, the child takes a host id that owns nothing; ``stage`` makes its files readable and writable.
In a private user namespace the kernel counts its processes, signals, inotify instances and namespaces separately from
those of the evaluator's user (``user_namespaces(7)``, ``namespaces(7)``, ``getrlimit(2)``).
"""

from __future__ import annotations

import os
import resource

from . import kernel, stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SYSCTLS = {
    "max_inotify_instances": 16,
    "max_inotify_watches": 32768,
    "max_fanotify_groups": 0,
    "max_user_namespaces": 4,
}
"""Bounds of the user namespace, in ``/proc/sys/user``. bubblewrap itself needs a few user namespaces."""

RLIMITS = {
    "RLIMIT_NOFILE": 8192,
    "RLIMIT_SIGPENDING": 4096,  # also bounds the POSIX timers
    "RLIMIT_MSGQUEUE": 819200,
    "RLIMIT_MEMLOCK": 64 * 1024 * 1024,
}
"""Bounds at every level except 'none', as far as the system has them; a lower bound of the evaluator stays."""

_PR_SET_DUMPABLE = 4
_COUNTS_PER_NAMESPACE = (5, 14)
"""Since this version of Linux RLIMIT_NPROC counts processes per user namespace; before, all of the user's count."""


def enter(entry: dict[str, Any]) -> None:
    """Separates the calling process from the host's users and mounts.

    Args:
        entry: ``uid``: host id to take, ``None`` to keep the evaluator's; ``places``: see ``stage.build``; ``tasks``:
            most processes and threads, or ``None``.

    Raises:
        OSError: the kernel refused a necessary step; ``filename`` names it.
    """
    # A fork of the guard is not dumpable. Then root owns /proc/self/uid_map, and an ordinary user could not write it.
    kernel.prctl(_PR_SET_DUMPABLE, 1)
    uid, gid = os.geteuid(), os.getegid()
    if entry["uid"] is None:
        _own_users(kernel.NEWUSER | kernel.NEWNS, uid, gid)
        stage.build(entry["places"], None)
    else:
        uid = gid = entry["uid"]
        kernel.unshare(kernel.NEWNS)
        stage.build(entry["places"], uid)
        for descriptor in (1, 2):
            os.fchown(descriptor, uid, gid)  # a program may reopen these pipes as /dev/stdout and /dev/stderr
        # In this order: after the change of the user id the process may not change its groups any more.
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        kernel.prctl(_PR_SET_DUMPABLE, 1)  # the kernel clears it when the id changes
    if entry["tasks"] is not None and _release() >= _COUNTS_PER_NAMESPACE:
        _lower(resource.RLIMIT_NPROC, entry["tasks"])
    # The limit above and the settings below bound a namespace as a whole, and this one holds only the participant.
    _own_users(kernel.NEWUSER, uid, gid)
    for name, most in SYSCTLS.items():
        try:
            with open(f"/proc/sys/user/{name}", "r+") as file:
                before = int(file.read())
                # The kernel ignores a number that is not written at position 0.
                file.seek(0)
                file.write(str(min(most, before)))
        except OSError:
            pass  # an older kernel does not count this


def bound_resources() -> None:
    """Lowers the limits in ``RLIMITS``."""
    for name, most in RLIMITS.items():
        if hasattr(resource, name):
            _lower(getattr(resource, name), most)


def _own_users(flags: int, uid: int, gid: int) -> None:
    """Creates a user namespace that maps only the caller's own ids, unchanged."""
    kernel.unshare(flags)
    # An ordinary user may write gid_map only after setgroups has been denied.
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _lower(kind: int, most: int) -> None:
    soft, hard = (most if value == resource.RLIM_INFINITY else min(most, value) for value in resource.getrlimit(kind))
    resource.setrlimit(kind, (soft, hard))


def _release() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
