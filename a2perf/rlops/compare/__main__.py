"""``python -m a2perf.rlops.compare``: the comparison as a module, for ``compatibility/rlops.py``."""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Runs ``a2perf rlops compare`` with the words of this process."""
    # imported by name, because the package cli is above this one
    importlib.import_module("a2perf.cli").main(["rlops", "compare", *sys.argv[1:]])


if __name__ == "__main__":
    main()
