"""The cost of training data: the energy of generating a dataset and of training its policies.

``training_sample_cost`` is the mean training energy of the checkpoints that generated the dataset, as the upstream
platform defined it. ``data_energy`` is the energy behind the samples that a training run used, including their
generation.
"""

from __future__ import annotations

import math

import numpy as np

from a2perf.arrays import Values, as_finite
from a2perf.metrics.definition import AS_RECORDED, Metric, mean_over_runs, metric, provenance_over_runs
from a2perf.metrics.runs_in_mode import ScoredRuns
from a2perf.metrics.values import Lead, MetricResult, Profile, not_enough
from a2perf.runs.tracking_record import recorded


def _of_energies(
    found: Values, provenance: str, method: str, notes: list[str], profile: Profile, over: str
) -> MetricResult:
    finite = as_finite(found)[0]
    result = mean_over_runs(finite, profile, over=over)
    result.per_run = [recorded(kwh) for kwh in found]
    result.provenance, result.method, result.notes = provenance, f"claimed by the participant: {method}", notes
    return result


@metric(
    label="Training sample cost",
    category="data",
    lead=Lead.TABLE,
    unit="kWh",
    direction="min",
    provenance=AS_RECORDED,
    across=True,
    formula="mean training energy of the checkpoints of a dataset",
    source="upstream platform",
    needs="1 checkpoint with its training energy",
)
def training_sample_cost(runs: ScoredRuns, profile: Profile) -> MetricResult:
    """Counts each dataset once."""
    used = {(note.dataset_id, note.content_sha256): note for run in runs.runs for note in run.datasets}
    costs = [note.checkpoint_kwh for _, note in sorted(used.items())]
    finite = [as_finite([math.nan if kwh is None else kwh for kwh in kwhs]) for kwhs in costs]
    means = np.array([kwhs.mean() for kwhs, _ in finite if kwhs.size])
    method = "energy of the training in proportion to the checkpoint's number"
    notes = [f"{lost} checkpoint(s) without energy left out" for _, lost in finite if lost]
    if not means.size:
        return _unknown(len(finite), "checkpoints", "estimated", method, notes)
    return _of_energies(means, "estimated", method, notes, profile, "datasets")


@metric(
    label="Energy behind the offline data",
    category="data",
    unit="kWh",
    direction="min",
    provenance=AS_RECORDED,
    formula="samples used times (energy of generating the dataset + of training its policies) / its steps",
    source="a2perf",
    needs="1 training run on a dataset of known energy",
    across=True,
)
def data_energy(runs: ScoredRuns, profile: Profile) -> MetricResult:
    """Of each run that used offline data."""
    used = [run.datasets for run in runs.runs if run.datasets]
    found = np.array([math.fsum(math.nan if n.kwh is None else n.kwh for n in notes) for notes in used], np.float64)
    lost = int(np.count_nonzero(~np.isfinite(found)))
    kinds = [note.provenance for notes, kwh in zip(used, found, strict=True) if np.isfinite(kwh) for note in notes]
    provenance = provenance_over_runs(kinds or ["estimated"])
    method = "samples used, as the training run recorded them, times the energy per sample"
    notes = [f"{lost} run(s) used data of unknown energy"] if lost else []
    if lost == found.size:
        return _unknown(found.size, "runs on data of known energy", provenance, method, notes)
    return _of_energies(found, provenance, method, notes, profile, "runs")


def _unknown(count: int, what: str, provenance: str, method: str, notes: list[str]) -> MetricResult:
    return MetricResult(
        n=count,
        condition=not_enough(0, 1, what),
        provenance=provenance,
        notes=notes,
        method=f"claimed by the participant: {method}",
    )


METRICS: tuple[Metric, ...] = (training_sample_cost, data_energy)
