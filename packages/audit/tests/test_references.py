"""References of an environment are measured, signed and named by a variable; then they normalise returns."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import a2perf
from a2perf.cli import main
from a2perf.errors import ConfigError
from a2perf.metrics import protocol
from a2perf.runs.signing import new_key

INFERENCE = """
def load_policy(env, **kwargs):
    return None

def preprocess_observation(observation):
    return observation

def infer_once(policy, observation):
    return ACTION
"""
LEAN = "int(observation[2] + 0.5 * observation[3] > 0)"
HALF = "int(observation[3] > 0)"  # 132 to 304 on 300 seeds
FILE = "CartPole-v1-references.json"


@pytest.fixture(autouse=True)
def _work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(protocol.VARIABLE, raising=False)
    for name, action in {"expert": LEAN, "half": HALF, "constant": "0"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "inference.py").write_text(INFERENCE.replace("ACTION", action))
        (tmp_path / name / "train.py").write_text("def train():\n    pass\n")
        for file in ("requirements.txt", "__init__.py"):
            (tmp_path / name / file).touch()


def status(*words: str) -> int:
    """Runs a command in this process and returns its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([*words])
    return int(ended.value.code or 0)


def measure(expert: str, *words: str, seeds: str = "0,1") -> int:
    """Runs the command, by default on two seeds, with five episodes."""
    given = ["CartPole-v1", "--expert", expert, "--seeds", seeds, "--episodes", "5", "--sandbox", "process"]
    return status("references", *given, "--allow-weaker", *words)


def test_references_normalise_runs_reports_and_leaderboards(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    new_key(tmp_path / "key")
    assert measure("expert", "--key", "key") == 0
    assert "expert  500 [345.751, 654.249]  10 episodes of expert" in capsys.readouterr().out
    (task,) = json.loads(Path(FILE).read_text())["tasks"].values()
    floor, expert = (task["references"][kind]["mean"] for kind in ("floor", "expert"))
    assert 9 < floor < 60
    assert expert == 500
    assert floor >= task["references"]["random"]["mean"]

    run = a2perf.evaluate(
        "half", env="CartPole-v1", seeds=[0, 1], episodes=5, root_dir="runs/half", progress=False, allow_weaker=True
    )
    assert "Score" not in str(run[0])
    monkeypatch.setenv(protocol.VARIABLE, FILE)
    assert ", signed)" in str(a2perf.read_run(run[0].bundle))
    shown = " ".join(str(a2perf.read_run(run[0].bundle)).split())
    assert f"Score {(run[0].mean_return - floor) / (expert - floor):.3f}" in shown
    assert status("report", "runs", "-o", "report") == 0
    assert "CartPole-v1-references" in "".join(path.read_text() for path in Path("report").rglob("*.html"))
    assert status("leaderboard", "runs", "-o", "site") == 0
    (board,) = json.loads(Path("site/leaderboard.json").read_text())["boards"]
    scores = {row["entry"]["name"]: row["entry"]["score"]["per_run"] for row in board["rows"]}
    assert board["reference"] == "CartPole-v1-references"
    assert scores["expert"] == [1, 1]
    assert scores["half"] == pytest.approx([(value - floor) / (expert - floor) for value in run.mean_returns])
    words = ["submit", "expert", "--protocol", "CartPole-v1-references", "-o", "submitted", "--sandbox", "process"]
    assert status(*words) == 0
    submitted = json.loads(Path("submitted/protocol.json").read_text())
    assert submitted["scores"]["CartPole-v1"]["iqm"] == 1
    assert submitted["rankable"]

    Path(FILE).write_text(Path(FILE).read_text().replace('"mean": 500.0', '"mean": 400.0'))
    with pytest.raises(ConfigError, match="its signature does not fit"):
        str(a2perf.read_run(run[0].bundle))
    unsigned = {**json.loads(Path(FILE).read_text()), "signature": None}
    Path(FILE).write_text(json.dumps(unsigned))
    assert f"({floor:.6g} and 400 of expert" in str(a2perf.read_run(run[0].bundle))
    assert ", not signed)" in str(a2perf.read_run(run[0].bundle))
    Path("other").mkdir()
    Path("other", FILE).write_text(json.dumps(unsigned))
    monkeypatch.setenv(protocol.VARIABLE, f"{FILE}{os.pathsep}other/{FILE}")
    with pytest.raises(ConfigError, match="names two protocols"):
        str(a2perf.read_run(run[0].bundle))


PACKAGE = """
import gymnasium
gymnasium.register("Short-v0", "gymnasium.envs.classic_control.cartpole:CartPoleEnv", max_episode_steps=30)
"""


def test_a_protocol_names_the_package_of_its_environment(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    (tmp_path / "short_envs.py").write_text(PACKAGE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    given = ["short_envs:Short-v0", "--env-kwargs", '{"sutton_barto_reward": true}', "--seeds", "0", "--episodes", "5"]
    words = ["--expert", "expert", "--sandbox", "process", "--allow-weaker", "--output", "short.json"]
    try:
        assert status("references", *given, *words) == 0
        (task,) = json.loads(Path("short.json").read_text())["tasks"].values()
        assert (task["name"], task["env_id"]) == ("Short-v0", "short_envs:Short-v0")
        monkeypatch.setenv(protocol.VARIABLE, "short.json")
        forget()
        assert status("submit", "expert", "--protocol", "short", "-o", "submitted", "--sandbox", "process") == 0
        scores = json.loads(Path("submitted/protocol.json").read_text())["scores"]
        assert scores["Short-v0"]["iqm"] == 1
        forget()
        capsys.readouterr()
        status("audit", "short", "--episodes", "5", "--search-steps", "100", "--json")
        (audited,) = json.loads(capsys.readouterr().out)
        assert audited["subject"] == "short_envs:Short-v0"
        assert "sutton_barto_reward" in audited["command"]
    finally:
        forget()


def forget() -> None:
    """Undoes the import of the package, as in a new process."""
    del gymnasium.registry["Short-v0"], sys.modules["short_envs"]


def test_what_measures_nothing_is_refused(capsys: Any, monkeypatch: Any) -> None:
    assert measure("constant") == 2
    assert "is not above" in capsys.readouterr().err
    for words, text in {
        ("--env-kwargs", "[1]"): "--env-kwargs is not a JSON object",
        ("--key", "nowhere"): "the key nowhere cannot be read",
        ("--output", "v2.json"): "v2.json is a protocol that exists",
    }.items():
        assert measure("expert", *words) == 2
        assert text in capsys.readouterr().err
    assert measure("expert", seeds="a") == 2
    assert "--seeds: 'a' is not a list of seeds" in capsys.readouterr().err
    assert measure("nowhere") == 2
    assert "nowhere does not exist" in capsys.readouterr().err
    assert not list(Path.cwd().glob("*.json"))
    for text in ("{", '{"schema": 1}'):
        Path("mine.json").write_text(text)
        monkeypatch.setenv(protocol.VARIABLE, "mine.json")
        assert status("protocol", "mine") == 2
        assert "the protocol mine is not valid" in capsys.readouterr().err
    before = protocol.sha256("v2")
    Path("mine.json").rename("v2.json")
    monkeypatch.setenv(protocol.VARIABLE, "v2.json")
    assert protocol.sha256("v2") == before
    monkeypatch.setenv(protocol.VARIABLE, "missing.json")
    assert status("protocol", "missing") == 2
    assert "missing.json cannot be read" in capsys.readouterr().err
