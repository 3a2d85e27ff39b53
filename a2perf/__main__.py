"""``python -m a2perf``."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # the working directory, which may be a submission's folder

from a2perf.cli import main

main()
