"""Plays a list of actions in a new process and prints the hash of each step as JSON."""

from __future__ import annotations

import contextlib
import json
import locale
import os
import platform
import socket
import sys

import numpy as np

from a2perf_audit.bench import Subject
from a2perf_audit.episodes import play

HOST = "A2PERF_AUDIT_HOST"
"""Variable: another name of the host."""


def main() -> None:
    """Reads the environment from the argument and the actions from standard input."""
    request = json.loads(sys.argv[1])
    if HOST in os.environ:
        name = os.environ[HOST]
        system = os.uname()
        there = os.uname_result((system.sysname, name, system.release, system.version, system.machine))
        socket.gethostname = platform.node = lambda: name
        os.uname = lambda: there
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "")
    env = Subject(request["name"], request["kwargs"]).make()
    dtype = getattr(env.action_space, "dtype", None)
    actions = [action if isinstance(action, int | str) else np.array(action, dtype) for action in json.load(sys.stdin)]
    print(json.dumps(play(env, actions, request["seed"], len(actions)).steps))
    env.close()


if __name__ == "__main__":
    main()
