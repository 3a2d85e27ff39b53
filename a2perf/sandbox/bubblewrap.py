"""The level 'bubblewrap': the guard starts ``bwrap``, which starts the participant.

The participant gets private namespaces for users, processes, mounts, network, System V objects, host name and control
groups; a file system with only what ``view`` lists; no capabilities; and a system-call filter. Guard, limits and output
capture are those of the level 'process'. ``bwrap`` passes inherited descriptors through, so the wire is the same too.
"""

from __future__ import annotations

import marshal
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from a2perf.errors import InfrastructureError
from a2perf.sandbox import host_id, seccomp, view
from a2perf.sandbox.guard.entry import SYSCTLS
from a2perf.sandbox.guard.stage import STAGE
from a2perf.sandbox.interface import Confined, Limits, SandboxSpec
from a2perf.sandbox.limits import most_tasks
from a2perf.sandbox.process import GUARANTEES_OF_LIMITS, GUARD_FOLDER, LIFECYCLE, ProcessSandbox, pinned_guarantee
from a2perf.system import LINUX

PROBE_TIMEOUT_S = 30.0
PROBE_TRIES = 3
"""A probe that was killed by a signal is repeated: otherwise the default would silently become a weaker level."""

OWN_PROCESSES = 2
"""bubblewrap itself, outside and inside the new process namespace."""

HINT = "apt-get install bubblewrap, and allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"

_GUARANTEES = (
    *view.GUARANTEES,
    "it sees, signals and traces only its own processes",
    "no capabilities, no new privileges, and no changes to the host's device files",
    "refused system calls: tracing, mounts, namespaces, keys, kernel programs, the host's clock, leases, set-user-ID"
    " modes, System V objects, and sockets other than Unix and Internet ones",
    f"limits on inotify instances ({SYSCTLS['max_inotify_instances']}) and watches, open files, pending signals,"
    " timers, locked memory and message queues, counted apart from the evaluator's user",
)
_OWN_ID = (
    f"it is user {view.USER_ID} inside; on the host it has an id drawn for this run, which owns nothing"
    f" ({host_id.RANGE.start} to {host_id.RANGE.stop - 1}; in small containers {host_id.SMALL_RANGE.start} to"
    f" {host_id.SMALL_RANGE.stop - 1})"
)
_SAME_ID = f"it is user {view.USER_ID} inside; on the host it has the id of the evaluator's user"
_OVERLAYS = "its locks and watches on read-only files do not reach the host's files, except in folders that hold mounts"
_NO_OVERLAYS = "locks on the host's files that it may read (no overlay file systems here)"
_SHARES_ID = "using up pipe memory, which the kernel counts together with that of the evaluator's user"
_IS_ROOT = "acting as root of the evaluator's container, which has no other id to give"
_SECRETS = ("keys", "key-users", "timer_list", "kcore")
_COUNTERS = (
    "buddyinfo",
    "cgroups",
    "diskstats",
    "interrupts",
    "pagetypeinfo",
    "schedstat",
    "slabinfo",
    "softirqs",
    "swaps",
    "vmstat",
    "zoneinfo",
)
"""Files of ``/proc`` that count for the whole host."""

_MISSING = (
    "messages through counters of the kernel that all processes share (inode and socket numbers, free memory)",
    "using up pseudo-terminals, which the kernel counts for all participants together (the host keeps a reserve)",
    "escape through a kernel bug",
)


def why_unavailable() -> str | None:
    """Returns why this host cannot offer the level, or ``None``. The first call starts a program to find out."""
    if not LINUX:
        return "it needs Linux"
    program = shutil.which("bwrap")
    if program is None:
        return "the program bwrap is not on PATH"
    if not seccomp.supported():
        return f"no system-call filter for the processor {platform.machine()}"
    return _probe(program).refusal or None


@dataclass(frozen=True)
class _Probe:
    """Result of a trial start.

    Attributes:
        refusal: why it failed; empty on success.
        overlays: whether the kernel allows overlays, which keep locks away from the host's files.
    """

    refusal: str
    overlays: bool = False


@cache
def _probe(program: str) -> _Probe:
    """Starts ``/bin/true`` in the way in which a participant is started."""
    entry = {"uid": host_id.draw(), "places": [("0", "read", "/usr", True)], "tasks": None}
    argv = [program, *_NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "/bin/true"]
    code = (
        "import sys, os, marshal; sys.path.append(sys.argv[1]); from guard import entry, stage;"
        " values, argv = marshal.loads(bytes.fromhex(sys.argv[2])); entry.enter(values);"
        " print('overlay', 'overlay ' + stage.STAGE in open('/proc/self/mounts').read(), flush=True);"
        " os.execve(argv[0], argv, {})"
    )
    text = marshal.dumps((entry, argv)).hex()
    try:
        for _ in range(PROBE_TRIES):
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", code, str(GUARD_FOLDER), text],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PROBE_TIMEOUT_S,
                check=False,
            )
            if done.returncode >= 0:  # negative: a signal ended it, which says nothing about the host
                break
    except (OSError, subprocess.TimeoutExpired) as error:
        return _Probe(f"bwrap could not be started: {error}")
    if done.returncode != 0:
        return _Probe(f"bwrap cannot create namespaces here: {done.stderr.strip()[-200:]}")
    return _Probe("", "overlay True" in done.stdout)


_NAMESPACES = (
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--hostname",
    view.HOST_NAME,
    "--uid",
    str(view.USER_ID),
    "--gid",
    str(view.USER_ID),
)


class BubblewrapSandbox:
    """Starts a child in private namespaces."""

    level = "bubblewrap"

    def __init__(self) -> None:
        self._inner = ProcessSandbox(confined=True, own_processes=OWN_PROCESSES, hides_signals=True)

    def guarantees(self, *, network: bool = False) -> list[str]:
        """Returns what the level enforces."""
        identity = _SAME_ID if host_id.draw() is None else _OWN_ID
        kept_apart = (_OVERLAYS,) if self._has_overlays() else ()
        alone = () if network else (view.NO_NETWORK,)
        return [
            *LIFECYCLE,
            identity,
            *_GUARANTEES,
            *kept_apart,
            *alone,
            *GUARANTEES_OF_LIMITS,
            *pinned_guarantee(),
            *self._inner.grouped_guarantees(),
        ]

    def missing(self, *, network: bool = False) -> list[str]:
        """Returns what the level does not prevent."""
        reaches = ("using the network, which the configuration allows",) if network else ()
        shares = () if host_id.draw() is not None else (_SHARES_ID if os.geteuid() else _IS_ROOT,)
        locks = () if self._has_overlays() else (_NO_OVERLAYS,)
        return [*reaches, *shares, *locks, *_MISSING, *self._inner.uncounted()]

    def _has_overlays(self) -> bool:
        program = shutil.which("bwrap")
        return program is not None and _probe(program).overlays

    def unenforceable(self, limits: Limits) -> list[str]:
        """Returns which limits this host cannot enforce."""
        return self._inner.unenforceable(limits)

    def start(self, spec: SandboxSpec) -> Confined:
        """Starts the program.

        Raises:
            InfrastructureError: bubblewrap, the program or a path that it has to see is missing.
        """
        program = shutil.which("bwrap")
        if program is None:
            raise InfrastructureError("the program bwrap is not on PATH", hint=HINT)
        if not os.access(spec.argv[0], os.X_OK):
            raise InfrastructureError(f"{spec.argv[0]} could not be started: it is not an executable file")
        if not spec.cwd.is_dir():
            raise InfrastructureError(f"{spec.argv[0]} could not be started: {spec.cwd} is not a folder")
        opened: list[int] = []
        try:
            try:
                shown = view.places(spec)
                uid = host_id.draw()
                entry = _entry(spec, shown, uid)
                options = arguments(spec, shown, uid, opened)
            except FileNotFoundError as error:
                raise InfrastructureError(f"{error.filename} does not exist; the participant has to see it") from error
            # A memory file: the options hold the participant's environment and can exceed the kernel's limit on argv.
            listing = _memory_file("a2perf-arguments", b"".join(os.fsencode(word) + b"\0" for word in options))
            opened.append(listing)
            inner = replace(
                spec,
                argv=(program, "--args", str(listing), "--", *spec.argv),
                cwd=Path("/"),  # bwrap changes to the participant's folder, which its id may not reach outside
                env={},  # the participant's environment is among the options
                fds=(*spec.fds, *opened),
            )
            return self._inner.start(inner, entry)
        finally:
            for descriptor in opened:
                os.close(descriptor)


def _entry(spec: SandboxSpec, shown: list[view.VisiblePath], uid: int | None) -> dict[str, object]:
    """Returns the argument of ``guard.entry.enter``, which runs before bubblewrap.

    Raises:
        InfrastructureError: a device file belongs to the evaluator's user, and the participant has the same id.
    """
    for place in shown if uid is None else ():
        if place.kind == "device" and os.stat(place.source).st_uid == os.geteuid():
            raise InfrastructureError(
                f"{place.source} belongs to the evaluator's user: the participant could change its mode",
                hint=f"chown root {place.source}, with a group or a mode that lets this user open it",
            )
    system = (*view.SYSTEM, *view.NETWORK, *view.DEVICES, *view.SHORTCUTS)
    tasks = spec.limits.processes
    return {
        "uid": uid,
        "places": [
            (str(number), place.kind, place.source, place.path in system)
            for number, place in enumerate(shown)
            if _is_staged(place, uid)
        ],
        "tasks": None if tasks is None else most_tasks(tasks) + OWN_PROCESSES,
    }


def _is_staged(place: view.VisiblePath, uid: int | None) -> bool:
    """Returns whether ``guard.stage`` prepares the place before bubblewrap binds it."""
    if place.kind == "device":
        return uid is not None
    return place.kind in ("read", "write") and not place.source.startswith("/sys/")


def arguments(spec: SandboxSpec, shown: list[view.VisiblePath], uid: int | None, opened: list[int]) -> list[str]:
    """Returns bubblewrap's options; descriptors that they refer to are appended to ``opened``.

    Args:
        uid: its id on the host, ``None`` for the evaluator's.
    """
    options = [*_NAMESPACES]
    if spec.network:
        options.append("--share-net")
    options += ["--proc", "/proc", *_kernel_files(spec.limits, opened), "--dev", "/dev"]
    for number, place in enumerate(shown):
        staged = replace(place, source=f"{STAGE}/{number}") if _is_staged(place, uid) else place
        options += _of_place(staged, opened)
    # Last: bubblewrap has to create mount points in both before they become read-only.
    options += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(spec.cwd), "--clearenv"]
    for name, value in spec.env.items():
        options += ["--setenv", name, value]
    filter_file = _memory_file("a2perf-filter", seccomp.program(pinned=seccomp.processors_are_restricted()))
    opened.append(filter_file)
    return [*options, "--seccomp", str(filter_file)]


def _kernel_files(limits: Limits, opened: list[int]) -> Iterator[str]:
    """Yields options that protect the parts of ``/proc`` that root can change, that only root may read, or that count.

    Counters of the whole host carry messages between processes that share nothing else. Those that programs read at
    their start are replaced by a constant text, all others are empty.

    In a container with a single id the participant has root's id, and the kernel lets root write its settings even
    without capabilities. bubblewrap itself leaves such folders writable in that case.
    """
    texts = _constant_texts(limits)
    for entry in sorted(os.scandir("/proc"), key=lambda entry: entry.name):
        if entry.name.isdigit() or entry.is_symlink():
            continue
        if entry.name in texts:
            file = _memory_file("a2perf-text", texts[entry.name].encode())
            opened.append(file)
            yield from ("--perms", "0444", "--ro-bind-data", str(file), entry.path)
        elif entry.name == "pressure":
            yield from ("--tmpfs", entry.path, "--remount-ro", entry.path)
        elif entry.is_dir():
            yield from ("--ro-bind", entry.path, entry.path)
        elif entry.name in (*_SECRETS, *_COUNTERS) or entry.stat().st_mode & 0o222 or not entry.stat().st_mode & 0o004:
            yield from ("--ro-bind", os.devnull, entry.path)


def _constant_texts(limits: Limits) -> dict[str, str]:
    """Returns the content of files of ``/proc`` that counts nothing, by name."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    kib = min(memory, limits.memory_bytes or memory) // 1024
    meminfo = {"MemTotal": kib, "MemFree": kib, "MemAvailable": kib} | dict.fromkeys(
        ("Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal", "SwapFree", "Shmem", "Slab"), 0
    )
    processors = ["cpu", *(f"cpu{number}" for number in sorted(os.sched_getaffinity(0)))]
    started = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    return {
        "meminfo": "".join(f"{name + ':':<16}{value:>8} kB\n" for name, value in meminfo.items()),
        "stat": "".join(f"{name} {' '.join('0' * 10)}\n" for name in processors)
        + f"intr 0\nctxt 0\n{started}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\nsoftirq 0\n",
        "loadavg": "0.00 0.00 0.00 1/1 1\n",
    }


def _of_place(place: view.VisiblePath, opened: list[int]) -> Iterable[str]:
    if place.kind == "text":
        file = _memory_file("a2perf-text", place.source.encode())
        opened.append(file)
        return ("--perms", "0444", "--ro-bind-data", str(file), place.path)
    return {
        "read": ("--ro-bind", place.source, place.path),
        "write": ("--bind", place.source, place.path),
        "device": ("--dev-bind", place.source, place.path),
        "folder": ("--dir", place.path),
        "link": ("--symlink", place.source, place.path),
        "tmpfs": ("--size", str(max(4096, place.size)), "--tmpfs", place.path),
        "nothing": ("--ro-bind", os.devnull, place.path),
    }[place.kind]


def _memory_file(name: str, content: bytes) -> int:
    descriptor = os.memfd_create(name)
    os.write(descriptor, content)
    # bubblewrap inherits the open file with its position and would read nothing from the end.
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
