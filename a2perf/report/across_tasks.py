"""Submissions over the tasks of a domain: normalised scores, their interquartile mean and their performance profile.

A score is 0 for the random policy and 1 for the expert of the protocol (``metrics.protocol``); tasks without stored
references, or of another behaviour than the protocol's, have none. Only submissions with the same number of runs on
every task are aggregated, since the bootstrap is stratified over tasks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics import protocol
from a2perf.metrics.bootstrap import Estimate, aggregate_iqm, bootstrap
from a2perf.metrics.comparison import performance_profile
from a2perf.plain_text import plain_text
from a2perf.report import compared_charts as compared
from a2perf.report.compared_charts import Lines
from a2perf.report.drawing import Chart, interactive
from a2perf.report.tables import Column, Table, Text
from a2perf.report.task_results import SeedGroup, TaskResults

REPETITIONS = 5000
THRESHOLDS = 161


@dataclasses.dataclass(frozen=True)
class AcrossTasks:
    """Submissions compared over all tasks of a domain that have references.

    Attributes:
        anchor: of its part of the page.
        domain: the domain.
        tasks: their names.
        table: interquartile mean of each submission with its interval; why there is none where there is none.
        scores: shape (runs, tasks) of each submission that has a value.
        estimates: of the same.
    """

    anchor: str
    domain: str
    tasks: tuple[str, ...]
    table: Table
    scores: dict[str, Values]
    estimates: dict[str, Estimate]
    chart: Chart | None


def run_means(group: SeedGroup) -> Values:
    """Returns the mean episode return of each run that has episodes."""
    value = group.scores.get("returns")
    return np.array([mean for mean in (value.per_run if value is not None else ()) if mean is not None], np.float64)


def protocol_task(setting: TaskResults) -> protocol.ProtocolTask | None:
    """Returns the protocol's task of a setting, None where it has no references or the environment is another."""
    prints = {run.identity.fingerprint for group in setting.in_mode("inference") for run in group.runs}
    if len(prints) != 1:
        return None
    task = protocol.load().task_of(setting.task, prints.pop())
    return task if task is not None and task.has_references() else None


def across_tasks(settings: Sequence[TaskResults], new_name: Callable[..., str]) -> list[AcrossTasks]:
    """Compares submissions over the tasks of each domain of which at least two have references.

    Args:
        settings: of the report.
        new_name: makes a unique name, safe in files, out of words.
    """
    by_domain: dict[str, list[tuple[TaskResults, protocol.ProtocolTask]]] = {}
    for setting in settings:
        task = protocol_task(setting)
        if task is not None:
            by_domain.setdefault(setting.domain, []).append((setting, task))
    return [_across(domain, held, new_name) for domain, held in by_domain.items() if len(held) > 1]


def _across(
    domain: str, referenced: Sequence[tuple[TaskResults, protocol.ProtocolTask]], new_name: Callable[..., str]
) -> AcrossTasks:
    algorithms = sorted({name for setting, _ in referenced for name in setting.algorithms})
    scores: dict[str, Values] = {}
    lacking: dict[str, str] = {}
    for name in algorithms:
        columns = []
        for setting, task in referenced:
            group = setting.of(name, "inference")
            columns.append(task.normalise(run_means(group)) if group is not None else np.empty(0))
        counts = {column.size for column in columns}
        if len(counts) > 1 or 0 in counts:
            told = ", ".join(f"{c.size} on {plain_text(s.task)}" for c, (s, _) in zip(columns, referenced, strict=True))
            lacking[name] = f"needs as many runs on every task; has {told}"
        else:
            scores[name] = np.stack(columns, axis=1)
    estimates = {
        name: bootstrap(matrix, aggregate_iqm, repetitions=REPETITIONS, method="small")
        for name, matrix in scores.items()
    }
    tasks = tuple(plain_text(setting.task) for setting, _ in referenced)
    anchor = new_name(domain, "across tasks")
    return AcrossTasks(
        anchor=anchor,
        domain=plain_text(domain),
        tasks=tasks,
        table=_table(anchor, algorithms, estimates, lacking),
        scores=scores,
        estimates=estimates,
        chart=_chart(anchor, algorithms, scores, tasks) if scores else None,
    )


def profile_lines(scores: dict[str, Values], places: dict[str, int]) -> list[Lines]:
    """Returns the performance profiles of submissions over their common range.

    Args:
        scores: shape (runs, tasks) of each.
        places: of the submissions, which give them their colours.
    """
    every = np.concatenate([matrix.ravel() for matrix in scores.values()])
    # scores that only differ by rounding leave no room for a hundred thresholds between them
    spread, size = float(np.ptp(every)), float(np.abs(every).max())
    room = 0.05 * spread if spread > 1e-9 * size else max(0.05 * size, 0.5)
    thresholds = np.linspace(float(every.min()) - room, float(every.max()) + room, THRESHOLDS)
    drawn = []
    for name, matrix in scores.items():
        estimate = performance_profile(matrix, thresholds)
        low, high = (None if end is None else np.array(end) for end in (estimate.low, estimate.high))
        drawn.append(Lines(name, places[name], (), thresholds, np.array(estimate.value), low, high))
    return drawn


def _table(
    name_of_table: str, algorithms: Sequence[str], estimates: dict[str, Estimate], lacking: dict[str, str]
) -> Table:
    columns = (
        Column(key="submission", title="Submission"),
        Column(key="iqm", title="IQM of normalised scores", align="right"),
        Column(key="interval", title="95 % interval", align="right"),
        Column(key="runs", title="Runs a task", align="right"),
    )
    rows: list[tuple[Text, ...]] = []
    for name in sorted(algorithms, key=lambda name: -estimates[name].value if name in estimates else np.inf):
        if name not in estimates:
            rows.append((Text(text=name), Text(text=lacking[name]), Text(text="–"), Text(text="–")))
            continue
        estimate = estimates[name]
        between = "not enough data (n=1, needs 2)"
        if estimate.low is not None:
            between = f"[{_thousandths(estimate.low)}, {_thousandths(estimate.high)}]"
        cells = (name, _thousandths(estimate.value), between, str(estimate.n))
        rows.append(tuple(Text(text=words) for words in cells))
    return Table(name=name_of_table, caption="Submissions over all tasks", columns=columns, rows=tuple(rows))


def _thousandths(score: float) -> str:
    """Writes a normalised score, which is of the order of one whatever the task."""
    return f"{score + 0.0:.3f}".replace("-", "−")


def _chart(anchor: str, algorithms: Sequence[str], scores: dict[str, Values], tasks: Sequence[str]) -> Chart:
    places = {name: place for place, name in enumerate(algorithms)}
    drawn = profile_lines(scores, places)
    medians = [f"{name}: half of the scores above {float(np.median(matrix)):.3g}" for name, matrix in scores.items()]
    return interactive(
        f"{anchor}-profile",
        "Performance profile over all tasks",
        f"Share of runs and tasks ({', '.join(tasks)}) whose normalised score is above a threshold, with its 95 % "
        "bootstrap interval; 0 is the random policy, 1 the expert.",
        "; ".join(medians) + ".",
        {"linear": partial(compared.profiles, drawn, x_name="normalised score")},
    )
