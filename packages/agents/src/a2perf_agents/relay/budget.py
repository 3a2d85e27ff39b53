"""Budgets of one run: each call reserves the largest amounts that it can use, and is charged what it used.

Pure bookkeeping; the amounts of earlier attempts come from the journal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from a2perf_agents.record import Amounts, BudgetUse
from a2perf_agents.relay.access import BudgetLimits, ModelPrice

RECORD_BYTES = 1 << 30
"""Largest journal of one run; then further calls are refused, because they could not be recorded."""

_PER = 1_000_000


def cost(price: ModelPrice | None, tokens_in: int, tokens_out: int, cached: int = 0) -> float:
    """Returns the cost of a call; 0 without a price.

    Args:
        price: prices per million tokens.
        cached: tokens of the prompt that the server had cached.
    """
    if price is None:
        return 0.0
    cached = min(cached, tokens_in)
    reduced = price.input if price.cached_input is None else price.cached_input
    return ((tokens_in - cached) * price.input + cached * reduced + tokens_out * price.output) / _PER


class RunBudget:
    """The budgets of a run.

    Args:
        busy_s: time in which calls were in flight in earlier attempts, in seconds.
        clock: a monotonic clock in seconds.

    Attributes:
        reserved: the largest amounts of the calls in flight.
    """

    def __init__(
        self,
        limits: BudgetLimits,
        used: Amounts | None = None,
        busy_s: float = 0.0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self._used, self.reserved = used or Amounts(), Amounts()
        self._busy_s, self._busy_since, self._in_flight = busy_s, 0.0, 0
        self._joules: dict[int, float] = {}
        self._refused: dict[str, int] = {}
        self._clock = clock
        self.record_bytes = 0

    @property
    def busy_s(self) -> float:
        """Time in which at least one call was in flight, in seconds."""
        return self._busy_s + (self._clock() - self._busy_since if self._in_flight else 0.0)

    @property
    def rest_s(self) -> float:
        """What is left of the budget of time, in seconds."""
        return math.inf if self.limits.seconds is None else max(0.0, self.limits.seconds - self.busy_s)

    def set_joules(self, source: int, joules: float) -> None:
        """Sets the energy that one part of the run has used so far, earlier attempts included."""
        self._joules[source] = joules

    def output_tokens(self, prompt: int, choices: int, most: int, price: ModelPrice | None) -> int:
        """Returns how many tokens an answer may have under the budgets of tokens and cost.

        Returns:
            At most ``most``; below 1 if the budgets do not allow a single token.
        """
        if self.limits.tokens is not None:
            rest = self.limits.tokens - self._used.tokens - self.reserved.tokens - prompt
            most = min(most, rest // choices)
        if self.limits.cost is not None and price is not None and price.output > 0:
            rest_cost = self.limits.cost - self._used.cost - self.reserved.cost - cost(price, prompt, 0)
            most = min(most, math.floor(rest_cost * _PER / price.output / choices + 1e-9))
        return most

    def exhausted(self, need: Amounts) -> str | None:
        """Returns the name of the first budget that a call would exceed, and counts the refusal; else None."""
        used, limits = self._used.plus(self.reserved).plus(need), self.limits
        over = {
            "calls": limits.calls is not None and used.calls > limits.calls,
            "tokens": limits.tokens is not None and used.tokens > limits.tokens,
            "cost": limits.cost is not None and used.cost > limits.cost * (1 + 1e-12),
            "seconds": self.rest_s <= 0,
            "joules": limits.joules is not None and sum(self._joules.values()) >= limits.joules,
            "record_bytes": self.record_bytes >= RECORD_BYTES,
        }
        name = next((name for name, is_over in over.items() if is_over), None)
        if name is not None:
            self.refuse(name)
        return name

    def refuse(self, name: str) -> None:
        """Counts a call that a budget prevented or ended."""
        self._refused[name] = self._refused.get(name, 0) + 1

    def reserve(self, need: Amounts) -> None:
        """Reserves the largest amounts of a call that is about to be sent."""
        self.reserved = self.reserved.plus(need)
        if self._in_flight == 0:
            self._busy_since = self._clock()
        self._in_flight += 1

    def charge(self, amounts: Amounts) -> None:
        """Counts amounts in addition to those of a call: of a lost try that the server may have answered."""
        self._used = self._used.plus(amounts)

    def settle(self, need: Amounts, charged: Amounts) -> None:
        """Releases the reserve of a call that has ended, and counts what it used."""
        self.reserved = self.reserved.plus(need, -1)
        self._used = self._used.plus(charged)
        self._in_flight -= 1
        if self._in_flight == 0:
            self._busy_s += self._clock() - self._busy_since

    def use(self) -> dict[str, BudgetUse]:
        """Returns the budgets that have a limit, and what was used of them."""
        limits = self.limits
        values = {
            "tokens": (limits.tokens, self._used.tokens),
            "calls": (limits.calls, self._used.calls),
            "seconds": (limits.seconds, self.busy_s),
            "joules": (limits.joules, sum(self._joules.values())),
            "cost": (limits.cost, self._used.cost),
            "record_bytes": (RECORD_BYTES if "record_bytes" in self._refused else None, self.record_bytes),
        }
        return {
            name: BudgetUse(limit=limit, used=used, refused=self._refused.get(name, 0))
            for name, (limit, used) in values.items()
            if limit is not None
        }
