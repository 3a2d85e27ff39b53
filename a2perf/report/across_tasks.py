"""Submissions over the tasks of a domain: normalised scores, their interquartile mean and their performance profile.

Tasks without reference scores (``references``) are left out. Only submissions with the same number of runs on every
task are aggregated, because the bootstrap is stratified over tasks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics import protocol
from a2perf.metrics.bootstrap import Estimate, aggregate_iqm, bootstrap, performance_profile
from a2perf.plain_text import plain_text
from a2perf.report.figures import compared_charts as compared
from a2perf.report.figures.compared_charts import Lines
from a2perf.report.figures.drawing import Chart, interactive
from a2perf.report.numbers_text import normalised_text
from a2perf.report.references import run_means, scored_task
from a2perf.report.tables import Table, Text, text_table
from a2perf.report.task_results import Label, TaskResults, title_of

REPETITIONS = 5000
THRESHOLDS = 161


@dataclasses.dataclass(frozen=True)
class AcrossTasks:
    """Submissions compared over all tasks of a domain that have references.

    Attributes:
        scores: shape (runs, tasks) of each submission that has a value.
    """

    anchor: str
    domain: str
    domain_title: str
    tasks: tuple[str, ...]
    task_titles: tuple[str, ...]
    table: Table
    scores: dict[str, Values]
    estimates: dict[str, Estimate]
    chart: Chart | None


def across_tasks(
    settings: Sequence[TaskResults], labels: Mapping[str, Label], new_name: Callable[..., str]
) -> list[AcrossTasks]:
    """Compares submissions over the tasks of each domain with at least two tasks that have references."""
    by_domain: dict[str, list[tuple[TaskResults, protocol.ProtocolTask]]] = {}
    for setting in settings:
        if (found := scored_task(setting)) is not None:
            by_domain.setdefault(setting.domain, []).append((setting, found.task))
    return [_across(domain, held, labels, new_name) for domain, held in by_domain.items() if len(held) > 1]


def _across(
    domain: str,
    referenced: Sequence[tuple[TaskResults, protocol.ProtocolTask]],
    labels: Mapping[str, Label],
    new_name: Callable[..., str],
) -> AcrossTasks:
    algorithms = sorted({name for setting, _ in referenced for name in setting.algorithms})
    scores: dict[str, Values] = {}
    left_out: dict[str, str] = {}
    for name in algorithms:
        groups = [(setting.of(name, "inference"), task) for setting, task in referenced]
        means = [np.empty(0) if group is None else task.normalise(run_means(group)) for group, task in groups]
        counts = {of_task.size for of_task in means}
        if len(counts) > 1 or 0 in counts:
            left_out[name] = _reason([(one.title, of.size) for of, (one, _) in zip(means, referenced, strict=True)])
        else:
            scores[name] = np.stack(means, axis=1)
    estimates = {
        name: bootstrap(matrix, aggregate_iqm, repetitions=REPETITIONS, method="small")
        for name, matrix in scores.items()
    }
    tasks = tuple(plain_text(setting.task) for setting, _ in referenced)
    titles = tuple(setting.title for setting, _ in referenced)
    anchor = new_name(domain, "across tasks")
    return AcrossTasks(
        anchor=anchor,
        domain=plain_text(domain),
        domain_title=referenced[0][0].domain_title,
        tasks=tasks,
        task_titles=titles,
        table=_table(algorithms, labels, estimates, left_out),
        scores=scores,
        estimates=estimates,
        chart=_chart(anchor, labels, scores, titles) if scores else None,
    )


def profile_lines(scores: dict[str, Values], labels: Mapping[str, Label]) -> list[Lines]:
    """Returns the performance profiles of submissions over their common range.

    Args:
        scores: shape (runs, tasks) of each.
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
        label = labels[name]
        drawn.append(Lines(label.title, label.place, (), thresholds, np.array(estimate.value), low, high))
    return drawn


def _reason(counts: Sequence[tuple[str, int]]) -> str:
    """Returns why a submission is not aggregated, given the number of runs on each task."""
    missing = [title for title, count in counts if not count]
    if missing:
        return f"not run on {'; '.join(missing)}"
    return f"different numbers of runs: {'; '.join(f'{count} on {title}' for title, count in counts)}"


def _table(
    algorithms: Sequence[str],
    labels: Mapping[str, Label],
    estimates: dict[str, Estimate],
    left_out: dict[str, str],
) -> Table:
    rows: list[tuple[Text | str, ...]] = []
    for name in sorted(algorithms, key=lambda name: -estimates[name].value if name in estimates else np.inf):
        title = title_of(labels, name)
        if name not in estimates:
            rows.append((title, Text(detail=left_out[name]), Text(), Text()))
            continue
        estimate = estimates[name]
        between = "needs 2 runs per task"
        if estimate.low is not None:
            between = f"[{normalised_text(estimate.low)}, {normalised_text(estimate.high)}]"
        rows.append((title, normalised_text(estimate.value), between, str(estimate.n)))
    heads = ("Submission", "IQM of normalised scores", "95 % interval", "Runs per task")
    return text_table("Submissions over all tasks", heads, rows)


def _chart(anchor: str, labels: Mapping[str, Label], scores: dict[str, Values], titles: Sequence[str]) -> Chart:
    drawn = profile_lines(scores, labels)
    medians = [
        f"{title_of(labels, name)}: half of the scores above {float(np.median(matrix)):.3g}"
        for name, matrix in scores.items()
    ]
    return interactive(
        f"{anchor}-profile",
        "Performance profile over all tasks",
        f"Share of runs and tasks ({'; '.join(titles)}) with a normalised score above the threshold, with the 95 % "
        "bootstrap interval. 0: floor, 1: expert.",
        "; ".join(medians) + ".",
        {"linear": partial(compared.profiles, drawn, x_name="normalised score")},
    )
