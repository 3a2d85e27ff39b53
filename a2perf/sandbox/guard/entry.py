"""What the guard's child does before its program runs: it takes an id, mounts and bounds of its own.

Where the evaluator is root, the child becomes an id of the host that owns nothing, see ``stage`` for what it reads and
writes then. In a user namespace of its own the kernel counts its processes, signals, inotify instances and namespaces
apart from those of the evaluator's user (``user_namespaces(7)``, ``namespaces(7)``, ``getrlimit(2)``).
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
"""Bounds of the user namespace, below ``/proc/sys/user``; bubblewrap needs the namespaces."""

RLIMITS = {
    resource.RLIMIT_NOFILE: 8192,
    resource.RLIMIT_SIGPENDING: 4096,  # also bounds the POSIX timers
    resource.RLIMIT_MSGQUEUE: 819200,
    resource.RLIMIT_MEMLOCK: 64 * 1024 * 1024,
}
"""Bounds at every level that confines; a lower bound of the evaluator stays."""

_PR_SET_DUMPABLE = 4
_COUNTS_PER_NAMESPACE = (5, 14)
"""Since this Linux RLIMIT_NPROC counts the processes of the namespace and not all of the user."""


def enter(entry: dict[str, Any]) -> None:
    """Makes the calling process a stranger to its host.

    Args:
        entry: ``uid``: the host's id to become, ``None``: it stays the evaluator's; ``places``: see ``stage.build``;
            ``tasks``: most processes and threads, or ``None``.

    Raises:
        OSError: the kernel refused a step that nothing can replace; ``filename`` names it.
    """
    kernel.prctl(_PR_SET_DUMPABLE, 1)  # else root owns the files in /proc that take the maps
    uid, gid = os.geteuid(), os.getegid()
    if entry["uid"] is None:
        _own_users(kernel.NEWUSER | kernel.NEWNS, uid, gid)
        stage.build(entry["places"], None)
    else:
        uid = gid = entry["uid"]
        kernel.unshare(kernel.NEWNS)
        stage.build(entry["places"], uid)
        for descriptor in (1, 2):
            os.fchown(descriptor, uid, gid)  # pipes, which a program may open again as /dev/stdout
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        kernel.prctl(_PR_SET_DUMPABLE, 1)
    if entry["tasks"] is not None and _release() >= _COUNTS_PER_NAMESPACE:
        _lower(resource.RLIMIT_NPROC, entry["tasks"])
    _own_users(kernel.NEWUSER, uid, gid)
    for name, most in SYSCTLS.items():
        try:
            with open(f"/proc/sys/user/{name}", "r+") as file:
                before = int(file.read())
                file.seek(0)
                file.write(str(min(most, before)))
        except OSError:
            pass  # an older kernel does not count this


def bound_resources() -> None:
    """Lowers the limits in ``RLIMITS``."""
    for kind, most in RLIMITS.items():
        _lower(kind, most)


def _own_users(flags: int, uid: int, gid: int) -> None:
    """Makes a user namespace in which the own ids mean what they meant before."""
    kernel.unshare(flags)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _lower(kind: int, most: int) -> None:
    soft, hard = (most if value == resource.RLIM_INFINITY else min(most, value) for value in resource.getrlimit(kind))
    resource.setrlimit(kind, (soft, hard))


def _release() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
