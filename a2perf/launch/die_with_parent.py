"""Becomes a command that ends with its launcher: ``python -I -S die_with_parent.py LAUNCHER_PID CPUS PROGRAM ARG...``.

CPUS is a list such as ``0,3`` to which the command is bound, or ``all``.

On Linux the kernel sends SIGTERM to the command when the launcher's thread that started it dies for any reason
(``PR_SET_PDEATHSIG``); the setting survives ``exec``. This is a script and not a ``preexec_fn``, because a launcher has
threads, and Python code between ``fork`` and ``exec`` of a process with threads can hang. Standard library only.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Sets the parent-death signal and executes the command; status 127 if the program does not exist."""
    launcher, cpus, argv = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if os.path.exists("/proc/self/stat"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != launcher:  # it died before the setting was made
        sys.exit(3)
    if cpus != "all":
        os.sched_setaffinity(0, map(int, cpus.split(",")))
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        print(f"{argv[0]} cannot be executed: {error.strerror}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main()
