"""Every public function refuses bad input with an error of a2perf, in the words of the command, and ends no process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import a2perf
from a2perf.cli import cli
from a2perf.errors import UserError
from tests.commands import run_python

MINIMAL = "results/recorded/circuit_training/minimal.zip"


def act(observation: Any) -> int:
    return 0


CALLS: dict[str, Callable[[], Any]] = {
    "evaluate: unknown task": lambda: a2perf.evaluate(act, "dog_pce"),
    "evaluate: no task": lambda: a2perf.evaluate(act, ""),
    "evaluate: no episodes": lambda: a2perf.evaluate(act, "toy_macro_stdcell", episodes=0),
    "evaluate: negative seed": lambda: a2perf.evaluate(act, "toy_macro_stdcell", seed=-1),
    "evaluate: unknown option": lambda: a2perf.evaluate(act, "toy_macro_stdcell", sandbx="none"),  # type: ignore[call-arg]
    "evaluate: no folder": lambda: a2perf.evaluate("nowhere", "toy_macro_stdcell"),
    "evaluate: not a policy": lambda: a2perf.evaluate(3, "toy_macro_stdcell"),
    "train: no folder": lambda: a2perf.train("nowhere", "toy_macro_stdcell"),
    "train: unknown task": lambda: a2perf.train("nowhere", "dog_pce"),
    "read_run: nothing there": lambda: a2perf.read_run("nowhere"),
    "read_run: several runs": lambda: a2perf.read_run(MINIMAL),
    "read_runs: nothing there": lambda: a2perf.read_runs("nowhere"),
    "score: nothing there": lambda: a2perf.score("nowhere"),
    "score: unknown profile": lambda: a2perf.score(MINIMAL, profile="corect"),  # type: ignore[arg-type]
    "compare: nothing there": lambda: a2perf.compare("nowhere", baseline="a"),
    "compare: unknown baseline": lambda: a2perf.compare(MINIMAL, baseline="minmal"),
    "compare: unknown metric": lambda: a2perf.compare(MINIMAL, baseline="minimal", metric="retrns"),
    "write_report: nothing there": lambda: a2perf.write_report("nowhere"),
    "write_report: unknown profile": lambda: a2perf.write_report(MINIMAL, profile="corect"),  # type: ignore[arg-type]
    "write_leaderboard: nothing there": lambda: a2perf.write_leaderboard("nowhere", "site"),
    "track: unknown keyword value": lambda: a2perf.track("block", interval_s=-1.0).__enter__(),  # type: ignore[union-attr]
}
COMMANDS: dict[str, Sequence[str]] = {
    "score: nothing there": ["score", "nowhere"],
    "write_report: nothing there": ["report", "nowhere"],
    "write_leaderboard: nothing there": ["leaderboard", "nowhere", "-o", "site"],
    "read_runs: nothing there": ["report", "nowhere"],
}
"""Commands that refuse the same input with the same text."""


@pytest.fixture(autouse=True)
def _work(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / MINIMAL
    place.parent.mkdir(parents=True)
    place.write_bytes((repository / MINIMAL).read_bytes())
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("call", CALLS)
def test_bad_input_is_an_error_of_a2perf(call: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError) as caught:
        CALLS[call]()
    assert caught.value.message
    assert "Traceback" not in str(caught.value)
    if call in COMMANDS:
        result = CliRunner().invoke(cli, list(COMMANDS[call]), standalone_mode=False)
        assert str(result.exception) == str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_uncaught_error_shows_the_words_of_the_command() -> None:
    done = run_python("import a2perf; a2perf.make('dog_pce')")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "a2perf.errors.ConfigError: 'dog_pce' is not a task of any domain; did you mean 'dog_pace'?\n"
        "  Hint: choose a task from `a2perf envs list`\n"
    )
