"""How a metric is written: a function of a run with the decorator ``metric``; everything over runs is done here.

Each run's number first, then mean, standard deviation and interval over runs. A number that exists only across runs
(a dispersion, a score over several tasks) is a function of ``ScoredRuns`` with ``across=True``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import numpy as np

from a2perf.arrays import Values
from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.runs_in_mode import ScoredRuns
from a2perf.metrics.values import (
    PROFILES,
    Category,
    Direction,
    Lead,
    MetricResult,
    MetricValue,
    Profile,
    RunNumber,
    not_enough,
    profile_named,
)
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import EnergyUncertainty, recorded

AS_RECORDED = "as recorded"
EVALUATIONS = ("inference", "generalization")
OfRun: TypeAlias = Callable[[Run], float | RunNumber | None]
OfRuns: TypeAlias = Callable[[ScoredRuns, Profile], MetricResult]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What a metric is. Calling it computes the number of one run.

    Attributes:
        name: stable name; the enum's if the enum has it.
        label: what tables of all metrics call it.
        title: what short outputs call it, in at most four words.
        lead: how early outputs show it, in every mode or by mode; in a mode without an entry it is a ``TABLE`` row.
        beside: another metric; short tables write this one in its cells, by the last part of the title.
        words: other names that users may give it.
        unit: ``""`` for the unit of the reward, ``"1"`` for a pure number.
        direction: ``"min"``: lower is better.
        provenance: of its numbers: ``"recorded"``, ``"measured"``, ``"estimated"`` or ``"as recorded"`` (each differs).
        source: paper, standard or earlier implementation that the formula is from.
        needs: the least data it takes, in words.
        applies: whether tables list it for given runs; if not, it is left out without a reason. None: always.
        whole_run: of an evaluation it also counts loading and timed calls, so it has no better or worse there.
        of_run: computes one run's number; None for a metric that exists only across runs.
    """

    name: str
    label: str
    title: str
    lead: Lead | Mapping[str, Lead] = field(default=Lead.NONE, hash=False)
    beside: str = ""
    words: tuple[str, ...] = ()
    category: Category
    unit: str = ""
    direction: Direction
    provenance: str = "recorded"
    formula: str
    source: str
    needs: str
    profiles: tuple[Profile, ...] = PROFILES
    applies: Callable[[ScoredRuns], bool] | None = None
    whole_run: bool = False
    of_run: OfRun | None = None
    of_runs: OfRuns

    def __call__(self, run: Run) -> float | RunNumber | None:
        """Returns one run's number; a TypeError if the metric exists only across runs."""
        if self.of_run is None:
            raise TypeError(f"{self.name} exists only across runs; call its score()")
        return self.of_run(run)

    def lead_in(self, mode: str) -> Lead:
        """Returns how early outputs show the metric in a mode."""
        return self.lead if isinstance(self.lead, Lead) else self.lead.get(mode, Lead.TABLE)

    def leads(self, least: Lead = Lead.TABLE) -> bool:
        """Returns whether the metric leads in any mode."""
        return max([self.lead] if isinstance(self.lead, Lead) else self.lead.values()) >= least

    def score(self, runs: ScoredRuns, profile: Profile = "corrected") -> MetricValue:
        """Returns the value over runs; a ``ConfigError`` for an unknown profile."""
        profile = profile_named(profile)
        value = self.labelled(self.of_runs(runs, profile), profile)
        if self.whole_run and any(run.mode in EVALUATIONS and run.manifest is not None for run in runs.runs):
            return msgspec.structs.replace(value, direction="none")
        return value

    def labelled(self, result: MetricResult, profile: Profile) -> MetricValue:
        """Returns a result with the metric's name, unit, direction and provenance."""
        default = "measured" if self.provenance == AS_RECORDED else self.provenance
        given = vars(result) | {
            "unit": self.unit if result.unit is None else result.unit,
            "spread_kind": result.spread_kind if result.spread is not None else None,
            "provenance": result.provenance or default,
        }
        return MetricValue(name=self.name, direction=self.direction, profile=profile, **given)


def metric(
    *,
    unit: str = "",
    direction: Direction,
    source: str,
    name: str = "",
    label: str = "",
    title: str = "",
    lead: Lead | Mapping[str, Lead] = Lead.NONE,
    beside: str = "",
    words: tuple[str, ...] = (),
    category: Category = "system",
    provenance: str = "recorded",
    formula: str = "",
    needs: str = "1 run",
    across: bool = False,
    profiles: tuple[Profile, ...] = PROFILES,
    applies: Callable[[ScoredRuns], bool] | None = None,
    whole_run: bool = False,
) -> Callable[[Callable[..., Any]], Metric]:
    """Makes a metric of a function; arguments as for ``Metric``.

    Args:
        name, label, title, formula: by default the function's name, that with spaces, the label, and the first line of
            the function's docstring.
        provenance: of its numbers, unless a ``RunNumber`` states its own.
        across: whether the function takes ``ScoredRuns`` and a profile and returns a ``MetricResult``; by default it
            takes a ``Run`` and returns its number, or None if the run did not record it.
    """

    def made(function: Callable[..., Any]) -> Metric:
        own_name = name or getattr(function, "__name__", "")
        said = (inspect.getdoc(function) or "").partition("\n")[0].rstrip(".")

        def over_runs(runs: ScoredRuns, profile: Profile) -> MetricResult:
            return numbers_over_runs([function(run) for run in runs.runs], profile, provenance, runs.units)

        own_label = label or own_name.replace("_", " ").capitalize()
        return Metric(
            name=own_name,
            label=own_label,
            title=title or own_label,
            lead=lead,
            beside=beside,
            words=words,
            category=category,
            unit=unit,
            direction=direction,
            provenance=provenance,
            formula=formula or said or own_name,
            source=source,
            needs=needs,
            profiles=profiles,
            applies=applies,
            whole_run=whole_run,
            of_run=None if across else function,
            of_runs=function if across else over_runs,
        )

    return made


def cost_metric(unit: str, label: str, formula: str, **more: Any) -> Callable[[Callable[..., Any]], Metric]:
    """Makes a metric of a cost that trackers recorded; ``more`` as for ``metric``."""
    return metric(
        unit=unit,
        label=label,
        formula=f"{formula}, mean over runs",
        provenance=AS_RECORDED,
        category="system",
        source="recorded by the trackers; upstream platform",
        **{"direction": "min", "needs": "1 run with a tracking report or an emissions table", **more},
    )


def numbers_over_runs(
    numbers: Iterable[float | RunNumber | None],
    profile: Profile,
    provenance: str = AS_RECORDED,
    units: Sequence[Sequence[int]] = (),
) -> MetricResult:
    """Returns the mean over runs of one number per run, None or NaN where a run did not record it.

    ``provenance`` is that of numbers that do not state theirs. Spread and interval are over ``ScoredRuns.units``,
    without them over runs.
    """
    default = "measured" if provenance == AS_RECORDED else provenance
    every = [number if isinstance(number, RunNumber) else RunNumber(number) for number in numbers]
    known = [number for number in every if _recorded(number) is not None]
    if not known:
        return MetricResult(condition="not recorded by any run" if every else not_enough(0, 1))
    kinds = [number.provenance or default for number in known]
    values, over = [number.value for number in known], "runs"
    if units and len(units) < len(every):
        of_units = [[number for at in unit if (number := _recorded(every[at])) is not None] for unit in units]
        values, over = [sum(of_unit) / len(of_unit) for of_unit in of_units if of_unit], "trained policies"
    result = mean_over_runs(np.array(values, np.float64), profile, over=over)
    result.per_run = [_recorded(number) for number in every]
    add_uncertainty(result, known, profile)
    result.provenance = provenance_over_runs(kinds)
    result.method = " | ".join(dict.fromkeys(number.method for number in known if number.method)) or None
    if len(known) < len(every):
        result.notes.append(f"{len(every) - len(known)} of {len(every)} runs did not record it")
    if result.provenance == "mixed":
        measured = kinds.count("measured")
        result.notes.append(f"MIXED: {measured} of {len(known)} runs measured, the others estimated; not to be ranked")
    return result


def with_uncertainty(number: RunNumber, unsure: EnergyUncertainty, kwh: float) -> RunNumber:
    """Returns a run's number with the uncertainty of the energy that it is proportional to, such as a power."""
    expanded = recorded(unsure.expanded_kwh)
    if expanded is None or number.value is None:
        return number
    common = unsure.coverage_factor * math.hypot(unsure.attribution_kwh, unsure.model_kwh)
    scale = 1.0 if number.value == kwh else abs(number.value) / kwh if kwh > 0 else 0.0
    return number._replace(uncertainty=scale * expanded, common=scale * common)


def add_uncertainty(result: MetricResult, numbers: Sequence[RunNumber], profile: Profile) -> None:
    """Adds the expanded measurement uncertainty to a mean over runs and to its interval, if that of every run is known.

    What the instrument or model gets wrong is common to all runs and does not average out; the rest is independent
    between runs (GUM, JCGM 100:2008, 5.1 and 5.2). An interval over runs knows nothing of the common part: both are
    combined. A single run has no other interval.
    """
    known = [(number.uncertainty, number.common) for number in numbers if number.uncertainty is not None]
    if not known or len(known) < len(numbers):
        return
    common = sum(part for _, part in known) / len(known)
    own = math.sqrt(sum(max(0.0, whole**2 - part**2) for whole, part in known)) / len(known)
    result.uncertainty = unsure = math.hypot(common, own)
    if (value := result.value) is not None and profile == "corrected":
        low, high = result.interval or (value, value)
        result.interval = value - math.hypot(value - low, unsure), value + math.hypot(high - value, unsure)


def mean_over_runs(values: Values, profile: Profile, *, over: str = "runs") -> MetricResult:
    """Returns mean, standard deviation (ddof 1) and interval of one number per run, at least 1 of them.

    The profile ``upstream`` has no intervals.
    """
    several = values.size > 1
    return MetricResult(
        value=float(values.mean()),
        spread=float(values.std(ddof=1)) if several else None,
        spread_kind=f"standard deviation over {over}, ddof 1",
        interval=mean_interval(values) if several and profile == "corrected" else None,
        per_run=[float(value) for value in values],
        n=int(values.size),
    )


def provenance_over_runs(kinds: Sequence[str]) -> str:
    """Returns the provenance of numbers taken together: theirs if they agree, else ``"mixed"``."""
    different = {kind or "estimated" for kind in kinds}
    return different.pop() if len(different) == 1 else "mixed"


def _recorded(number: RunNumber) -> float | None:
    return number.value if number.value is not None and math.isfinite(number.value) else None
