"""Bad input of every kind becomes a stated condition, in the page and in every file, and nothing else is lost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from a2perf.metrics import protocol
from a2perf.report import WrittenReport, write_report
from a2perf.runs import read_runs
from tests.metrics import event_bytes as made
from tests.metrics import made_bundles
from tests.report.recorded_runs import RunMaker, identity

RETURN = made_bundles.RETURN


def _conditions(report: WrittenReport) -> list[str]:
    """Returns the items of the page's list of conditions, as words."""
    text = report.page.read_text()
    part = text.partition('id="conditions-heading"')[2].partition("</ul>")[0]
    items = [item.partition("</li>")[0] for item in part.split("<li>")[1:]]
    return [item.partition("</a>: ")[2] or item for item in items]


def _train(top: Path, seed: int, name: str = "agent") -> Path:
    return made_bundles.write_train(top / name / f"seed_{seed}", seed, name=name, points=60)


def _event_file(bundle: Path) -> Path:
    (path,) = (bundle / "artifacts").glob("events*")
    return path


def _truncated_event_file(bundle: Path) -> str:
    path = _event_file(bundle)
    path.write_bytes(path.read_bytes()[:-7])
    return "artifacts/events.out.tfevents.1.host: byte"


def _garbage_event_file(bundle: Path) -> str:
    _event_file(bundle).write_bytes(b"\x93NUMPY garbage " * 40)
    return "artifacts/events.out.tfevents.1.host: byte 0"


def _not_finite(bundle: Path) -> str:
    values = [1.0, float("nan"), 3.0, float("inf"), *np.linspace(3, 5, 40)]
    _event_file(bundle).write_bytes(made.version() + made.curve(RETURN, values))
    return "2 value(s) of the curve are not finite"


def _clock_backwards(bundle: Path) -> str:
    events = [made.record(made.event(100 * i, made.simple(RETURN, float(i)), 1.6e9 - 60 * i)) for i in range(20)]
    _event_file(bundle).write_bytes(made.version() + b"".join(events))
    return "the clock runs backwards in Metrics/AverageReturn"


def _mixed_headers(bundle: Path) -> str:
    rows = made_bundles.emissions_rows(4)
    old = made_bundles.EMISSIONS.replace("ram_process,", "")
    table = made_bundles.EMISSIONS + "\n" + rows + old + "\n" + rows.replace(",0.5,16.0", ",16.0")
    (bundle / "metrics" / "train_emissions.csv").write_text(table)
    return "metrics/train_emissions.csv: mixed headers: rows of 2 generations, joined by column name"


def _missing_columns(bundle: Path) -> str:
    (bundle / "metrics" / "train_emissions.csv").write_text("run_id,duration\nr,1.0\nr,2.0\n")
    return "metrics/train_emissions.csv: no column timestamp, energy_consumed, cpu_power, gpu_power, ram_power"


def _newer_schema(bundle: Path) -> str:
    path = bundle / "metrics" / "train.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
    return "metrics/train.json could not be read"


def _newer_bundle(bundle: Path) -> str:
    path = bundle / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
    return "manifest.json could not be read"


def _link(bundle: Path) -> str:
    (bundle / "metrics" / "tracking.json").symlink_to("/etc/hostname")
    return "metrics/tracking.json: symbolic link, not followed"


DAMAGES = (
    _truncated_event_file,
    _garbage_event_file,
    _not_finite,
    _clock_backwards,
    _mixed_headers,
    _missing_columns,
    _newer_schema,
    _newer_bundle,
    _link,
)


def _numbers(report: WrittenReport, names: set[str]) -> dict[tuple[str, str], float | None]:
    runs = [run for run in report.record.runs if run.run.split("/")[-2] in names]
    return {(run.run, measure.key): measure.quantity.value for run in runs for measure in run.measures}


def test_every_damage_is_stated_and_costs_no_other_run_a_number(tmp_path: Path) -> None:
    healthy = {f"healthy_{number}" for number in range(2)}
    runs = tmp_path / "runs"
    for name in sorted(healthy):
        for seed in (1, 2, 3):
            _train(runs, seed, name)
    whole = write_report(read_runs([runs]), tmp_path / "whole")
    expected = {}
    for damage in DAMAGES:
        name = damage.__name__.strip("_")
        bundle = _train(runs, 4, name)
        expected[name] = damage(bundle)
    report = write_report(read_runs([runs]), tmp_path / "out")
    before = _numbers(whole, healthy)
    assert len(before) > 100
    assert _numbers(report, healthy) == before
    conditions = _conditions(report)
    markdown = (tmp_path / "out" / "report.md").read_text().replace("\\", "")
    stated = {run.run.split("/")[-2]: run.conditions for run in report.record.runs}
    for name, words in expected.items():
        assert [told for told in stated[name] if words in told], (name, stated[name])
        assert any(words in told for told in conditions), name
        assert words in markdown
    # what is left of a damaged run is still scored
    states = {run.run.split("/")[-2]: run.state for run in report.record.runs}
    assert states["newer_bundle"] == "unreadable"
    keys = {name: {key for _, key in _numbers(report, {name})} for name in expected}
    assert "wall_clock" in keys["newer_bundle"]
    assert {"wall_clock", "IqrWithinRuns"} <= keys["link"]
    assert "IqrWithinRuns" in keys["truncated_event_file"] & keys["not_finite"] & keys["clock_backwards"]
    assert "energy_gross" in keys["mixed_headers"]
    assert "energy_gross" not in keys["missing_columns"]


def test_one_seed_is_stated_with_the_metrics_that_need_more(tmp_path: Path) -> None:
    _train(tmp_path / "runs", 1)
    report = write_report(read_runs([tmp_path / "runs"]), tmp_path / "out")
    (condition,) = [text for text in _conditions(report) if text.startswith("not enough data (n=1, needs 3)")]
    assert "Dispersion across runs (IQR)" in condition
    for name in ("report.tex", "report.md"):
        assert "Not enough data (n=1, needs 3): Dispersion across runs (IQR)" in (tmp_path / "out" / name).read_text()


def test_two_runs_of_one_seed_and_steps_that_differ_are_stated(tmp_path: Path) -> None:
    for root, points in (("a", 40), ("b", 55), ("c", 40)):
        made_bundles.write_train(tmp_path / "runs" / root, 7, points=points)
    conditions = _conditions(write_report(read_runs([tmp_path / "runs"]), tmp_path / "out"))
    assert "two runs share a seed; they are not independent" in conditions


def test_measured_and_estimated_energy_are_shown_but_not_ranked(tmp_path: Path) -> None:
    runs = RunMaker(tmp_path / "runs")
    for name, quality in (("a", "measured"), ("b", "estimated")):
        runs.manifest(name, "inference", submission=identity(name))
        runs.rollouts(name, [1.0, 2.0])
        runs.costs(name, "inference", quality=quality)
    report = write_report(read_runs([runs.top]), tmp_path / "out")
    assert "Energy per decision, inference, not ranked: measured and estimated" in _conditions(report)
    energies = [entry for entry in report.record.settings[0].scores if entry.score.name == "energy_gross"]
    assert [entry.score.provenance for entry in energies] == ["measured", "estimated"]
    assert not any(entry.best for entry in energies)


def test_a_threshold_that_no_run_reached_is_stated_in_the_table(tmp_path: Path) -> None:
    name, task = next((name, task) for name, task in protocol.load().tasks.items() if task.has_references())
    for seed in (1, 2, 3):
        bundle = made_bundles.write_train(
            tmp_path / "runs" / str(seed),
            seed,
            events=False,
            task=name,
            domain=task.domain,
            env_fingerprint=task.fingerprint,
        )
        rows = [f"{100 * step},{task.threshold_return() - 1.0!r}" for step in range(20)]
        (bundle / "artifacts" / "progress.csv").write_text("env_steps,mean_return\n" + "\n".join(rows) + "\n")
    report = write_report(read_runs([tmp_path / "runs"]), tmp_path / "out")
    (setting,) = report.record.settings
    told = {entry.score.name: entry.score.condition for entry in setting.scores if entry.score.condition}
    for metric in ("time_to_threshold", "energy_to_threshold"):
        assert "never reached by 3 run(s)" in str(told[metric])
    first_table = report.page.read_text().partition('<table role="table" class="scores"')[2].partition("</table>")[0]
    (line,) = [row for row in first_table.split("</tr>") if "never reached by 3 run(s)" in row]
    assert "Energy to threshold, Time to threshold" in line
