"""Records a script with ``main(env=...)``: BENCH_SCRIPT, BENCH_ENV and BENCH_SEED name script, environment and seed.

``BENCH_SCRIPT=tabular/q_learning.py BENCH_ENV=FrozenLake-v1 BENCH_SEED=42 python benchmark.py --episodes=500`` is the
same as ``a2perf wrap tabular/q_learning.py --env FrozenLake-v1 --seed 42 -- --episodes=500``.
"""

import sys

from a2perf.cli import main

if __name__ == "__main__":
    main(["wrap", *sys.argv[1:]])
