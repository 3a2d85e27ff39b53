"""The score table of a task: metrics as rows, grouped by category, and algorithms as columns.

Cells keep the values of the registry. Rounding happens once, here, and every format prints the same digits. Bold marks
the values that may be the best of their row (``ranks.leaders``): never with one run, across provenances, or for costs
that were measured on a noisy host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from a2perf.domains import task_title
from a2perf.errors import UserError
from a2perf.metrics import registry
from a2perf.metrics.application import returns, success_rate
from a2perf.metrics.definition import Metric
from a2perf.metrics.scores import SeedGroup
from a2perf.metrics.values import CATEGORIES, NORMALISED, Category, MetricValue
from a2perf.plain_text import plain_text
from a2perf.report.names import MODE_TITLES
from a2perf.report.numbers_text import interval_text, marks_of, normalised_text, row_scale, sample_text, written
from a2perf.report.ranks import DISTORTED_UNITS, lacks_uncertainty, leaders, ordering_interval
from a2perf.report.references import scored_task
from a2perf.report.tables import Column, Table, Text
from a2perf.report.task_results import Label, TaskResults, title_of
from a2perf.runs.bundles.layout import MODES
from a2perf.runs.run import noise

_ARROWS = {"max": "↑", "min": "↓"}
_ACTIONABLE = ("not enough", "threshold", "failed")
_MODES = ("inference", "generalization", "train")
"""Order of the modes on a page: how good the policy is comes before how it was trained."""


@dataclasses.dataclass(frozen=True)
class ScoreRow:
    """One metric.

    Attributes:
        values: as scored, one per algorithm; None when an algorithm has no run in this mode.
        cells: the values rounded to the row's unit, the best of them marked.
        unit: of all cells; ``"return"`` for the unit of the reward.
        remark: why no value is bold although a reader would expect one.
    """

    name: str
    label: str
    direction: str
    unit: str
    values: tuple[MetricValue | None, ...]
    cells: tuple[Text, ...]
    task: str | None = None
    remark: str = ""

    def has_value(self) -> bool:
        """Returns whether any cell has a number."""
        return any(cell.sort is not None for cell in self.cells)

    def missing(self) -> list[str]:
        """Returns the reasons for missing numbers, without values that do not apply to these runs."""
        return list(dict.fromkeys(cell.detail for cell in self.cells if cell.sort is None and cell.detail))


@dataclasses.dataclass(frozen=True)
class ScoreSection:
    """Rows of one category in one mode."""

    category: Category
    mode: str
    rows: tuple[ScoreRow, ...]

    def missing(self) -> list[str]:
        """Returns one line per reason why rows have no number, ``"Not enough data (n=1, needs 3): A, B"``."""
        by_reason: dict[str, list[str]] = {}
        for row in self.rows:
            if not row.has_value():
                by_reason.setdefault("; ".join(row.missing()) or "no value", []).append(row.label)
        return [f"{reason[:1].upper()}{reason[1:]}: {', '.join(names)}" for reason, names in by_reason.items()]


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """A table of scores.

    Attributes:
        details: a line below each heading: how many runs, by mode.
    """

    name: str
    title: str
    caption: str
    algorithms: tuple[str, ...]
    details: tuple[str, ...]
    sections: tuple[ScoreSection, ...]
    titles: tuple[str, ...] = ()

    def rows(self) -> list[ScoreRow]:
        """Returns all rows from top to bottom."""
        return [row for section in self.sections for row in section.rows]

    def table(self) -> Table:
        """Returns the table in the form that every format renders: a heading and the rows of each section."""
        metrics = registry.all_metrics()
        titles = zip(self.algorithms, self.titles or self.algorithms, self.details, strict=True)
        heads = [Column(key=n, title=t, align="right", kind="score", detail=detail) for n, t, detail in titles]
        rows: list[tuple[Text, ...]] = []
        about = []
        for section in self.sections:
            rows.append((Text(text=f"{section.category.capitalize()}, {MODE_TITLES[section.mode]}"),))
            about.append({"class": "category"})
            for row in filter(ScoreRow.has_value, section.rows):
                label = f"{row.label} {_ARROWS.get(row.direction, '')}".rstrip()
                formula = metrics[row.name].formula if row.name in metrics else ""
                rows.append((Text(text=label, unit=row.unit, detail=row.remark, hint=formula), *row.cells))
                about.append({"data-metric": row.name})
            missing = section.missing()
            rows += [(Text(text=line),) for line in missing]
            about += [{"class": "missing"}] * len(missing)
        columns = (Column(key="metric", title="Metric"), *heads)
        return Table(
            name=self.name, caption=self.caption, columns=columns, rows=tuple(rows), kind="scores", about=tuple(about)
        )


def score_table(
    setting: TaskResults, name: str, profile: str, labels: Mapping[str, Label], *, short: bool = False
) -> ScoreTable:
    """Makes the table of a setting, of the metrics that lead if ``short``."""
    metrics = registry.all_metrics()
    details, counts = [], []
    for algorithm in setting.algorithms:
        groups = [group for mode in MODES if (group := setting.of(algorithm, mode)) is not None]
        by_mode = {group.mode: len(group.data.units) for group in groups}
        samples = {sample_text(group.policies, group.episodes) for group in groups}
        same = set(by_mode.values())
        several = ", ".join(f"{count} {MODE_TITLES[mode]}" for mode, count in by_mode.items())
        counts.append(same.pop() if len(same) == 1 else -1)
        details.append(samples.pop() if len(samples) == 1 else several)
    sections = []
    for category in CATEGORIES:
        for mode in _MODES:
            held = {group.algorithm: group for group in setting.in_mode(mode)}
            named = [metric for metric in metrics.values() if metric.category == category]
            if short:
                named = [metric for metric in named if metric.leads()]
            noisy = [name for name, group in held.items() if any(noise(run) for run in group.runs)]
            rows = []
            for metric in named:
                values = [held[name].scores.get(metric.name) if name in held else None for name in setting.algorithms]
                if any(value is not None for value in values):
                    rows.append(make_row(metric, values, setting.algorithms, noisy=noisy, counts=counts))
            if short:  # a row with a number, or with a reason that a user can act on
                rows = [row for row in rows if row.has_value() or any(r.startswith(_ACTIONABLE) for r in row.missing())]
            if short and category == "application" and mode == "inference":
                rows = [*_normalised_row(setting, rows), *rows]
            if category == "application" and mode == "generalization":
                rows += _task_rows(setting, held, counts)
            if rows:
                sections.append(ScoreSection(category, mode, tuple(rows)))
    return ScoreTable(
        name=name,
        title=setting.title,
        caption=f"{setting.title}: mean over runs ± standard deviation, with the 95 % interval of the mean in "
        "brackets; values that may be the best of a row are bold. "
        f"Formulas: profile {profile}, rules {registry.RULES}.",
        algorithms=setting.algorithms,
        details=tuple(details),
        sections=tuple(sections),
        titles=tuple(title_of(labels, algorithm) for algorithm in setting.algorithms),
    )


def make_row(
    metric: Metric,
    values: Sequence[MetricValue | None],
    names: Sequence[str],
    task: str | None = None,
    noisy: Collection[str] = (),
    title: str = "",
    counts: Sequence[int] = (),
) -> ScoreRow:
    """Makes a row with one unit for all cells; marks the best values if the row can be ranked.

    Args:
        noisy: names of the columns with runs on a noisy host.
        counts: numbers of runs in the headings of the columns; a cell names its own number if that differs.
    """
    known = [value.value for value in values if value is not None and value.value is not None]
    units = {value.unit for value in values if value is not None and value.value is not None} or {metric.unit}
    scale = row_scale(known, units.pop() if len(units) == 1 else ", ".join(sorted(units)))
    doubtful = set(noisy) if is_distorted(metric) else set()
    by_name = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    best, remark = _best(by_name)
    if any(by_name[name].value is not None for name in doubtful & by_name.keys()):
        best, remark = set(), remark or ("not ranked: noisy host" if best else "")
    cells = []
    for name, value, count in zip(names, values, counts or [-1] * len(names), strict=True):
        if value is None or value.value is None:
            cells.append(Text(detail=None if value is None else value.condition or "no value"))
            continue
        number = written(value.value, scale, value.spread, value.interval)
        below = (number.interval(), "" if value.n == count else f"n={value.n}")
        mark, hint = marks_of(value.provenance, noisy=name in doubtful)
        cells.append(
            Text(
                text=number.text(),
                detail=" ".join(filter(None, below)),
                best=name in best,
                sort=value.value,
                mark=mark,
                hint=hint,
            )
        )
    label = metric.label if task is None else f"{metric.label}, {plain_text(title or task)}"
    return ScoreRow(metric.name, label, metric.direction, scale.unit, tuple(values), tuple(cells), task, remark)


def is_distorted(metric: Metric) -> bool:
    """Returns whether other processes on the host distort the metric."""
    return metric.category == "system" and metric.unit in DISTORTED_UNITS


def _normalised_row(setting: TaskResults, rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Returns the row of normalised scores, made of the row of returns; empty without reference scores."""
    found = scored_task(setting)
    plain = next((row for row in rows if row.name == returns.name), None)
    if found is None or plain is None:
        return []
    cells = []
    for algorithm, cell in zip(setting.algorithms, plain.cells, strict=True):
        group = setting.of(algorithm, "inference")
        score = None if group is None else found.normalised(group.scores.get(returns.name))
        if score is not None:
            ends = interval_text(score.interval)
            cell = Text(text=normalised_text(score.value), detail=ends, best=cell.best, sort=score.value)
        cells.append(cell)
    label = f"Normalised score ({found.scale})"
    return [ScoreRow(NORMALISED, label, "max", "", plain.values, tuple(cells), remark=plain.remark)]


def _task_rows(setting: TaskResults, held: Mapping[str, SeedGroup], counts: Sequence[int]) -> list[ScoreRow]:
    algorithms = setting.algorithms
    rows = []
    for task in sorted({task for group in held.values() for task in group.tasks}):
        for metric in (returns, success_rate):
            values = [held[a].tasks.get(task, {}).get(metric.name) if a in held else None for a in algorithms]
            if any(value is not None and value.value is not None for value in values):
                title = task_title(setting.domain, task)
                rows.append(make_row(metric, values, algorithms, task, title=title, counts=counts))
    return rows


def _best(values: Mapping[str, MetricValue]) -> tuple[set[str], str]:
    known = {name: value for name, value in values.items() if value.value is not None}
    if len(known) < 2 or next(iter(known.values())).direction == "none":
        return set(), ""
    try:
        ranks = registry.rank(known)
    except UserError:
        provenances = {value.provenance for value in known.values()}
        different = len(provenances) > 1 or "mixed" in provenances
        return set(), "not ranked: measured and estimated" if different else "not ranked: different kinds of values"
    names = list(ranks)
    direction = next(iter(known.values())).direction
    found = leaders([ordering_interval(known[name]) for name in names], "min" if direction == "min" else "max")
    unknown = any(lacks_uncertainty(value) for value in known.values())
    return {names[index] for index in found}, "not ranked: uncertainty not recorded" if unknown else ""
