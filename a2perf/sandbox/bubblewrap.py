"""The level 'bubblewrap': the program of the same name around the child, between it and the guard.

Namespaces of its own for users, processes, mounts, network, System V objects, host name and control groups; a file
system that holds only what ``view`` lists; no capability; a system-call filter. The guard, the limits and the captured
output are those of the level 'process', and inherited descriptors pass through, so the transport is the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

from a2perf.errors import InfrastructureError
from a2perf.sandbox import seccomp, view
from a2perf.sandbox.interface import Confined, Limits, SandboxSpec
from a2perf.sandbox.process import GUARANTEES_OF_LIMITS, LIFECYCLE, ProcessSandbox

PROBE_TIMEOUT_S = 10.0
OWN_PROCESSES = 2
"""bubblewrap itself, outside and inside the new process namespace."""

MEND = "apt-get install bubblewrap, and allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"

_GUARANTEES = (
    "it sees the system, its interpreter and the submission read-only, its artefact folder, and nothing else of the"
    " host's files",
    "/tmp and /dev/shm are its own, of a limited size, and end with it",
    "it sees, signals and traces only its own processes",
    f"it is user {view.USER_ID} without capabilities or new privileges, whoever the evaluator is",
    "system calls for tracing, mounts, namespaces, keys, kernel programs and the host's clock are refused",
)
_SECRETS = ("keys", "key-users", "timer_list", "kcore")
_NO_NETWORK = "no network but a loopback of its own"
_MISSING = ("a fault of the kernel can let it out",)


def why_unavailable() -> str | None:
    """Returns why this host cannot offer the level, or ``None``; it starts a program once to find out."""
    program = shutil.which("bwrap")
    if program is None:
        return "there is no bwrap program on PATH"
    if not seccomp.supported():
        return "there is no system-call filter for this processor"
    return _refusal(program)


@cache
def _refusal(program: str) -> str | None:
    probe = [program, *_NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "/bin/true"]
    try:
        done = subprocess.run(
            probe,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap could not be run: {error}"
    return None if done.returncode == 0 else f"bwrap cannot make namespaces here: {done.stderr.strip()[-200:]}"


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
        alone = () if network else (_NO_NETWORK,)
        return [*LIFECYCLE, *_GUARANTEES, *alone, *GUARANTEES_OF_LIMITS, *self._inner.grouped_guarantees()]

    def missing(self, *, network: bool = False) -> list[str]:
        """Says what a participant can still do."""
        reaches = ("it reaches the network, as it was allowed to",) if network else ()
        return [*reaches, *_MISSING, *self._inner.uncounted()]

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
            raise InfrastructureError("there is no bwrap program on PATH", mend=MEND)
        if not os.access(spec.argv[0], os.X_OK):
            raise InfrastructureError(f"{spec.argv[0]} could not be started in {spec.cwd}: it is no program")
        opened: list[int] = []
        try:
            try:
                words = arguments(spec, opened)
            except FileNotFoundError as error:
                raise InfrastructureError(f"{error.filename} does not exist; the participant has to see it") from error
            listing = _memory_file("a2perf-arguments", b"".join(os.fsencode(word) + b"\0" for word in words))
            opened.append(listing)
            inner = replace(
                spec,
                argv=(program, "--args", str(listing), "--", *spec.argv),
                env={},  # the participant's own is among the arguments
                fds=(*spec.fds, *opened),
            )
            return self._inner.start(inner)
        finally:
            for descriptor in opened:
                os.close(descriptor)


def arguments(spec: SandboxSpec, opened: list[int]) -> list[str]:
    """Returns bubblewrap's arguments; descriptors that they name are added to ``opened``."""
    words = [*_NAMESPACES]
    if spec.network:
        words.append("--share-net")
    words += ["--proc", "/proc", *_kernel_files(), "--dev", "/dev"]
    for place in view.places(spec):
        words += _of_place(place, opened)
    words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(spec.cwd), "--clearenv"]
    for name, value in spec.env.items():
        words += ["--setenv", name, value]
    filter_file = _memory_file("a2perf-filter", seccomp.program())
    opened.append(filter_file)
    return [*words, "--seccomp", str(filter_file)]


def _kernel_files() -> Iterator[str]:
    """Yields arguments that take from ``/proc`` what root could change or is alone to read.

    The participant is user 1000 inside, but where the evaluator is root its files are root's, and the kernel lets root
    write its settings even without any capability. bubblewrap itself leaves such folders writable in that case.
    """
    for entry in sorted(os.scandir("/proc"), key=lambda entry: entry.name):
        if entry.name.isdigit() or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from ("--ro-bind", entry.path, entry.path)
        elif entry.name in _SECRETS or entry.stat().st_mode & 0o222 or not entry.stat().st_mode & 0o004:
            yield from ("--ro-bind", os.devnull, entry.path)


def _of_place(place: view.Place, opened: list[int]) -> Iterable[str]:
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
