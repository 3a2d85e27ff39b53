"""Calls to language models on the page: costs, transcripts, hostile and huge contents, redacted journals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from a2perf.metrics import scored_runs
from a2perf.records import StepCosts
from a2perf.report import write_report
from a2perf.runs import read_runs
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import PhaseCost
from a2perf.storage import write_record
from a2perf_agents.calls import encode_entry, usage_of
from a2perf_agents.command import model
from a2perf_agents.costs import METRICS
from a2perf_agents.record import (
    Amounts,
    AnswerEntry,
    CallEntry,
    CallScope,
    ModelEntry,
    ModelUsage,
    RefusedEntry,
    TokenUsage,
)
from a2perf_agents.transcript_page import TranscriptBudget, shown_transcript
from a2perf_agents.transcripts import MOST_CALLS, MOST_CHARACTERS
from a2perf_agents.use import use_of
from tests.metrics.made_bundles import seal, write_inference
from tests.report.browser import Browser

HOSTILE = "<script>alert(1)</script></details> \x1b[31m\u202egnp.exe & \x00"


def call(number: int, episode: int, asked: str | None, said: str | None, **changes: Any) -> list[ModelEntry]:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": asked}]
    request = CallEntry(
        call=number,
        attempt=1,
        scope=CallScope(task="trot", phase="episode", episode=episode),
        path="chat/completions",
        model="m",
        stream=False,
        sha256="a" * 64,
        at=float(number),
        reserved=Amounts(calls=1),
        request=None if asked is None else json.dumps({"model": "m", "messages": messages}),
        request_bytes=99,
    )
    body = json.dumps({"choices": [{"message": {"role": "assistant", "content": said}}]})
    fields = {
        "outcome": "ok",
        "status": 200,
        "usage": TokenUsage(tokens_in=100, tokens_out=10),
        "cost": 0.25,
        "first_s": 0.1 * number,
        "total_s": 0.2 * number,
        "chunks": [] if said is None else [body],
        "sha256": "b" * 64,
        "response_bytes": len(body),
    }
    return [request, AnswerEntry(call=number, **{**fields, **changes})]


def run_with(folder: Path, entries: list[ModelEntry], *, currency: str = "EUR") -> Run:
    bundle = write_inference(folder, 0, count=4)
    (bundle / "model_calls.jsonl").write_bytes(b"".join(map(encode_entry, entries)))
    total, scopes = usage_of(entries)
    usage = ModelUsage(models=["m"], currency=currency, total=total, scopes=scopes)
    write_record(bundle / "metrics" / "model_usage.json", usage)
    seal(bundle, models=["m"])
    (run,) = read_runs([bundle])
    return run


def refused(episode: int) -> RefusedEntry:
    scope = CallScope(task="trot", phase="episode", episode=episode)
    return RefusedEntry(scope=scope, outcome="budget_exhausted", message="", budget="cost")


def test_metrics_per_run_per_episode_and_per_success(tmp_path: Path) -> None:
    entries = [entry for number in range(1, 9) for entry in call(number, (number - 1) // 2, "ask", "say")]
    run = run_with(tmp_path / "r", [*entries, refused(3)])
    values = {metric.name: metric.score(scored_runs([run], "inference")) for metric in METRICS}
    assert values["model_calls"].value == 8
    assert values["model_tokens_in"].value == 800
    assert values["model_tokens_out_per_episode"].value == 20
    assert (values["model_cost"].value, values["model_cost"].unit) == (2.0, "EUR")
    assert values["model_cost_per_success"].value == 0.5
    assert values["model_errors"].value == 1
    assert values["model_first_token_median"].value == pytest.approx(0.45)
    assert values["model_first_token_p95"].value == pytest.approx(0.765)
    energy = values["host_energy_per_episode"]
    assert energy.value is not None
    assert energy.provenance == "estimated"
    assert "the energy of a hosted model is unknown" in (energy.method or "")


def test_no_success_has_no_cost_per_success_and_currencies_are_not_mixed(tmp_path: Path) -> None:
    runs = [run_with(tmp_path / unit, call(1, 0, "a", "b"), currency=unit) for unit in ("EUR", "USD")]
    cost = next(metric for metric in METRICS if metric.name == "model_cost")
    assert cost.score(scored_runs(runs, "inference")).condition == "different currencies: EUR, USD"
    for episode in runs[0].episodes["trot"]:
        episode.success = False
    per_success = next(metric for metric in METRICS if metric.name == "model_cost_per_success")
    assert per_success.score(scored_runs(runs[:1], "inference")).condition == "no successful episode"


def test_a_killed_run_has_the_usage_of_its_journal(tmp_path: Path) -> None:
    run = run_with(tmp_path / "r", call(1, 0, "a", "b"))
    (run.folder.path / "metrics" / "model_usage.json").unlink()
    (again,) = read_runs([run.folder.path])
    use = use_of(again)
    assert use is not None
    assert use.usage.total.tokens_in == 100


def test_transcripts_are_bounded_and_say_what_they_leave_out(tmp_path: Path) -> None:
    entries = call(1, 0, "x" * 9000, "y" * (10 << 20))
    for number in range(2, 102):
        entries += call(number, 1, f"ask {number}", "no", outcome="timeout", chunks=[], usage=None, cost=None)
    run = run_with(tmp_path / "r", entries)
    shown = shown_transcript(run, TranscriptBudget())
    assert shown is not None
    first, second = shown.episodes
    system, asked, answer = first.steps[0].texts
    assert system.text == "Be brief."
    assert (len(asked.text), asked.note) == (MOST_CHARACTERS, "5000 further characters are left out")
    assert (len(answer.text), answer.note) == (MOST_CHARACTERS, f"{(10 << 20) - 4000} further characters are left out")
    assert (len(second.steps), second.note) == (MOST_CALLS, "60 exchanges in the middle are left out.")
    assert second.failed
    assert second.steps[1].texts[0].text == "ask 3"
    assert second.steps[1].facts.endswith("1 earlier message not repeated")
    small = shown_transcript(run, TranscriptBudget(100))
    assert small is not None
    assert sum(len(text.text) for one in small.episodes for step in one.steps for text in step.texts) == 100


def test_streams_and_redacted_journals(tmp_path: Path) -> None:
    parts = ["click ", "12"]
    stream = [f"data: {json.dumps({'choices': [{'delta': {'content': part}}]})}\n\n" for part in parts]
    entries = call(1, 0, "a", "b", chunks=[*stream, "data: [DONE]\n\n"], content_type="text/event-stream")
    entries += call(2, 1, None, None)
    shown = shown_transcript(run_with(tmp_path / "r", entries), TranscriptBudget())
    assert shown is not None
    assert [step.summary for step in shown.episodes[0].steps] == ["click 12"]
    notes = [text.note for text in shown.episodes[1].steps[0].texts]
    assert notes[0] == f"redacted: 99 bytes, SHA-256 {'a' * 16}…"
    assert notes[1].endswith(f"SHA-256 {'b' * 16}…")


def test_hostile_contents_are_escaped_and_the_page_can_be_searched(tmp_path: Path) -> None:
    entries = [*call(1, 0, HOSTILE, HOSTILE), *call(2, 0, "second question", "fill 7"), refused(0)]
    run = run_with(tmp_path / "r", entries)
    run.step_costs["trot"] = StepCosts(
        steps=40,
        account="cgroup_v2",
        round_trip_s=0.1,
        tree_s=0.01,
        in_calls_s=0.01,
        between_calls_s=0.0,
        short_lived_s=0.0,
    )
    run.tracking.phases = {"rollouts": PhaseCost(wall_s=4.0, cpu_seconds=0.4, energy_gross_kwh=1e-6)}
    run.tracking.energy.gross_kwh, run.tracking.energy.quality = 2e-6, "estimated"
    report = write_report([run], tmp_path / "report").page.read_text()
    assert "1 × budget exhausted" in report
    assert "without the model" in report  # beside the energy of the run
    page = tmp_path / "transcript.html"
    done = CliRunner().invoke(model, ["transcript", str(run.folder.path), "-o", str(page)])
    assert done.exit_code == 0, done.output
    for text in (report, page.read_text()):
        assert "<script>alert" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(page)
        browser.run(
            "document.querySelectorAll('details').forEach((one) => { one.open = true; });"
            "const box = document.querySelector('.transcript input'); box.value = 'SECOND';"
            "box.dispatchEvent(new Event('input'));"
        )
        steps = "return [...document.querySelectorAll('.exchange')].map((one) => one.hidden)"
        assert browser.run(steps) == [True, False]
        assert browser.run("return document.querySelector('.found').textContent") == "1 of 2 calls"
        assert browser.driver.get_log("browser") == []
    finally:
        browser.driver.quit()
