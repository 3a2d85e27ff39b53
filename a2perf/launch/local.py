"""Runs on this machine: the evaluator is a child that dies with the launcher and gets its signals."""

from __future__ import annotations

import os
import signal
import subprocess

from a2perf.launch.interface import RunCommand


class LocalLauncher:
    """Runs the evaluator as a child process."""

    name = "local"

    def run(self, command: RunCommand) -> int:
        """Executes one run to its end.

        SIGINT and SIGTERM are passed on, so that the evaluator can end the participant and leave a finished manifest.

        Returns:
            The evaluator's exit status; 3 when a signal ended it.
        """
        argv = [*command.argv(), "--die-with", str(os.getpid())]
        process = subprocess.Popen(argv, start_new_session=True)
        previous = {
            number: signal.signal(number, lambda received, frame: process.send_signal(received))
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        try:
            status = process.wait()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        return status if status >= 0 else 3
