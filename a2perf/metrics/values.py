"""The records that metrics return.

A value carries unit, direction, spread, number of runs, the profile of formulas and whether it was measured or
estimated. A value that could not be computed is ``None`` with the reason in ``condition``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import msgspec

from a2perf.errors import ConfigError, did_you_mean

Category = Literal["application", "reliability", "system", "data"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
Direction = Literal["max", "min", "none"]
Profile = Literal["upstream", "corrected"]
NORMALISED = "normalised_score"
"""Name of the mean return on the scale of its task, which is not a metric of a run alone."""
PROFILES: tuple[Profile, ...] = ("upstream", "corrected")
_OLD_NAMES: dict[str, Profile] = {"a2perf": "upstream"}


class Lead(enum.IntEnum):
    """How early outputs show a metric: each level includes those below it."""

    NONE = 0
    TABLE = 1
    """A row of the short tables of reports."""
    TEXT = 2
    """A line of printed scores, a column of tables of runs."""
    COLUMN = 3
    """A column of leaderboards."""
    CHART = 4
    """A chart of score against cost."""


class MetricValue(msgspec.Struct, kw_only=True, frozen=True):
    """One computed metric.

    Attributes:
        value: the aggregated number; ``None`` if it could not be computed, with the reason in ``condition``.
        spread: a standard deviation; ``spread_kind`` names the population.
        interval: 95 % interval ``(low, high)`` over runs, where the profile has one; with ``uncertainty``, if known.
        per_run: one number per run, in the order given, ``None`` if a run has too little data; empty if the
            metric exists only across runs.
        n: number of runs (seeds) that the value is computed from.
        unit: ``""`` for the unit of the reward.
        direction: ``"min"``: lower is better.
        provenance: ``"measured"``, ``"estimated"``, ``"mixed"`` or ``"recorded"`` (a reward, a count).
        condition: why there is no value, ``"not enough data (n=2, needs 3)"``.
        notes: remarks such as points left out, filters not applied, a small n.
        uncertainty: of the measurement, expanded (k = 2), in ``unit``; ``None`` if it is unknown or does not apply.
    """

    name: str
    value: float | None = None
    spread: float | None = None
    spread_kind: str | None = None
    interval: tuple[float, float] | None = None
    per_run: list[float | None] = msgspec.field(default_factory=list)
    n: int = 0
    unit: str = ""
    direction: Direction = "none"
    profile: str | None = None
    provenance: str = "recorded"
    method: str | None = None
    condition: str | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    uncertainty: float | None = None


class RunNumber(NamedTuple):
    """One run's number.

    Attributes:
        value: None or NaN if the run did not record it.
        provenance: ``"measured"``, ``"estimated"`` or ``"recorded"``; None for the metric's own.
        uncertainty: of the measurement, expanded (k = 2), in the metric's unit; None if it is unknown.
        common: part of ``uncertainty`` that all runs on the instrument share.
    """

    value: float | None
    provenance: str | None = None
    method: str = ""
    uncertainty: float | None = None
    common: float = 0.0


@dataclass(kw_only=True)
class MetricResult:
    """A computed metric before it is labelled; the fields are those of ``MetricValue``, None for the metric's own."""

    value: float | None = None
    spread: float | None = None
    spread_kind: str | None = None
    interval: tuple[float, float] | None = None
    per_run: list[float | None] = field(default_factory=list)
    n: int = 0
    unit: str | None = None
    provenance: str | None = None
    method: str | None = None
    condition: str | None = None
    notes: list[str] = field(default_factory=list)
    uncertainty: float | None = None


def profile_named(name: str) -> Profile:
    """Returns a profile by name, ``"a2perf"`` is the old one of ``"upstream"``; a ``ConfigError`` if unknown."""
    for profile in PROFILES:
        if _OLD_NAMES.get(name, name) == profile:
            return profile
    near = did_you_mean(str(name), PROFILES)
    raise ConfigError(f"unknown profile {name!r}{near}", hint=f"use one of {', '.join(PROFILES)}")


def not_enough(found: int, needed: int, what: str = "") -> str:
    """Returns the stated condition for too little data; ``what`` names what was counted unless it is runs."""
    return f"not enough data (n={found}{' ' + what if what else ''}, needs {needed})"
