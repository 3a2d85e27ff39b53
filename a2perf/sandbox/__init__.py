"""How one child process is confined; knows nothing of submissions.

``get_sandbox("process").start(SandboxSpec(...))`` returns a ``Confined`` whose tree ends with it, with its caller, or
with the caller's death. Levels register themselves; see ``interface``.
"""

from a2perf.sandbox.interface import (
    DEFAULT_OUTPUT_BYTES,
    LADDER,
    Confined,
    Ending,
    Level,
    Limits,
    Sandbox,
    SandboxSpec,
    available_levels,
    get_sandbox,
    is_linux,
    register_sandbox,
)
from a2perf.sandbox.process import ProcessSandbox

__all__ = [
    "DEFAULT_OUTPUT_BYTES",
    "LADDER",
    "Confined",
    "Ending",
    "Level",
    "Limits",
    "ProcessSandbox",
    "Sandbox",
    "SandboxSpec",
    "available_levels",
    "get_sandbox",
    "is_linux",
    "register_sandbox",
]


def _needs_linux() -> str | None:
    return None if is_linux() else "it needs Linux (/proc and prctl)"


register_sandbox("none", Level(lambda: ProcessSandbox(confined=False), _needs_linux))
register_sandbox("process", Level(lambda: ProcessSandbox(confined=True), _needs_linux))
