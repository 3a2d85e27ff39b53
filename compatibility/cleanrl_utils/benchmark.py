"""``python -m cleanrl_utils.benchmark ...`` of CleanRL: the command ``a2perf benchmark``."""

from a2perf.rlops.benchmark import main

if __name__ == "__main__":
    main()
