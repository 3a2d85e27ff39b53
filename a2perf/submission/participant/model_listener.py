"""Opens the socket at which the participant's code reaches the evaluator's relay to a language model.

The socket listens on the participant's private loopback. It goes to the evaluator, and the relay of the evaluator
accepts its connections: no process here forwards anything. Standard library only.
"""

from __future__ import annotations

import os
import socket

BASE_URL = "OPENAI_BASE_URL"


def open_listener(channel: int) -> None:
    """Sends a listening socket to the evaluator and sets ``OPENAI_BASE_URL``.

    Args:
        channel: descriptor of the socket to the evaluator; it is closed.
    """
    with (
        socket.socket(fileno=channel) as evaluator,
        # With its protocol number, as the relay's server sets TCP_NODELAY only then.
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener,
    ):
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        os.environ[BASE_URL] = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        socket.send_fds(evaluator, [b"l"], [listener.fileno()])
