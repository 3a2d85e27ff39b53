"""What the language models of a submission cost: calls, tokens, money, time, and the energy of the own host.

Tokens are those that the server counted; cost is by the organizer's price table. The energy of a model on another
host is unknown: the energies here are those of the evaluator's host. A number per success is the sum over
all episodes of all runs divided by the number of successful episodes, because a mean over only the runs with a
success would favour the runs that fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from a2perf.metrics.definition import AS_RECORDED, Metric, OfRuns, metric, numbers_over_runs, provenance_over_runs
from a2perf.metrics.runs_in_mode import ScoredRuns
from a2perf.metrics.system import energy_gross_of
from a2perf.metrics.values import Lead, MetricResult, Profile, RunNumber
from a2perf.plain_text import terminal_line
from a2perf.runs.run import Run
from a2perf_agents.record import UsageCounts
from a2perf_agents.reliability.metrics import successes_of
from a2perf_agents.use import use_of

MODEL_ENERGY = "own host only; the energy of a hosted model is unknown"
_NO_MODEL = "no language model was used"
_NO_SUCCESS = "no successful episode"
_UNKNOWN_SUCCESS = "whether episodes succeeded is unknown"
_CURRENCY_CHARACTERS = 8


def uses_model(runs: ScoredRuns) -> bool:
    """Returns whether any of the runs used a language model."""
    return any(use_of(run) is not None for run in runs.runs)


def currency_of(run: Run) -> str:
    """Returns the unit of a run's costs; empty without a price table."""
    use = use_of(run)
    return "" if use is None else terminal_line(use.usage.currency, _CURRENCY_CHARACTERS)


def episodes_of(run: Run) -> int:
    """Returns the number of episodes of a run, repeated and perturbed ones included."""
    held = sum(len(of_task) for kept in (run.episodes, run.further) for of_task in kept.values())
    return held or sum(len(values) for values in run.returns.get(run.mode, {}).values())


def successes_in(run: Run, success_return: float | None) -> float | None:
    """Returns the number of successful episodes of a run; None if that is unknown.

    Args:
        success_return: least return of a success where the environment reports none.
    """
    episodes = [episode for kept in (run.episodes, run.further) for of_task in kept.values() for episode in of_task]
    total = float(successes_of(episodes, success_return).sum())
    return total if episodes and not math.isnan(total) else None


def _amount(counts: UsageCounts, field: str) -> float | None:
    value: float | None = getattr(counts, field)
    return None if value is None else float(value)


def _of_the_run(run: Run, field: str) -> float | None:
    """Returns an amount over all calls; None if it is unknown."""
    use = use_of(run)
    return None if use is None else _amount(use.usage.total, field)


def in_episodes(run: Run, field: str) -> float | None:
    """Returns an amount over the calls that were made in episodes; None if it is unknown.

    Args:
        field: of ``UsageCounts``.
    """
    use = use_of(run)
    if use is None:
        return None
    found = [_amount(scope.usage, field) for scope in use.usage.scopes if scope.episode is not None]
    known = [value for value in found if value is not None]
    return math.fsum(known) if known or not found else None


def _per_episode(run: Run, field: str) -> float | None:
    total, count = in_episodes(run, field), episodes_of(run)
    return None if total is None or not count else total / count


def _metric(name: str, label: str, formula: str, unit: str, **more: Any) -> Callable[[Callable[..., Any]], Metric]:
    given = {"direction": "min", "provenance": "recorded", "source": "journal of calls to the model", **more}
    return metric(
        name=name,
        label=label,
        formula=formula,
        unit=unit,
        needs="1 run that used a language model",
        applies=uses_model,
        **given,
    )


def _method(run: Run) -> str:
    use = use_of(run)
    missing = 0 if use is None else use.usage.total.calls_without_usage
    return f"lower bound: {missing} answers without a count of tokens" if missing else ""


def _over_runs(read: Callable[[Run, str], float | None], field: str) -> OfRuns:
    def over_runs(runs: ScoredRuns, profile: Profile) -> MetricResult:
        numbers = [RunNumber(read(run, field), "recorded", _method(run)) for run in runs.runs]
        result = numbers_over_runs(numbers, profile, "recorded")
        return _with_currency(result, runs) if field == "cost" else result

    return over_runs


def _with_currency(result: MetricResult, runs: ScoredRuns) -> MetricResult:
    if result.value is None:
        result.condition = "no price table"
        return result
    units = sorted({currency_of(run) for run in runs.runs if use_of(run) is not None})
    if len(units) > 1:
        return MetricResult(condition=f"different currencies: {', '.join(units)}")
    result.unit = units[0]
    return result


def _per_success(of_run: Callable[[Run], float | None], *, money: bool = False, host: bool = False) -> OfRuns:
    """Returns the metric: the sum over runs of a number, divided by the successful episodes of all runs."""

    def over_runs(runs: ScoredRuns, profile: Profile) -> MetricResult:
        used = [run for run in runs.runs if use_of(run) is not None]
        totals = [of_run(run) for run in used]
        counts = [successes_in(run, runs.success_return) for run in used]
        if not used or any(count is None for count in counts):
            return MetricResult(n=len(used), condition=_UNKNOWN_SUCCESS if used else _NO_MODEL)
        if any(total is None for total in totals):
            return MetricResult(n=len(used), condition="no price table" if money else "not recorded by every run")
        successes = math.fsum(count or 0.0 for count in counts)
        if not successes:
            return MetricResult(n=len(used), condition=_NO_SUCCESS)
        result = MetricResult(
            value=math.fsum(total or 0.0 for total in totals) / successes,
            per_run=[
                total / count if total is not None and count else None
                for total, count in zip(totals, counts, strict=True)
            ],
            n=len(used),
            notes=[f"sum over {len(used)} run(s) divided by {successes:g} successful episode(s)"],
        )
        if host:
            energies = [energy_gross_of(run) for run in used]
            result.provenance = provenance_over_runs([energy.provenance or "estimated" for energy in energies])
            result.method = MODEL_ENERGY
        return _with_currency(result, runs) if money else result

    return over_runs


def _of_a_run(name: str, what: str, field: str, unit: str = "1") -> Metric:
    formula = f"{what} of a run, mean over runs"
    return _metric(name, what.capitalize(), formula, unit, across=True)(_over_runs(_of_the_run, field))


def _of_an_episode(name: str, what: str, field: str, title: str, unit: str = "1") -> Metric:
    label = f"{what.capitalize()} per episode"
    formula = f"{what} of the calls in episodes divided by the number of episodes, mean over runs"
    made = _metric(name, label, formula, unit, across=True, title=title, lead={"inference": Lead.COLUMN})
    return made(_over_runs(_per_episode, field))


def _of_a_success(name: str, what: str, field: str, unit: str = "1", **more: Any) -> Metric:
    formula = f"{what} of the calls in episodes, divided by the successful episodes; sums over runs"
    made = _metric(name, f"{what.capitalize()} per success", formula, unit, across=True, **more)
    return made(_per_success(lambda run: in_episodes(run, field), money=field == "cost"))


def _of_times(name: str, label: str, field: str, share: float, **more: Any) -> Metric:
    """Returns a percentile of the times in a field of ``ModelUse``."""
    words = "median" if share == 50.0 else f"{share:.0f}th percentile"
    streamed = "streamed " if field == "first_token_s" else ""
    formula = f"{words} over the {streamed}answers of a run, mean over runs"

    def number(run: Run) -> RunNumber:
        use = use_of(run)
        times = np.empty(0) if use is None else getattr(use, field)
        value = float(np.percentile(times, share)) if times.size else None
        return RunNumber(value, "measured", "clock of the relay")

    return _metric(name, f"{label}, {words}", formula, "s", provenance="measured", **more)(number)


@_metric(
    "model_errors",
    "Model errors",
    "calls that failed and requests that were refused, mean over runs",
    "1",
    lead=Lead.TABLE,
)
def model_errors(run: Run) -> float | None:
    """Of all kinds."""
    use = use_of(run)
    return None if use is None else float(sum(use.usage.total.errors.values()))


@_metric(
    "host_energy_per_episode",
    "Host energy per episode",
    "energy of the own host divided by the number of episodes, mean over runs; without that of a hosted model",
    "kWh",
    provenance=AS_RECORDED,
    source="recorded by the trackers",
    lead=Lead.TABLE,
)
def host_energy_per_episode(run: Run) -> RunNumber:
    """Gross energy of the own host; the model's is unknown."""
    energy, count = energy_gross_of(run), episodes_of(run)
    if use_of(run) is None or energy.value is None or not count:
        return RunNumber(None)
    uncertainty = None if energy.uncertainty is None else energy.uncertainty / count
    return RunNumber(
        energy.value / count, energy.provenance, f"{energy.method}; {MODEL_ENERGY}", uncertainty, energy.common / count
    )


_HOST_PER_SUCCESS = _metric(
    "host_energy_per_success",
    "Host energy per success",
    "energy of the own host divided by the successful episodes; sums over runs; without that of a hosted model",
    "kWh",
    provenance=AS_RECORDED,
    source="recorded by the trackers",
    across=True,
    lead=Lead.TABLE,
)(_per_success(lambda run: energy_gross_of(run).value, host=True))

METRICS: tuple[Metric, ...] = (
    _of_an_episode("model_calls_per_episode", "model calls", "calls", "Calls per episode"),
    _of_an_episode("model_tokens_in_per_episode", "tokens in", "tokens_in", "Tokens in per episode"),
    _of_an_episode("model_tokens_out_per_episode", "tokens out", "tokens_out", "Tokens out per episode"),
    _of_an_episode("model_cost_per_episode", "model cost", "cost", "Cost per episode", ""),
    _of_a_success(
        "model_cost_per_success", "model cost", "cost", "", title="Cost per success", lead={"inference": Lead.COLUMN}
    ),
    _of_times(
        "model_first_token_median",
        "Time to first token",
        "first_token_s",
        50.0,
        title="Time to first token",
        lead={"inference": Lead.COLUMN},
    ),
    _of_times("model_first_token_p95", "Time to first token", "first_token_s", 95.0, lead=Lead.TABLE),
    model_errors,
    host_energy_per_episode,
    _HOST_PER_SUCCESS,
    _of_a_run("model_calls", "model calls", "calls"),
    _of_a_run("model_tokens_in", "tokens in", "tokens_in"),
    _of_a_run("model_tokens_out", "tokens out", "tokens_out"),
    _of_a_run("model_cost", "model cost", "cost", ""),
    _of_a_success("model_calls_per_success", "model calls", "calls"),
    _of_a_success("model_tokens_in_per_success", "tokens in", "tokens_in"),
    _of_a_success("model_tokens_out_per_success", "tokens out", "tokens_out"),
    _of_times("model_answer_median", "Time to answer", "answer_s", 50.0),
    _of_times("model_answer_p95", "Time to answer", "answer_s", 95.0),
)
