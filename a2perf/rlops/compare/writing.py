"""The files of a comparison, under the names that earlier tools gave them: HTML report, tables, figures, test cases."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jinja2
from msgspec.structs import replace

from a2perf._version import __version__
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.experiments.junit import Outcome, VerdictCase, VerdictSuite
from a2perf.metrics.bootstrap import Estimate
from a2perf.report.figures.drawing import Chart, interactive, only_in_pages, pictures
from a2perf.report.latex import to_latex
from a2perf.report.page import render
from a2perf.report.tables import Table, markdown_text, text_table, to_csv, to_markdown
from a2perf.rlops.compare.comparison import ComparedGroups
from a2perf.rlops.compare.figures import PanelCurves, curves_of, forest_chart, forest_figure, grid
from a2perf.rlops.compare.panel import Panel
from a2perf.rlops.compare.record import compare_record
from a2perf.rlops.compare.sentences import comment, method, reasons, summary, title_of
from a2perf.rlops.compare.tables import (
    STATES,
    UNKNOWN,
    JudgementNumbers,
    number,
    runtime_table,
    score_table,
    verdict_table,
)
from a2perf.rlops.compare.verdict import Judgement, Verdict
from a2perf.storage import write_atomic, write_record

_KINDS = (".png", ".pdf", ".svg", ".html", ".md", ".tex", ".csv", ".json")
_LOADER = jinja2.PackageLoader("a2perf.rlops.compare", "templates")
FAIL_ON: dict[str, tuple[Verdict, ...]] = {
    "regression": (Verdict.REGRESSION,),
    "inconclusive": (Verdict.REGRESSION, Verdict.INCONCLUSIVE),
}
"""The verdicts that fail, by value of ``--fail-on``."""
_COUNTS = ("candidate_mean", "baseline_mean", "candidate_n", "baseline_n", "lost", "further_seeds")


def output_stem(given: str) -> Path:
    """Returns what file names begin with; an ending that names a format is cut off, ``compare.png`` is ``compare``.

    Raises:
        UserError: it is empty.
    """
    path = Path(given).expanduser()
    stem = path.with_suffix("") if path.suffix.lower() in _KINDS else path
    if not stem.name:
        raise UserError(f"--output-filename {given!r} is not a file name", hint="--output-filename compare")
    return stem


def write(comparison: ComparedGroups, stem: Path, *, with_figures: bool = True, with_page: bool = True) -> list[Path]:
    """Writes a comparison and returns the files, the record first.

    Raises:
        UserError: a file cannot be written.
    """
    files: dict[str, bytes | str] = {}  # by what follows the stem in its name
    is_training = comparison.request.axis == "global_step"  # episodes are independent: no line connects them
    steps = curves_of(comparison) if with_figures and is_training else []
    times = curves_of(comparison, time=True) if with_figures and is_training else []
    if with_figures and comparison.candidates and not is_training:
        drawn = pictures(partial(forest_figure, comparison))
        files |= {f".{kind}": picture for kind, picture in drawn.items()}
    for suffix, curves in (("", steps), ("-time", times)):
        if curves:
            drawn = pictures(partial(grid, curves))
            files |= {f"{suffix}.{kind}": picture for kind, picture in drawn.items()}
    scores, runtimes = score_table(comparison), runtime_table(comparison)
    verdicts = [verdict_table(comparison, candidate) for candidate in comparison.candidates]
    sections = (f"## {markdown_text(table.caption)}\n\n{to_markdown(table)}" for table in (*verdicts, scores))
    files[".md"] = "\n".join(sections)
    files[".csv"] = to_csv(scores)
    named = (replace(table, name=f"{stem.name}-{at}") for at, table in enumerate(verdicts or [scores]))
    files[".tex"] = "\n".join(map(to_latex, named))
    files["_runtimes.md"], files["_runtimes.csv"] = to_markdown(runtimes), to_csv(runtimes)
    files["_comment.md"] = comment(comparison)
    if with_page:
        files[".html"] = to_page(comparison, steps, times)
    record = stem.with_name(f"{stem.name}.json")
    written = [record]
    try:
        write_record(record, compare_record(comparison))
        for suffix, content in files.items():
            path = stem.with_name(f"{stem.name}{suffix}")
            write_atomic(path, content)
            written.append(path)
    except OSError as error:
        raise UserError(f"{stem} cannot be written: {error.strerror}", hint="give --output-filename") from error
    return written


@only_in_pages()
def to_page(comparison: ComparedGroups, steps: Sequence[PanelCurves], times: Sequence[PanelCurves]) -> str:
    """Renders a comparison as one HTML document; without curves it has no charts of them."""
    return render(
        "compare.html",
        loader=_LOADER,
        title=title_of(comparison),
        summary=summary(comparison),
        candidates=[
            {
                "table": verdict_table(comparison, c),
                "marks": [item.found.sign.value for item in c.overall.values()],
                "gate": c.verdict.value if comparison.request.gate else "",
                "reasons": reasons(c, gate=comparison.request.gate),
                "forest": forest_chart(comparison, c),
            }
            for c in comparison.candidates
        ],
        gate=comparison.request.gate,
        tables=[score_table(comparison), runtime_table(comparison)],
        step_charts=_curve_charts(steps, "steps"),
        time_charts=_curve_charts(times, "time"),
        notices=comparison.notices,
        runs=_runs(comparison),
        method=method(comparison),
        states=STATES,
        version=__version__,
        made_at=comparison.made_at,
    )


def _curve_charts(curves: Sequence[PanelCurves], axis: str) -> list[Chart]:
    return [
        interactive(
            f"{axis}-{at}",
            panel.name,
            f"{panel.metric}: mean over runs with its 95 % interval.",
            "; ".join(f"{line.name} ends at {line.mean[-1]:.3g}" for line in lines if line.mean is not None) + ".",
            {"linear": draw},
        )
        for at, (panel, lines, draw) in enumerate(curves)
    ]


def _runs(comparison: ComparedGroups) -> Table:
    rows = [
        (
            run.name,
            name,
            panel.name,
            UNKNOWN if run.record.seed is None else str(run.record.seed),
            run.record.version,
            ", ".join(sorted(run.record.tags)),
            number(float(score)),
        )
        for panel in comparison.panels
        for name, cell in zip(comparison.names, panel.cells, strict=True)
        for run, score in zip(cell.runs, cell.scores, strict=True)
    ]
    heads = ("run", "group", "environment", "seed", "version", "tags", "score")
    return text_table("Runs", heads, rows, texts=6)


def suites_of(groups: ComparedGroups, fail_on: str = "regression") -> list[VerdictSuite]:
    """Returns one suite per candidate. A verdict that is not a failure and not a PASS is a skipped case.

    Raises:
        ConfigError: an unknown ``fail_on``.
    """
    if fail_on not in FAIL_ON:
        raise ConfigError(
            f"fail_on={fail_on!r} is not valid{did_you_mean(str(fail_on), FAIL_ON)}",
            hint=f"use one of {', '.join(FAIL_ON)}",
        )
    suites = []
    baseline = groups.names[groups.request.baseline or 0]
    for candidate in groups.candidates:
        name, verdict = groups.names[candidate.place], candidate.verdict.value
        cases = [_case(*row, fail_on) for row in candidate.rows()]
        if candidate.verdict not in {judgement.verdict for judgement in candidate.judgements}:
            # a loss that only all environments together show must not look like success
            outcome, text = _outcome(candidate.verdict, fail_on), "\n".join(reasons(candidate))
            properties = {"verdict": verdict, "p_together": candidate.p_together}
            message = f"all environments together: {verdict}"
            cases.append(VerdictCase("overall", outcome, verdict, message, text, properties))
        about = {"candidate": name, "baseline": baseline, "verdict": verdict, "confidence": groups.request.confidence}
        suites.append(VerdictSuite(f"{name} against {baseline}", tuple(cases), about, groups.made_at))
    return suites


def _case(panel: Panel, judgement: Judgement, improvement: Estimate | None, fail_on: str) -> VerdictCase:
    numbers, values = JudgementNumbers(panel, judgement), judgement.values()
    message = judgement.reason
    if judgement.difference is not None:
        message = f"{numbers.difference()} {numbers.interval()}, limit {numbers.limit()}: {judgement.reason}"
    ours, theirs = judgement.candidate, judgement.baseline
    text = (
        f"candidate {numbers.mean(ours.mean)} ({ours.seeds} seeds), baseline {numbers.mean(theirs.mean)} "
        f"({theirs.seeds} seeds)"
    )
    return VerdictCase(
        judgement.env,
        _outcome(judgement.verdict, fail_on),
        judgement.verdict.value,
        message,
        f"{message}\n{text}",
        {
            "verdict": values["verdict"],
            "metric": panel.metric,
            "unit": panel.unit,
            **{name: values[name] for name in ("difference", "low", "high", "tolerance", "p_regression")},
            "probability_of_improvement": None if improvement is None else improvement.value,
            **{name: values[name] for name in _COUNTS},
        },
    )


def _outcome(verdict: Verdict, fail_on: str) -> Outcome:
    if verdict in FAIL_ON[fail_on]:
        return "failed"
    return "passed" if verdict is Verdict.PASS else "skipped"
