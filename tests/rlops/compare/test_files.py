"""Every file of a comparison, by the command line of the practice's own document."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.accessibility import problems
from tests.commands import call_a2perf
from tests.report.browser import Browser
from tests.rlops.compare.made_experiment import NEW, OLD, write_references

DOCUMENT = """rlops --exp-name ddpg_continuous_action_jax --wandb-project-name cleanrl --wandb-entity openrlbenchmark
    --tags v1.0.0b2-9-g4605546 rlops-pilot --env-ids Hopper-v2 Walker2d-v2 HalfCheetah-v2
    --output-filename compare.png --report"""


@dataclass(frozen=True)
class Written:
    """What one call left: its folder, exit status and output."""

    folder: Path
    status: int
    out: str

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def record(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.text("compare.json"))
        return found


@pytest.fixture(scope="module")
def written(written_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """One call with everything on: it draws, which takes a while, and is looked at by all tests here."""
    folder = tmp_path_factory.mktemp("written")
    references = write_references(folder / "references.json")
    words = [*DOCUMENT.split(), "--store", str(written_store), "--reference-scores", str(references)]
    words += ["--fail-on", "regression", "--tolerance-unseen", "1"]
    with contextlib.chdir(folder):
        status, out, _ = call_a2perf(*words)
    return Written(folder, status, out)


def test_every_file_is_there(written: Written) -> None:
    plain = {f"compare{part}.{kind}" for part in ("", "-time") for kind in ("png", "pdf", "svg")}
    tables = {f"compare{part}.{kind}" for part in ("", "_runtimes") for kind in ("md", "csv")}
    rest = {"compare.json", "compare_comment.md", "compare.html", "compare.tex", "references.json"}
    assert {path.name for path in written.folder.iterdir()} == plain | tables | rest


def test_the_table_for_a_paper_has_the_numbers_of_the_page(written: Written) -> None:
    table = written.text("compare.tex")
    assert "\\label{tab:compare-0}" in table
    (row,) = (line for line in table.splitlines() if line.startswith("HalfCheetah{-}v2"))
    assert row.split(" & ")[1:3] == ["worse", "$-$3959"]


def test_pictures_are_pictures_of_their_kind(written: Written) -> None:
    for path in written.folder.glob("*.p*"):
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert min(image.size) > 150, path.name
                pixels = np.asarray(image.convert("RGB"), np.int64) @ (1, 2**8, 2**16)
                assert pixels[0, 0] == 2**24 - 1
                assert len(np.unique(pixels)) > 20, path.name
        else:
            assert path.read_bytes().startswith(b"%PDF"), path.name
    assert "<svg" in written.text("compare.svg")
    for env in ("Hopper-v2", "Walker2d-v2", "HalfCheetah-v2"):
        assert f">{env}</text>" in written.text("compare.svg")
    assert "time, min" in written.text("compare-time.svg")


def test_status_output_and_record_tell_the_same_regression(written: Written) -> None:
    assert written.status == 1
    assert re.search(r"^HalfCheetah-v2 +worse .* REGRESSION ", written.out, re.MULTILINE)
    assert re.search(r"^Hopper-v2 +not separated .* PASS ", written.out, re.MULTILINE)
    assert re.search(r"^overall +[a-z ]+ .* normalised .* REGRESSION$", written.out, re.MULTILINE)
    record = written.record()
    assert record["verdict"] == "REGRESSION"
    assert record["baseline"] == "rlops-pilot"
    (candidate,) = record["candidates"]
    verdicts = {panel["panel"]: panel["verdict"] for panel in candidate["panels"]}
    assert verdicts == {"Hopper-v2": "PASS", "Walker2d-v2": "PASS", "HalfCheetah-v2": "REGRESSION"}
    cheetah = candidate["panels"][2]
    assert cheetah["low"] < cheetah["difference"] < cheetah["high"] < -cheetah["tolerance"] < 0
    assert cheetah["probability_of_improvement"]["value"] == 0.0
    assert candidate["overall"]["charts/episodic_return"]["found"]["value"] < 0


def test_tables_hold_the_scores_of_the_runs(written: Written) -> None:
    record = written.record()
    cell = record["panels"][0]["groups"]["rlops-pilot"]
    scores = [run["score"] for run in cell["runs"]]
    assert cell["mean"] == pytest.approx(np.mean(scores))
    rows = list(csv.reader(io.StringIO(written.text("compare.csv"))))
    assert rows[0] == ["environment", "v1.0.0b2-9-g4605546", "rlops-pilot"]
    assert rows[1] == ["Hopper-v2", rows[1][1], f"{np.mean(scores):.1f} ± {np.std(scores):.1f}"]
    runtimes = list(csv.reader(io.StringIO(written.text("compare_runtimes.csv"))))
    assert [row[0] for row in runtimes[1:]] == ["Hopper-v2", "Walker2d-v2", "HalfCheetah-v2", "average"]
    assert runtimes[0][0] == "environment (values in s)"
    assert runtimes[1][1] == "12.5 ± 0"
    assert "| HalfCheetah-v2 |" in written.text("compare.md")


def test_scores_are_normalised_by_the_file(written: Written) -> None:
    record = written.record()
    panels = {panel["name"]: panel for panel in record["panels"]}
    scales = {"Hopper-v2": 2980.0, "Walker2d-v2": 4498.0, "HalfCheetah-v2": 12280.0}
    cells = {name: panel["groups"] for name, panel in panels.items()}
    lost = {name: of[NEW]["mean"] - of[OLD]["mean"] for name, of in cells.items()}
    expected = np.mean([lost[name] / scale for name, scale in scales.items()])
    (overall,) = record["candidates"][0]["overall"].values()
    assert overall["found"]["value"] == pytest.approx(expected)
    assert panels["Hopper-v2"]["reference"]["source"].endswith("references.json")


def test_comment_is_for_a_pull_request(written: Written) -> None:
    text = written.text("compare_comment.md")
    assert text.startswith("### ❌ REGRESSION: v1.0.0b2-9-g4605546 against rlops-pilot")
    assert "| overall |" in text
    assert "whole interval lies below the tolerance" in text
    assert "<details><summary>Scores</summary>" in text


def test_page_is_whole_in_itself(written: Written) -> None:
    page = written.text("compare.html")
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page)
    assert page.count("<svg role") == 1 + 2 * 3  # forest plot, curves against steps and time
    for anchor in re.findall(r'href="#([\w-]+)"', page):
        assert f'id="{anchor}"' in page, anchor
    assert 'class="state failed"' in page
    assert "ddpg_continuous_action_jax/Hopper-v2/v1.0.0/seed_1" in page


@pytest.mark.group("chromium")
def test_page_works_in_a_browser_at_any_width(written: Written, browser: Browser) -> None:
    for width in (1280, 390):
        browser.open(written.folder / "compare.html", width=width, dark=width == 390)
        assert browser.complaints() == []
        assert browser.run("return document.documentElement.scrollWidth") <= width
    boxes = browser.run("return document.querySelectorAll('#s1-chart .controls input').length")
    assert boxes == 2 + 6  # two groups and their runs
    lines = "[...document.querySelectorAll('#s1-chart svg [id^=\"s1v0-s0-\"]')]"
    seen = f"return {lines}.filter(e => e.getClientRects().length).length"
    assert browser.run(seen) > 3
    browser.run("document.querySelector('#s1-chart .controls input').click()")
    assert browser.run(seen) == 0


@pytest.mark.group("chromium")
def test_page_is_accessible(written: Written, browser: Browser) -> None:
    assert problems(browser, written.folder / "compare.html") == []
