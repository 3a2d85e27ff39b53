"""``Comparison``: groups of runs with a verdict on each task, for people, data frames, files and CI services."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from a2perf.api.views.table import Kind, Table, Tabular
from a2perf.errors import ConfigError, UserError
from a2perf.metrics.definition import provenance_over_runs
from a2perf.metrics.difference import Sign
from a2perf.rlops.compare.comparison import ComparedGroups, OverallDifference
from a2perf.rlops.compare.panel import Panel
from a2perf.rlops.compare.record import CompareRecord, compare_record
from a2perf.rlops.compare.sentences import summary, terminal_text, wrapped
from a2perf.rlops.compare.verdict import Judgement, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from a2perf.experiments.junit import VerdictSuite

PlotKind: TypeAlias = Literal["forest", "curves"]

_COUNTS = ("candidate_n", "baseline_n", "lost")
_DIFFERENCE = ("candidate_mean", "baseline_mean", "difference", "low", "high")
_DESCRIPTIONS = {
    "candidate_n": "runs of the candidate with a score",
    "baseline_n": "runs of the baseline with a score",
    "lost": "runs of the candidate that failed, diverged or did not record the metric",
    "difference": "mean of the candidate less mean of the baseline; positive is better",
    "low": "lower end of the interval of the difference",
    "high": "upper end of the interval of the difference",
    "result": "better or worse if the interval of the difference excludes 0",
    "verdict": "verdict of the regression gate",
    "tolerance": "largest acceptable loss",
    "probability_of_improvement": "probability that a run of the candidate beats one of the baseline; ties count half",
    "p_regression": "chance of so low a difference if the true one were just at the tolerance",
    "separating_seeds": "further units on each side that separate the sides in eight of ten simulations",
    "further_seeds_low": "further seeds on each side that settle the judgement in half of the simulations",
    "further_seeds": "further seeds on each side that settle the judgement in eight of ten simulations",
}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Tabular):
    """Groups of runs compared with a baseline: better, worse or not separated, per task and overall. Immutable.

    ``print`` shows the tables and reasons. ``to_pandas`` returns one row per candidate, task and metric.

    Attributes:
        groups: the groups with their runs, panels and intervals.

    Example:
        >>> runs = a2perf.read_runs("results/recorded/small")
        >>> comparison = a2perf.compare(
        ...     runs, baseline="minimal", candidate="greedy_placer", tasks=["ariane"]
        ... )
        >>> comparison.results
        {'greedy_placer': <Sign.BETTER: 'better'>}
        >>> comparison.plot().savefig("comparison.png")
    """

    groups: ComparedGroups

    @property
    def results(self) -> dict[str, Sign]:
        """``"better"``, ``"worse"`` or ``"not separated"`` over all tasks, by candidate; of several metrics the first.

        One test over all tasks decides, so no correction for their number is needed; several candidates or metrics
        have Bonferroni's correction.
        """
        return {name: next(iter(found.values())).found.sign for name, found in self.overall.items()}

    @property
    def overall(self) -> dict[str, dict[str, OverallDifference]]:
        """The difference over all tasks with its interval, by candidate and metric."""
        return dict(zip(self.candidates, (one.overall for one in self.groups.candidates), strict=True))

    @property
    def verdict(self) -> Verdict | None:
        """The worst verdict of the regression gate: ``"REGRESSION"``, ``"INCONCLUSIVE"`` or ``"PASS"``.

        None without a candidate. Texts and tables show it only with ``gate=`` of ``compare``.
        """
        return self.groups.verdict

    @property
    def baseline(self) -> str | None:
        """Name of the baseline; None if there is one group only."""
        at = self.groups.request.baseline
        return None if at is None else self.groups.names[at]

    @property
    def candidates(self) -> tuple[str, ...]:
        """Names of the groups that are judged."""
        return tuple(self.groups.names[candidate.place] for candidate in self.groups.candidates)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of the regression gate over all tasks, by candidate."""
        return dict(zip(self.candidates, (one.verdict for one in self.groups.candidates), strict=True))

    @property
    def judgements(self) -> dict[str, tuple[Judgement, ...]]:
        """The judgements, one per task and metric, by candidate.

        A judgement holds ``sign``, ``difference`` (positive is better) with its interval ``low`` and ``high``, and of
        the regression gate ``verdict``, ``tolerance``, ``p_regression``, ``further_seeds`` and ``reason``.
        """
        return dict(zip(self.candidates, (one.judgements for one in self.groups.candidates), strict=True))

    @property
    def notices(self) -> tuple[str, ...]:
        """Warnings about the runs: unfinished ones, mixed versions, different hosts and days."""
        return self.groups.notices

    def table(self) -> Table:
        """Returns one row per candidate, task and metric.

        Differences are the candidate's mean less the baseline's, with the sign changed if lower is better: positive
        is better. With ``gate=`` of ``compare`` columns of the regression gate follow; its ``further_seeds`` is the
        number of seeds on each side that settles an inconclusive judgement.
        """
        return _table(self.groups)

    def record(self) -> CompareRecord:
        """Returns the content of ``compare.json``: groups, judgements, scores of all runs and notices."""
        return compare_record(self.groups)

    def plot(self, kind: PlotKind = "forest", *, time: bool = False) -> Figure:
        """Draws the comparison.

        Args:
            kind: ``"forest"`` for differences with their intervals, one row per candidate and task;
                ``"curves"`` for the mean curve of each group with its spread, one panel per task.
            time: draw curves over time instead of steps.

        Returns:
            A matplotlib figure. A notebook shows it; ``figure.savefig("comparison.pdf")`` writes it.

        Raises:
            ConfigError: an unknown kind.
            UserError: there is nothing to draw, for example no candidate.
        """
        from a2perf.report.figures.panels import figure_for_notebook
        from a2perf.rlops.compare import figures

        if kind == "forest":
            return figure_for_notebook(lambda: figures.forest_figure(self.groups))
        if kind != "curves":
            raise ConfigError(f"{kind!r} is not a kind of plot", hint=f"use one of {', '.join(get_args(PlotKind))}")
        curves = figures.curves_of(self.groups, time=time)
        if not curves:
            over = "time" if time else "steps"
            raise UserError(f"no run has a curve over {over}", hint='use plot("forest")')
        return figure_for_notebook(lambda: figures.grid(curves))

    def write(self, target: str | Path = "compare", *, figures: bool = True, page: bool = True) -> list[Path]:
        """Writes the files of ``a2perf rlops compare``: record, page, comment, tables and figures.

        Args:
            target: what the names of the files begin with; in an existing folder they begin with ``compare``.
            figures: draw curves.
            page: write the HTML report.

        Returns:
            The files, the record (``compare.json``) first.

        Raises:
            UserError: the target cannot be written.
        """
        from a2perf.rlops.compare.writing import output_stem, write

        stem = Path(target) / "compare" if Path(target).is_dir() else output_stem(str(target))
        return write(self.groups, stem, with_figures=figures, with_page=page)

    def junit(self, *, fail_on: str = "regression") -> str:
        """Returns the judgements as a JUnit XML document, one test case per candidate, task and metric.

        Args:
            fail_on: ``"regression"``, or ``"inconclusive"`` to make inconclusive judgements failures as well.
                Otherwise they are skipped tests.

        Raises:
            ConfigError: ``fail_on`` is neither.
        """
        from a2perf.experiments.junit import junit_document

        return junit_document(self.suites(fail_on=fail_on))

    def annotations(self, *, fail_on: str = "regression") -> list[str]:
        """Returns workflow commands of GitHub, one per judgement that did not pass.

        A job that prints them shows them on the page of the workflow and of the pull request.

        Args:
            fail_on: ``"regression"``, or ``"inconclusive"`` to make inconclusive judgements errors, not warnings.

        Raises:
            ConfigError: ``fail_on`` is neither.
        """
        from a2perf.report.github import annotations_of

        return annotations_of(self.suites(fail_on=fail_on))

    def suites(self, *, fail_on: str = "regression") -> list[VerdictSuite]:
        """Returns the judgements as test cases, one suite per candidate; ``junit`` and ``annotations`` write them."""
        from a2perf.rlops.compare.writing import suites_of

        return suites_of(self.groups, fail_on)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Comparison):
            return NotImplemented
        return _without_time(self.groups) == _without_time(other.groups)

    def __hash__(self) -> int:
        return hash((self.groups.store, self.baseline, self.candidates))

    def __repr__(self) -> str:
        # the output of the command; on a narrow terminal without the columns that do not fit
        width = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None
        return f"{terminal_text(self.groups, width)}\n{wrapped(summary(self.groups), width)}"


def _without_time(groups: ComparedGroups) -> CompareRecord:
    record = compare_record(groups)
    record.made_at, record.groups = "", {}  # groups can be named in several ways
    return record


def _table(groups: ComparedGroups) -> Table:
    gate = ("verdict", "tolerance", "p_regression", "further_seeds_low", "further_seeds") if groups.request.gate else ()
    baseline = groups.names[groups.request.baseline or 0]
    rows: list[dict[str, Any]] = []
    for candidate in groups.candidates:
        for panel, judgement, improvement in candidate.rows():
            values = judgement.values()
            rows.append(
                {
                    "candidate": groups.names[candidate.place],
                    "baseline": baseline,
                    "task": panel.env,
                    "metric": panel.metric,
                    "result": judgement.sign.value,
                    **{name: values[name] for name in (*_COUNTS, *_DIFFERENCE)},
                    "separating_seeds": values["separating_seeds"],
                    "probability_of_improvement": None if improvement is None else improvement.value,
                    "unit": panel.unit,
                    "provenance": _provenance(panel),
                    **{name: values[name] for name in gate},
                    "reason": judgement.reason if gate else judgement.sign_reason,
                }
            )
    names = list(rows[0]) if rows else ["candidate", "baseline", "task", "metric", "result", *_DIFFERENCE, "unit"]
    measured = [name for name in (*_DIFFERENCE, "tolerance") if name in names]
    kinds: dict[str, Kind] = {
        **dict.fromkeys((*measured, "probability_of_improvement", "p_regression"), "float"),
        **dict.fromkeys((*_COUNTS, "separating_seeds", "further_seeds_low", "further_seeds"), "int"),
    }
    units = {panel.unit for panel in groups.panels}
    marks = {_provenance(panel) for panel in groups.panels}
    several = len(units) > 1 or len(marks) > 1
    return Table(
        {name: [row[name] for row in rows] for name in names},
        title=f"Comparison with {baseline}",
        units={} if several else dict.fromkeys(measured, next(iter(units), "")),
        provenance={} if several or not rows else dict.fromkeys(measured, next(iter(marks), "recorded")),
        row_units=dict.fromkeys(measured, "unit") if several else {},
        row_provenance=dict.fromkeys(measured, "provenance") if several else {},
        descriptions={name: text for name, text in _DESCRIPTIONS.items() if name in names},
        kinds={name: kind for name, kind in kinds.items() if name in names},
    )


def _provenance(panel: Panel) -> str:
    kinds = [kind for cell in panel.cells for kind in cell.provenance]
    return provenance_over_runs(kinds) if kinds else "recorded"
