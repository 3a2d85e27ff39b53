"""The comparison itself: from scores to verdicts and probabilities of improvement."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from a2perf.metrics.bootstrap import Estimate, probability_of_improvement
from a2perf.metrics.difference import LEAST_SEEDS, Difference, Sign, at_any_look, difference, spread_of_all
from a2perf.metrics.protocol import ReferenceScale
from a2perf.rlops.compare.panel import GroupRuns, Panel
from a2perf.rlops.compare.references import references_of
from a2perf.rlops.compare.request import Request
from a2perf.rlops.compare.verdict import Judgement, Verdict, corrected, judge, overall, pooled_chance

_IMPROVEMENT_REPETITIONS = 1000


@dataclass(frozen=True)
class OverallDifference:
    """The difference of a candidate over all environments with one metric.

    Attributes:
        unit: of the difference; ``"SD"`` for standard deviations of all scores of an environment.
        reason: why it is not separated although the interval excludes 0; else empty.
    """

    found: Difference
    environments: int
    unit: str
    reason: str = ""


@dataclass(frozen=True)
class Candidate:
    """The result of one group against the baseline.

    Attributes:
        improvement: by panel, the probability that one of its runs beats one of the baseline's; None without runs.
        p_together: chance of so low a difference over all panels together (``pooled_chance``).
    """

    place: int
    verdict: Verdict
    panels: tuple[Panel, ...]
    judgements: tuple[Judgement, ...]
    improvement: tuple[Estimate | None, ...]
    overall: dict[str, OverallDifference] = field(default_factory=dict)
    p_together: float | None = None

    def rows(self) -> list[tuple[Panel, Judgement, Estimate | None]]:
        """Returns each panel with its judgement and the probability of improvement."""
        return list(zip(self.panels, self.judgements, self.improvement, strict=True))


@dataclass(frozen=True)
class ComparedGroups:
    """A comparison and its results.

    Attributes:
        made_at: ISO 8601 in UTC.
    """

    store: str
    request: Request
    panels: tuple[Panel, ...]
    candidates: tuple[Candidate, ...]
    references: dict[str, ReferenceScale]
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


def compare_panels(
    panels: Sequence[Panel],
    request: Request,
    *,
    notices: Sequence[str] = (),
    store: str = "",
    references: dict[str, ReferenceScale] | None = None,
) -> ComparedGroups:
    """Judges the candidates of a request on panels that hold the scores of all groups."""
    found = references_of(panels, references or {})
    judged_on = {
        at: [one for one in panels if not request.only_shared or one.cells[at].runs or one.cells[at].failed]
        for at in request.candidates
    }
    judged = _judged(request, judged_on)
    candidates = []
    for at in request.candidates:
        assert request.baseline is not None
        improvement = tuple(_improvement(request, panel, at, request.baseline) for panel in judged_on[at])
        verdict = overall(judged[at], confidence=request.confidence, candidates=len(request.candidates))
        over_all = _overall(request, judged_on[at], judged[at], found)
        together = pooled_chance(judged[at])
        candidates.append(
            Candidate(at, verdict, tuple(judged_on[at]), tuple(judged[at]), improvement, over_all, together)
        )
    return ComparedGroups(
        store=store,
        request=request,
        panels=tuple(panels),
        candidates=tuple(candidates),
        references=found,
        notices=tuple(notices),
        made_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _judged(request: Request, panels: dict[int, list[Panel]]) -> dict[int, list[Judgement]]:
    """Judges every candidate on every panel; Holm's correction is over all of them together."""
    if request.baseline is None:
        return {}
    plain = [
        _judge(request, panel, panel.cells[at], panel.cells[request.baseline])
        for at in request.candidates
        for panel in panels[at]
    ]
    kept = iter(corrected(plain, confidence=request.confidence))
    return {at: list(itertools.islice(kept, len(panels[at]))) for at in request.candidates}


def _judge(request: Request, panel: Panel, candidate: GroupRuns, baseline: GroupRuns) -> Judgement:
    ours, theirs = candidate.scores, baseline.scores
    if is_paired := request.question == "episodes":
        shared = sorted(candidate.episodes.keys() & baseline.episodes.keys())
        ours, theirs = (np.array([of[seed] for seed in shared]) for of in (candidate.episodes, baseline.episodes))
    judgement = judge(
        panel.name,
        ours,
        theirs,
        request.tolerance,
        higher_is_better=panel.metric not in request.lower_is_better,
        confidence=request.confidence,
        failed=candidate.failed,
        baseline_failed=baseline.failed,
        identical=not is_paired and _identical(candidate, baseline),
        paired=is_paired,
    )
    prints = panel.fingerprints()
    if len(prints) > 1:
        marks = ", ".join(sorted(mark[:8] for mark in prints))
        return judgement.withheld(f"the environment behaves differently: fingerprints {marks}")
    kinds = (*candidate.provenance, *baseline.provenance)
    if _is_mixed(kinds):
        measured = kinds.count("measured")
        reason = f"{panel.metric} is measured in {measured} of {len(kinds)} runs and estimated in the others"
        reason += "; measured and estimated values are never compared"
        return replace(judgement.withheld(reason), difference=None, low=None, high=None)
    return judgement


def _overall(
    request: Request, panels: Sequence[Panel], judgements: Sequence[Judgement], references: dict[str, ReferenceScale]
) -> dict[str, OverallDifference]:
    """Returns by metric the difference over all environments on which both sides can be compared.

    Each metric of each candidate is one decision, and Bonferroni's correction is for their number.
    """
    overall = {}
    metrics = dict.fromkeys(panel.metric for panel in panels)
    error = (1.0 - request.confidence) / (len(metrics) * len(request.candidates))
    for metric in metrics:
        rows = [(p, j) for p, j in zip(panels, judgements, strict=True) if p.metric == metric]
        used = [
            (p, j)
            for p, j in rows
            if j.p_regression is not None and min(j.candidate.seeds, j.baseline.seeds) >= LEAST_SEEDS
        ]
        pairs = [(j.candidate.scores, j.baseline.scores) for _, j in used]
        if len(used) < 2:
            scales, unit = [1.0] * len(used), used[0][0].unit if used else ""
        elif all(p.name in references for p, _ in used):
            scales, unit = [abs(references[p.name].expert - references[p.name].floor) for p, _ in used], "normalised"
        else:
            scales, unit = [spread_of_all(*pair) for pair in pairs], "SD"
        fewest = [min(j.candidate.seeds, j.baseline.seeds) for _, j in used]
        look = at_any_look(1.0 - error, max(fewest, default=0))
        # sides hold negated scores if less is better
        found = difference(pairs, scales, confidence=look, paired=request.question == "episodes")
        lost = {Sign.BETTER: sum(j.candidate.lost for _, j in rows), Sign.WORSE: sum(j.baseline.lost for _, j in rows)}
        reason = ""
        if lost.get(found.sign):
            side = "candidate" if found.sign is Sign.BETTER else "baseline"
            reason = f"{lost[found.sign]} runs of the {side} failed or diverged"
            found = replace(found, sign=Sign.NOT_SEPARATED)
        overall[metric] = OverallDifference(found, len(used), unit, reason)
    return overall


def _is_mixed(provenance: Sequence[str]) -> bool:
    return {"measured", "estimated"} <= set(provenance)


def _identical(candidate: GroupRuns, baseline: GroupRuns) -> bool:
    """Returns whether both sides have the same seeds with the same curves, bit for bit, another one for each seed.

    Curves that do not depend on the seed, such as a return at its ceiling, show nothing about other seeds.
    """
    ours, theirs = ({run.record.seed: at for at, run in enumerate(cell.runs)} for cell in (candidate, baseline))
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
    if _is_mixed((*panel.cells[at].provenance, *panel.cells[baseline].provenance)):
        return None
    return probability_of_improvement(ours, theirs, repetitions=_IMPROVEMENT_REPETITIONS, confidence=request.confidence)
