"""``python -m a2perf.rlops.benchmark``: the benchmark matrix as a module, for habits of ``cleanrl_utils.benchmark``."""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Runs ``a2perf benchmark`` with the arguments of this process."""
    # imported by name, because the package cli is above this one
    importlib.import_module("a2perf.cli").main(["benchmark", *sys.argv[1:]])


if __name__ == "__main__":
    main()
