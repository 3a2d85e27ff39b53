"""Judges a bundle from its repetitions: bit-equal, or by a sequential test of each claim.

The first repetition has the recorded seeds. If every recorded value of every episode is equal, the claims that the
bundle itself makes are confirmed. Otherwise two tests share the chance of an error: one of the paired differences on
the recorded seeds, one of the episodes with fresh seeds. A claimed threshold is tested on fresh seeds only, because
the recorded ones may have been selected. If the training run is repeated too, the episodes of one policy depend on each
other, so every repetition counts as one value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from a2perf.experiments.reproduce.claims import QUANTITIES, Claim, bounds_of, margin_of
from a2perf.experiments.reproduce.comparison import EpisodeComparison, paired_differences
from a2perf.metrics.claims import MARGIN, ClaimResult, SequentialClaim
from a2perf.runs.bundles.reproduction import CheckedClaim, Outcome
from a2perf.runs.run import Run

_EACH_CONFIDENCE = 0.975
"""Confidence of each of the two tests of one claim; together they err in at most 5 % of the cases."""
_ONE_CONFIDENCE = 0.95
_LEAST_TRIED = 6
"""Repetitions after which a claim is given up if no number of further ones can be named."""
_PATIENCE = 4
"""A claim is given up if it needs this many times the remaining repetitions: the estimate of the need is rough."""


@dataclass
class BundleJudgement:
    """The claims of one bundle and what the repetitions so far say about them.

    Attributes:
        max_runs: number of repetitions after which a claim stays open.
        same_host: whether the repetitions run on the recorded host; None if unknown.
        repeated: the repetitions; the first one has the recorded seeds.
        episodes: comparison with the first one.
    """

    recorded: Run
    claims: Sequence[Claim]
    max_runs: int
    trained: bool = False
    same_host: bool | None = None
    repeated: list[Run] = field(default_factory=list)
    episodes: EpisodeComparison | None = None

    def results(self) -> list[CheckedClaim]:
        """Returns one result per claim."""
        return [self._checked(claim) for claim in self.claims]

    def settled(self) -> bool:
        """Returns whether no further repetition can change a verdict."""
        remaining = self.max_runs - len(self.repeated)
        open_claims = [one for one in self.results() if one.verdict == "INCONCLUSIVE"]
        return remaining <= 0 or not any(self._can_settle(one, remaining) for one in open_claims)

    def _can_settle(self, checked: CheckedClaim, remaining: int) -> bool:
        """Returns whether the remaining repetitions may settle a claim; the expected number is only a rough one."""
        if self.trained or not QUANTITIES[checked.quantity].per_episode:
            return True  # one value each: the test looks at the last one at the latest
        per_run = max(1, len(next(iter(self.recorded.episodes.values()), ())))
        if checked.needed is None:
            return checked.reruns < _LEAST_TRIED * per_run
        return checked.needed <= _PATIENCE * remaining * per_run

    def _checked(self, claim: Claim) -> CheckedClaim:
        values = claim.quantity.values(self.recorded)
        claimed = claim.threshold if claim.threshold is not None else (float(values.mean()) if values.size else None)
        if claimed is None:
            return _open(claim, math.nan, "NOT CHECKED", f"the bundle records no {claim.quantity.name}")
        if problem := self._unmeasurable(claim):
            return _open(claim, claimed, "NOT CHECKED", problem)
        if not self.repeated:
            return _open(claim, claimed, "INCONCLUSIVE", "not repeated yet")
        if claim.quantity.per_episode and claim.threshold is None:
            return self._recorded_episodes(claim, claimed)
        return self._threshold(claim, claimed)

    def _recorded_episodes(self, claim: Claim, claimed: float) -> CheckedClaim:
        if self.episodes is not None and self.episodes.bit_equal:
            count = self.episodes.episodes
            return _equal(claim, claimed, count, f"all {count} episodes are bit-equal")
        recorded = claim.quantity.values(self.recorded)
        margin = margin_of(claim, self.recorded, claimed) or MARGIN * float(np.ptp(recorded)) or _relative(claimed)
        if self.trained:
            test = SequentialClaim(claimed, "==", margin=margin, max_reruns=self.max_runs, confidence=_ONE_CONFIDENCE)
            test.extend(self._run_means(claim, self.repeated))
            return _result(claim, claimed, margin, test.result(), [])
        paired = paired_differences(self.recorded, self.repeated[0], claim.quantity.name)
        if paired.size == recorded.size and not paired.any():
            reason = f"its {paired.size} values are bit-equal, though other values of the episodes differ"
            return _equal(claim, claimed, paired.size, reason)
        if paired.size:
            bounds = None if bounds_of(claim) is None else (-1.0, 1.0)
            test = SequentialClaim(
                0.0, "==", bounds=bounds, margin=margin, max_reruns=max(2, paired.size), confidence=_EACH_CONFIDENCE
            )
            test.extend(paired)
            found = test.result()
            if found.verdict != "INCONCLUSIVE":
                return _moved(claim, claimed, margin, found)
        fresh = self._fresh_values(claim)
        most = max(2, (self.max_runs - 1) * max(1, recorded.size))
        test = SequentialClaim(
            recorded, "==", bounds=bounds_of(claim), margin=margin, max_reruns=most, confidence=_EACH_CONFIDENCE
        )
        if fresh:
            test.extend(fresh)
        return _result(claim, claimed, margin, test.result(), [])

    def _threshold(self, claim: Claim, claimed: float) -> CheckedClaim:
        per_run = self.trained or not claim.quantity.per_episode
        values = self._fresh_values(claim)
        if per_run:
            values = self._run_means(claim, self.repeated[1:] if claim.quantity.per_episode else self.repeated)
        margin = margin_of(claim, self.recorded, claimed) or _relative(claimed)
        # The last look of the test is at the last value, and the repetition of the recorded seeds gives none here.
        runs = self.max_runs - 1 if claim.quantity.per_episode else self.max_runs
        most = max(1, runs * (1 if per_run else claim.quantity.values(self.recorded).size))
        test = SequentialClaim(
            claimed, claim.comparison, bounds=bounds_of(claim), margin=margin, max_reruns=most,
            confidence=_ONE_CONFIDENCE,
        )  # fmt: skip
        if values:
            test.extend(values)
        return _result(claim, claimed, margin, test.result(), self._host_notes(claim))

    def _fresh_values(self, claim: Claim) -> list[float]:
        return [float(value) for run in self.repeated[1:] for value in claim.quantity.values(run)]

    def _run_means(self, claim: Claim, runs: Sequence[Run]) -> list[float]:
        every = [claim.quantity.values(run) for run in runs]
        return [float(values.mean()) for values in every if values.size]

    def _unmeasurable(self, claim: Claim) -> str:
        """Returns why the repetitions cannot check a claim; ``""`` if they can."""
        if not self.repeated or claim.quantity.per_episode:
            return ""
        name = claim.quantity.name
        if not any(claim.quantity.values(run).size for run in self.repeated):
            return f"this host measured no {name}"
        if name == "energy":
            qualities = [run.tracking.energy.quality for run in (self.recorded, self.repeated[0])]
            if qualities[0] == "measured" and qualities[1] != "measured":
                method = self.repeated[0].tracking.energy.method
                return f"the recorded energy was measured; this host only estimates it ({method})"
        return ""

    def _host_notes(self, claim: Claim) -> list[str]:
        if claim.quantity.per_episode or self.same_host:
            return []
        notes = ["measured on another host" if self.same_host is False else "the record does not name its host"]
        if claim.quantity.name == "energy":
            methods = [run.tracking.energy.method for run in (self.recorded, self.repeated[0])]
            notes.append(f"method of the record: {methods[0]}; here: {methods[1]}")
        return notes


def overall(claims: Sequence[CheckedClaim]) -> tuple[Outcome, str]:
    """Returns the verdict of a bundle and the reason: of its worst claim."""
    for verdict in ("REFUTED", "INCONCLUSIVE", "NOT CHECKED", "CONFIRMED"):
        named = [one for one in claims if one.verdict == verdict]
        if named:
            return named[0].verdict, "; ".join(f"{one.claim}: {one.reason}" for one in named)
    return "NOT CHECKED", "the bundle makes no claim"


def _relative(claimed: float) -> float:
    """Returns a share of the claimed value as margin; a tiny one for a claimed 0, as a margin must be above 0."""
    return MARGIN * abs(claimed) or 1e-9


def _open(claim: Claim, claimed: float, verdict: Outcome, reason: str) -> CheckedClaim:
    return CheckedClaim(
        claim=claim.text, quantity=claim.quantity.name, comparison=claim.comparison, claimed=claimed,
        unit=claim.quantity.unit, verdict=verdict, reason=reason,
    )  # fmt: skip


def _equal(claim: Claim, claimed: float, reruns: int, reason: str) -> CheckedClaim:
    return replace(_open(claim, claimed, "CONFIRMED", reason), estimate=claimed, reruns=reruns)


def _moved(claim: Claim, claimed: float, margin: float, found: ClaimResult) -> CheckedClaim:
    """Returns a result about differences as one about the value."""
    kind = "differ" if found.verdict == "REFUTED" else "agree within the margin"
    reason = f"{found.reruns} episodes of the recorded seeds {kind}: mean difference {found.estimate:+.6g}"
    return replace(
        _open(claim, claimed, found.verdict, reason), margin=margin, estimate=claimed + found.estimate,
        low=claimed + found.low, high=claimed + found.high, reruns=found.reruns,
    )  # fmt: skip


def _result(claim: Claim, claimed: float, margin: float, found: ClaimResult, notes: list[str]) -> CheckedClaim:
    return replace(
        _open(claim, claimed, found.verdict, found.reason), margin=margin,
        estimate=found.estimate if found.reruns > 0 else None, low=_finite(found.low), high=_finite(found.high),
        reruns=found.reruns, needed=found.needed, notes=notes,
    )  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
