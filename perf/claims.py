"""Error rates of ``a2perf.metrics.claims`` over synthetic claims: wrong verdicts, reruns, undecided claims.

A claim is a number (the true mean, or the mean of an inflated policy) or a sample of episodes. Fresh episodes come from
the policy as it is: the honest claim has its mean, the inflated one claims 5 % of the score range more, which
is exactly the margin and so the hardest inflation that has to be found.
``python perf/claims.py [--claims 200] [--json]`` prints for each distribution of returns and kind of claim

* the share of honest claims that are refuted (to be at most 5 %) and of inflated ones that are (at least 95 %);
* the share of undecided ones, and the median and the 95th percentile of the reruns until a verdict.

The range is [0, 1] and known, or, in the rows "no bounds", the interval with 99.8 % of the returns, and unknown.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from a2perf.metrics.claims import MARGIN, SequentialClaim

BATCH = 200
MAX_RERUNS = 10_000
Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Returns:
    """Returns of the episodes of a policy.

    Attributes:
        name: of the row.
        draw: from a generator and a number to returns.
        mean: their true mean.
        span: score range in units of the returns.
        bounds: of the returns, where a2perf knows them.
        sample: episodes of a claim that brings its own.
    """

    name: str
    draw: Draw
    mean: float
    span: float = 1.0
    bounds: tuple[float, float] | None = (0.0, 1.0)
    sample: int = 400


def _heavy(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.clip(0.5 + 0.08 * rng.standard_t(2, size), 0.0, 1.0)


def _collapse(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.where(rng.random(size) < 0.1, 0.0, np.clip(0.8 + 0.05 * rng.standard_normal(size), 0.0, 1.0))


def _clipped_normal(rng: np.random.Generator, size: int) -> np.ndarray:
    # Symmetrical: the mean is that of the normal distribution.
    return np.clip(0.5 + 0.15 * rng.standard_normal(size), 0.0, 1.0)


POLICIES = (
    Returns("normal", _clipped_normal, 0.5),
    Returns("skewed", lambda rng, size: rng.beta(1.0, 5.0, size), 1.0 / 6.0),
    Returns("success 0.5", lambda rng, size: 1.0 * (rng.random(size) < 0.5), 0.5, sample=4000),
    Returns("success 0.9", lambda rng, size: 1.0 * (rng.random(size) < 0.9), 0.9, sample=2000),
    Returns("heavy tails", _heavy, 0.5),
    Returns("10 % collapse", _collapse, 0.72, sample=1000),
    Returns("constant", lambda rng, size: np.full(size, 0.7), 0.7),
    Returns("normal, no bounds", lambda rng, size: rng.standard_normal(size), 0.0, 6.18, None),
    Returns("t(3), no bounds", lambda rng, size: rng.standard_t(3, size), 0.0, 20.4, None),
    Returns("lognormal, no bounds", lambda rng, size: rng.lognormal(size=size), float(np.exp(0.5)), 21.9, None),
    Returns("success 0.5, no bounds", lambda rng, size: 1.0 * (rng.random(size) < 0.5), 0.5, 1.0, None, sample=8000),
)


def judged(policy: Returns, inflation: float, own: bool, rng: np.random.Generator, max_reruns: int) -> tuple[str, int]:
    """Returns the verdict on one claim and its reruns."""
    bounds, draw = policy.bounds, policy.draw
    claimed = policy.draw(rng, policy.sample) if own else policy.mean
    if own and inflation and bounds is not None:
        # Claimed episodes cannot exceed the bounds, so the policy that is tested is the worse one.
        draw = _worse(policy, inflation)
    else:
        claimed = claimed + inflation
    claim = SequentialClaim(
        claimed, bounds=bounds, margin=MARGIN * policy.span, max_reruns=max_reruns, seed=int(rng.integers(2**32))
    )
    while (found := claim.extend(draw(rng, BATCH))) is None:
        pass
    return found.verdict, found.reruns


def _worse(policy: Returns, loss: float) -> Draw:
    """Returns a policy with a lower mean: each episode loses where that stays in the bounds, else some fail."""
    if policy.name in ("constant", "normal", "heavy tails"):
        return lambda rng, size: np.clip(policy.draw(rng, size) - loss, 0.0, 1.0)
    share = loss / policy.mean
    return lambda rng, size: policy.draw(rng, size) * (rng.random(size) >= share)


def rates(policy: Returns, own: bool, claims: int, seed: int, max_reruns: int = MAX_RERUNS) -> dict:
    """Returns the error rates of honest and inflated claims."""
    rng = np.random.default_rng(seed)
    found = {
        kind: [judged(policy, inflation, own, rng, max_reruns) for _ in range(claims)]
        for kind, inflation in (("honest", 0.0), ("inflated", MARGIN * policy.span))
    }
    row: dict = {"returns": policy.name, "claim": f"{policy.sample} episodes" if own else "a number"}
    for kind, results in found.items():
        verdicts = [verdict for verdict, _ in results]
        row |= {
            f"{kind}_refuted": verdicts.count("REFUTED") / claims,
            f"{kind}_undecided": verdicts.count("INCONCLUSIVE") / claims,
            f"{kind}_median": float(np.median([reruns for _, reruns in results])),
            f"{kind}_p95": float(np.percentile([reruns for _, reruns in results], 95)),
        }
    return row


def main() -> None:
    """Simulates and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--claims", type=int, default=200, help="honest and inflated ones per row")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    start = time.process_time()
    rows = [rates(policy, own, given.claims, 1) for own in (False, True) for policy in POLICIES]
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{2 * given.claims * len(rows)} claims, {time.process_time() - start:.0f} s of processor time")
    print(f"{'':38}  honest claims                inflated by 5 % of the range")
    print(f"{'returns':23}  {'claim':13}  refuted  undecided  reruns (95 %)  refuted  undecided  reruns (95 %)")
    for row in rows:
        cells = [
            f"{row[f'{kind}_refuted']:7.1%}  {row[f'{kind}_undecided']:9.1%}  "
            f"{row[f'{kind}_median']:5.0f} ({row[f'{kind}_p95']:5.0f})"
            for kind in ("honest", "inflated")
        ]
        print(f"{row['returns']:23}  {row['claim']:13}  " + "  ".join(cells))


if __name__ == "__main__":
    main()
