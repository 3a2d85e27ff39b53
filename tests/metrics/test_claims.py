"""Claims: error rates on both kinds of claims, few reruns, honest forecasts, and refused input."""

from __future__ import annotations

import doctest
import math
from typing import Any

import numpy as np
import pytest

from a2perf.metrics import claims as module
from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.claims import SequentialClaim

DRAWS = {
    "success": lambda rng, size: 1.0 * (rng.random(size) < 0.9),
    "collapse": lambda rng, size: np.where(rng.random(size) < 0.1, 0.0, 0.8 + 0.05 * rng.uniform(-1, 1, size)),
    "skewed": lambda rng, size: rng.beta(1.0, 5.0, size),
}
MEANS = {"success": 0.9, "collapse": 0.72, "skewed": 1.0 / 6.0}


def verdicts(name: str, inflation: float, own: int, claims: int = 40) -> list[str]:
    """Verdicts on claims about returns between 0 and 1."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(claims):
        claimed = DRAWS[name](rng, own) if own else MEANS[name] + inflation
        keep = 1.0 - (inflation / MEANS[name] if own else 0.0)
        claim = SequentialClaim(claimed, bounds=(0.0, 1.0), max_reruns=4000)
        while (result := claim.extend(DRAWS[name](rng, 250) * (rng.random(250) < keep))) is None:
            pass
        found.append(result.verdict)
    return found


@pytest.mark.parametrize("own", [0, 1500])
@pytest.mark.parametrize("name", list(DRAWS))
def test_inflated_claims_are_refuted_and_honest_ones_are_not(name: str, own: int) -> None:
    assert verdicts(name, 0.0, own).count("REFUTED") <= 2
    assert verdicts(name, 0.05, own).count("REFUTED") >= 38


def test_claims_without_bounds_keep_their_error_rate_on_skewed_values() -> None:
    rng, found = np.random.default_rng(1), []
    for inflation in [0.0] * 60 + [1.1] * 60:
        claim = SequentialClaim(math.exp(0.5) + inflation, margin=1.1)
        while (result := claim.extend(rng.lognormal(size=100))) is None:
            pass
        found.append(result.verdict)
    assert found[:60].count("REFUTED") <= 3
    assert found[60:].count("REFUTED") >= 57


def test_a_few_training_runs_are_judged_once_at_the_full_level() -> None:
    runs = np.array([351.0, 364.0, 358.0, 349.0, 360.0])
    claim = SequentialClaim(380.0, max_reruns=5)
    assert [claim.add(run) for run in runs[:4]] == [None] * 4
    assert (claim.result().low, claim.result().needed) == (-math.inf, None)
    found = claim.add(runs[4])
    assert found is not None
    low, high = mean_interval(runs)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.verdict, found.reruns) == ("REFUTED", 5)


def test_one_by_one_gives_the_result_of_all_at_once_and_ends() -> None:
    values = np.random.default_rng(2).uniform(0.3, 0.6, 400)
    for given in (0.6, np.random.default_rng(3).uniform(0.45, 0.75, 300)):
        single = SequentialClaim(given, bounds=(0.0, 1.0))
        found = [single.add(value) for value in values]
        first = next(index for index, result in enumerate(found) if result is not None)
        assert found[first] == SequentialClaim(given, bounds=(0.0, 1.0)).extend(values) == found[-1] == single.result()
        assert found[first].reruns == first + 1
        assert found[first].verdict == "REFUTED"
        assert found[first].high < single.claimed


@pytest.mark.parametrize(
    ("comparison", "value", "verdict"),
    [(">=", 0.9, "CONFIRMED"), (">=", 0.5, "CONFIRMED"), (">=", 0.4, "REFUTED"), ("<=", 0.4, "CONFIRMED"),
     ("<=", 0.6, "REFUTED"), ("==", 0.5, "CONFIRMED"), ("==", 0.4, "REFUTED"), ("==", 0.6, "REFUTED")],
)  # fmt: skip
def test_each_comparison_judges_constant_returns(comparison: Any, value: float, verdict: str) -> None:
    for bounds in ((0.0, 1.0), None):
        found = SequentialClaim(0.5, comparison, bounds=bounds, margin=0.05).extend([value] * 200)
        assert found is not None
        assert (found.verdict, found.estimate) == (verdict, pytest.approx(value))
        # Without bounds equal values need no more than the first look; with them a rare collapse must be excluded.
        assert found.reruns == 20 if bounds is None else 5 < found.reruns < 90
        assert found.low - 1e-9 <= value <= found.high + 1e-9


def test_a_perfect_score_can_be_claimed_and_a_tiny_one_is_not_confirmed_by_its_margin() -> None:
    perfect = SequentialClaim(1.0, "==", bounds=(0.0, 1.0)).extend([1.0] * 200)
    assert perfect is not None
    assert perfect.verdict == "CONFIRMED"
    never = SequentialClaim(0.03, bounds=(0.0, 1.0)).extend([0.0] * 5000)
    assert never is not None
    assert never.verdict == "REFUTED"


def test_a_forecast_names_reruns_that_settle_it_and_none_from_few_values() -> None:
    rng, settled, named = np.random.default_rng(7), 0, 0
    for _ in range(40):
        claim = SequentialClaim(0.9, bounds=(0.0, 1.0))
        claim.extend(DRAWS["success"](rng, 2))
        assert claim.result().needed is None
        if claim.extend(DRAWS["success"](rng, 100)) is None and (needed := claim.result().needed) is not None:
            named += 1
            settled += claim.extend(DRAWS["success"](rng, needed)) is not None
    assert named >= 20
    assert named > settled >= 0.6 * named


def test_a_claim_with_too_few_episodes_says_so() -> None:
    rng = np.random.default_rng(3)
    claim = SequentialClaim(1.0 * (rng.random(20) < 0.5), bounds=(0.0, 1.0), max_reruns=300)
    found = claim.extend(1.0 * (rng.random(300) < 0.5))
    assert found is not None
    assert (found.verdict, found.needed) == ("INCONCLUSIVE", None)
    assert found.reason == "both remain possible; the claim's own 20 values are too few to settle it"


@pytest.mark.parametrize(
    ("given", "message"),
    [({"claimed": 2.0, "bounds": (0, 1)}, r"the value 2 lies outside the bounds \[0, 1\]"),
     ({"claimed": 0.0}, "the margin is 0.0"), ({"claimed": []}, "no value"),
     ({"claimed": 1.0, "bounds": (1, 1)}, "the lower first"), ({"claimed": math.nan}, "NaN or infinite"),
     ({"claimed": 1.0, "comparison": ">"}, "valid are >=, <= and =="), ({"claimed": 1.0, "max_reruns": 0}, "at least")],
)  # fmt: skip
def test_refused_claims(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SequentialClaim(**given)


def test_a_failed_rerun_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="count a failed rerun as the worst possible value"):
        SequentialClaim(1.0).add(math.nan)


def test_the_example_of_the_docstring() -> None:
    assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=3)
