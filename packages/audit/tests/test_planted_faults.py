"""Planted faults are found by the check that is made for them, and sound environments are not accused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a2perf_audit import Audit, Subject, audit
from packages.audit.tests import planted_worlds as worlds

WORLDS = "packages.audit.tests.planted_worlds"
FOUND_BY = {
    "empty answer": "trivial_policies_lose",
    "standing still": "trivial_policies_lose",
    "one action": "trivial_policies_lose",
    "leaked answer": "trivial_policies_lose",
    "loop": "no_degenerate_optimum",
    "end at once": "no_degenerate_optimum",
    "giving up": "no_degenerate_optimum",
    "slow start": "no_degenerate_optimum",
    "blind": "time_only_loses",
    "observation ignored": "observation_needed",
    "success for nothing": "trivial_policies_lose",
    "global generator": "same_seed",
    "random module": "same_seed",
    "system entropy": "same_seed",
    "seed ignored": "same_seed",
    "memory between episodes": "episodes_independent",
    "shared by instances": "same_seed",
    "state survives truncation": "clean_reset",
    "clock": "clock",
    "pause": "clock",
    "process number": "process",
    "hash seed": "process",
    "threads": "process",
    "folder": "process",
    "reward out of range": "rewards",
    "reward not finite": "rewards",
    "observation outside": "observations_inside",
    "wrong dtype": "observations_inside",
    "shared memory": "observations_kept",
    "action changed": "observations_kept",
    "raises on an action": "actions_accepted",
    "actions ignored": "resolution",
    "noise": "resolution",
    "four values": "api",
    "answer in info": "trivial_policies_lose",
    "calendar": "clock",
    "few seeds": "seeds_differ",
    "no bounds": "actions_accepted",
    "own limit": "episodes_end",
    "host name": "process",
    "variable": "process",
    "user": "process",
    "drawing draws": "same_seed",
}
"""Each fault and the check that must find it; others may find it too."""


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch, repository: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(repository))


def audited(fault: str, **declared: Any) -> Audit:
    expert = {"action changed": worlds.turns, "observation ignored": lambda o: 1}.get(fault, worlds.follows)
    given = {"expert": expert, "reward_range": (-1.0, 1.0), "episodes": 12, "search_steps": 3000, **declared}
    if fault in ("loop", "end at once", "noise"):
        given["reward_range"] = None
    return audit(Subject(f"{WORLDS}:Signals-v0", {"fault": fault}, **given))


@pytest.mark.parametrize("fault", FOUND_BY)
def test_a_planted_fault_is_found(fault: str) -> None:
    found = {finding.check: finding for finding in audited(fault).failed}
    assert FOUND_BY[fault] in found, [*found]
    assert found[FOUND_BY[fault]].evidence


def test_more_faults_are_found_in_other_environments() -> None:
    """A bonus that a search finds, episodes that do not end, and a maximum that nobody reaches."""
    racer = Subject(f"{WORLDS}:Racer-v0", {"bonus": 1.0}, worlds.steers, search_steps=8000, episodes=10)
    assert "no_degenerate_optimum" in {finding.check for finding in audit(racer).failed}
    goal = Subject(f"{WORLDS}:Goal-v0", expert=worlds.walks, search_steps=500, episodes=10)
    assert "no_degenerate_optimum" in {finding.check for finding in audit(goal).failed}
    late = {
        finding.check: finding.evidence
        for finding in audit(Subject(f"{WORLDS}:Late-v0", episodes=5, search_steps=100)).failed
    }
    assert late["rewards"] == "the reward of step 1201 is inf"
    limited = Subject(f"{WORLDS}:Signals-v0", expert=worlds.follows, maximum=40.0, episodes=10)
    assert [finding.check for finding in audit(limited).failed] == ["maximum_reached"]


def test_an_expert_that_raises_is_a_usage_error_and_no_return_of_zero(capsys: pytest.CaptureFixture[str]) -> None:
    from a2perf.cli import main

    words = ["audit", "CartPole-v1", "--expert", f"{WORLDS}:gives_up", "--episodes", "6", "--search-steps", "500"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert "the expert raised ValueError('gives up') in step 1" in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_a_check_that_raises_could_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    from a2perf.cli import main

    words = ["audit", f"{WORLDS}:Signals-v0", "--env-kwargs", '{"fault": "one process"}', "--episodes", "6"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--search-steps", "500"])
    shown = capsys.readouterr().out
    assert ended.value.code == 3
    assert ", 1 could not run" in shown
    (line,) = (line for line in shown.splitlines() if line.lstrip().startswith("process "))
    assert "could not run" in line
    assert "it raised ChildProcessError: it cannot be made in another process" in line


def _energy(observation: Any) -> Any:
    cosine, sine, speed = map(float, observation)
    angle = math.atan2(sine, cosine)
    if cosine > 0.9:
        return np.array([np.clip(-12 * angle - 3 * speed, -2, 2)], np.float32)
    return np.array([2.0 * np.sign(speed if 0.5 * speed**2 + 10 * (cosine - 1) < 0 else -speed) or 2.0], np.float32)


SOUND: dict[str, Any] = {
    "CartPole-v1": lambda o: int(o[2] + 0.5 * o[3] > 0),
    "Acrobot-v1": lambda o: 2 if o[4] < 0 else 0,
    "MountainCar-v0": lambda o: 2 if o[1] >= 0 else 0,
    "MountainCarContinuous-v0": lambda o: np.array([1.0 if o[1] >= 0 else -1.0], np.float32),
    "Pendulum-v1": _energy,
    "FrozenLake-v1": None,
    "FrozenLake8x8-v1": None,
    "CliffWalking-v1": None,
    "CliffWalkingSlippery-v1": None,
    "Taxi-v4": None,
    "Blackjack-v1": None,
    f"{WORLDS}:Signals-v0": worlds.follows,
    f"{WORLDS}:Limited-v0": worlds.follows,
    f"{WORLDS}:Masked-v0": worlds.follows,
    f"{WORLDS}:Racer-v0": worlds.steers,
}


MUJOCO = [
    f"{name}-v5"
    for name in ("InvertedPendulum", "InvertedDoublePendulum", "Reacher", "Swimmer", "HalfCheetah", "Hopper")
]
QUICK = {"CartPole-v1", "MountainCarContinuous-v0", "Blackjack-v1", f"{WORLDS}:Masked-v0", "Swimmer-v5", "Hopper-v5"}
"""One of each kind: discrete and continuous, ended and endless, tables, masks; two of MuJoCo share a process."""


def _sound() -> Iterator[Any]:
    for name in (*SOUND, *MUJOCO):
        marks = [] if name in QUICK else [pytest.mark.slow]
        yield pytest.param(name, marks=[*marks, *([pytest.mark.group("mujoco")] if name in MUJOCO else [])])


@pytest.mark.parametrize("name", list(_sound()))
def test_a_sound_environment_is_not_accused(name: str) -> None:
    done = audit(Subject(name, expert=SOUND.get(name), episodes=10, search_steps=3000, cap=500))
    assert [(finding.check, finding.evidence) for finding in done.failed] == []
    assert sum(finding.verdict == "holds" for finding in done.findings) >= 11


def test_the_command_writes_page_json_and_badge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from a2perf.cli import main

    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inference.py").write_text(
        "def load_policy(env, **kwargs):\n    return env.action_space\n"
        "def preprocess_observation(observation):\n    return observation\n"
        "def infer_once(policy, observation):\n    return int(observation[2] + 0.5 * observation[3] > 0)\n"
    )
    words = ["audit", "CartPole-v1", "--expert", str(tmp_path / "sub"), "--output", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--episodes", "6", "--search-steps", "500"])
    assert ended.value.code in (0, None)
    assert "CartPole-v1: 19 hold, 0 fail" in capsys.readouterr().out
    assert "19 hold, 0 fail" in (tmp_path / "out" / "CartPole-v1.svg").read_text()
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Does the same seed give the same episode, bit for bit?" in page
    with pytest.raises(SystemExit) as ended:
        main(["audit", "CartPole-v9"])
    assert ended.value.code == 2
    (found,) = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert found["identity"]["package"]["name"] == "gymnasium"
    assert len(found["identity"]["fingerprint"]) == 64
    assert found["identity"]["cap"] is None
    assert found["command"].endswith(f"--expert {tmp_path / 'sub'} --episodes 6 --search-steps 500")


def test_a_check_that_takes_too_long_is_not_finished_and_the_others_stand(tmp_path: Path, capsys: Any) -> None:
    from a2perf.cli import main

    words = ["audit", f"{WORLDS}:Endless-v0", "--time-limit", "0.3", "--output", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--episodes", "20", "--search-steps", "500"])
    assert ended.value.code == 3
    assert "not finished" in capsys.readouterr().out
    verdicts = {
        one["check"]: one["verdict"] for one in json.loads((tmp_path / "out" / "audit.json").read_text())[0]["findings"]
    }
    assert verdicts["trivial_policies_lose"] == "not finished"
    assert verdicts["api"] == "holds"
