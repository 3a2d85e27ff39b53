"""Opens the socket at which the participant's code reaches a service of the evaluator.

The socket listens on the participant's private loopback. It goes to the evaluator, and the service accepts its
connections: no process here forwards anything. Standard library only.
"""

from __future__ import annotations

import os
import socket


def open_listener(word: str) -> None:
    """Sends a listening socket to the evaluator and sets the variable with its address.

    Args:
        word: descriptor of the socket to the evaluator, which is closed, the variable, and its value with ``{port}``:
            ``"5:ECHO_ADDRESS=127.0.0.1:{port}"``.
    """
    channel, _, address = word.partition(":")
    variable, _, value = address.partition("=")
    with (
        socket.socket(fileno=int(channel)) as evaluator,
        # With its protocol number, as an asyncio server sets TCP_NODELAY only then.
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener,
    ):
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        os.environ[variable] = value.replace("{port}", str(listener.getsockname()[1]))
        socket.send_fds(evaluator, [b"l"], [listener.fileno()])
