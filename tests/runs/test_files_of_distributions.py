"""A run recorded with a distribution is read and scored without it, and its files are named."""

from __future__ import annotations

from pathlib import Path

from a2perf.metrics import registry, scored_runs
from a2perf.plugins import is_installed
from a2perf.runs import read_runs


def test_a_run_with_a_language_model_is_scored_and_its_files_name_the_distribution(repository: Path) -> None:
    runs = read_runs([repository / "results" / "recorded" / "small" / "language_model_agent.zip"])
    assert [run.algorithm for run in runs] == ["language_model_agent (small)"] * 3
    scores = registry.score(scored_runs(runs, "inference"))
    assert scores["success_rate"].value is not None
    assert ("model_calls" in scores) == is_installed("a2perf-agents")
    expected = "model_calls.jsonl, metrics/model_usage.json: needs a2perf-agents"
    for run in runs:
        assert (expected in run.conditions) == (not is_installed("a2perf-agents"))
