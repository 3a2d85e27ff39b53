"""The journal of a relay: entries reach the disk in groups, and recorded answers can be served again.

A request is answered from the record if an equal one was answered at the same place: the same task, phase and episode,
and the same position among the equal requests there.
"""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import threading
import time
from collections import deque
from pathlib import Path

from a2perf.errors import InfrastructureError
from a2perf.storage import MAX_JOURNAL_BYTES, read_bounded
from a2perf_agents.calls import ModelCall, decode_entry, encode_entry, entries_in, joined, without_contents
from a2perf_agents.record import Amounts, AnswerEntry, CallOutcome, CallScope, ModelEntry

LOCK_WAIT_S = 15.0


class RecordedAnswers:
    """The answers in a journal, by place and request; contents stay on disk."""

    def __init__(self, path: Path, data: bytes) -> None:
        self._path = path
        self._places: dict[tuple[CallScope, str], deque[tuple[int, int]]] = {}
        offsets: dict[int, int] = {}
        entries: list[ModelEntry] = []
        for offset, entry in entries_in(io.BytesIO(data)):
            if isinstance(entry, AnswerEntry) and entry.outcome == CallOutcome.OK.value and entry.chunks:
                offsets[entry.call] = offset
            entries.append(without_contents(entry))
        self.calls: list[ModelCall] = joined(entries)
        for call in self.calls:
            number, place = call.call.call, (call.call.scope, call.call.sha256)
            if number in offsets:
                self._places.setdefault(place, deque()).append((number, offsets[number]))

    @classmethod
    def of(cls, path: Path) -> RecordedAnswers:
        """Reads a journal; a missing one holds no answers."""
        try:
            return cls(path, read_bounded(path, MAX_JOURNAL_BYTES))
        except FileNotFoundError:
            return cls(path, b"")

    def take(self, scope: CallScope, sha256: str) -> tuple[int, AnswerEntry] | None:
        """Returns number and answer of the next recorded call for a request at a place; None if there is none left."""
        waiting = self._places.get((scope, sha256))
        if not waiting:
            return None
        number, offset = waiting.popleft()
        with self._path.open("rb") as stream:
            stream.seek(offset)
            entry = decode_entry(stream.readline())
        assert isinstance(entry, AnswerEntry)
        return number, entry

    @property
    def used(self) -> Amounts:
        """The amounts charged by all calls."""
        total = Amounts()
        for call in self.calls:
            total = total.plus(call.charged)
        return total


class CallJournal:
    """Appends entries to a journal that only this process writes.

    A written entry survives the death of the process at once. ``committed`` waits until it is on disk; calls that end
    at the same time share one flush.

    Raises:
        InfrastructureError: the relay of an earlier attempt still writes it.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        self._lock()
        data = read_bounded(path, MAX_JOURNAL_BYTES)
        self.recorded = RecordedAnswers(path, data)
        self.size = data.rfind(b"\n") + 1
        os.ftruncate(self._descriptor, self.size)  # removes a line that a crash cut off
        self._waiting: list[asyncio.Future[None]] = []
        self._wakes = threading.Condition()
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._flush, name="a2perf-model-journal", daemon=True)
        self._thread.start()

    def append(self, entry: ModelEntry) -> None:
        """Writes one entry.

        Raises:
            OSError: the file system refused it.
        """
        line = memoryview(encode_entry(entry))
        self.size += len(line)
        while line:
            line = line[os.write(self._descriptor, line) :]

    def committed(self) -> asyncio.Future[None]:
        """Returns a future that is done when everything written so far is on disk."""
        future: asyncio.Future[None] = self._loop.create_future()
        with self._wakes:
            self._waiting.append(future)
            self._wakes.notify()
        return future

    def close(self) -> None:
        """Flushes and closes the file."""
        with self._wakes:
            self._closing = True
            self._wakes.notify()
        self._thread.join()
        os.fsync(self._descriptor)
        os.close(self._descriptor)

    def _flush(self) -> None:
        while True:
            with self._wakes:
                while not self._waiting and not self._closing:
                    self._wakes.wait()
                if not self._waiting:
                    return
                waiting, self._waiting = self._waiting, []
            error: OSError | None = None
            try:
                os.fdatasync(self._descriptor)
            except OSError as caught:
                error = caught
            self._loop.call_soon_threadsafe(_resolve, waiting, error)

    def _lock(self) -> None:
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InfrastructureError(
                        f"the relay of an earlier attempt has been writing for {LOCK_WAIT_S:g} s",
                        hint="wait until it has ended and run the command again",
                    ) from None
                time.sleep(0.05)


def _resolve(waiting: list[asyncio.Future[None]], error: OSError | None) -> None:
    for future in waiting:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
