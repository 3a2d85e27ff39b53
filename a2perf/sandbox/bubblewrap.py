"""The level 'bubblewrap': the program of the same name around the child, between it and the guard.

Namespaces of its own for users, processes, mounts, network, System V objects, host name and control groups; a file
system that holds only what ``view`` lists; no capability; a system-call filter. The guard, the limits and the captured
output are those of the level 'process', and inherited descriptors pass through, so the transport is the same.
"""

from __future__ import annotations

import marshal
import os
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

PROBE_TIMEOUT_S = 30.0
PROBE_TRIES = 3
"""A probe that somebody killed must not make the level seem absent: the default would be a weaker one."""

OWN_PROCESSES = 2
"""bubblewrap itself, outside and inside the new process namespace."""

HINT = "apt-get install bubblewrap, and allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"

_GUARANTEES = (
    "it sees the system, its interpreter and the submission read-only, its artefact folder, and nothing else of the"
    " host's files",
    "/tmp and /dev/shm are its own, of a limited size, and end with it",
    "it sees, signals and traces only its own processes",
    "it has neither capabilities nor new privileges, and its device files are not the host's to change",
    "system calls for tracing, mounts, namespaces, keys, kernel programs, the host's clock, leases, set-user-ID modes"
    " and System V objects are refused, and sockets that are neither Unix nor Internet ones",
    f"inotify instances ({SYSCTLS['max_inotify_instances']}) and watches, open files, pending signals, timers, locked"
    " memory and message queues are bounded apart from those of the evaluator's user",
)
_OWN_ID = (
    f"it is user {view.USER_ID} inside and on the host an id drawn for this run, which owns nothing there"
    f" ({host_id.RANGE.start} to {host_id.RANGE.stop - 1}, in small containers {host_id.SMALL_RANGE.start} to"
    f" {host_id.SMALL_RANGE.stop - 1})"
)
_SAME_ID = f"it is user {view.USER_ID} inside, which is the evaluator's user on the host"
_OVERLAYS = (
    "locks and watches on what it may only read do not reach the host's files, except in a folder with further mounts"
)
_NO_OVERLAYS = "its locks on files that it may only read reach the host's files (no overlay file systems here)"
_SHARES_ID = (
    "what the kernel counts per user without a bound of its own (memory of pipes) it shares with the evaluator's user"
)
_IS_ROOT = "it is root of the evaluator's container, which has no other id to give"
_SECRETS = ("keys", "key-users", "timer_list", "kcore")
_NO_NETWORK = "no network but a loopback of its own"
_MISSING = (
    "pseudo-terminals are counted for all participants of a host together (the host keeps a reserve)",
    "a fault of the kernel can let it out",
)


def why_unavailable() -> str | None:
    """Returns why this host cannot offer the level, or ``None``; it starts a program once to find out."""
    program = shutil.which("bwrap")
    if program is None:
        return "there is no bwrap program on PATH"
    if not seccomp.supported():
        return "there is no system-call filter for this processor"
    return _probe(program).refusal or None


@dataclass(frozen=True)
class _Probe:
    """What a start on this host found.

    Attributes:
        refusal: why it failed; empty where it did not.
        overlays: whether the kernel offered overlays, which keep locks apart from the host's files.
    """

    refusal: str
    overlays: bool = False


@cache
def _probe(program: str) -> _Probe:
    """Starts a program once as a participant is started."""
    entry = {"uid": host_id.draw(), "places": [("0", "read", "/usr", True)], "tasks": None}
    words = [program, *_NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "/bin/true"]
    code = (
        "import sys, os, marshal; sys.path.append(sys.argv[1]); from guard import entry, stage;"
        " values, words = marshal.loads(bytes.fromhex(sys.argv[2])); entry.enter(values);"
        " print('overlay', 'overlay ' + stage.STAGE in open('/proc/self/mounts').read(), flush=True);"
        " os.execve(words[0], words, {})"
    )
    text = marshal.dumps((entry, words)).hex()
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
            if done.returncode >= 0:
                break
    except (OSError, subprocess.TimeoutExpired) as error:
        return _Probe(f"bwrap could not be run: {error}")
    if done.returncode != 0:
        return _Probe(f"bwrap cannot make namespaces here: {done.stderr.strip()[-200:]}")
    return _Probe("", "overlay True" in done.stdout)


_NAMESPACES = (
    "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "a2perf",
    "--uid", str(view.USER_ID), "--gid", str(view.USER_ID),
)  # fmt: skip


class BubblewrapSandbox:
    """Starts a child in namespaces of its own."""

    level = "bubblewrap"

    def __init__(self) -> None:
        self._inner = ProcessSandbox(confined=True, own_processes=OWN_PROCESSES, hides_signals=True)

    def guarantees(self, *, network: bool = False) -> list[str]:
        """Says what holds at this level."""
        identity = _SAME_ID if host_id.draw() is None else _OWN_ID
        kept_apart = (_OVERLAYS,) if self._has_overlays() else ()
        alone = () if network else (_NO_NETWORK,)
        return [
            *LIFECYCLE, identity, *_GUARANTEES, *kept_apart, *alone, *GUARANTEES_OF_LIMITS, *pinned_guarantee(),
            *self._inner.grouped_guarantees(),
        ]  # fmt: skip

    def missing(self, *, network: bool = False) -> list[str]:
        """Says what a participant can still do."""
        reaches = ("it reaches the network, as it was allowed to",) if network else ()
        shares = () if host_id.draw() is not None else (_SHARES_ID if os.geteuid() else _IS_ROOT,)
        locks = () if self._has_overlays() else (_NO_OVERLAYS,)
        return [*reaches, *shares, *locks, *_MISSING, *self._inner.uncounted()]

    def _has_overlays(self) -> bool:
        program = shutil.which("bwrap")
        return program is not None and _probe(program).overlays

    def unenforceable(self, limits: Limits) -> list[str]:
        """Says which limits this host cannot enforce."""
        return self._inner.unenforceable(limits)

    def start(self, spec: SandboxSpec) -> Confined:
        """Starts the program.

        Raises:
            InfrastructureError: bubblewrap, the program or a path that it shall see is missing.
        """
        program = shutil.which("bwrap")
        if program is None:
            raise InfrastructureError("there is no bwrap program on PATH", hint=HINT)
        if not os.access(spec.argv[0], os.X_OK):
            raise InfrastructureError(f"{spec.argv[0]} could not be started in {spec.cwd}: it is not a program")
        if not spec.cwd.is_dir():
            raise InfrastructureError(f"{spec.argv[0]} could not be started in {spec.cwd}: it is not a folder")
        opened: list[int] = []
        try:
            try:
                shown = view.places(spec)
                uid = host_id.draw()
                entry = _entry(spec, shown, uid)
                words = arguments(spec, shown, uid, opened)
            except FileNotFoundError as error:
                raise InfrastructureError(f"{error.filename} does not exist; the participant has to see it") from error
            listing = _memory_file("a2perf-arguments", b"".join(os.fsencode(word) + b"\0" for word in words))
            opened.append(listing)
            inner = replace(
                spec,
                argv=(program, "--args", str(listing), "--", *spec.argv),
                cwd=Path("/"),  # bubblewrap changes to the participant's, which its id may not reach outside
                env={},  # the participant's own is among the arguments
                fds=(*spec.fds, *opened),
            )
            return self._inner.start(inner, entry)
        finally:
            for descriptor in opened:
                os.close(descriptor)


def _entry(spec: SandboxSpec, shown: list[view.VisiblePath], uid: int | None) -> dict[str, object]:
    """Returns what ``guard.entry`` does before bubblewrap runs.

    Raises:
        InfrastructureError: a device file belongs to the evaluator's user, and so to the participant too.
    """
    for place in shown if uid is None else ():
        if place.kind == "device" and os.stat(place.source).st_uid == os.geteuid():
            raise InfrastructureError(
                f"{place.source} belongs to the evaluator's user, so that the participant could change its mode",
                hint="give the device file to root, with a group or a mode that lets this user open it",
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
    """Returns whether ``guard.stage`` puts up what bubblewrap binds."""
    if place.kind == "device":
        return uid is not None
    return place.kind in ("read", "write") and not place.source.startswith("/sys/")


def arguments(spec: SandboxSpec, shown: list[view.VisiblePath], uid: int | None, opened: list[int]) -> list[str]:
    """Returns bubblewrap's arguments; descriptors that they name are added to ``opened``.

    Args:
        spec: the program and its bounds.
        shown: the places that it sees.
        uid: the host's id that it gets, ``None`` for the evaluator's.
        opened: gets the descriptors.
    """
    words = [*_NAMESPACES]
    if spec.network:
        words.append("--share-net")
    words += ["--proc", "/proc", *_kernel_files(), "--dev", "/dev"]
    for number, place in enumerate(shown):
        staged = replace(place, source=f"{STAGE}/{number}") if _is_staged(place, uid) else place
        words += _of_place(staged, opened)
    words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(spec.cwd), "--clearenv"]
    for name, value in spec.env.items():
        words += ["--setenv", name, value]
    filter_file = _memory_file("a2perf-filter", seccomp.program(pinned=seccomp.processors_are_restricted()))
    opened.append(filter_file)
    return [*words, "--seccomp", str(filter_file)]


def _kernel_files() -> Iterator[str]:
    """Yields arguments that take from ``/proc`` what root could change or is alone to read.

    In a container with a single id the participant has root's, and the kernel lets root write its settings even without
    any capability. bubblewrap itself leaves such folders writable in that case.
    """
    for entry in sorted(os.scandir("/proc"), key=lambda entry: entry.name):
        if entry.name.isdigit() or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from ("--ro-bind", entry.path, entry.path)
        elif entry.name in _SECRETS or entry.stat().st_mode & 0o222 or not entry.stat().st_mode & 0o004:
            yield from ("--ro-bind", os.devnull, entry.path)


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
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
