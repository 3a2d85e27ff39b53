"""Metrics: pure scoring of recorded data, and the trackers that record what a live run costs.

A metric is a function of a ``Run`` with the decorator ``metric``. Scoring never imports ``trackers``; importing this
package loads neither.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a2perf.metrics.definition import Metric as Metric
    from a2perf.metrics.definition import metric as metric
    from a2perf.metrics.registry import all_metrics as all_metrics
    from a2perf.metrics.registry import rank as rank
    from a2perf.metrics.registry import score as score
    from a2perf.metrics.registry import select as select
    from a2perf.metrics.runs_in_mode import ScoredRuns as ScoredRuns
    from a2perf.metrics.runs_in_mode import scored_runs as scored_runs
    from a2perf.metrics.scores import score_runs as score_runs
    from a2perf.metrics.values import Lead as Lead
    from a2perf.metrics.values import MetricResult as MetricResult
    from a2perf.metrics.values import MetricValue as MetricValue
    from a2perf.metrics.values import RunNumber as RunNumber

_HOMES = {
    "Lead": "values",
    "Metric": "definition",
    "MetricResult": "values",
    "MetricValue": "values",
    "RunNumber": "values",
    "ScoredRuns": "runs_in_mode",
    "all_metrics": "registry",
    "metric": "definition",
    "rank": "registry",
    "score": "registry",
    "score_runs": "scores",
    "scored_runs": "runs_in_mode",
    "select": "registry",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Loads a public name from its module on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
