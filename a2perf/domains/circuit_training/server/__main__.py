"""``python -m a2perf.domains.circuit_training.server``: the same as ``a2perf-plc``."""

import sys

from a2perf.domains.circuit_training.server.command import main

sys.exit(main())
