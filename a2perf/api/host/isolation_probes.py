"""Probes of the sandbox for ``a2perf doctor``: each level, and the kernel features that it needs."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from a2perf.api.host.finding import Finding, output_of, version_of, versioned
from a2perf.sandbox import get_sandbox, hint_of, limits, seccomp, strongest_level, task_clock, why_unavailable
from a2perf.sandbox import levels as sandbox_levels
from a2perf.sandbox import problems as sandbox_problems
from a2perf.system import LINUX

SECTION = "isolation"
_LANDLOCK_CREATE_RULESET = 444
_MOUNTS = Path("/proc/self/mountinfo")
_OWN_GROUP = (
    "run as root, or in a delegated control group: systemd-run --user --scope -p Delegate=yes a2perf-launch ..."
)


def levels() -> Iterator[Finding]:
    """Each level: whether this host offers it, why not, and what it does not prevent."""
    default = strongest_level()
    for name in sandbox_levels():
        reason = why_unavailable(name)
        if reason is None:
            sandbox = get_sandbox(name)
            detail = f"{len(sandbox.guarantees())} guarantees. Not prevented: {'; '.join(sandbox.missing())}"
            detail = f"the default here; {detail}" if name == default else detail
        else:
            detail = reason
        yield Finding(
            SECTION, f"level {name}", reason is None, detail, f"runs with --sandbox {name}", reason and hint_of(name)
        )
    for name, problem in sandbox_problems().items():
        yield Finding(SECTION, f"level {name}", False, problem, f"runs with --sandbox {name}")


def namespaces() -> Iterator[Finding]:
    """bubblewrap, user namespaces, the system-call filter and Landlock."""
    purpose = "running submissions without network and with a read-only system"
    hint = "apt-get install bubblewrap"
    yield versioned(SECTION, "bubblewrap", version_of(("bwrap",)), purpose, hint, absent="not on PATH")
    reason = _no_user_namespaces()
    hint = "sysctl kernel.unprivileged_userns_clone=1 (or the container's seccomp profile)"
    purpose = "bubblewrap, and the sandbox of browsers"
    yield Finding(SECTION, "user namespaces", reason is None, reason or "open", purpose, hint)
    known = seccomp.supported()
    detail = f"refuses {len(seccomp.REFUSED)} calls" if known else f"none for {platform.machine()}"
    purpose = "refusing tracing, mounts, namespaces, keys and kernel programs to submissions"
    yield Finding(SECTION, "system-call filter", known, detail, purpose)
    landlock = ctypes.CDLL(None).syscall(_LANDLOCK_CREATE_RULESET, None, 0, 1) if LINUX else -1
    detail = f"version {landlock} of its interface (not used)" if landlock > 0 else "not in this kernel (not used)"
    yield Finding(SECTION, "Landlock", landlock > 0, detail)


def groups() -> Iterator[Finding]:
    """Control groups: their version, and the limits that they enforce here."""
    if not _MOUNTS.exists():
        return
    where = limits.place()
    held = sorted(where.enforces)
    mounted = sorted({line.partition(" - ")[2].split()[0] for line in _MOUNTS.read_text().splitlines()})
    versions = [number for number, kind in (("1", "cgroup"), ("2", "cgroup2")) if kind in mounted]
    if not versions:
        detail = "not mounted"
    else:
        detail = f"version {' and '.join(versions)}; this user may limit: {', '.join(held) or 'nothing'}"
    purpose = "limits of memory, processes and processors that a submission cannot escape; exact processor time"
    yield Finding(SECTION, "control groups", bool(held), detail, purpose, _OWN_GROUP)


def accounts() -> Iterator[Finding]:
    """Limits on a whole process tree, and how its processor time is counted."""
    if not LINUX:
        return
    where = limits.place()
    bounded = "memory_bytes" in where.enforces
    detail = "the kernel limits single processes only; a limit on the tree is refused"
    if bounded:
        detail = "bounded by the kernel, with shared memory, tmpfs and buffers"
    hint = f"{_OWN_GROUP}; or accept less with --allow-weaker"
    yield Finding(SECTION, "memory of a whole tree", bounded, detail, "reliable memory limits", hint)
    detail = "the kernel limits each file; all files are counted, including unnamed ones, and again at the end"
    yield Finding(SECTION, "artifacts of a whole tree", True, detail)
    counted = "cpuacct" in where.parents or (where.version == 2 and bool(where.parents))
    reason = task_clock.why_unavailable()
    if counted:
        detail = "counted by a control group"
    elif reason is None:
        detail = "counted by the kernel's clock, except for programs without read permission"
    else:
        detail = f"sampled: children that are not waited for are missed ({reason})"
    hint = f"{_OWN_GROUP}; or {task_clock.HINT}"
    is_exact = counted or reason is None
    yield Finding(SECTION, "processor time of a whole tree", is_exact, detail, "exact processor time and energy", hint)


def _no_user_namespaces() -> str | None:
    """Returns why user namespaces are not available, or None; tries to create one."""
    if not LINUX:
        return "Linux only"
    if not os.path.exists("/proc/self/ns/user"):
        return "not in this kernel"
    if version_of(("unshare",)) is None:
        return "unknown: the program unshare is missing"
    return None if output_of(["unshare", "--user", "true"]) is not None else "refused by the kernel"
