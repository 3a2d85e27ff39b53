"""Cloning a dog's gait: a kill changes nothing, and what is left behind is a submission."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.event_logs import event_files_below, read_event_file
from tests.waiting import Child, until

pytestmark = [pytest.mark.group("tf_agents"), pytest.mark.group("clips"), pytest.mark.slow, pytest.mark.timeout(1800)]

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "tf_agents_bc"
ENV_ID = "QuadrupedLocomotion-DogPace-v0"
SMALL = ("rounds=2", "members=1", "rows=150", "updates=40", "last_updates=60", "layers=32:16")


def command(output: Path, *settings: str, env_id: str = ENV_ID) -> list[str]:
    return [sys.executable, "train.py", "--env-id", env_id, "--output", str(output), "--seed", "1", *settings]


def trained(output: Path, *settings: str, env_id: str = ENV_ID) -> subprocess.CompletedProcess[str]:
    call = command(output, *settings, env_id=env_id)
    return subprocess.run(call, cwd=EXAMPLE, capture_output=True, text=True, check=False)


def curve(folder: Path) -> list[tuple[int, float]]:
    series = [read_event_file(path).scalars.get("Metrics/AverageReturn") for path in event_files_below(folder)]
    points = [zip(one.steps, one.values, strict=True) for one in series if one is not None]
    return sorted((int(step), float(value)) for some in points for step, value in some)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cloned") / "whole"
    done = trained(folder, *SMALL)
    assert done.returncode == 0, done.stderr
    assert "done:" in done.stdout
    return folder


def test_a_killed_training_ends_as_one_that_was_not(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    with Child(command(folder, *SMALL), cwd=EXAMPLE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as one:
        until(lambda: list(folder.glob("resume/step_*")))
        one.send_signal(signal.SIGKILL)
    assert one.returncode == -signal.SIGKILL
    assert len(list(folder.glob("resume/step_*"))) == 1
    resumed = trained(folder, *SMALL)
    assert resumed.returncode == 0, resumed.stderr
    assert "continuing after" in resumed.stdout
    assert curve(folder) == curve(whole)
    assert len(curve(whole)) == 2


def test_what_is_left_behind_is_a_submission(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from a2perf.domains.tfa.suite_gym import make_environment
    from a2perf.submission.participant.adapters import tf_agents

    monkeypatch.setenv("ROOT_DIR", str(whole))
    monkeypatch.setenv("A2PERF_ENV_ID", ENV_ID)
    env = make_environment(ENV_ID, {"mode": "test"})
    load_policy, preprocess_observation, infer_once = tf_agents.contract()
    policy = load_policy(env)
    observation, _ = env.reset(seed=0)
    first = infer_once(policy, preprocess_observation(observation))
    assert env.action_space.contains(first)
    assert np.abs(first).max() > 0.01
    monkeypatch.setenv("A2PERF_ENV_ID", "CartPole-v1")
    with pytest.raises(Exception, match=f"was trained on {ENV_ID}"):
        load_policy(env)


def test_another_configuration_is_refused_by_name(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "copy")
    done = trained(folder, *SMALL, "noise=0.5", env_id="QuadrupedLocomotion-DogTrot-v0")
    assert done.returncode == 2
    assert "settings.noise was 0.2 and is 0.5" in done.stderr
    assert f'env_id was "{ENV_ID}"' in done.stderr
    assert "Traceback" not in done.stderr


def test_a_gait_without_an_expert_asks_for_demonstrations(tmp_path: Path) -> None:
    done = trained(tmp_path, *SMALL, env_id="QuadrupedLocomotion-SyntheticTrot-v0")
    assert done.returncode == 2
    assert "no pre-trained policy for QuadrupedLocomotion-SyntheticTrot-v0" in done.stderr
    assert "dataset=" in done.stderr
    assert os.listdir(tmp_path)


def test_two_actors_ask_the_expert(tmp_path: Path) -> None:
    done = trained(tmp_path, *SMALL, "actors=2")
    assert done.returncode == 0, done.stderr
    assert "done:" in done.stdout
