"""A field of entrants, and the site made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.report.leaderboard import WrittenLeaderboard, write_leaderboard
from tests.report.leaderboard.made_entries import Field, references

HOSTILE = '"><script>document.title="owned"</script>'


@pytest.fixture
def field(tmp_path: Path) -> Field:
    """An empty folder of bundles."""
    return Field(tmp_path / "runs")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> WrittenLeaderboard:
    """A site with two tasks, four entrants, one of them hostile, a failed run and a damaged bundle."""
    top = tmp_path_factory.mktemp("leaderboard")
    field = Field(top / "runs")
    field.entry("quick_learner", 16.0)
    field.entry("slow_learner", 15.9, latency_scale=3)
    field.entry("random", 2.0, train=False, latency_scale=2)
    field.entry(HOSTILE, 8.0, train=False, latency_scale=2)
    field.entry("crasher", 12.0, seeds=2)
    field.fail(field.train("crasher", 2))
    field.entry("quick_learner", 5.0, task="pace", env_kwargs={"web": "1"})
    field.entry("random", 1.0, task="pace", env_kwargs={"web": "1"}, train=False)
    damaged = field.evaluate("damaged", [1.0], 0)
    (damaged / "manifest.json").write_text('{"schema": 1, "a2perf')
    return write_leaderboard(field.top, top / "site", title="Trial", references=references, reports=False)
