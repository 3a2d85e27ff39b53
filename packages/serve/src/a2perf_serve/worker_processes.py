"""The worker processes of a server, from the side of its event loop.

Environments run in other processes: physics engines and placement kernels hold the interpreter's lock for seconds, may
crash, and must not delay other clients. Sessions of one domain share processes and never wait for those of another
domain.
"""

from __future__ import annotations

import asyncio
import collections
import os
import socket
import subprocess
import sys
import time
from typing import Any, Final

import msgspec

from a2perf_serve.errors import ServingError
from a2perf_serve.worker import LENGTH

_STOP_SECONDS: Final = 3.0
_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class WorkerProcess(asyncio.Protocol):
    """One worker process.

    Attributes:
        opening: held while an environment is made, so a step waits for at most one such.
    """

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.opening = asyncio.Lock()
        self._pending: collections.deque[asyncio.Future[Any]] = collections.deque()  # answered in their order
        self._packer = msgspec.msgpack.Encoder()
        self._buffer = bytearray()
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._progress = 0.0  # when it last answered, or began to work
        self.is_alive = False
        self._ending = ""

    async def start(self) -> None:
        """Starts the process.

        Raises:
            OSError: it cannot be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            environment = {**dict.fromkeys(_THREADS, "1"), **os.environ, "PYTHONSAFEPATH": "1"}
            command = [sys.executable, "-m", "a2perf_serve.worker", str(theirs.fileno())]
            try:
                self._process = subprocess.Popen(
                    command,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env=environment,
                )
            except BaseException:
                ours.close()
                raise
        self.is_alive = True
        await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)

    async def call(self, operation: str, *arguments: Any) -> Any:
        """Executes an operation of `worker.EnvironmentHost`.

        Raises:
            ServingError: the operation failed, or the process ended.
        """
        failure, result = await self._send(operation, arguments)
        if failure is not None:
            raise ServingError(*failure)
        return result

    def post(self, operation: str, *arguments: Any) -> None:
        """Executes an operation without waiting for it; does nothing if the process has ended."""
        if self.is_alive:
            self._send(operation, arguments)

    def kill_if_stuck(self, seconds: float) -> None:
        """Kills the process if it has worked on one operation for longer than that."""
        if self._process is None or self._process.poll() is not None:  # asking also reaps it
            return
        if self._pending and time.monotonic() - self._progress > seconds:
            self._ending = f"an environment did not answer within {seconds:g} s and was stopped"
            self._process.kill()

    async def stop(self) -> None:
        """Ends the process: its connection closes, after a few seconds it is killed."""
        self.is_alive = False
        if self._transport is not None:
            self._transport.abort()
        process = self._process
        if process is None:
            return
        try:
            await asyncio.to_thread(process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)

    def _send(self, operation: str, arguments: tuple[Any, ...]) -> asyncio.Future[Any]:
        if not self.is_alive or self._transport is None:
            raise self._ended()
        try:
            body = self._packer.encode((operation, *arguments))
        except OverflowError as error:
            raise ServingError("bad_request", f"a number is too large: {error}") from error
        if not self._pending:
            self._progress = time.monotonic()
        future = asyncio.get_running_loop().create_future()
        self._pending.append(future)
        self._transport.write(LENGTH.pack(len(body)) + body)
        return future

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=1 << 24)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hands each answer to the request that waits for it."""
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(buffer, start)
            end = start + LENGTH.size + length
            if len(buffer) < end:
                break
            error, result = msgspec.msgpack.decode(bytes(buffer[start + LENGTH.size : end]))
            self._progress = time.monotonic()
            future = self._pending.popleft()
            if not future.done():
                future.set_result((error, result))
            start = end
        if start:
            del buffer[:start]

    def connection_lost(self, error: Exception | None) -> None:
        """Fails the requests that wait: the process has ended."""
        self.is_alive = False
        while self._pending:
            future = self._pending.popleft()
            if not future.done():
                future.set_exception(self._ended())
                future.exception()  # counts as retrieved, if the client has left

    def _ended(self) -> ServingError:
        if self._ending:
            return ServingError("environment_timeout", self._ending, "open another session")
        return ServingError("environment_crashed", "the process of the environment ended", "open another session")


class WorkerProcesses:
    """The worker processes of a server, started on demand.

    Args:
        step_seconds: see `ServerSettings`.
    """

    def __init__(self, per_domain: int, step_seconds: float) -> None:
        self._per_domain = per_domain
        self._step_seconds = step_seconds
        self._workers: dict[str, list[WorkerProcess]] = {}
        self._starting: dict[str, asyncio.Lock] = {}

    async def place(self, domain: str, session: str) -> WorkerProcess:
        """Returns the process for a new session: an unused one while there may be more, else the least used one.

        Raises:
            ServingError: no process can be started (``environment_unavailable``).
        """
        async with self._starting.setdefault(domain, asyncio.Lock()):
            workers = self._workers.setdefault(domain, [])
            for dead in [worker for worker in workers if not worker.is_alive]:
                workers.remove(dead)
                await dead.stop()
            chosen = min(workers, key=lambda worker: len(worker.sessions), default=None)
            if chosen is None or (chosen.sessions and len(workers) < self._per_domain):
                chosen = WorkerProcess()
                try:
                    await chosen.start()
                except OSError as error:
                    raise ServingError(
                        "environment_unavailable", f"no process can be started: {error}", "try again later"
                    ) from error
                workers.append(chosen)
            chosen.sessions.add(session)
            return chosen

    def kill_stuck(self) -> None:
        """Kills processes that have worked on one operation for longer than ``step_seconds``."""
        for workers in self._workers.values():
            for worker in workers:
                worker.kill_if_stuck(self._step_seconds)

    async def stop(self) -> None:
        """Ends every process."""
        workers = [worker for group in self._workers.values() for worker in group]
        self._workers.clear()
        await asyncio.gather(*(worker.stop() for worker in workers))
