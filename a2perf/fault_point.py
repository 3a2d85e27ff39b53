"""Named points at which a test kills the process, to check that every state on disk can be resumed.

``A2PERF_FAULT_POINT`` names the point. ``A2PERF_FAULT_ONCE`` names a file that the first process at the point creates;
if it exists, the point does nothing, and the rerun continues. Without the variable a point costs one comparison.
Standard library only; the participant never gets these variables.
"""

from __future__ import annotations

import os
import signal

_wanted = os.environ.get("A2PERF_FAULT_POINT")


def fault_point(name: str) -> None:
    """Kills this process with SIGKILL if the environment names this point and it has not been used yet."""
    if _wanted is None or name != _wanted:
        return
    once = os.environ.get("A2PERF_FAULT_ONCE")
    if once is not None:
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.SIGKILL)
