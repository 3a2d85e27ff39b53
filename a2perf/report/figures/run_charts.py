"""The charts of a single run, each with its title, caption and a description in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from a2perf.arrays import Values
from a2perf.plain_text import plain_text
from a2perf.report.figures import charts
from a2perf.report.figures.compared_charts import dots, intervals
from a2perf.report.figures.drawing import Chart, single
from a2perf.report.numbers_text import rounded_text
from a2perf.report.run_numbers import episode_values, reward_terms
from a2perf.report.tables import Quantity, quantity_text
from a2perf.runs.run import Run

_SHORTEST_RUN_S = 0.5


def charts_of(anchor: str, run: Run) -> list[Chart]:
    """Draws the charts of one run for which it has data."""
    return [*_returns(anchor, run), *_rewards(anchor, run), *_system(anchor, run)]


def _returns(anchor: str, run: Run) -> Iterator[Chart]:
    returns = {
        plain_text(task): episode_values(episodes, "episode_return")
        for task, episodes in run.episodes.items()
        if episodes
    }
    if len(returns) == 1:
        (values,) = returns.values()
        yield single(
            f"{anchor}-returns",
            "Return of each episode",
            "Episodes in the order played. Line: mean; band: one standard deviation on either side."
            + charts.THINNED * charts.is_thinned([values]),
            f"{values.size} episodes, mean {_mean(values)}, "
            f"from {rounded_text(values.min())} to {rounded_text(values.max())}.",
            partial(charts.episode_returns, values),
        )
    elif returns:
        thinned = charts.THINNED * charts.is_thinned(returns.values(), 400)
        yield single(
            f"{anchor}-returns",
            "Return of each episode by task",
            f"Each dot is an episode; the bar marks the mean.{thinned}",
            "; ".join(f"{task}: mean {_mean(values)} over {values.size}" for task, values in returns.items()) + ".",
            lambda: dots([(task, 0, [values]) for task, values in returns.items()]).figure,
        )


def _rewards(anchor: str, run: Run) -> Iterator[Chart]:
    if len(run.episodes) != 1:
        return
    (episodes,) = run.episodes.values()
    terms = {plain_text(name): values for name, values in reward_terms(episodes).items()}
    rows = [
        (name, 0, float(of.mean()), (float(of.mean() - of.std()), float(of.mean() + of.std())))
        for name, of in terms.items()
    ]
    if rows:
        yield single(
            f"{anchor}-rewards",
            "Reward terms",
            "Mean reward per step. Line: one standard deviation over episodes on either side.",
            "; ".join(f"{name} {_mean(values)}" for name, values in terms.items()) + ".",
            lambda: intervals(rows, x_name="mean reward per step").figure,
        )


def _system(anchor: str, run: Run) -> Iterator[Chart]:
    seconds = run.details.clock()
    if run.details.trace is None or seconds is None or seconds[-1] - seconds[0] < _SHORTEST_RUN_S:
        return
    energy = run.tracking.energy
    known = energy.quality not in ("", "none") and energy.method
    # "cpu=rapl;gpu=none;ram=model" is written as "CPU by rapl, RAM by model"
    parts = [part.partition("=") for part in plain_text(energy.method).split(";")]
    methods = ", ".join(f"{name.upper()} by {by}" if by else name for name, _, by in parts if by != "none")
    how = f"Power: {energy.quality}, {methods}. " if known else ""
    yield single(
        f"{anchor}-system",
        "Power, memory and CPU by phase",
        f"{how}Memory and CPU: the participant's process tree.",
        f"{seconds.size} samples over {quantity_text(Quantity(value=float(seconds[-1] - seconds[0]), unit='s'))}.",
        partial(charts.system_over_time, run.details.trace, seconds),
    )


def _mean(values: Values) -> str:
    return rounded_text(values.mean())
