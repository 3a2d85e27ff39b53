"""A call in progress, and the answer that the participant gets."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from a2perf_agents.record import Amounts, TokenUsage
from a2perf_agents.relay import answers
from a2perf_agents.relay.requests import ModelRequest

EVENTS = "text/event-stream"
"""Media type of a stream."""


class Reply:
    """What a participant gets: status and media type first, then pieces until ``None``.

    Attributes:
        started: becomes (status, media type).
        pieces: the bytes; ``None`` at the end.
    """

    def __init__(self) -> None:
        self.started: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    def start(self, status: int, content_type: str) -> None:
        """Sets status and media type."""
        self.started.set_result((status, content_type))


@dataclass
class PendingCall:
    """A call in progress.

    Attributes:
        is_rate_limited: whether the server refused the last try for the rate of calls.
        held: pieces that wait until the answer is on disk.
    """

    number: int
    request: ModelRequest
    body: bytes
    reserved: Amounts
    reply: Reply
    began: float = field(default_factory=time.perf_counter)
    tries: int = 0
    is_rate_limited: bool = False
    sent: list[bytes] = field(default_factory=list)
    held: list[bytes] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    usage: TokenUsage | None = None
    first_s: float | None = None
    tools: answers.ToolCalls = field(default_factory=answers.ToolCalls)

    @property
    def elapsed_s(self) -> float:
        """Time since the start, in seconds."""
        return time.perf_counter() - self.began

    def hold(self, piece: bytes) -> None:
        """Keeps a piece until the answer is on disk."""
        self.held.append(piece)
        self.times.append(round(self.elapsed_s, 6))

    def send(self, piece: bytes) -> None:
        """Passes a piece of a stream on at once."""
        if not self.reply.started.done():
            self.reply.start(200, EVENTS)
        self.sent.append(piece)
        self.times.append(round(self.elapsed_s, 6))
        self.reply.pieces.put_nowait(piece)
