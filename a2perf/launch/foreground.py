"""One command in the foreground, for launchers that start no child processes: shows its output, passes on signals."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from a2perf.constants import ExitCode
from a2perf.launch.interface import Launcher, heeded_signals
from a2perf.launch.run_spec import RunCommand

_POLL_S = 0.5


class LogTail:
    """Copies what is appended to a file to this process's standard output.

    Args:
        path: the file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Logs are appended to: the output of an earlier attempt is not shown again.
        self._offset = path.stat().st_size if path.exists() else 0

    def copy(self) -> None:
        """Copies the bytes that were appended since the last call."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except OSError:
            return
        self._offset += len(data)
        if data:
            sys.stdout.write(data.decode(errors="replace"))
            sys.stdout.flush()


def run_to_end(launcher: Launcher, command: RunCommand, *, tail: LogTail | None = None) -> int:
    """Executes one command and waits for its end; a signal cancels the job.

    Args:
        tail: copies its log to standard output, if the launcher's jobs cannot write there.

    Returns:
        Its exit status; 3 when it has none.
    """
    job = launcher.start(command)
    previous = {number: signal.signal(number, lambda received, frame: job.cancel()) for number in heeded_signals()}
    try:
        while (ended := job.poll()) is None:
            launcher.wait(_POLL_S)
            if tail is not None:
                tail.copy()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    # The job may have written after the last copy and before its end.
    if tail is not None:
        tail.copy()
    if ended.reason:
        print(f"a2perf: {command.name}: {ended.reason}", file=sys.stderr)
    return int(ExitCode.INFRASTRUCTURE) if ended.exit_code is None else ended.exit_code
