"""What tracking costs per second: codecarbon, which looks at the machine, and a2perf, which follows the process tree.

python perf/peers/codecarbon_sampling.py
"""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager

from codecarbon import OfflineEmissionsTracker
from turns import in_turns

import a2perf

SECONDS = 10


def of_peer() -> OfflineEmissionsTracker:
    return OfflineEmissionsTracker(
        country_iso_code="USA", measure_power_secs=1, tracking_mode="machine", save_to_file=False, log_level="critical"
    )


def seconds_of(tracker: AbstractContextManager) -> int:
    """Returns how long the tracker was to follow this process; what it recorded agrees with that."""
    with tracker as found:
        time.sleep(SECONDS)
    own = isinstance(found, a2perf.Tracked)
    recorded = found.wall_clock.value if own else found.final_emissions_data.duration
    assert SECONDS <= recorded < 1.5 * SECONDS, recorded
    return SECONDS


if __name__ == "__main__":
    logging.disable()
    in_turns({"codecarbon": lambda: seconds_of(of_peer()), "a2perf.track": lambda: seconds_of(a2perf.track("peer"))})
