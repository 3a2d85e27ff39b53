"""Main of the relay process, started as ``python -P -m a2perf_agents.relay.process FD``.

``FD`` is a socket to the evaluator that keeps the limits of messages (SOCK_SEQPACKET). Each message is one JSON object,
at most one descriptor goes with it, and each gets one answer. The first one is a ``RelaySettings``. When the evaluator
closes the socket or dies, the relay records the calls in flight and ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from a2perf.errors import UserError
from a2perf.runs.bundles.layout import MODEL_CALLS
from a2perf_agents.calls import busy_seconds
from a2perf_agents.record import CallScope, OpenedEntry
from a2perf_agents.relay.access import MAX_MESSAGE_BYTES, RelaySettings
from a2perf_agents.relay.budget import RunBudget
from a2perf_agents.relay.call_journal import CallJournal, RecordedAnswers
from a2perf_agents.relay.exchange import Exchanges
from a2perf_agents.relay.server import Caller, RelayServer
from a2perf_agents.relay.upstream import Upstream

GRACE_S = 5.0
"""Time in which calls in flight may still end when the evaluator has ended."""


class Relay:
    """A running relay.

    Args:
        settings: the first message.
    """

    def __init__(self, settings: RelaySettings) -> None:
        access = settings.access
        self._journal = CallJournal(Path(settings.folder) / MODEL_CALLS)
        recorded = self._journal.recorded
        self._budget = RunBudget(access.budgets, recorded.used, busy_seconds(recorded.calls))
        self._budget.record_bytes = self._journal.size
        self._upstream = Upstream(access) if access.replay is None else None
        replayed = None if access.replay is None else RecordedAnswers.of(Path(access.replay))
        if replayed is not None and not access.models:
            access = msgspec.structs.replace(access, models=tuple({call.call.model: None for call in replayed.calls}))
        self._exchanges = Exchanges(
            access,
            self._upstream,
            self._journal,
            self._budget,
            replayed=replayed,
            attempt=settings.attempt,
            first=max((call.call.call for call in recorded.calls), default=0) + 1,
        )
        self._server = RelayServer(self._exchanges, settings.token)
        self._opened = OpenedEntry(attempt=settings.attempt, endpoint=access.shown_endpoint, models=list(access.models))
        self._callers = 0
        self.ended = asyncio.Event()

    async def check(self) -> None:
        """Checks the model server and records the start.

        Raises:
            UserError: see ``Upstream.check``.
        """
        if self._upstream is not None:
            await self._upstream.check()
        self._journal.append(self._opened)

    def serve(self, control: socket.socket, *, is_main: bool = False) -> None:
        """Answers the messages of one part of the evaluator."""
        control.setblocking(False)
        loop, caller, number = asyncio.get_running_loop(), Caller(), self._callers
        self._callers += 1
        listeners: list[Callable[[], None]] = []

        def end() -> None:
            loop.remove_reader(control)
            for close in listeners:
                close()
            control.close()
            if is_main:
                self.ended.set()

        def read() -> None:
            try:
                data, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, 1)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            received = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            if not data:
                end()
                return
            message = msgspec.json.decode(data)
            operation = message["op"]
            answer: object = {}
            if operation == "listen":
                while listeners:  # those of a process that has ended
                    listeners.pop()()
                listeners.append(self._server.listen(received.pop(), caller))
            elif operation == "caller":
                self.serve(received.pop())
            elif operation == "scope":
                caller.scope = msgspec.convert(message["scope"], CallScope)
            elif operation == "energy":
                self._budget.set_joules(number, message["joules"])
            elif operation == "error":
                waited_s, refused = self._exchanges.longest(caller.scope)
                answer = {"error": self._last_error(caller.scope), "waited_s": waited_s, "refused": refused}
            elif operation == "usage":
                answer = {"budgets": self._budget.use()}
            control.send(msgspec.json.encode(answer))

        loop.add_reader(control, read)

    async def close(self) -> None:
        """Records the calls in flight and closes everything."""
        await self._exchanges.finish(GRACE_S)
        if self._upstream is not None:
            await self._upstream.close()
        self._journal.close()

    def _last_error(self, scope: CallScope) -> tuple[str, str] | None:
        found = self._exchanges.last_error.get(scope)
        return None if found is None else (found[0].value, found[1])


async def serve(control: socket.socket) -> None:
    """Runs a relay until the evaluator closes its end of ``control``."""
    settings = msgspec.json.decode(control.recv(MAX_MESSAGE_BYTES), type=RelaySettings)
    try:
        relay = Relay(settings)
        await relay.check()
    except UserError as error:
        control.send(msgspec.json.encode({"kind": type(error).__name__, "message": error.message, "hint": error.hint}))
        return
    control.send(b"{}")
    relay.serve(control, is_main=True)
    await relay.ended.wait()
    await relay.close()


def main() -> None:
    """Serves until the evaluator has ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the evaluator; its end ends this process
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    asyncio.run(serve(control))
    sys.stderr.flush()
    os._exit(0)  # threads that accept connections may still be waiting


if __name__ == "__main__":
    main()
