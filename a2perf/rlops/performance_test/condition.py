"""When a performance test has passed, has failed, or can be neither any more; pure arithmetic over the runs' values."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import ConfigError

Direction = Literal[">=", "<="]
Statistic = Literal["last", "best", "mean_last_n"]
STATISTICS: tuple[Statistic, ...] = ("last", "best", "mean_last_n")


class Verdict(enum.Enum):
    """What a test has come to."""

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"
    OUT_OF_TIME = "out of time"


@dataclass(frozen=True)
class Condition:
    """The block ``performance_testing_conditions``.

    Attributes:
        total_runs: budget of independent runs.
        succ_runs: how many of them must meet the condition.
        columns: the metrics that are judged; a run meets the condition when every one of them does.
        values: the threshold of each.
        direction: ``">="`` when higher is better.
        statistic: ``"last"`` value, ``"best"`` value, or ``"mean_last_n"``: the mean of the last ``last_n``.
        last_n: for that mean.
        max_steps: values at later steps do not count; None for no bound.
    """

    total_runs: int
    succ_runs: int
    columns: tuple[str, ...]
    values: tuple[float, ...]
    direction: Direction = ">="
    statistic: Statistic = "last"
    last_n: int = 3
    max_steps: int | None = None

    def __post_init__(self) -> None:
        """Checks that the numbers make sense together.

        Raises:
            ConfigError: they do not.
        """
        if self.total_runs < 1 or not 1 <= self.succ_runs <= self.total_runs:
            raise ConfigError(
                f"succ_runs = {self.succ_runs} of total_runs = {self.total_runs} can never be met",
                mend="give total_runs >= 1 and 1 <= succ_runs <= total_runs",
            )
        if not self.columns or len(self.columns) != len(self.values):
            raise ConfigError(
                f"{len(self.columns)} eval_columns but {len(self.values)} values of eval_value",
                mend="give one value for all columns, or one for each",
            )
        if self.direction not in (">=", "<="):
            raise ConfigError(f"direction = {self.direction!r} is neither '>=' nor '<='", mend="choose one of them")
        if self.statistic not in STATISTICS:
            raise ConfigError(
                f"statistic = {self.statistic!r} is unknown", mend=f"choose one of: {', '.join(STATISTICS)}"
            )
        if self.max_steps is not None and self.max_steps < 1:
            raise ConfigError(f"max_steps = {self.max_steps} leaves no step", mend="give a positive number")

    def judged(self, steps: NDArray[np.float64], values: NDArray[np.float64]) -> float | None:
        """Returns the number of a run that is compared with the threshold; None when it logged nothing that counts."""
        inside = np.isfinite(values)
        if self.max_steps is not None:
            inside &= steps <= self.max_steps
        counted = values[inside]
        if not counted.size:
            return None
        if self.statistic == "best":
            return float(counted.max() if self.direction == ">=" else counted.min())
        return float(counted[-(self.last_n if self.statistic == "mean_last_n" else 1) :].mean())

    def is_met(self, judged: Sequence[float | None]) -> bool:
        """Says whether a run with these numbers, one a column, meets the condition."""
        pairs = zip(judged, self.values, strict=True)
        return all(
            value is not None and (value >= bound if self.direction == ">=" else value <= bound)
            for value, bound in pairs
        )

    def verdict(self, met: int, missed: int, *, out_of_time: bool = False) -> Verdict:
        """Says where the test stands after some runs.

        Args:
            met: runs that met the condition.
            missed: runs that did not, crashed ones included.
            out_of_time: no further run may be waited for.
        """
        if met >= self.succ_runs:
            return Verdict.PASSED
        if self.total_runs - met - missed < self.succ_runs - met:
            return Verdict.FAILED
        return Verdict.OUT_OF_TIME if out_of_time else Verdict.OPEN

    def pass_probability(self, success_rate: float) -> float:
        """Returns how probably the gate lets an algorithm pass each run of which succeeds with ``success_rate``.

        P = sum over k >= succ_runs of C(n, k) p^k (1 - p)^(n - k), the upper tail of a binomial distribution.
        """
        return sum(
            math.comb(self.total_runs, count) * success_rate**count * (1.0 - success_rate) ** (self.total_runs - count)
            for count in range(self.succ_runs, self.total_runs + 1)
        )

    def hint(self) -> str:
        """Says how much a verdict of this gate is worth."""
        chances = ", ".join(f"{self.pass_probability(rate):.1%} at {rate:.0%}" for rate in (0.5, 0.8, 0.95))
        return (
            f"a gate of {self.succ_runs} out of {self.total_runs} passes with a probability of {chances} "
            "true success rate of one run"
        )
