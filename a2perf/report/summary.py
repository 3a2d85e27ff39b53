"""The first screen of a report: how good, how reliable, at what cost, and how far the numbers can be trusted.

One row per submission and task, failed runs before everything else, and one generated sentence on top.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from markupsafe import Markup

from a2perf.metrics import registry
from a2perf.metrics.application import generalization, generalization_score, returns
from a2perf.metrics.definition import Metric, mean_over_runs
from a2perf.metrics.profiles.reliability import WORST_ROLLOUTS
from a2perf.metrics.protocol import NormalisedReturn, ScoredTask, over_tasks
from a2perf.metrics.scores import SeedGroup
from a2perf.metrics.values import Lead, MetricValue
from a2perf.plain_text import plain_text
from a2perf.report.figures.compared_charts import colour_of
from a2perf.report.names import WITHOUT_MODEL, submission_kind
from a2perf.report.numbers_text import (
    ESTIMATED,
    Scale,
    counted,
    interval_text,
    marks_of,
    normalised_text,
    rounded_text,
    row_scale,
    written,
)
from a2perf.report.ranks import ENERGY_UNITS, rank_ranges
from a2perf.report.references import scored_task
from a2perf.report.tables import MISSING, Cell, Chips, Column, Table, Text, interval_bar, with_values
from a2perf.report.task_results import Label, TaskResults
from a2perf.report.trust import chips_of
from a2perf.runs.run import Run, noise
from a2perf.runs.series import FINAL_VALUES

FAILED_STATES = ("failed", "unreadable")
MOST_TASKS_IN_SENTENCE = 4
_NOT_BETTER = 0.02
_ENDS = (-0.08, 1.16)
"""Of the scale of scores: one wide interval would leave no room for the others."""


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
        table: a row per submission on each task, best first, below a heading per task.
        noisy: how many of ``runs`` were measured on a noisy host.
    """

    sentence: str
    table: Table
    failed: tuple[FailedRun, ...]
    noisy: int
    runs: int


@dataclasses.dataclass(frozen=True)
class _Entry:
    group: SeedGroup
    others: tuple[SeedGroup, ...]
    task: ScoredTask | None
    """With the reference scores of an evaluation."""
    label: Label

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
    entries = [_entries(setting, labels) for setting in settings]
    return FirstScreen(
        sentence=_sentence(settings, entries),
        table=_table(settings, anchors, entries),
        failed=tuple(_failed(run, labels, links[run.key]) for run in runs if run.state in FAILED_STATES),
        noisy=sum(bool(noise(run)) for run in runs),
        runs=len(runs),
    )


def _entries(setting: TaskResults, labels: Mapping[str, Label]) -> list[_Entry]:
    """Returns the submissions on a task, best first."""
    task = scored_task(setting)
    found = []
    for algorithm in setting.algorithms:
        modes = ("inference", "generalization", "train")
        groups = [group for mode in modes if (group := setting.of(algorithm, mode)) is not None]
        if groups:
            evaluated = task if groups[0].mode == "inference" else None
            found.append(_Entry(groups[0], tuple(groups[1:]), evaluated, labels[algorithm]))
    return sorted(found, key=_Entry.order)


def _table(settings: Sequence[TaskResults], anchors: Sequence[str], entries: Sequence[Sequence[_Entry]]) -> Table:
    """Returns a table without the columns that hold no value."""
    flat = [entry for held in entries for entry in held]
    scores = [entry.score for entry in flat if entry.score is not None]
    title = "Return" if not scores else "Score" if len(scores) == len(flat) else "Score or return"
    held: list[tuple[Column, Iterable[Cell]]] = [
        (Column(key="submission", title="Submission"), [_name_cell(entry.label) for entry in flat]),
        (Column(key="score", title=title, kind="score"), map(_score_cell, flat)),
        (
            Column(
                key="worst",
                title=WORST_ROLLOUTS.title,
                align="right",
                hint="Mean of the worst 5 % of the episodes (CVaR)",
            ),
            map(_worst_cell, flat),
        ),
        *(_cost_column(flat, cost) for cost in registry.leading(Lead.CHART, "inference")),
        (
            Column(key="trust", title="Trust", kind="trust"),
            [Chips(chips=tuple(chips_of((entry.group, *entry.others)))) for entry in flat],
        ),
    ]
    columns, cells = with_values(held)
    rows: list[tuple[Cell, ...]] = []
    about: list[Mapping[str, str]] = []
    of_entries: Iterator[tuple[Cell, ...]] = iter(cells)
    for setting, anchor, of_task in zip(settings, anchors, entries, strict=True):
        said = _task_sentence(of_task) if len(settings) > 1 else ""
        where = "; ".join(filter(None, (setting.domain_title, said)))
        rows.append((Text(text=setting.title, detail=where, href=f"#{anchor}"),))
        about.append({"class": "category"})
        for entry in of_task:
            rows.append(next(of_entries))
            states = {run.state for group in (entry.group, *entry.others) for run in group.runs}
            about.append({"class": "failed" if states.intersection(FAILED_STATES) else ""})
    caption = "Score, reliability, cost and trust of each submission"
    return Table(
        name="overview", caption=caption, columns=columns, rows=tuple(rows), kind="overview", about=tuple(about)
    )


def _name_cell(label: Label) -> Text:
    details = (submission_kind(label.info), label.name if label.name != label.title else "")
    swatch = Markup('<i class="swatch {}" aria-hidden="true"></i>').format(colour_of(label.place))
    return Text(text=label.title, detail="; ".join(filter(None, details)), drawing=swatch)


def _score_cell(entry: _Entry) -> Text:
    if (score := entry.score) is not None:
        details = [interval_text(score.interval), "" if entry.task else "score over tasks"]
        low, high = score.interval or (None, None)
        return Text(
            text=normalised_text(score.value),
            detail=", ".join(filter(None, details)),
            sort=score.value,
            drawing=interval_bar(score.value, low, high, _ENDS),
        )
    value = entry.mean()
    if value is None or value.value is None:
        return Text(detail="not evaluated" if entry.group.mode == "train" else "no finished episode")
    number = written(value.value, row_scale([value.value], value.unit), value.spread, value.interval)
    what = {"generalization": "mean over tasks", "train": "final return"}.get(entry.group.mode, "mean return")
    if entry.group.mode == "train" and number.low:
        what += f" [{number.low}, {number.high}]"
    return Text(text=number.text(), detail=what, unit=value.unit, sort=value.value)


def _worst_cell(entry: _Entry) -> Text:
    """Returns the mean of the worst episodes, on the scale of the score."""
    value = entry.value(WORST_ROLLOUTS.name) if entry.group.mode == "inference" else None
    if value is None or value.value is None:
        return Text()
    detail = f"of {counted(_episodes(entry.group), 'episode')}"
    if entry.task is not None and entry.score is not None:
        return Text(text=normalised_text(float(entry.task.task.normalise(value.value))), detail=detail)
    return Text(text=rounded_text(value.value), detail=detail)


def _cost_column(entries: Sequence[_Entry], cost: Metric) -> tuple[Column, list[Cell]]:
    """Returns the column of a cost, in one unit for all tasks."""
    groups = [group for entry in entries for group in (entry.group, *entry.others)]
    known = [value.value for group in groups if (value := group.scores.get(cost.name)) and value.value is not None]
    scale = row_scale(known, cost.unit)
    title = ", ".join(filter(None, (cost.title, scale.unit)))
    column = Column(key=cost.name, title=title, align="right", hint=cost.formula)
    return column, [_cost_cell(entry, cost, scale) for entry in entries]


def _cost_cell(entry: _Entry, metric: Metric, scale: Scale) -> Text:
    """Returns a cost with the metrics that are written beside it, and with that of training if its unit is the same."""
    value = entry.value(metric.name) if entry.group.mode != "train" else None
    details = [_training_cost(entry, metric.unit)]
    if value is None or value.value is None:
        return Text(text=details[0] or MISSING)
    beside = [(one.title.rpartition(", ")[2], entry.value(one.name)) for one in registry.beside(metric.name)]
    details.append(
        ", ".join(f"{name} {written(of.value, scale).text()}" for name, of in beside if of and of.value is not None)
    )
    if metric.unit in ENERGY_UNITS and any(
        run.manifest is not None and run.manifest.models for run in entry.group.runs
    ):
        details.append(WITHOUT_MODEL)  # its server ran elsewhere
    mark, hint = marks_of(value.provenance, noisy=any(noise(run) for run in entry.group.runs))
    number = written(value.value, scale)
    return Text(text=number.text(), detail="; ".join(filter(None, details)), mark=mark, hint=hint)


def _training_cost(entry: _Entry, unit: str) -> str:
    trained = next((group for group in (entry.group, *entry.others) if group.mode == "train"), None)
    for metric in registry.leading(Lead.CHART, "train"):
        value = None if trained is None else trained.scores.get(metric.name)
        if metric.unit == unit and value is not None and value.value is not None:
            # training often costs a thousand times more, so it has its own unit
            return f"training {'≈ ' if value.provenance in ESTIMATED else ''}{rounded_text(value.value, value.unit)}"
    return ""


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


def _sentence(settings: Sequence[TaskResults], entries: Sequence[Sequence[_Entry]]) -> str:
    """Returns the sentence on top: the result of the only task, or the best submission of the first tasks."""
    results = ((setting.title, held, _task_sentence(held)) for setting, held in zip(settings, entries, strict=True))
    stated = [result for result in results if result[2]]
    if not stated:
        return "No run has a result."
    if len(stated) == 1:
        return f"{stated[0][0]}: {stated[0][2]}."
    best = []
    for title, (first, *_), _ in stated[:MOST_TASKS_IN_SENTENCE]:
        number = _score_cell(first).text if first.score is None else _percent(first.score.value)
        best.append(f"{title}: {first.label.title} {number}")
    more = len(stated) - len(best)
    rest = f"; {counted(more, 'more task')} below" if more else ""
    scale = " (100 % is the expert)" if any(held[0].score for _, held, _ in stated[:MOST_TASKS_IN_SENTENCE]) else ""
    return f"Best per task{scale}. {'; '.join(best)}{rest}."


def _task_sentence(held: Sequence[_Entry]) -> str:
    """Returns the result of a task, ``"93 % of the expert by PPO (5 episodes, 1 seed: no interval)"``."""
    if not held:
        return ""
    first = held[0]
    title, score = first.label.title, first.score
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
        names = [entry.label.title for entry in tied]
        listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= 3 else f"{len(names)} submissions"
        share = _percent(score.value)
        return f"{listed} lead with overlapping intervals; {share} of the expert by {title} ({basis})"
    return f"{_percent(score.value)} of the expert by {title} ({basis})"


def _percent(score: float) -> str:
    return f"{100 * score:.0f} %".replace("-", "−")


def _episodes(group: SeedGroup) -> int:
    return sum(len(run) for runs in group.data.returns.values() for run in runs)
