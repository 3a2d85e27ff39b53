"""The claims that can be checked, and their grammar: ``return>=380``, ``latency<=3 ms``, ``energy<=0.5 kWh``.

A claim without a comparison (``latency``) is about the value that the bundle records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from a2perf.arrays import Values
from a2perf.errors import ConfigError, did_you_mean
from a2perf.metrics import protocol as protocols
from a2perf.metrics import registry
from a2perf.metrics.claims import Comparison
from a2perf.runs.run import Run

_GRAMMAR = re.compile(
    r"\s*([A-Za-z_](?:[A-Za-z_ ]*[A-Za-z_])?)\s*(?:(>=|<=|==)\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(\S*)\s*)?"
)
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_KWH = {"kWh": 1.0, "Wh": 1e-3, "mWh": 1e-6, "J": 1 / 3.6e6, "kJ": 1 / 3.6e3, "MJ": 1 / 3.6}
COST_MARGIN = 0.05
"""Margin of a cost, as a share of the claimed value: the same code on the same host varies by a few per cent."""


@dataclass(frozen=True)
class ClaimQuantity:
    """A quantity of an evaluation.

    Attributes:
        unit: unit of its values; ``""`` for a return.
        units: accepted units and their factors to ``unit``.
        values: returns the values of a run: one per episode, or a single one for a cost. Empty if not recorded.
    """

    name: str
    unit: str
    units: Mapping[str, float]
    values: Callable[[Run], Values] = field(repr=False)
    per_episode: bool = False
    comparison: Comparison = "<="


def mean_over_tasks(by_task: Mapping[str, Values]) -> Values:
    """Returns the mean over the tasks of each episode; of all episodes that every task has."""
    count = min((len(values) for values in by_task.values()), default=0)
    return np.mean([values[:count] for values in by_task.values()], axis=0) if count else np.empty(0)


def _single(value: float | None) -> Values:
    return np.array([value], np.float64) if value is not None and math.isfinite(value) else np.empty(0)


def _latency(run: Run) -> Values:
    calls = run.latency_s.get("round_trip", run.latency_s.get("infer_once", np.empty(0)))
    return _single(float(np.median(calls)) if calls.size else None)


QUANTITIES: Mapping[str, ClaimQuantity] = {
    one.name: one
    for one in (
        ClaimQuantity("return", "", {"": 1.0}, lambda run: mean_over_tasks(run.returns.get(run.mode, {})), True, "=="),
        ClaimQuantity(
            "success", "share", {"": 1.0, "%": 0.01},
            lambda run: mean_over_tasks(run.successes.get(run.mode, {})), True, "==",
        ),
        ClaimQuantity("latency", "s", _SECONDS, _latency),
        ClaimQuantity("peak_memory", "B", _BYTES, lambda run: _single(run.tracking.rss_peak_bytes)),
        ClaimQuantity("energy", "kWh", _KWH, lambda run: _single(run.tracking.energy.gross_kwh)),
    )
}  # fmt: skip
"""Every quantity by name: the mean return and share of successes of the episodes; the median round trip of a timed
call; the peak resident memory and the gross energy of the participant's process tree."""


_OF_METRIC = {
    "returns": "return", "success_rate": "success", "latency_round_trip_median": "latency",
    "memory_rss_peak": "peak_memory", "energy_gross": "energy",
}  # fmt: skip
"""The quantity of a claim that names a metric."""


@dataclass(frozen=True)
class Claim:
    """A parsed claim.

    Attributes:
        comparison: how the mean of the repetitions compares with the claimed value.
        threshold: claimed value in the quantity's unit; None for the recorded values.
    """

    text: str
    quantity: ClaimQuantity
    comparison: Comparison
    threshold: float | None = None


def parse_claim(text: str) -> Claim:
    """Parses a claim.

    Raises:
        ConfigError: it does not follow the grammar, names an unknown quantity, or has a wrong or missing unit.
    """
    found = _GRAMMAR.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"the claim {text!r} is not valid", hint="write NAME, or NAME>=VALUE UNIT: `return>=380`, `latency<=3 ms`"
        )
    name, _, number, unit = found.groups()
    comparison: Comparison | None = next((one for one in get_args(Comparison) if one == found[2]), None)
    quantity = QUANTITIES.get(name.lower())
    if quantity is None and name.lower() != "score":  # a normalised score is not the return that a claim is about
        quantity = QUANTITIES.get(_OF_METRIC.get(registry.meaning(name) or "", ""))
    if quantity is None:
        raise ConfigError(
            f"the claim {text!r} names {name!r}, which cannot be checked{did_you_mean(name, QUANTITIES)}",
            hint=f"choose one of: {', '.join(QUANTITIES)}",
        )
    if comparison is None:
        return Claim(text.strip(), quantity, quantity.comparison)
    try:
        value = float(number)
    except ValueError as error:
        raise ConfigError(f"the claim {text!r}: {number!r} is not a number", hint="write `return>=380`") from error
    if unit not in quantity.units:
        valid = ", ".join(filter(None, quantity.units)) or "no unit"
        given = f"the unit {unit!r}" if unit else "no unit"
        raise ConfigError(f"the claim {text!r} has {given}; {quantity.name} has {valid}", hint=_example(quantity))
    value *= quantity.units[unit]
    if quantity.name == "success" and not 0.0 <= value <= 1.0:
        raise ConfigError(f"the claim {text!r}: a success is between 0 and 1, or 0 % and 100 %", hint="success>=90 %")
    if quantity.units is not QUANTITIES["return"].units and value < 0.0:
        raise ConfigError(f"the claim {text!r}: {quantity.name} cannot be negative", hint=_example(quantity))
    return Claim(" ".join(text.split()), quantity, comparison, value)


def default_claims(recorded: Run) -> list[Claim]:
    """Returns the claims of a bundle itself: its return, and its successes if the environment reports them."""
    names = [name for name in ("return", "success") if QUANTITIES[name].values(recorded).size]
    return [Claim(name, QUANTITIES[name], QUANTITIES[name].comparison) for name in names]


def margin_of(claim: Claim, recorded: Run, claimed: float) -> float | None:
    """Returns the deviation that must be found, in the quantity's unit; None for the default of the test.

    5 points for a success, 5 % of the claimed value for a cost, and for a return 5 % of the distance from the random
    policy to the expert in the latest protocol that has references for this task and behaviour.
    """
    if claim.quantity.name == "return":
        found = protocols.scored_task(recorded.identity.task, recorded.identity.fingerprint)
        if found is None:
            return None
        return 0.05 * abs(found.task.reference("expert").mean - found.task.reference("random").mean)
    if claim.quantity.name == "success":
        return 0.05
    return COST_MARGIN * abs(claimed) or None


def bounds_of(claim: Claim) -> tuple[float, float] | None:
    """Returns the least and the greatest possible value of one episode, if they are known."""
    return (0.0, 1.0) if claim.quantity.name == "success" else None


def _example(quantity: ClaimQuantity) -> str:
    examples = {
        "return": "return>=380", "success": "success>=90 %", "latency": "latency<=3 ms",
        "peak_memory": "peak_memory<=2 GiB", "energy": "energy<=0.5 kWh",
    }  # fmt: skip
    return f"write {examples[quantity.name]!r}"
