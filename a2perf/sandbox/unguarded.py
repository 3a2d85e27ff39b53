"""The level 'none' on a host that is not POSIX: the program is a child of the evaluator, without a guard between them.

Nothing is limited. The tree is found by its chain of parents, once per second while the evaluator waits for it and at
its end, so a process that leaves the chain in between survives. A job object of Windows would hold the whole tree; none
is used yet.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import psutil

from a2perf.errors import InfrastructureError
from a2perf.sandbox.interface import Confined, Ending, Limits, SandboxSpec
from a2perf.system import SYSTEM_VARIABLES

KILL_TIMEOUT_S = 10.0
_INTERVAL_S = 1.0


class UnguardedSandbox:
    """Starts a child that nothing confines."""

    level = "none"

    def guarantees(self, *, network: bool = False) -> list[str]:
        """Returns what the level enforces."""
        return ["its environment variables are those it was given and those of the system"]

    def missing(self, *, network: bool = False) -> list[str]:
        """Returns what the level does not prevent."""
        return [
            "reading and writing all files of the user, those of the evaluator included",
            "using the network",
            "ending all processes of the user, evaluator included",
            "unlimited time, memory, files, output and number of processes",
            "processes that outlive it after they have left its chain of parents",
            "uncounted processor time and energy of processes that end between two samples",
        ]

    def unenforceable(self, limits: Limits) -> list[str]:
        """Returns which limits it cannot enforce."""
        names = ("wall_s", "cpu_s", "cpus", "memory_bytes", "file_size_bytes")
        return [f"{name} needs Linux or macOS" for name in names if getattr(limits, name) is not None]

    def start(self, spec: SandboxSpec) -> Confined:
        """Starts the program; see ``Sandbox``."""
        try:
            return _Unguarded(spec)
        except OSError as error:
            raise InfrastructureError(f"{spec.argv[0]} could not be started in {spec.cwd}: {error}") from error


class _Unguarded:
    """A process tree below the evaluator; see ``Confined``."""

    cgroups: tuple[Path, ...] = ()
    cpu_clock = None

    def __init__(self, spec: SandboxSpec) -> None:
        self._spec, self._began, self._due_s = spec, time.monotonic(), 0.0
        self._ending: Ending | None = None
        with open(spec.stdout or os.devnull, "ab") as stdout, open(spec.stderr or os.devnull, "ab") as stderr:
            self._popen = subprocess.Popen(
                [os.fspath(word) for word in spec.argv],
                cwd=spec.cwd,
                env=SYSTEM_VARIABLES | dict(spec.env),
                stdin=subprocess.PIPE if spec.stdin else subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                # Ctrl-C in a console goes to all processes of its group.
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        self.pid = self.tree_root = self._popen.pid
        self._tree: set[psutil.Process] = set()
        with contextlib.suppress(psutil.Error, OSError):  # it has ended already
            self._tree.add(psutil.Process(self.pid))
            if self._popen.stdin is not None:
                self._popen.stdin.write(spec.stdin)
                self._popen.stdin.flush()

    def fileno(self) -> int:
        """-1: no descriptor tells of its end."""
        return -1

    def poll(self) -> Ending | None:
        if self._popen.poll() is not None:
            return self._ended(killed=False)
        if time.monotonic() >= self._due_s:  # whoever waits for the program polls it
            self._look()
        return None

    def wait(self, timeout_s: float | None = None) -> Ending | None:
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.poll()
            return None
        return self.kill_tree()

    def kill_tree(self) -> Ending:
        """Kills what is found of the tree."""
        if self._ending is None:
            killed = self._popen.poll() is None
            deadline = time.monotonic() + KILL_TIMEOUT_S
            while (living := self._look()) and time.monotonic() < deadline:
                for process in living:
                    with contextlib.suppress(psutil.Error):
                        process.kill()
                self._popen.poll()
                time.sleep(0.01)
            if self._popen.stdin is not None:
                self._popen.stdin.close()
            for folder in self._spec.temporary:
                shutil.rmtree(folder, ignore_errors=True)
            self._ending = self._ended(killed=killed)
        return self._ending

    def _ended(self, *, killed: bool) -> Ending:
        code, wall_s = self._popen.wait(KILL_TIMEOUT_S), time.monotonic() - self._began
        status = (code, None) if code >= 0 else (None, -code)
        return self._ending or Ending(status[0], status[1], killed=killed, wall_s=wall_s)

    def _look(self) -> list[psutil.Process]:
        """Adds the present descendants to the tree and returns its living processes."""
        living, self._due_s = [], time.monotonic() + _INTERVAL_S
        for process in list(self._tree):
            with contextlib.suppress(psutil.Error):
                self._tree.update(process.children(recursive=True))
        for process in self._tree:
            with contextlib.suppress(psutil.Error):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    living.append(process)
        return living
