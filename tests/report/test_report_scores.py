"""Tables of scores: one unit a row, the best marked only where values compare, the same number in every format."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from a2perf.metrics import registry
from a2perf.metrics.values import MetricValue
from a2perf.report.latex import latex_document, latex_text, number_latex, to_latex
from a2perf.report.leaderboard.columns import ranks_by_cost
from a2perf.report.numbers_text import Scale, row_scale, written
from a2perf.report.score_tables import ScoreRow, ScoreSection, ScoreTable, make_row
from a2perf.report.tables import to_markdown
from tests.commands import run_command


def _value(name: str, value: float | None, **more: object) -> MetricValue:
    metric = registry.all_metrics()[name]
    fields = {"unit": metric.unit, "direction": metric.direction, "profile": "corrected", "n": 3, **more}
    return MetricValue(name=name, value=value, **fields)  # type: ignore[arg-type]


def _row(name: str, *values: MetricValue | None) -> ScoreRow:
    return make_row(registry.all_metrics()[name], values, [f"a{place}" for place in range(len(values))])


@pytest.mark.parametrize(
    ("name", "numbers", "best"),
    [
        ("returns", [1.0, 5.0, 3.0], [False, True, False]),
        ("returns", [1.0, 5.0, 4.9], [False, True, True]),
        ("wall_clock", [9.0, 5.0, 5.0], [False, True, True]),
        ("returns", [2.0, 2.0], [False, False]),
        ("returns", [2.0], [False]),
        ("gpu_utilization_mean", [20.0, 80.0], [False, False]),
    ],
)
def test_the_best_value_is_marked_by_the_direction_of_the_metric(
    name: str, numbers: list[float], best: list[bool]
) -> None:
    row = _row(name, *(_value(name, number, interval=(number - 0.2, number + 0.2)) for number in numbers))
    assert [cell.best for cell in row.cells] == best
    assert row.remark == ""


def test_one_run_and_a_noisy_host_leave_no_value_best() -> None:
    assert not any(cell.best for cell in _row("returns", _value("returns", 1.0), _value("returns", 5.0)).cells)
    metric = registry.all_metrics()["wall_clock"]
    values = [_value("wall_clock", number, interval=(number, number)) for number in (9.0, 5.0)]
    row = make_row(metric, values, ["a", "b"], noisy=["a"])
    assert [(cell.best, cell.mark) for cell in row.cells] == [(False, "⚠"), (False, "")]
    assert row.remark == "not ranked: noisy host"


def test_values_of_different_provenance_are_shown_with_their_marks_and_none_is_best() -> None:
    row = _row(
        "energy_gross",
        _value("energy_gross", 1.0, provenance="measured"),
        _value("energy_gross", 0.5, provenance="estimated"),
    )
    assert [cell.mark for cell in row.cells] == ["", "≈"]
    assert not any(cell.best for cell in row.cells)
    assert row.remark == "not ranked: measured and estimated"


@pytest.mark.parametrize(
    ("uncertainties", "best", "remark"),
    [
        ((0.1, 0.1, 0.1), [True, False, False], ""),
        ((0.6, 0.6, 0.6), [True, True, False], ""),  # the first two overlap
        ((3.0, 3.0, 3.0), [False, False, False], ""),  # all overlap: bold type would claim a difference
        ((0.1, None, 0.1), [False, False, False], "not ranked: uncertainty not recorded"),
    ],
)
def test_energies_whose_uncertainties_overlap_are_not_ordered(
    uncertainties: tuple[float | None, ...], best: list[bool], remark: str
) -> None:
    values = [
        _value(
            "energy_gross",
            number,
            provenance="measured",
            uncertainty=unsure,
            interval=(number - (unsure or 0.01), number + (unsure or 0.01)),
        )
        for number, unsure in zip((5.0, 6.0, 9.0), uncertainties, strict=True)
    ]
    row = _row("energy_gross", *values)
    assert [cell.best for cell in row.cells] == best
    assert row.remark == remark
    ranks = ranks_by_cost([*values, None])
    if uncertainties[0] == 0.6:
        assert ranks == ["rank 1–2", "rank 1–2", "rank 3", ""]
    if None in uncertainties:
        assert ranks == ["", "", "", ""]


def test_a_missing_value_says_why_and_a_mode_that_was_not_run_says_nothing() -> None:
    row = _row("IqrAcrossRuns", _value("IqrAcrossRuns", None, condition="not enough data (n=2, needs 3)"), None)
    assert [cell.detail for cell in row.cells] == ["not enough data (n=2, needs 3)", None]
    assert [cell.mark for cell in row.cells] == ["", ""]


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ([1e-4, 3e-4, 2e-3], "s", Scale(1e-6, "µs")),
        ([3e-4, 4e-4], "kWh", Scale(1e-6, "mWh")),
        ([0.02, 0.5], "kWh", Scale(1e-3, "Wh")),
        ([0.0003, 0.0004], "W", Scale(1e-4, "10⁻⁴ W")),
        ([4e8], "", Scale(1e8, "10⁸")),
        ([0.0, 0.0], "s", Scale(1.0, "s")),
        ([250 * 2.0**20, 0.0], "bytes", Scale(2.0**20, "MiB")),
    ],
)
def test_a_row_has_one_unit(values: list[float], unit: str, expected: Scale) -> None:
    scale = row_scale(values, unit)
    assert scale.unit == expected.unit
    assert scale.factor == pytest.approx(expected.factor)


@pytest.mark.parametrize(
    ("value", "spread", "interval", "text", "between"),
    [
        (119.3421, 3.3712, (115.02, 124.98), "119.3 ± 3.4", "[115.0, 125.0]"),
        (0.00123, 0.000045, (0.0011, 0.0013), "(1.230 ± 0.045) × 10⁻³", "[1.100, 1.300] × 10⁻³"),
        (0.00123, None, None, "1.230 × 10⁻³", ""),
        (-4.2e9, None, None, "−4.200 × 10⁹", ""),
        (5.0, 5e-16, (5.0, 5.0), "5 ± 0", "[5, 5]"),
        (float("nan"), None, None, "not a number", ""),
    ],
)
def test_value_spread_and_interval_are_rounded_alike(
    value: float, spread: float | None, interval: tuple[float, float] | None, text: str, between: str
) -> None:
    number = written(value, Scale(1.0, ""), spread, interval)
    assert (number.text(), number.interval()) == (text, between)


def test_latex_numbers_are_in_math_mode_and_the_best_is_bold() -> None:
    number = written(-0.00123, Scale(1.0, ""), 0.0002, (-0.0015, -0.0010))
    assert number_latex(number.text(), bold=True) == r"$(\mathbf{-1.23} \pm 0.20) \times 10^{-3}$"
    assert number_latex(written(12345.0, Scale(1.0, "")).text()) == r"$12\,345$"


HOSTILE = "\\input{/etc/passwd} $x_1^2$ & 50% #1 ~{}<>|\"`' ü ñ 猫 \u202e[a] 10⁻³ –"


def _hostile_table() -> ScoreTable:
    values = [
        _value("returns", 1.5, spread=0.1, interval=(1.4, 1.6)),
        _value("returns", None, condition=f"not enough data {HOSTILE}"),
    ]
    row = make_row(registry.all_metrics()["returns"], values, [HOSTILE, "b"], task=HOSTILE)
    section = ScoreSection("application", "inference", (row,))
    return ScoreTable("t", HOSTILE, HOSTILE, (HOSTILE, "b"), ("3 runs", "1 run"), (section,))


def test_words_of_strangers_stay_words_in_latex_and_markdown() -> None:
    assert latex_text(r"a_b & 10%, 10⁻³ \input{x}") == r"a\_b \& 10\%, 10$^{-3}$ $\backslash$input\{x\}"
    lines = to_markdown(_hostile_table().table()).splitlines()
    assert {line.replace("\\|", "").count("|") for line in lines} == {4}


def _compiled(folder: Path, source: str) -> str:
    """Compiles a document and returns the words of its pages."""
    (folder / "report.tex").write_text(source)
    done = run_command(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "report.tex"],
        folder,
        check=True,
        errors="replace",
    )
    assert "Overfull" not in done.stdout
    assert "Missing character" not in done.stdout
    return run_command(["pdftotext", "-layout", "report.pdf", "-"], folder, check=True).stdout


@pytest.mark.group("latex")
def test_hostile_words_compile_and_are_printed_as_they_are(tmp_path: Path) -> None:
    words = _compiled(tmp_path, latex_document([_hostile_table().table()], HOSTILE))
    assert "input{/etc/passwd}" in words
    assert "root:" not in words
    assert "50%" in words


@pytest.fixture(scope="module")
def report(rivals_report: Path) -> Path:
    """The folder of a report of three rivals with three seeds each."""
    return rivals_report.parent


@pytest.mark.group("latex")
def test_the_report_compiles_and_each_of_its_tables_by_itself(report: Path, tmp_path: Path) -> None:
    words = _compiled(tmp_path, (report / "report.tex").read_text())
    assert "Dispersion across runs (IQR)" in words
    assert "random & <b>free</b>" in words
    fragments = sorted((report / "tables").glob("*.tex"))
    assert [path.name for path in fragments] == [
        "quadruped-locomotion-dog-pace-all.tex",
        "quadruped-locomotion-dog-pace.tex",
    ]
    text = fragments[1].read_text()
    for needed in (
        "\\toprule",
        "\\midrule",
        "\\bottomrule",
        "\\caption{Dog, pace: mean",
        "\\mathbf",
    ):
        assert needed in text
    assert "\\label{tab:quadruped-locomotion-dog-pace}" in text


def test_a_number_is_the_same_in_all_five_formats(report: Path) -> None:
    record = json.loads((report / "report.json").read_text())
    (setting,) = record["settings"]
    entry = next(
        e for e in setting["scores"] if (e["algorithm"], e["score"]["name"]) == ("random & <b>free</b>", "returns")
    )
    score = entry["score"]
    low, high = score["interval"]
    means = []
    for seed in (1, 2, 3):
        rollouts = report.parent / "runs" / "algorithm_2" / f"seed_{seed}" / "inference" / "metrics" / "rollouts.json"
        episodes = json.loads(rollouts.read_text())["episodes"]
        means.append(sum(episode["episode_return"] for episode in episodes) / len(episodes))
    assert score["value"] == pytest.approx(sum(means) / 3, rel=1e-12)
    assert (score["n"], entry["best"]) == (3, True)

    rows = csv.DictReader(io.StringIO((report / "tables.csv").read_text()))
    (row,) = [
        r
        for r in rows
        if (r["level"], r["submission"], r["measure"]) == ("algorithm", "random & <b>free</b>", "returns")
    ]
    assert [float(row[key]) for key in ("value", "spread", "low", "high")] == [
        score["value"],
        score["spread"],
        low,
        high,
    ]
    assert (row["n"], row["best"], row["provenance"]) == ("3", "yes", "recorded")

    number = written(score["value"], Scale(1.0, ""), score["spread"], (low, high))
    assert f"**{number.text()}**<br>\\{number.interval()[:-1]}\\] |" in (report / "report.md").read_text()

    table = (
        (report / "index.html").read_text().partition('<table role="table" class="scores"')[2].partition("</table>")[0]
    )
    (line,) = re.findall(r'<tr data-metric="returns">.*?</tr>', table, flags=re.DOTALL)
    cell = re.findall(r"<td.*?</td>", line, flags=re.DOTALL)[1]
    words = re.sub(r"<[^>]+>", "", cell)
    assert number.text() in words
    assert number.interval() in words
    assert "n=" not in words  # the heading has it
    assert "may be the best" in words

    (line,) = [text for text in (report / "report.tex").read_text().splitlines() if text.startswith("Returns")]
    cell = line.split(" & ")[2]
    assert f"$\\mathbf{{{number.value}}} \\pm {number.spread}$" in cell
    assert f"$[{number.low},\\,{number.high}]$" in cell


def test_a_cell_prints_n_in_latex_where_it_is_not_the_columns(report: Path) -> None:
    values = [_value("returns", number, n=n) for number, n in ((1.0, 2), (2.0, 3))]
    row = make_row(registry.all_metrics()["returns"], values, ["a", "b"], counts=[3, 3])
    table = ScoreTable("t", "t", "c", ("a", "b"), ("3 runs", "3 runs"), (ScoreSection("application", "train", (row,)),))
    (line,) = [text for text in to_latex(table.table()).splitlines() if text.startswith("Returns")]
    first, second = line.split(" & ")[1:]
    assert "$n=2$" in first
    assert "$n=" not in second
