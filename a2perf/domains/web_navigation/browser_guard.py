"""The small process between Python and the browser, so that no Chromium outlives the Python process that started it.

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
                fields = stream.read().rpartition(b")")[2].split()
        except OSError:
            continue  # ended meanwhile
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
        with contextlib.suppress(OSError):  # ended meanwhile
            os.kill(pid, signal.SIGKILL)


def _reap(driver: int) -> bool:
    """Collects the children that ended; says whether ``driver`` was among them."""
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
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if os.getppid() == guard:
            os.execv(argv[0], argv)
    finally:
        os._exit(127)


def _end(folder: str) -> None:
    while True:
        kill_descendants(os.getpid())
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            time.sleep(0.002)
    import shutil

    for _ in range(REMOVE_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            break
        time.sleep(0.01)


def main(control: int, folder: str, parent: int, argv: list[str]) -> None:
    """Starts ``argv`` and returns when nothing of it is left.

    Args:
        control: descriptor whose end of file asks to end.
        folder: removed at the end.
        parent: process id of the Python process that uses the browser.
        argv: ChromeDriver and its arguments.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    wake, wake_end = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_end, False)
    signal.set_wakeup_fd(wake_end)
    asked = [False]

    def ask(number: int, frame: object) -> None:
        # the parent-death signal also comes when only the thread that started us ended: then nothing is to do
        asked[0] = asked[0] or number == signal.SIGTERM or os.getppid() != parent

    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, ask)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    if os.getppid() == parent:
        driver = _start(argv, os.getpid())
        # the pipe on which ChromeDriver says its port ends with ChromeDriver, not with the guard
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
