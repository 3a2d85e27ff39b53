"""``python -m a2perf``."""

from a2perf.cli import main

main()
