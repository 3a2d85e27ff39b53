"""Receives the socket at which a participant process reaches a service; see ``participant.worker``."""

from __future__ import annotations

import socket
from collections.abc import Callable

from a2perf.submission.evaluator.process.answers import BadAnswer
from a2perf.system import MESSAGES


class ServiceChannel:
    """A pair of sockets that carries one descriptor from a participant process.

    Attributes:
        theirs: the participant's end; the caller closes it after the start.
    """

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, MESSAGES)

    def connect(self, serve: Callable[[socket.socket], None]) -> None:
        """Passes the participant's listening socket on; the participant has sent it before its first message.

        Args:
            serve: takes a duplicate of the socket; this one is closed.

        Raises:
            BadAnswer: it sent something else. Packages of another interpreter run before the worker and could do that.
        """
        with self._ours:
            self._ours.setblocking(False)
            try:
                _, descriptors, _, _ = socket.recv_fds(self._ours, 16, 1)
            except BlockingIOError:
                descriptors = []
            if not descriptors:
                raise BadAnswer("it did not open the socket of a service")
            with socket.socket(fileno=descriptors[0]) as listener:
                if not _listens_for_tcp(listener):
                    raise BadAnswer("it sent another descriptor than the socket of a service")
                serve(listener)


def _listens_for_tcp(candidate: socket.socket) -> bool:
    try:
        return (
            candidate.family in (socket.AF_INET, socket.AF_INET6)
            and candidate.type == socket.SOCK_STREAM
            and candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        )
    except OSError:
        return False
