"""``python -m a2perf``."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # the working directory may be a submission, and its modules must not be imported here

from a2perf.cli import main

main()
