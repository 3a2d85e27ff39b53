"""The condition of a performance test and its verdict, computed from the values of the runs."""

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


class PerformanceVerdict(enum.Enum):
    """The verdict of a test."""

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"
    OUT_OF_TIME = "out of time"


@dataclass(frozen=True)
class PassCondition:
    """The block ``performance_testing_conditions``.

    Attributes:
        columns: the judged metrics; a run meets the condition if all of them do.
        direction: ``">="`` when higher is better.
        statistic: ``"last"`` value, ``"best"`` value, or ``"mean_last_n"``: the mean of the last ``last_n``.
        max_steps: budget of a run; the first value at or after it is the last that counts. None for no limit.
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
        """Checks the numbers against each other."""
        if self.total_runs < 1 or not 1 <= self.succ_runs <= self.total_runs:
            raise ConfigError(
                f"succ_runs = {self.succ_runs} of total_runs = {self.total_runs} can never be met",
                hint="give total_runs >= 1 and 1 <= succ_runs <= total_runs",
            )
        if not self.columns or len(self.columns) != len(self.values):
            raise ConfigError(
                f"{len(self.columns)} eval_columns but {len(self.values)} values of eval_value",
                hint="give one value for all columns, or one for each",
            )
        if self.direction not in (">=", "<="):
            raise ConfigError(f"direction = {self.direction!r} is neither '>=' nor '<='", hint="choose one of them")
        if self.statistic not in STATISTICS:
            raise ConfigError(
                f"statistic = {self.statistic!r} is unknown", hint=f"choose one of: {', '.join(STATISTICS)}"
            )
        if not all(math.isfinite(value) for value in self.values):
            raise ConfigError(
                f"eval_value = {', '.join(f'{value:g}' for value in self.values)} is not a finite number",
                hint="give a threshold that a run can reach and miss",
            )
        if self.max_steps is not None and self.max_steps < 1:
            raise ConfigError(f"max_steps = {self.max_steps} leaves no step", hint="give a positive number")

    def last_step(self, steps: NDArray[np.float64]) -> float:
        """Returns the last step that counts: the first one at or after the budget, which loggers rarely hit exactly."""
        late = steps[steps >= self.max_steps] if self.max_steps is not None else steps[:0]
        return float(late.min()) if late.size else math.inf

    def judged(self, steps: NDArray[np.float64], values: NDArray[np.float64]) -> float | None:
        """Returns the number of a run to compare with the threshold.

        Returns:
            None if no value within the budget was logged. NaN, which meets no condition, if one of the values that the
            statistic uses is not finite. ``"best"`` skips such values, except the last one: that run diverged.
        """
        counted = values[steps <= self.last_step(steps)]
        if not counted.size:
            return None
        taken = counted[-(self.last_n if self.statistic == "mean_last_n" else 1) :]
        if not np.isfinite(taken).all():
            return math.nan
        if self.statistic == "best":
            finite = counted[np.isfinite(counted)]
            return float(finite.max() if self.direction == ">=" else finite.min())
        return float(taken.mean())

    def is_met(self, judged: Sequence[float | None]) -> bool:
        """Returns whether a run with these numbers, one per column, meets the condition.

        Both sides are compared in single precision, which event files store: a logged 0.9 must reach 0.9.
        """
        # Beyond single precision a number becomes infinite, which still compares as it should.
        with np.errstate(over="ignore"):
            pairs = [
                (np.float32(value), np.float32(bound))
                for value, bound in zip(judged, self.values, strict=True)
                if value is not None
            ]
        reached = (value >= bound if self.direction == ">=" else value <= bound for value, bound in pairs)
        return len(pairs) == len(self.values) and all(reached)

    def verdict(self, met: int, missed: int, *, out_of_time: bool = False) -> PerformanceVerdict:
        """Returns the verdict after some runs.

        Args:
            missed: runs that did not, including crashed ones.
            out_of_time: whether the time for further runs is over.
        """
        if met >= self.succ_runs:
            return PerformanceVerdict.PASSED
        if self.total_runs - met - missed < self.succ_runs - met:
            return PerformanceVerdict.FAILED
        return PerformanceVerdict.OUT_OF_TIME if out_of_time else PerformanceVerdict.OPEN

    def pass_probability(self, success_rate: float) -> float:
        """Returns the probability that an algorithm passes if each run succeeds with probability ``success_rate``.

        P = sum over k >= succ_runs of C(n, k) p^k (1 - p)^(n - k), the upper tail of a binomial distribution.
        """
        return sum(
            math.comb(self.total_runs, count) * success_rate**count * (1.0 - success_rate) ** (self.total_runs - count)
            for count in range(self.succ_runs, self.total_runs + 1)
        )

    def hint(self) -> str:
        """Returns the sentence on the statistical power of this test."""
        chances = ", ".join(f"{self.pass_probability(rate):.1%} at {rate:.0%}" for rate in (0.5, 0.8, 0.95))
        return (
            f"a gate of {self.succ_runs} out of {self.total_runs} passes with a probability of {chances} "
            "true success rate of one run"
        )
