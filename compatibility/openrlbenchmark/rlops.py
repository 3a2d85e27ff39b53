"""``python -m openrlbenchmark.rlops ...`` of openrlbenchmark: the command ``a2perf rlops compare``."""

from a2perf.rlops.compare.__main__ import main

if __name__ == "__main__":
    main()
