"""How the guard receives descriptors in a container, where it cannot inherit them: over a mounted Unix socket.

One message carries the descriptors and a ``marshal`` list of the numbers that they have to get, the control socket
first. From then on they are used like inherited ones, so the wire to the participant is the same.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import socket

from .main import main

MOST = 64
# Above 900 to 902, which the evaluator chooses, and above the numbers that its other descriptors usually have.
_ABOVE = 1024


def arrive(door: str) -> None:
    """Connects to the socket, receives the descriptors, and runs the guard."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.connect(door)
        message, received, _, _ = socket.recv_fds(stream, 4096, MOST)
    numbers = marshal.loads(message)
    # First move all of them out of the way: dup2 to a required number could close a descriptor that just arrived there.
    aside = []
    for descriptor in received:
        aside.append(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE))
        os.close(descriptor)
    for descriptor, number in zip(aside, numbers, strict=True):
        # dup2 makes its copy inheritable by default; the participant must not get the open log files.
        os.dup2(descriptor, number, inheritable=False)
        os.close(descriptor)
    main(numbers[0])
