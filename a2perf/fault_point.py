"""Named points at which a test kills the process that reaches them, to prove that nothing depends on a good end.

``A2PERF_FAULT_POINT`` names the point, ``A2PERF_FAULT_ONCE`` a file that is made by the first process that gets
there; with the file there the point does nothing, so the rerun passes it. Without the variable a point costs one
comparison. Standard library only; the participant never gets these variables.
"""

from __future__ import annotations

import os
import signal

_wanted = os.environ.get("A2PERF_FAULT_POINT")


def fault_point(name: str) -> None:
    """Kills this process with SIGKILL when the environment names this point and it has not been used up."""
    if _wanted is None or name != _wanted:
        return
    once = os.environ.get("A2PERF_FAULT_ONCE")
    if once is not None:
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.SIGKILL)
