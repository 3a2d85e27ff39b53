"""The first message of the evaluator to the relay process."""

from __future__ import annotations

import msgspec

from a2perf_agents.relay.access import ModelAccess

MAX_MESSAGE_BYTES = 1 << 17
"""Below the size of a socket's buffer: a message is sent as a whole or not at all."""


class RelaySettings(msgspec.Struct):
    """The first message."""

    access: ModelAccess
    folder: str
    token: str
    attempt: int
