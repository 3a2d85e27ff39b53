"""``compare.json``: the results of a comparison as typed data for other programs."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import numpy as np

from a2perf._version import __version__
from a2perf.metrics.bootstrap import Estimate
from a2perf.records import SCHEMA, Record
from a2perf.rlops.compare.comparison import Candidate, ComparedGroups, OverallDifference
from a2perf.rlops.compare.panel import GroupRuns


class ComparedRun(Record, kw_only=True):
    """One run of a group on an environment.

    Attributes:
        score: mean of the last values; None if it diverged.
    """

    run: str
    seed: int | None
    version: str
    tags: list[str]
    score: float | None
    wall_s: float | None
    energy_kwh: float | None
    energy_quality: str


class ComparedCell(Record, kw_only=True):
    """A group on an environment.

    Attributes:
        env_id: the environment's name in this group.
        std: of the scores, ddof 0.
    """

    env_id: str
    n: int
    mean: float | None
    std: float | None
    failed: int
    runs: list[ComparedRun]


class ComparedPanel(Record, kw_only=True):
    """One metric on one environment."""

    name: str
    metric: str
    groups: dict[str, ComparedCell]
    reference: dict[str, float | str] | None = None


class VerdictRecord(Record, kw_only=True):
    """The verdict on one panel; see ``verdict.Judgement`` and, for units, the panel's metric.

    Attributes:
        verdict: of the regression gate: PASS, REGRESSION or INCONCLUSIVE.
        difference: candidate less baseline; positive is better.
        tolerance: largest acceptable loss.
        p_regression: chance of so low a difference if the true one were just at the tolerance.
        further_seeds: how many more on each side would settle it in eight of ten simulations.
        further_seeds_low: the same in half of the simulations.
        separating_seeds: how many more on each side would separate the sides in eight of ten simulations.
        probability_of_improvement: that a run of the candidate beats one of the baseline; ties count half.
    """

    panel: str
    sign: str
    verdict: str
    difference: float | None
    low: float | None
    high: float | None
    tolerance: float
    p_regression: float | None
    candidate_n: int
    baseline_n: int
    lost: int
    further_seeds: int | None
    probability_of_improvement: Estimate | None
    reason: str
    further_seeds_low: int | None = None
    separating_seeds: int | None = None


class CandidateRecord(Record, kw_only=True):
    """A group against the baseline."""

    group: str
    verdict: str
    panels: list[VerdictRecord]
    overall: dict[str, OverallDifference]
    p_together: float | None = None


class CompareRecord(Record, kw_only=True):
    """``compare.json``.

    Attributes:
        made_at: ISO 8601 in UTC.
        last: number of last logged values that a score is the mean of.
        question: ``"seeds"`` (units: training seeds) or ``"episodes"`` (units: shared episodes, in pairs).
        looks: number of looks at growing data over which the decisions keep their confidence: ``"any"``.
    """

    schema: int = SCHEMA
    a2perf_version: str
    made_at: str
    store: str
    groups: dict[str, str]
    baseline: str | None
    last: int
    confidence: float
    tolerance: dict[str, float]
    verdict: str | None
    candidates: list[CandidateRecord]
    panels: list[ComparedPanel]
    notices: list[str] = msgspec.field(default_factory=list)
    question: str = "seeds"
    looks: str = "any"


def compare_record(comparison: ComparedGroups) -> CompareRecord:
    """Returns a comparison as plain data."""
    request, names = comparison.request, comparison.names
    references: dict[str, dict[str, float | str]] = {
        name: {"random": scale.floor, "expert": scale.expert, "source": scale.source}
        for name, scale in comparison.references.items()
    }
    return CompareRecord(
        a2perf_version=__version__,
        made_at=comparison.made_at,
        store=comparison.store,
        groups={group.name: str(group.query) for group in request.groups},
        baseline=None if request.baseline is None else request.groups[request.baseline].name,
        last=request.last,
        confidence=request.confidence,
        tolerance=dataclasses.asdict(request.tolerance),
        verdict=None if comparison.verdict is None else comparison.verdict.value,
        candidates=[_candidate(comparison, candidate) for candidate in comparison.candidates],
        panels=[
            ComparedPanel(
                name=panel.name,
                metric=panel.metric,
                groups={name: _cell(panel.env, cell) for name, cell in zip(names, panel.cells, strict=True)},
                reference=references.get(panel.name),
            )
            for panel in comparison.panels
        ],
        notices=list(comparison.notices),
        question=request.question,
    )


def _candidate(comparison: ComparedGroups, candidate: Candidate) -> CandidateRecord:
    panels = []
    for panel, judgement, improvement in candidate.rows():
        values = {name: value for name, value in judgement.values().items() if name in VerdictRecord.__struct_fields__}
        panels.append(
            VerdictRecord(
                panel=panel.name,
                sign=judgement.sign.value,
                probability_of_improvement=improvement,
                reason=judgement.reason,
                **values,
            )
        )
    return CandidateRecord(
        group=comparison.names[candidate.place],
        verdict=candidate.verdict.value,
        panels=panels,
        overall=candidate.overall,
        p_together=candidate.p_together,
    )


def _cell(env: str, cell: GroupRuns) -> ComparedCell:
    finite = cell.scores[np.isfinite(cell.scores)]
    return ComparedCell(
        env_id=env,
        n=int(finite.size),
        mean=float(finite.mean()) if finite.size else None,
        std=float(finite.std()) if finite.size else None,
        failed=cell.failed,
        runs=[
            ComparedRun(
                run=run.name,
                seed=run.record.seed,
                version=run.record.version,
                tags=sorted(run.record.tags),
                score=float(score) if math.isfinite(score) else None,
                wall_s=run.execution.wall_s,
                energy_kwh=run.execution.energy_kwh,
                energy_quality=run.execution.energy_quality,
            )
            for run, score in zip(cell.runs, cell.scores, strict=True)
        ],
    )
