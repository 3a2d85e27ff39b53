"""The first process of a run's container: ``python -m a2perf.launch.container_init PROGRAM ARGUMENT...``.

Its standard input is a connection that the launcher holds open through the engine. When the launcher dies for whatever
reason, the kernel closes the connection, the input ends, and this process ends the run. As the first process of a PID
namespace it also reaps orphans; when it exits, the kernel kills every process that is left. Standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

GRACE_S = 15.0
"""How long the command may take to end after SIGTERM; then it is killed."""


def main() -> None:
    """Executes the command and ends with its status, 128 + N when signal N ended it."""
    try:
        # The command must not inherit the launcher's connection: only the thread below reads it.
        child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"{sys.argv[1]} cannot be executed: {error.strerror}", file=sys.stderr)
        sys.exit(127)

    def end(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    # Without a handler the kernel drops these signals to the first process of a PID namespace.
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    threading.Thread(target=_end_with_the_launcher, args=(child,), daemon=True).start()
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            child.returncode = code
            sys.stdout.flush()
            os._exit(code if code >= 0 else 128 - code)


def _end_with_the_launcher(child: subprocess.Popen[bytes]) -> None:
    while os.read(0, 4096):
        pass
    child.terminate()
    time.sleep(GRACE_S)
    child.kill()


if __name__ == "__main__":
    main()
