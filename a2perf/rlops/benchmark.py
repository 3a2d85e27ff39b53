"""``python -m a2perf.rlops.benchmark``: the benchmark matrix as a module, for habits of ``cleanrl_utils.benchmark``."""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Runs ``a2perf benchmark`` with the words of this process."""
    # by name: the command line lies above this room
    importlib.import_module("a2perf.cli").main(["benchmark", *sys.argv[1:]])


if __name__ == "__main__":
    main()
