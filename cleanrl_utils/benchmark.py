"""``python -m cleanrl_utils.benchmark ...`` in a checkout: the words of ``a2perf benchmark``."""

from a2perf.rlops.benchmark import main

if __name__ == "__main__":
    main()
