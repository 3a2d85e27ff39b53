"""Exact incremental costs: one move costs a fraction of a full evaluation, and the result is the same."""

from a2perf_placement.incremental.placement import IncrementalPlacement as IncrementalPlacement
from a2perf_placement.incremental.placement import evaluate_placement as evaluate_placement
