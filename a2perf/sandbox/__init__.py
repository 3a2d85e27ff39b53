"""Confines one child process; knows nothing about submissions.

``get_sandbox("process").start(SandboxSpec(...))`` returns a ``Confined``. Its process tree ends with the program, with
``kill_tree``, or with the death of the caller. The built-in levels are registered here; an installed package adds its
own through the entry point ``a2perf.sandboxes``, see ``interface``.
"""

import os

from a2perf.sandbox.interface import (
    DEFAULT_ARTIFACT_ENTRIES,
    DEFAULT_OUTPUT_BYTES,
    DEFAULT_SCRATCH_BYTES,
    GROUP,
    LADDER,
    STRONGEST,
    Confined,
    Ending,
    Level,
    Limits,
    Sandbox,
    SandboxSpec,
    available_levels,
    choose_sandbox,
    get_sandbox,
    hint_of,
    level_text,
    levels,
    problems,
    register_sandbox,
    strongest_level,
    why_unavailable,
)
from a2perf.system import POSIX

if POSIX:
    from a2perf.sandbox import bubblewrap, container
    from a2perf.sandbox.bubblewrap import BubblewrapSandbox
    from a2perf.sandbox.container import DockerSandbox
    from a2perf.sandbox.guard.folders import MOST_DEPTH
    from a2perf.sandbox.process import ProcessSandbox

__all__ = [
    "DEFAULT_ARTIFACT_ENTRIES",
    "DEFAULT_OUTPUT_BYTES",
    "DEFAULT_SCRATCH_BYTES",
    "GROUP",
    "LADDER",
    "MOST_DEPTH",
    "STRONGEST",
    "BubblewrapSandbox",
    "Confined",
    "DockerSandbox",
    "Ending",
    "Level",
    "Limits",
    "ProcessSandbox",
    "Sandbox",
    "SandboxSpec",
    "available_levels",
    "choose_sandbox",
    "get_sandbox",
    "hint_of",
    "level_text",
    "levels",
    "problems",
    "register_sandbox",
    "strongest_level",
    "why_unavailable",
]


if POSIX:
    register_sandbox("none", Level(lambda: ProcessSandbox(confined=False)))
    register_sandbox("process", Level(lambda: ProcessSandbox(confined=True)))
    register_sandbox(
        "bubblewrap", Level(BubblewrapSandbox, bubblewrap.why_unavailable, bubblewrap.HINT, hides_files=True)
    )
    register_sandbox(
        "docker",
        Level(
            DockerSandbox,
            lambda: container.why_unavailable(os.environ.get("DOCKER_HOST")),
            container.hint,
            hides_files=True,
        ),
    )
else:
    from a2perf.sandbox.unguarded import UnguardedSandbox

    MOST_DEPTH = 0
    register_sandbox("none", Level(UnguardedSandbox))
    for _name in LADDER[1:]:
        register_sandbox(_name, Level(UnguardedSandbox, lambda: "it needs Linux or macOS", "use WSL 2 on Windows"))
