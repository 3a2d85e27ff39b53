"""The first screen of a report: how good, how reliable, at what cost, and how far the numbers can be trusted.

One row per submission and task, failed runs before everything else, and one generated sentence on top.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from a2perf.metrics import registry
from a2perf.metrics.application import generalization, generalization_score, returns
from a2perf.metrics.definition import Metric, mean_over_runs
from a2perf.metrics.profiles.reliability import WORST_ROLLOUTS
from a2perf.metrics.protocol import NormalisedReturn, ScoredTask, over_tasks
from a2perf.metrics.scores import SeedGroup
from a2perf.metrics.values import Lead, MetricValue
from a2perf.plain_text import plain_text
from a2perf.report.names import WITHOUT_MODEL
from a2perf.report.numbers_text import Scale, counted, interval_text, normalised_text, rounded_text, row_scale, written
from a2perf.report.ranks import ENERGY_UNITS, rank_ranges
from a2perf.report.references import scored_task
from a2perf.report.score_tables import ESTIMATED
from a2perf.report.tables import Column, Text
from a2perf.report.task_results import Label, TaskResults
from a2perf.report.trust import chips_of
from a2perf.runs.run import Run, noise
from a2perf.runs.series import FINAL_VALUES

FAILED_STATES = ("failed", "unreadable")
MOST_TASKS_IN_SENTENCE = 4
_BAR = (-0.08, 1.16)
"""Normalised scores at the ends of a bar: floor and expert lie inside; scores beyond are cut off."""
_NOT_BETTER = 0.02
_NONE = Text().text


@dataclasses.dataclass(frozen=True)
class Bar:
    """A normalised score as a bar; all numbers are per cent of the bar's width.

    Attributes:
        start: where the bar starts: the floor.
        low, high: ends of the 95 % interval; None without one.
        beyond: the score lies outside the bar, ``"left"``, ``"right"`` or ``""``.
    """

    start: float
    width: float
    low: float | None
    high: float | None
    beyond: str
    text: str


@dataclasses.dataclass(frozen=True)
class SummaryRow:
    """One submission on one task.

    Attributes:
        score: normalised; the mean return if the task has no reference scores.
        bar: None without a normalised score.
        worst: mean of the worst 5 % of the episodes, on the scale of ``score``.
        costs: one per column of the first screen.
        chips: remarks on the result; ``state`` is the tone, ``hint`` the explanation.
        normalised: whether the score has a scale from floor to expert; otherwise it is a mean return.
    """

    label: Label
    state: str
    score: Text
    bar: Bar | None
    worst: Text
    costs: tuple[Text, ...]
    chips: tuple[Text, ...]
    normalised: bool = False


@dataclasses.dataclass(frozen=True)
class TaskSummary:
    """The submissions on one task, best first."""

    anchor: str
    title: str
    domain_title: str
    sentence: str
    rows: tuple[SummaryRow, ...]


@dataclasses.dataclass(frozen=True)
class FailedRun:
    """A run that failed: what ran, why it failed, and the log in the run's folder."""

    href: str
    title: str
    state: str
    reason: str
    log: str


@dataclasses.dataclass(frozen=True)
class FirstScreen:
    """The first screen.

    Attributes:
        costs: the columns of the costs that lead, with their units.
        has_worst: whether it has the column of the worst episodes; logs of training runs have none.
        noisy: how many of ``runs`` were measured on a noisy host.
        ticks: positions of floor and expert on the bars, per cent.
    """

    sentence: str
    tasks: tuple[TaskSummary, ...]
    failed: tuple[FailedRun, ...]
    costs: tuple[Column, ...]
    noisy: int
    runs: int
    has_worst: bool = True
    ticks: tuple[float, float] = (0.0, 100.0)

    @property
    def score_title(self) -> str:
        """Heading of the first number: a score has a scale of 0 and 1, a return has that of its task."""
        normalised = {row.normalised for task in self.tasks for row in task.rows if row.score.text}
        return {frozenset({True}): "Score", frozenset({True, False}): "Score or return"}.get(
            frozenset(normalised), "Return"
        )

    def has_bars(self) -> bool:
        """Returns whether any score is normalised."""
        return any(row.bar is not None for task in self.tasks for row in task.rows)


@dataclasses.dataclass(frozen=True)
class _Entry:
    group: SeedGroup
    others: tuple[SeedGroup, ...]
    task: ScoredTask | None
    """With the reference scores of an evaluation."""

    @functools.cached_property
    def score(self) -> NormalisedReturn | None:
        if self.group.mode == "generalization":
            return over_tasks(self.value(generalization_score.name))
        return None if self.task is None else self.task.normalised(self.value(returns.name))

    def value(self, name: str) -> MetricValue | None:
        found = self.group.scores.get(name)
        return found if found is not None and found.value is not None else None

    def mean(self) -> MetricValue | None:
        if self.group.mode == "train":
            return self.final()
        return self.value((generalization if self.group.mode == "generalization" else returns).name)

    def final(self) -> MetricValue | None:
        """Returns the final return of the logs of other tools; returns of our training runs are their evaluation."""
        curves = [run.curve.values for run in self.group.runs if run.curve is not None and run.curve.values.size]
        if not curves or not all(run.is_log for run in self.group.runs):
            return None
        means = np.array([curve[-FINAL_VALUES:].mean() for curve in curves])
        return returns.labelled(mean_over_runs(means, "corrected"), "corrected")

    def order(self) -> tuple[bool, float]:
        mean = self.mean()
        value = self.score.value if self.score is not None else None if mean is None else mean.value
        return (value is None, 0.0 if value is None else -value)


def summary_of(
    settings: Sequence[TaskResults],
    anchors: Sequence[str],
    labels: Mapping[str, Label],
    runs: Sequence[Run],
    links: Mapping[str, str],
) -> FirstScreen:
    """Makes the first screen of a report."""
    entries = [_entries(setting) for setting in settings]
    flat = [entry for held in entries for entry in held]
    groups = [group for entry in flat for group in (entry.group, *entry.others)]
    costs = registry.leading(Lead.CHART, "inference")
    scales = [_scale([group.scores.get(cost.name) for group in groups], cost.unit) for cost in costs]
    tasks = tuple(
        TaskSummary(
            anchor=anchor,
            title=setting.title,
            domain_title=setting.domain_title,
            sentence=_task_sentence(held, labels),
            rows=tuple(_row(entry, labels[entry.group.algorithm], costs, scales) for entry in held),
        )
        for setting, anchor, held in zip(settings, anchors, entries, strict=True)
    )
    rows = [row for task in tasks for row in task.rows]
    all_logs = bool(runs) and all(run.is_log for run in runs)
    shown = [at for at in range(len(costs)) if not all_logs or any(row.costs[at].text != _NONE for row in rows)]
    if len(shown) < len(costs):
        cut = {row: dataclasses.replace(row, costs=tuple(row.costs[at] for at in shown)) for row in rows}
        tasks = tuple(dataclasses.replace(task, rows=tuple(cut[row] for row in task.rows)) for task in tasks)
    return FirstScreen(
        sentence=_sentence(tasks, entries, labels),
        tasks=tasks,
        failed=tuple(_failed(run, labels, links[run.key]) for run in runs if run.state in FAILED_STATES),
        costs=tuple(
            Column(key=cost.name, title=", ".join(filter(None, (cost.title, scale.unit))), hint=cost.formula)
            for cost, scale in ((costs[at], scales[at]) for at in shown)
        ),
        has_worst=not all_logs or any(row.worst.text != _NONE for row in rows),
        noisy=sum(bool(noise(run)) for run in runs),
        runs=len(runs),
        ticks=(_place(0.0), _place(1.0)),
    )


def _entries(setting: TaskResults) -> list[_Entry]:
    task = scored_task(setting)
    found = []
    for algorithm in setting.algorithms:
        groups = [
            group
            for mode in ("inference", "generalization", "train")
            if (group := setting.of(algorithm, mode)) is not None
        ]
        if groups:
            found.append(_Entry(groups[0], tuple(groups[1:]), task if groups[0].mode == "inference" else None))
    return sorted(found, key=_Entry.order)


def _row(entry: _Entry, label: Label, costs: Sequence[Metric], scales: Sequence[Scale]) -> SummaryRow:
    groups = (entry.group, *entry.others)
    runs = [run for group in groups for run in group.runs]
    failed = any(run.state in FAILED_STATES for run in runs)
    return SummaryRow(
        label=label,
        state="failed" if failed else "",
        score=_score_cell(entry),
        bar=_bar(entry),
        worst=_worst_cell(entry),
        costs=tuple(_cost_cell(entry, cost, scale) for cost, scale in zip(costs, scales, strict=True)),
        chips=tuple(chips_of(groups)),
        normalised=entry.score is not None,
    )


def _score_cell(entry: _Entry) -> Text:
    if entry.score is not None:
        details = [interval_text(entry.score.interval), "" if entry.task else "score over tasks"]
        return Text(text=normalised_text(entry.score.value), detail=", ".join(filter(None, details)))
    value = entry.mean()
    if value is None or value.value is None:
        return Text(detail="not evaluated" if entry.group.mode == "train" else "no finished episode")
    number = written(value.value, row_scale([value.value], value.unit), value.spread, value.interval)
    what = {"generalization": "mean over tasks", "train": "final return"}.get(entry.group.mode, "mean return")
    if entry.group.mode == "train" and number.low:
        what += f" [{number.low}, {number.high}]"
    return Text(text=number.text(), detail=what, unit=value.unit)


def _worst_cell(entry: _Entry) -> Text:
    if entry.group.mode != "inference":
        return Text()
    value = entry.value(WORST_ROLLOUTS.name)
    if value is None or value.value is None:
        return Text()
    episodes = _episodes(entry.group)
    detail = f"of {counted(episodes, 'episode')}"
    if entry.task is not None and entry.score is not None:
        return Text(text=normalised_text(float(entry.task.task.normalise(value.value))), detail=detail)
    return Text(text=rounded_text(value.value), detail=detail)


def _cost_cell(entry: _Entry, metric: Metric, scale: Scale) -> Text:
    """Returns a cost with the metrics that are written beside it, and with that of training if its unit is the same."""
    value = entry.value(metric.name) if entry.group.mode != "train" else None
    details = [_training_cost(entry, metric.unit)]
    if value is None or value.value is None:
        return Text(detail=details[0])
    beside = [(one.title.rpartition(", ")[2], entry.value(one.name)) for one in registry.beside(metric.name)]
    details.append(
        ", ".join(f"{name} {written(of.value, scale).text()}" for name, of in beside if of and of.value is not None)
    )
    if metric.unit in ENERGY_UNITS and any(
        run.manifest is not None and run.manifest.models for run in entry.group.runs
    ):
        details.append(WITHOUT_MODEL)  # its server ran elsewhere
    estimated, noisy = ESTIMATED.get(value.provenance, ""), any(noise(run) for run in entry.group.runs)
    return Text(
        text=written(value.value, scale).text(),
        detail="; ".join(filter(None, details)),
        mark=("≈" if estimated else "") + ("⚠" if noisy else ""),
        hint=", ".join(filter(None, (estimated, "measured on a noisy host" if noisy else ""))),
    )


def _training_cost(entry: _Entry, unit: str) -> str:
    trained = next((group for group in (entry.group, *entry.others) if group.mode == "train"), None)
    for metric in registry.leading(Lead.CHART, "train"):
        value = None if trained is None else trained.scores.get(metric.name)
        if metric.unit == unit and value is not None and value.value is not None:
            # training often costs a thousand times more, so it has its own unit
            return f"training {'≈ ' if value.provenance in ESTIMATED else ''}{rounded_text(value.value, value.unit)}"
    return ""


def _scale(values: Sequence[MetricValue | None], unit: str) -> Scale:
    return row_scale([value.value for value in values if value is not None and value.value is not None], unit)


def _bar(entry: _Entry) -> Bar | None:
    score = entry.score
    if entry.task is None or score is None:
        return None
    start, end = _place(0.0), _place(score.value)
    beyond = "left" if score.value < _BAR[0] else "right" if score.value > _BAR[1] else ""
    ends, interval = score.interval, ""
    if ends is not None:
        interval = f", 95 % interval {normalised_text(ends[0])} to {normalised_text(ends[1])}"
    return Bar(
        start=min(start, end),
        width=round(abs(end - start), 2),
        low=None if ends is None else _place(ends[0]),
        high=None if ends is None else _place(ends[1]),
        beyond=beyond,
        text=f"Score {normalised_text(score.value)}{interval}; 0 is the {entry.task.task.floor}, 1 the expert",
    )


def _place(score: float) -> float:
    low, high = _BAR
    return round(100 * (min(max(score, low), high) - low) / (high - low), 2)


def _failed(run: Run, labels: Mapping[str, Label], href: str) -> FailedRun:
    failure = None if run.manifest is None else run.manifest.failure
    names = (run.algorithm, f"{run.algorithm} ({run.identity.view})")
    title = (
        run.root
        if run.state == "unreadable"
        else next((label.title for name, label in labels.items() if name in names), run.algorithm)
    )
    if failure is None:
        reason = "; ".join(run.conditions) or "no reason recorded"
        return FailedRun(href, title, run.state, plain_text(reason), "")
    reason = f"{failure.kind.value.replace('_', ' ')} in {failure.where}: {failure.message}"
    return FailedRun(
        href, title, run.mode, plain_text(reason), plain_text(f"{run.key}/{failure.log}" if failure.log else "")
    )


def _sentence(tasks: Sequence[TaskSummary], entries: Sequence[list[_Entry]], labels: Mapping[str, Label]) -> str:
    """Returns the sentence on top: the result of the only task, or the best submission of the first tasks."""
    stated = [(task, held) for task, held in zip(tasks, entries, strict=True) if task.sentence]
    if not stated:
        return "No run has a result."
    if len(stated) == 1:
        return f"{stated[0][0].title}: {stated[0][0].sentence}."
    best = []
    for task, held in stated[:MOST_TASKS_IN_SENTENCE]:
        first = held[0]
        number = _score_cell(first).text if first.score is None else _percent(first.score.value)
        best.append(f"{task.title}: {labels[first.group.algorithm].title} {number}")
    more = len(stated) - len(best)
    rest = f"; {counted(more, 'more task')} below" if more else ""
    scale = " (100 % is the expert)" if any(held[0].score for _, held in stated[:MOST_TASKS_IN_SENTENCE]) else ""
    return f"Best per task{scale}. {'; '.join(best)}{rest}."


def _task_sentence(held: Sequence[_Entry], labels: Mapping[str, Label]) -> str:
    """Returns the result of a task, ``"93 % of the expert by PPO (5 episodes, 1 seed: no interval)"``."""
    if not held:
        return ""
    first = held[0]
    title = labels[first.group.algorithm].title
    score = first.score
    if first.task is None or score is None:
        value = _score_cell(first)
        what = f"{value.detail}, no reference scores" if first.group.mode == "inference" else value.detail
        return f"{title} {value.text} ({what})" if value.text != "–" else ""
    rivals = [entry for entry in held if entry.score is not None]
    intervals = [entry.score.interval or (None, None) for entry in rivals if entry.score is not None]
    tied = [entry for entry, (best, _) in zip(rivals, rank_ranges(intervals), strict=True) if best == 1]
    basis = f"{counted(_episodes(first.group), 'episode')}, {counted(first.group.scores[returns.name].n, 'seed')}"
    if score.interval is None:
        basis += ": no interval"
    else:
        basis += ", 95 % interval {:.0f} to {:.0f} %".format(*(100 * end for end in score.interval))
    if score.value < _NOT_BETTER:
        number = normalised_text(score.value)
        return f"no submission is better than the {first.task.task.floor} (best: {title}, {number})"
    if len(tied) > 1 and all(low is not None for low, _ in intervals):
        names = [labels[entry.group.algorithm].title for entry in tied]
        listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= 3 else f"{len(names)} submissions"
        share = _percent(score.value)
        return f"{listed} lead with overlapping intervals; {share} of the expert by {title} ({basis})"
    return f"{_percent(score.value)} of the expert by {title} ({basis})"


def _percent(score: float) -> str:
    return f"{100 * score:.0f} %".replace("-", "−")


def _episodes(group: SeedGroup) -> int:
    return sum(len(run) for runs in group.data.returns.values() for run in runs)
