"""The report as its reader has it: one page that needs nothing else, and the same numbers in every file."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from a2perf.cli.results import report as report_command
from a2perf.records import Failure, FailureKind, RunState
from a2perf.report import write_report
from a2perf.report.page import content_hash
from a2perf.report.task_results import results_by_task
from a2perf.runs import read_runs
from tests.report.recorded_runs import RunMaker

HOSTILE = 'evil<script>alert("1")</script>'
VOID = {"meta", "img", "br", "link", "input", "hr"}


class _Page(HTMLParser):
    """Collects elements and checks that every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a finished, a noisy, a hostile failed and a killed run, beside the runs it is about."""
    top = tmp_path_factory.mktemp("report")
    runs = RunMaker(top / "runs")
    runs.complete("gait")
    runs.training("ars")
    runs.costs("ars", "train", noisy=("load 3.1 on 2 cores",))
    failure = Failure(
        kind=FailureKind.EXCEPTION,
        where="train",
        message=HOSTILE,
        traceback="File train.py\nBoom",
        log="logs/participant.log",
    )
    runs.failed("evil", failure, log="working\n" * 50 + "the last line")
    runs.manifest("killed", "inference", state=RunState.RUNNING)
    runs.rollouts("killed", [90.0])
    write_report(read_runs([runs.top]), top / "out")
    return top


@pytest.fixture(scope="module")
def page(written: Path) -> _Page:
    return _Page((written / "out" / "index.html").read_text())


def test_the_page_needs_no_network_and_runs_one_script_that_its_policy_names(written: Path, page: _Page) -> None:
    text = (written / "out" / "index.html").read_text()
    assert all(str(link["href"]).startswith("data:") for link in page.of("link"))
    assert [a.get("type") for a in page.of("script") if a.get("type") != "application/json"] == [None]
    assert all("src" not in a for a in page.of("script"))
    loaded = [a.get("src") or "" for tag in ("img", "video", "iframe") for a in page.of(tag)]
    assert loaded
    assert all(source.startswith("data:") for source in loaded)
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\"' )<;]+", text)) <= namespaces
    (policy,) = [a["content"] for a in page.of("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert f"script-src '{content_hash(script)}';" in policy


def test_every_picture_has_words_and_every_link_a_target(written: Path, page: _Page) -> None:
    assert all(attributes.get("alt") for attributes in page.of("img"))
    charts = page.of("svg")
    assert len(charts) >= 8
    assert all(a["role"] == "img" and len(a["aria-label"] or "") > 30 for a in charts)
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    links = [a["href"] or "" for a in page.of("a")]
    assert all((written / "out" / link).is_file() for link in links if not link.startswith("#"))
    targets = {link[1:] for link in links if link.startswith("#")} | {
        (a.get("xlink:href") or a.get("href") or "")[1:] for a in page.of("use")
    }
    assert targets <= set(ids)


def test_failed_and_killed_runs_stand_in_the_summary(written: Path, page: _Page) -> None:
    words = " ".join(page.words)
    assert "4 runs of 4 submissions on 1 environment: 2 finished, 1 failed, 1 unfinished." in " ".join(words.split())
    assert HOSTILE in words
    assert "the last line" in words
    assert "Boom" in words
    assert "failed: exception" in words
    assert "unfinished" in words
    assert "Times and energies unreliable, noisy host: load 3.1 on 2 cores." in words


def test_markdown_has_the_same_runs_and_its_figures_exist(written: Path) -> None:
    text = (written / "out" / "report.md").read_text()
    words, *blocks = text.split("```")
    assert "<script" not in words + "".join(blocks[1::2])
    assert "Boom" in blocks[0]
    assert "failed: exception" in text
    linked = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert len(linked) >= 8
    for name in linked:
        assert (written / "out" / name).is_file()
        assert (written / "out" / name).with_suffix(".pdf").is_file()


def test_csv_and_json_hold_the_recorded_values(written: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((written / "out" / "tables.csv").read_text())))
    (score,) = [row for row in rows if (row["run"], row["measure"]) == ("gait", "returns")]
    assert (float(score["value"]), score["n"], score["env_id"]) == (104.8, "5", "QuadrupedLocomotion-DogPace-v0")
    (energy,) = [row for row in rows if (row["run"], row["measure"]) == ("gait", "energy_gross")]
    tracked = json.loads((written / "runs" / "gait" / "inference" / "metrics" / "tracking.json").read_text())
    assert float(energy["value"]) == tracked["energy"]["gross_kwh"]
    assert (energy["unit"], energy["provenance"]) == ("kWh", "estimated")
    record = json.loads((written / "out" / "report.json").read_text())
    by_run = {run["run"]: run for run in record["runs"]}
    assert record["schema"] == 1
    assert by_run["evil"]["failure"]["message"] == HOSTILE
    assert by_run["ars"]["noisy_host"] == ["load 3.1 on 2 cores"]
    values = {measure["key"]: measure["quantity"]["value"] for measure in by_run["gait"]["measures"]}
    assert values["returns"] == 104.8


def test_the_same_runs_give_the_same_bytes_and_old_figures_go(written: Path, tmp_path: Path) -> None:
    out = tmp_path / "again"
    (out / "figures").mkdir(parents=True)
    (out / "figures" / "old-run-returns.svg").write_text("<svg/>")
    write_report(read_runs([written / "runs"]), out)
    first = {p.relative_to(written / "out"): p.read_bytes() for p in (written / "out").rglob("*") if p.is_file()}
    second = {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert first == second


def test_different_fingerprints_never_share_a_table(runs: RunMaker) -> None:
    for name, fingerprint in (("a", "11"), ("b", "11"), ("c", "22")):
        runs.manifest(name, "inference", env_fingerprint=fingerprint)
        runs.rollouts(name, [100.0, 101.0])
    settings = results_by_task(read_runs([runs.top]), "corrected")
    assert [(setting.fingerprint, setting.algorithms) for setting in settings] == [("11", ("a", "b")), ("22", ("c",))]


def test_the_command_says_where_the_report_is(runs: RunMaker, tmp_path: Path) -> None:
    runs.manifest("gait", "train")
    out = tmp_path / "out"
    arguments = [str(runs.top), "-o", str(out), "--title", "My & runs"]
    told = CliRunner().invoke(report_command, arguments, standalone_mode=False)
    assert told.exception is None
    assert told.output.splitlines()[-1] == f"report: {out / 'index.html'}"
    assert "<h1>My &amp; runs</h1>" in (out / "index.html").read_text()
    printed = CliRunner().invoke(report_command, [*arguments, "--json"], standalone_mode=False)
    assert json.loads(printed.output)["title"] == "My & runs"
