"""The comparison itself: scores to verdicts, probabilities of improvement and aggregates over environments."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field, replace

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics.bootstrap import (
    Aggregate,
    Estimate,
    aggregate_iqm,
    aggregate_mean,
    aggregate_median,
    aggregate_optimality_gap,
    bootstrap,
    distribution,
    freedom_of_mean,
    small_sample_interval,
)
from a2perf.metrics.comparison import probability_of_improvement
from a2perf.metrics.reference_scale import ReferenceScale
from a2perf.rlops.compare.references import references_of
from a2perf.rlops.compare.request import Request
from a2perf.rlops.compare.selection import GroupRuns, Panel, select
from a2perf.rlops.compare.verdict import LEAST_SEEDS, Judgement, Verdict, corrected, judge, overall, pooled_chance
from a2perf.rlops.store import Store

AGGREGATES: dict[str, Aggregate] = {
    "IQM": aggregate_iqm,
    "Mean": aggregate_mean,
    "Median": aggregate_median,
    "Optimality Gap": aggregate_optimality_gap,
}
REPETITIONS = 2000
_IMPROVEMENT_REPETITIONS = 1000


@dataclass(frozen=True)
class Candidate:
    """What is said of one group against the baseline.

    Attributes:
        place: of the group.
        verdict: overall.
        judgements: by panel.
        improvement: by panel, the probability that one of its runs beats one of the baseline's; None without runs.
        iqm_difference: interquartile mean of its normalised scores less the baseline's, over all panels; None where
            scores cannot be normalised.
        p_together: chance of so low a difference over all panels together (``pooled_chance``).
    """

    place: int
    verdict: Verdict
    judgements: tuple[Judgement, ...]
    improvement: tuple[Estimate | None, ...]
    iqm_difference: Estimate | None = None
    p_together: float | None = None


@dataclass(frozen=True)
class Comparison:
    """A comparison with everything that is said about it.

    Attributes:
        store: folder of the store.
        request: what was asked for.
        panels: by environment and metric.
        candidates: the groups that are judged, in their order; empty for one group alone.
        references: stored reference scores by panel.
        normalised: by group, normalised scores of shape ``(runs, panels)``, trimmed to the smallest number of runs;
            empty where a panel has no reference or no run.
        aggregates: by group and name of the aggregate.
        notices: what a reader should know.
        made_at: ISO 8601 in UTC.
    """

    store: str
    request: Request
    panels: tuple[Panel, ...]
    candidates: tuple[Candidate, ...]
    references: dict[str, ReferenceScale]
    normalised: tuple[Values, ...] = field(repr=False)
    aggregates: tuple[dict[str, Estimate], ...]
    notices: tuple[str, ...]
    made_at: str

    @property
    def names(self) -> list[str]:
        """Names of the groups."""
        return [group.name for group in self.request.groups]

    @property
    def verdict(self) -> Verdict | None:
        """The worst verdict of all candidates; None for one group alone."""
        verdicts = {candidate.verdict for candidate in self.candidates}
        order = (Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.PASS)
        return next((verdict for verdict in order if verdict in verdicts), None)


def compare(
    store: Store,
    request: Request,
    *,
    references: dict[str, ReferenceScale] | None = None,
    repetitions: int = REPETITIONS,
) -> Comparison:
    """Compares groups of runs.

    Args:
        store: the experiment store.
        request: what is asked for.
        references: the user's reference scores by environment, before those of the protocol.
        repetitions: resamples for the intervals of aggregates.

    Raises:
        UserError: nothing to compare; the message says what exists.
    """
    panels, notices = select(store, request)
    found = references_of(panels, references or {})
    normalised, trimmed = _normalised(request, panels, found)
    aggregates = tuple(
        {name: bootstrap(matrix, aggregate, repetitions=repetitions, confidence=request.confidence, method="small")
         for name, aggregate in AGGREGATES.items()}
        for matrix in normalised
    )  # fmt: skip
    judged = _judged(request, panels)
    candidates = []
    for at in request.candidates:
        assert request.baseline is not None
        iqm = None
        if normalised:
            iqm = _iqm_difference(normalised[at], normalised[request.baseline], repetitions, request.confidence)
        improvement = tuple(_improvement(request, panel, at, request.baseline) for panel in panels)
        verdict = overall(judged[at], confidence=request.confidence, candidates=len(request.candidates))
        together = pooled_chance(judged[at])
        candidates.append(Candidate(at, verdict, tuple(judged[at]), improvement, iqm, together))
    return Comparison(
        store=str(store.path),
        request=request,
        panels=tuple(panels),
        candidates=tuple(candidates),
        references=found,
        normalised=normalised,
        aggregates=aggregates,
        notices=(*notices, *trimmed),
        made_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _judged(request: Request, panels: list[Panel]) -> dict[int, list[Judgement]]:
    """Judges every candidate on every panel; Holm's correction is over all of them together."""
    if request.baseline is None:
        return {}
    plain = [
        _judge(request, panel, panel.cells[at], panel.cells[request.baseline])
        for at in request.candidates
        for panel in panels
    ]
    kept = corrected(plain, confidence=request.confidence)
    count = len(panels)
    return {at: kept[place * count : (place + 1) * count] for place, at in enumerate(request.candidates)}


def _judge(request: Request, panel: Panel, candidate: GroupRuns, baseline: GroupRuns) -> Judgement:
    judgement = judge(
        panel.name,
        candidate.scores,
        baseline.scores,
        request.tolerance,
        higher_is_better=panel.metric not in request.lower_is_better,
        confidence=request.confidence,
        failed=candidate.failed,
        identical=_identical(candidate, baseline),
    )
    prints = panel.fingerprints()
    if len(prints) > 1:
        reason = f"the environment behaves differently: fingerprints {', '.join(sorted(mark[:8] for mark in prints))}"
        return replace(judgement, verdict=Verdict.INCONCLUSIVE, p_regression=None, further_seeds=None, reason=reason)
    return judgement


def _identical(candidate: GroupRuns, baseline: GroupRuns) -> bool:
    """Returns whether both sides have the same seeds with the same curves, bit for bit, another one for each seed.

    Curves that do not depend on the seed, such as a return at its ceiling, show nothing about other seeds.
    """
    ours, theirs = ({run.seed: at for at, run in enumerate(cell.runs)} for cell in (candidate, baseline))
    lengths = {len(ours), len(theirs), len(candidate.runs), len(baseline.runs)}
    if set(ours) != set(theirs) or None in ours or len(lengths) > 1 or len(ours) < LEAST_SEEDS or candidate.failed:
        return False
    for seed, at in ours.items():
        first, second = candidate.curves[at], baseline.curves[theirs[seed]]
        if not np.array_equal(first.steps, second.steps) or not np.array_equal(first.values, second.values):
            return False
    return len({curve.values.tobytes() for curve in candidate.curves}) == len(ours)


def _improvement(request: Request, panel: Panel, at: int, baseline: int) -> Estimate | None:
    sign = -1.0 if panel.metric in request.lower_is_better else 1.0
    ours, theirs = (
        sign * panel.cells[place].scores[np.isfinite(panel.cells[place].scores)] for place in (at, baseline)
    )
    if not ours.size or not theirs.size:
        return None
    return probability_of_improvement(ours, theirs, repetitions=_IMPROVEMENT_REPETITIONS, confidence=request.confidence)


def _normalised(
    request: Request, panels: list[Panel], references: dict[str, ReferenceScale]
) -> tuple[tuple[Values, ...], list[str]]:
    """Returns the normalised scores of each group, trimmed to its smallest number of runs, and what that cost."""
    columns = [
        [panel.cells[at].scores[np.isfinite(panel.cells[at].scores)] for panel in panels]
        for at in range(len(request.groups))
    ]
    if any(panel.name not in references for panel in panels) or any(not c.size for row in columns for c in row):
        return (), []
    matrices, said = [], []
    for group, row in zip(request.groups, columns, strict=True):
        fewest = min(column.size for column in row)
        if any(column.size > fewest for column in row):
            said.append(
                f"{group.name}: aggregates use the first {fewest} runs on each environment, as many as all have"
            )
        normal = [references[panel.name].normalise(c[:fewest]) for panel, c in zip(panels, row, strict=True)]
        matrices.append(np.stack(normal, axis=1))
    return tuple(matrices), said


def _iqm_difference(ours: Values, theirs: Values, repetitions: int, confidence: float) -> Estimate:
    """Returns the difference of two interquartile means with the small-sample interval of a stratified bootstrap."""
    value = aggregate_iqm(ours) - aggregate_iqm(theirs)
    low = high = None
    if min(ours.shape[0], theirs.shape[0]) > 1:
        draws = [
            distribution(m, aggregate_iqm, repetitions=repetitions, seed=at) for at, m in enumerate((ours, theirs))
        ]
        runs, freedom = min(ours.shape[0], theirs.shape[0]), min(freedom_of_mean(ours), freedom_of_mean(theirs))
        ends = small_sample_interval(draws[0] - draws[1], np.asarray(value), runs, freedom, confidence)
        low, high = float(ends[0]), float(ends[1])
    return Estimate(
        value=float(value), low=low, high=high, n=min(ours.shape[0], theirs.shape[0]), tasks=ours.shape[1],
        repetitions=repetitions, confidence=confidence, method="small",
    )  # fmt: skip
