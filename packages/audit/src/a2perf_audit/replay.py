"""Plays a list of actions in a new process and prints the hash of each step as JSON."""

from __future__ import annotations

import json
import sys

import numpy as np

from a2perf_audit.bench import Subject
from a2perf_audit.episodes import play


def main() -> None:
    """Reads the environment from the argument and the actions from standard input."""
    request = json.loads(sys.argv[1])
    env = Subject(request["name"], request["kwargs"]).make()
    dtype = getattr(env.action_space, "dtype", None)
    actions = [
        action if isinstance(action, int | str) else np.array(action, dtype) for action in json.load(sys.stdin)
    ]  # fmt: skip
    print(json.dumps(play(env, actions, request["seed"], len(actions)).steps))
    env.close()


if __name__ == "__main__":
    main()
