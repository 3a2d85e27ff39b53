"""Names of tasks, environments, profiles and templates that distributions of this repository bring since 1.0.

Kept for one release: an error about such a name has the command that installs the distribution.
"""

from __future__ import annotations

from a2perf.plugins import install_line

_BROUGHT_BY = {
    "CircuitTraining-MacroPlacement-v0": "placement",
    "macro_placement": "placement",
    "place_ariane": "placement",
    "place_ariane_twin": "placement",
    "place_toy_macro_stdcell": "placement",
    "placer": "placement",
}


def hint_for(name: str, hint: str) -> str:
    """Returns the hint for an unknown name: the distribution that brings it, or ``hint``."""
    brought_by = _BROUGHT_BY.get(name)
    return hint if brought_by is None else f"a2perf-{brought_by} brings it: {install_line(brought_by)}"
