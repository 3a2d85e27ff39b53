"""How the guard gets its descriptors where it cannot inherit them: over a Unix socket that a container sees.

One message: a ``marshal`` list of the numbers under which the descriptors that come with it are to be open, the control
socket first. Everything after it is as if they had been inherited, so the wire to the participant is the same.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import socket

from .main import main

MOST = 64
_ABOVE = 1024


def arrive(door: str) -> None:
    """Connects to the socket, takes the descriptors, and guards."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.connect(door)
        message, received, _, _ = socket.recv_fds(stream, 4096, MOST)
    numbers = marshal.loads(message)
    aside = []  # first out of the way: a number that is wanted may be taken by another that has just come
    for descriptor in received:
        aside.append(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE))
        os.close(descriptor)
    for descriptor, number in zip(aside, numbers, strict=True):
        os.dup2(descriptor, number, inheritable=False)
        os.close(descriptor)
    main(numbers[0])
