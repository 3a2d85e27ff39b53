"""``python rlops_tags.py ...`` of CleanRL: the command ``a2perf rlops tags``."""

import sys

from a2perf.cli import main

if __name__ == "__main__":
    main(["rlops-tags", *sys.argv[1:]])
