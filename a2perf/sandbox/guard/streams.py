"""Captures one output stream of the participant in a file, up to a cap; further output is read and dropped."""

from __future__ import annotations

import os
import select
import time

CHUNK_BYTES = 1 << 18
PIPE_BYTES = 1 << 20
DRAIN_S = 2.0


class Log:
    """A pipe and the file that its content is copied to.

    Args:
        target: path or open descriptor of the file; ``None`` drops everything.
    """

    def __init__(self, name: str, target: str | int | None, cap: int) -> None:
        self.name = name
        self.source, self.sink = os.pipe()
        os.set_blocking(self.source, False)
        try:
            import fcntl

            fcntl.fcntl(self.source, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except (OSError, AttributeError):
            pass  # the user's limit on pipe memory is reached, or not Linux; the default size works, only slower
        self.target = -1
        if isinstance(target, int):
            self.target = target
        elif target is not None:
            self.target = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self.room = cap
        self.dropped = 0

    def pump(self) -> bool:
        """Copies the available bytes; returns False at the end of the stream."""
        try:
            data = os.read(self.source, CHUNK_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        kept = data[: self.room]
        written = self._write(kept)
        # After a failed write nothing more is kept: later output would follow the gap as if nothing were missing.
        self.room = self.room - written if written == len(kept) else 0
        self.dropped += len(data) - written
        return True

    def drain(self) -> None:
        """Reads the rest of the pipe, for at most two seconds: a surviving writer could keep it full forever."""
        deadline = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline and select.select([self.source], [], [], 0)[0]:
            if not self.pump():
                break

    def finish(self) -> None:
        """Notes in the file how many bytes were dropped."""
        if self.dropped:
            self._write(b"\n[a2perf: %d further bytes of output were dropped]\n" % self.dropped)

    def _write(self, data: bytes) -> int:
        if self.target < 0:
            return 0
        done = 0
        try:
            while done < len(data):
                done += os.write(self.target, data[done:])
        except OSError:
            pass  # a full disk must not end the guard or the participant; the rest counts as dropped
        return done
