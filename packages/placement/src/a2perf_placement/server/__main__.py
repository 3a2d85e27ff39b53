"""``python -m a2perf_placement.server``: the same as ``a2perf-plc``."""

import sys

from a2perf_placement.server.command import main

sys.exit(main())
