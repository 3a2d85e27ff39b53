"""A small process between Python and the browser: no Chromium outlives the Python process that started it.

Run as a script (``python -I -S browser_guard.py CONTROL FOLDER PARENT CHROMEDRIVER ARGUMENT...``). It starts
ChromeDriver, which starts Chromium, and stays the ancestor of both: as child sub-reaper it inherits every process of
the browser that lost its parent. When the other end of ``CONTROL`` (a pipe's read end) closes, which also a SIGKILL of
the Python process does, or the Python process is gone (a fork of it may still hold the pipe), or ChromeDriver ends, it
kills every descendant, removes ``FOLDER`` (profile and temporary files) and exits.

Should the guard itself be killed, ChromeDriver is killed by its parent-death signal, and Chromium ends because its
debugging pipe breaks. Standard library only, and little of it: this start is part of every browser start.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
REMOVE_ATTEMPTS = 20


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _parents() -> dict[int, int]:
    """Returns the parent of every process by process id."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                # The name in brackets may contain spaces and brackets itself.
                fields = stream.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        found[int(name)] = int(fields[1])
    return found


def kill_descendants(root: int) -> None:
    """Sends SIGKILL to every process below ``root``."""
    parents = _parents()
    below = {root}
    grew = True
    while grew:
        fresh = {pid for pid, parent in parents.items() if parent in below} - below
        below |= fresh
        grew = bool(fresh)
    for pid in below - {root}:
        with contextlib.suppress(OSError):  # it has ended
            os.kill(pid, signal.SIGKILL)


def _reap(driver: int) -> bool:
    """Collects children that ended; returns whether ``driver`` was among them."""
    ended = False
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return ended
        ended = ended or pid == driver


def _start(argv: list[str], guard: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # Ignored signals stay ignored across exec.
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # If the guard ended before the death signal was set, nobody would send it.
        if os.getppid() == guard:
            os.execv(argv[0], argv)
    finally:
        # Whatever fails, the child must not continue as a second guard.
        os._exit(127)


def _end(folder: str) -> None:
    while True:
        # Repeated, because a process may fork while the others are killed.
        kill_descendants(os.getpid())
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            time.sleep(0.002)
    # Imported late: it would lengthen every browser start.
    import shutil

    for _ in range(REMOVE_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            break
        time.sleep(0.01)


def main(control: int, folder: str, parent: int, argv: list[str]) -> None:
    """Starts ``argv`` and returns when nothing of it is left.

    Args:
        control: descriptor; its end of file is the signal to end.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    wake, wake_end = os.pipe()
    os.set_blocking(wake, False)
    # set_wakeup_fd refuses a blocking descriptor.
    os.set_blocking(wake_end, False)
    signal.set_wakeup_fd(wake_end)
    asked = [False]

    def ask(number: int, frame: object) -> None:
        # the parent-death signal also comes when only the thread that started us ended: ignore it then
        asked[0] = asked[0] or number == signal.SIGTERM or os.getppid() != parent

    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, ask)
    # Without a handler in Python, this signal would not wake the poll.
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    if os.getppid() == parent:
        driver = _start(argv, os.getpid())
        # ChromeDriver prints its port on this pipe; closing our end makes it end with ChromeDriver
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        poll = select.poll()
        poll.register(control, select.POLLIN | select.POLLHUP)
        poll.register(wake, select.POLLIN)
        ended = _reap(driver)
        while not (ended or asked[0]):
            ready = [descriptor for descriptor, _ in poll.poll()]
            if control in ready:
                break
            os.read(wake, 4096)
            ended = _reap(driver)
    _end(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:])
