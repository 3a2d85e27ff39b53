"""The tables of a paper: one a setting, metrics as rows grouped by category, algorithms as columns.

Cells hold the registry's values as they are; rounding happens once, here, so that every format prints the same digits.
The best value of a row is marked only where the registry ranks the row: never across provenances.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from a2perf.errors import UserError
from a2perf.metrics import registry
from a2perf.metrics.definition import Metric
from a2perf.metrics.values import Category, MetricValue
from a2perf.plain_text import plain_text
from a2perf.report.numbers_text import Scale, Written, row_scale, written
from a2perf.report.task_results import SeedGroup, TaskResults
from a2perf.runs.layout import MODES

CATEGORIES: tuple[Category, ...] = ("application", "reliability", "system", "data")
MODE_WORDS = {"train": "training", "inference": "inference", "generalization": "generalization"}
MARKS = {"measured": "m", "estimated": "e", "recorded": "r", "mixed": "m+e"}
MARK_WORDS = {
    "measured": "measured by an instrument or a clock",
    "estimated": "estimated by a model",
    "recorded": "recorded by the environment or the participant",
    "mixed": "measured in some runs, estimated in others",
}
HEADLINES = (
    "returns", "success_rate", "generalization",
    "IqrAcrossRuns", "IqrWithinRuns", "LowerCVaROnDiffs", "LowerCVaROnDrawdown", "LowerCVarOnAcross",
    "MedianPerfDuringTraining", "IqrAcrossRollouts", "LowerCVaRAcrossRollouts",
    "energy_gross", "power_mean", "power_gpu_mean", "memory_rss_mean", "memory_rss_peak", "memory_gpu_peak",
    "wall_clock", "latency_round_trip_median", "latency_round_trip_p99", "latency_infer_once_median",
    "latency_processor_time_mean",
    "energy_to_threshold", "time_to_threshold", "training_sample_cost",
)  # fmt: skip
"""What the short table shows: the rows of the earlier platform's tables, success, and latency as quantiles."""


@dataclasses.dataclass(frozen=True)
class ScoreCell:
    """One algorithm's value of one metric.

    Attributes:
        value: as scored; None when the algorithm has no run in this mode.
        written: rounded to the row's unit; None without a value.
        best: no other value of the row is better.
    """

    value: MetricValue | None
    written: Written | None = None
    best: bool = False

    @property
    def mark(self) -> str:
        """Short sign of the value's provenance; empty without a value."""
        if self.value is None or self.written is None:
            return ""
        return MARKS.get(self.value.provenance, self.value.provenance)

    def condition(self) -> str:
        """Says why there is no number; empty where there is one or the metric is not of these runs."""
        return "" if self.value is None or self.written is not None else self.value.condition or "no value"


@dataclasses.dataclass(frozen=True)
class ScoreRow:
    """One metric.

    Attributes:
        name: the metric's name in the registry.
        task: the task it is of, in generalization.
        scale: the unit that all cells are written in.
        remark: why nothing is marked as best, where a reader would expect it.
    """

    name: str
    label: str
    direction: str
    scale: Scale
    cells: tuple[ScoreCell, ...]
    task: str | None = None
    remark: str = ""

    @property
    def unit(self) -> str:
        """Unit in the row's heading; ``"return"`` for the unit of the reward."""
        return self.scale.unit


@dataclasses.dataclass(frozen=True)
class ScoreSection:
    """Rows of one category in one mode."""

    category: Category
    mode: str
    rows: tuple[ScoreRow, ...]

    @property
    def title(self) -> str:
        """Heading, ``"Reliability, training"``."""
        return f"{self.category.capitalize()}, {MODE_WORDS.get(self.mode, self.mode)}"


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """A table of scores.

    Attributes:
        caption: one sentence on what is compared.
        algorithms: headings of the columns.
        details: a line below each heading: how many runs, by mode.
    """

    name: str
    title: str
    caption: str
    algorithms: tuple[str, ...]
    details: tuple[str, ...]
    sections: tuple[ScoreSection, ...]

    def rows(self) -> list[ScoreRow]:
        """Returns all rows from top to bottom."""
        return [row for section in self.sections for row in section.rows]


def score_table(setting: TaskResults, name: str, profile: str, *, headlines: bool = False) -> ScoreTable:
    """Makes the table of a setting.

    Args:
        setting: what was scored.
        name: identity of the table, safe in file names.
        profile: of the formulas, for the caption.
        headlines: only the rows of ``HEADLINES``.
    """
    metrics = registry.all_metrics()
    sections = []
    for mode in MODES:
        held = {group.algorithm: group for group in setting.in_mode(mode)}
        for category in CATEGORIES:
            named = [metric for metric in metrics.values() if metric.category == category]
            if headlines:
                named = sorted((m for m in named if m.name in HEADLINES), key=lambda m: HEADLINES.index(m.name))
            rows = [row for metric in named if (row := _row(metric, setting.algorithms, held)) is not None]
            rows = [row for row in rows if not headlines or _is_worth_a_line(row)]
            if category == "application" and mode == "generalization":
                rows += _task_rows(setting.algorithms, held, metrics)
            if rows:
                sections.append(ScoreSection(category, mode, tuple(rows)))
    return ScoreTable(
        name=name,
        title=setting.title,
        caption=_caption(setting, profile),
        algorithms=setting.algorithms,
        details=tuple(_detail(setting, algorithm) for algorithm in setting.algorithms),
        sections=tuple(sections),
    )


def make_row(
    metric: Metric, values: Sequence[MetricValue | None], names: Sequence[str], task: str | None = None
) -> ScoreRow:
    """Makes a row: one unit for all cells, the best marked where the row may be ranked.

    Args:
        metric: what the values are of.
        values: by column, None where there is nothing to score.
        names: of the columns.
        task: the task, where a run has several.
    """
    known = [value.value for value in values if value is not None and value.value is not None]
    scale = row_scale(known, metric.unit)
    best, remark = _best({name: value for name, value in zip(names, values, strict=True) if value is not None})
    cells = tuple(
        ScoreCell(value)
        if value is None or value.value is None
        else ScoreCell(value, written(value.value, scale, value.spread, value.interval), name in best)
        for name, value in zip(names, values, strict=True)
    )
    label = metric.label if task is None else f"{metric.label}, {plain_text(task)}"
    return ScoreRow(metric.name, label, metric.direction, scale, cells, task, remark)


def _row(metric: Metric, algorithms: Sequence[str], held: Mapping[str, SeedGroup]) -> ScoreRow | None:
    values = [held[name].scores.get(metric.name) if name in held else None for name in algorithms]
    if all(value is None for value in values):
        return None
    return make_row(metric, values, algorithms)


def _is_worth_a_line(row: ScoreRow) -> bool:
    """Says whether a row of the short table tells something: a number, or what is lacking for one."""
    lacking = ("not enough", "threshold", "failed")
    return any(cell.written is not None or cell.condition().startswith(lacking) for cell in row.cells)


def _task_rows(
    algorithms: Sequence[str], held: Mapping[str, SeedGroup], metrics: Mapping[str, Metric]
) -> list[ScoreRow]:
    tasks = sorted({task for group in held.values() for task in group.tasks})
    rows = []
    for task in tasks:
        for name in ("returns", "success_rate"):
            values = [held[a].tasks.get(task, {}).get(name) if a in held else None for a in algorithms]
            if any(value is not None and value.value is not None for value in values):
                rows.append(make_row(metrics[name], values, algorithms, task))
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
    lowest = min(ranks.values())
    if lowest == max(ranks.values()):
        return set(), ""  # all are equal, which bold type would hide
    return {name for name, rank in ranks.items() if rank == lowest}, ""


def _caption(setting: TaskResults, profile: str) -> str:
    return (
        f"{setting.title}: mean over runs ± standard deviation, with the 95 % interval of the mean in brackets; "
        f"best value of a row bold. Formulas: profile {profile}, rules {registry.RULES}."
    )


def _detail(setting: TaskResults, algorithm: str) -> str:
    held = [(mode, group) for mode in MODES if (group := setting.of(algorithm, mode)) is not None]
    counts = {len(group.runs) for _, group in held}
    if len(counts) == 1:
        count = counts.pop()
        return f"{count} run" if count == 1 else f"{count} runs"
    return ", ".join(f"{len(group.runs)} {MODE_WORDS[mode]}" for mode, group in held)
