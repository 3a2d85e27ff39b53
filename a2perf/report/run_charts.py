"""Which charts a run gets, with the words that go with each: title, how to read it, and what it says in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from a2perf.report import charts
from a2perf.report.columns import Columns, Values
from a2perf.report.drawing import Chart, draw
from a2perf.report.experiment import Bundle, plain_text
from a2perf.report.measures import episode_values, find, measures, reward_terms
from a2perf.report.numbers_text import shown
from a2perf.report.tables import Quantity, quantity_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_CURVES = 5
_SHORTEST_RUN_S = 0.5


def charts_of(anchor: str, bundle: Bundle) -> list[Chart]:
    """Draws the charts of one run for which it has data.

    Args:
        anchor: stem of the charts' names.
        bundle: the run.
    """
    drawn = (_learning(bundle), _returns(bundle), _rewards(bundle), _latency(bundle), _system(bundle))
    found = []
    for plan in drawn:
        if plan is not None:
            kind, title, caption, description, build = plan
            found.append(Chart(f"{anchor}-{kind}", title, caption, description, *draw(build)))
    return found


def comparisons(bundles: Sequence[Bundle], new_name: Callable[..., str]) -> list[Chart]:
    """Draws runs on the same task and fingerprint side by side; different fingerprints never share a chart.

    Args:
        bundles: all runs.
        new_name: makes a unique name out of words.
    """
    groups: dict[tuple[str, str, str], dict[str, Values]] = {}
    for bundle in bundles:
        manifest = bundle.manifest
        if manifest is None:
            continue
        name = plain_text(manifest.submission.name)
        name = name if name == bundle.label else f"{name} ({bundle.label})"
        for task, results in bundle.rollouts.items():
            if results.episodes:
                key = (results.env_id, task, f"{bundle.mode}:{manifest.env_fingerprint or ''}")
                groups.setdefault(key, {})[name] = episode_values(results.episodes, "episode_return")
    found = []
    for (env_id, task, _), returns in groups.items():
        if len(returns) > 1:
            description = "; ".join(f"{name}: mean {_mean(values)}" for name, values in returns.items()) + "."
            caption = "Return of each episode; the bar is the mean."
            drawn = draw(partial(charts.returns_by_group, returns))
            found.append(Chart(new_name("compare", task), f"{env_id}, {task}", caption, description, *drawn))
    return found


_Plan = tuple[str, str, str, str, Callable[[], "Figure"]]


def _learning(bundle: Bundle) -> _Plan | None:
    curves = [curve for curve in bundle.curves if curve.values.size]
    if not curves:
        return None
    first = curves[0]
    same = [(plain_text(c.name), c.steps, c.values) for c in curves if c.step_name == first.step_name][:_MAX_CURVES]
    files = ", ".join(name for name, _, _ in same)
    start, end, best = (_plain(value) for value in (first.values[0], first.values[-1], first.values.max()))
    return (
        "learning",
        "Learning curve",
        f"As the participant logged it in {files}; not measured by the evaluator.",
        f"Return goes from {start} to {end}, best {best}.",
        partial(charts.learning_curve, same, first.step_name.replace("_", " "), "return"),
    )


def _returns(bundle: Bundle) -> _Plan | None:
    returns = {
        task: episode_values(results.episodes, "episode_return")
        for task, results in bundle.rollouts.items()
        if results.episodes
    }
    if len(returns) == 1:
        (values,) = returns.values()
        return (
            "returns",
            "Return of each episode",
            "The line is the mean, the band one standard deviation to either side.",
            f"{values.size} episodes, mean {_mean(values)}, from {_plain(values.min())} to {_plain(values.max())}.",
            partial(charts.episode_returns, values),
        )
    if not returns:
        return None
    return (
        "returns",
        "Return of each episode by task",
        "One dot an episode; the bar is the mean.",
        "; ".join(f"{task}: mean {_mean(values)} over {values.size}" for task, values in returns.items()) + ".",
        partial(charts.returns_by_group, returns),
    )


def _rewards(bundle: Bundle) -> _Plan | None:
    if len(bundle.rollouts) != 1:
        return None
    (results,) = bundle.rollouts.values()
    terms = {plain_text(name): values for name, values in reward_terms(results.episodes).items()}
    if not terms:
        return None
    return (
        "rewards",
        "Reward terms",
        "Mean reward per step; the dark line is one standard deviation over episodes to either side.",
        "; ".join(f"{name} {_mean(values)}" for name, values in terms.items()) + ".",
        partial(charts.reward_terms, terms),
    )


def _latency(bundle: Bundle) -> _Plan | None:
    calls = {
        call: values
        for call, values in bundle.latency_s.items()
        if call != "preprocess_observation" and bool((values > 0).any())
    }
    if not calls:
        return None
    summaries = {call: getattr(bundle.latency, call, None) for call in calls}
    meaning = [f"{call}: {s.includes}, clock of the {s.clock}." for call, s in summaries.items() if s is not None]
    quantiles = [
        f"{call}: median {_seconds(np.median(values))}, 99th percentile {_seconds(np.quantile(values, 0.99))}"
        for call, values in calls.items()
    ]
    return (
        "latency",
        "Inference latency",
        " ".join(["Logarithmic axis.", *meaning]),
        "; ".join(quantiles) + ".",
        partial(charts.latency, calls),
    )


def _system(bundle: Bundle) -> _Plan | None:
    clock = _clock(bundle.trace)
    if bundle.trace is None or clock is None or clock[-1] - clock[0] < _SHORTEST_RUN_S:
        return None
    power = find(measures(bundle), "energy_gross")
    how = "" if power is None or not power.method else f"Power: {power.provenance}, {_methods(power.method)}. "
    return (
        "system",
        "Power, memory and CPU over time",
        f"{how}Memory and CPU: the participant's process tree.",
        f"{clock.size} samples over {_seconds(clock[-1] - clock[0])}.",
        partial(charts.system_over_time, bundle.trace, clock),
    )


def _methods(method: str) -> str:
    """Writes ``cpu=rapl;gpu=none;ram=model`` as ``CPU by rapl, RAM by model``."""
    parts = [part.partition("=") for part in method.split(";")]
    return ", ".join(f"{name.upper()} by {how}" if how else name for name, _, how in parts if how != "none")


def _clock(trace: Columns | None) -> Values | None:
    """Returns the time of each row; where a resumed run starts its clock again, time goes on from there."""
    seconds = None if trace is None else trace.numbers.get("elapsed_s")
    if seconds is None or not seconds.size or not np.isfinite(seconds).all():
        return None
    steps = np.diff(seconds, prepend=seconds[:1])
    clock: Values = seconds[0] + np.cumsum(np.where(steps < 0, 0.0, steps))
    return clock


def _plain(value: float) -> str:
    return shown(float(value), "").value


def _mean(values: Values) -> str:
    return _plain(values.mean())


def _seconds(value: float) -> str:
    return quantity_text(Quantity(value=float(value), unit="s"))
