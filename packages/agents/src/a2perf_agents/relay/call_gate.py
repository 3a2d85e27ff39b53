"""Bounds the calls at a server at the same time, once the server has refused one for its rate (HTTP 429).

Additive increase and multiplicative decrease, as in congestion control (Chiu and Jain, 1989,
https://doi.org/10.1016/0169-7552(89)90019-6). Waiting calls get their turn in order: with random pauses alone, some of
many concurrent episodes would wait until their time limit.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

DECREASE = 0.75
"""Factor of the bound after a refused call."""


class CallGate:
    """Admits calls; without a refused call it admits all."""

    def __init__(self) -> None:
        self._limit = math.inf
        self._active = self._round = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self, *, again: bool) -> AsyncIterator[int]:
        """Waits for the turn of a call, which lasts while the context is open.

        Args:
            again: whether the call was refused before; it then comes before calls that were not.

        Yields:
            The number of decreases of the bound before the call, for ``refused``.
        """
        if self._waiting or self._is_full:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            (self._waiting.appendleft if again else self._waiting.append)(future)
            try:
                await future  # the turn begins when the future is set, see _admit
            except asyncio.CancelledError:
                if future.done() and not future.cancelled():
                    self._end()
                with suppress(ValueError):  # _admit may have removed it
                    self._waiting.remove(future)
                raise
        else:
            self._active += 1
        try:
            yield self._round
        finally:
            self._end()

    def refused(self, turn: int) -> None:
        """Lowers the bound, at most once for the calls that were sent under the present one."""
        if turn == self._round:
            self._limit = max(1.0, DECREASE * min(self._limit, self._active))
            self._round += 1

    def answered(self) -> None:
        """Raises the bound by one per round of answered calls."""
        self._limit += 1.0 / self._limit
        self._admit()

    @property
    def is_bounded(self) -> bool:
        """Whether the server has refused a call for its rate."""
        return self._limit < math.inf

    @property
    def _is_full(self) -> bool:
        return self._active + 1 > self._limit

    def _end(self) -> None:
        self._active -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and not self._is_full:
            future = self._waiting.popleft()
            if not future.cancelled():
                self._active += 1
                future.set_result(None)
