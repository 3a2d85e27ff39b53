"""PPO and SAC of Stable-Baselines3 on a quadruped: exact resume, what they leave, what they refuse."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from a2perf.errors import UserError
from tests.waiting import Child, until

pytestmark = pytest.mark.group("sb3")

TROT = "QuadrupedLocomotion-SyntheticTrot-v0"
SHARED = {"robots": "2", "evaluation_episodes": "1", "width": "8", "batch_size": "16", "log_every": "16"}
TINY = {
    # a rate that falls until total_steps is another one where total_steps changes, as it does here
    "sb3_ppo": {
        **SHARED,
        "n_steps": "16",
        "epochs": "1",
        "checkpoint_every": "32",
        "learning_rate": "2e-4",
        "last_learning_rate": "2e-4",
    },
    "sb3_sac": {
        **SHARED,
        "learning_starts": "16",
        "gradient_steps": "1",
        "buffer_size": "100",
        "checkpoint_every": "32",
    },
}
ALGORITHMS = tuple(TINY)


@pytest.fixture(autouse=True)
def _short_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets episodes end after 12 steps; the robot would stand for 600."""
    from a2perf.domains.quadruped_locomotion import rules

    monkeypatch.setattr(rules, "LONGEST_EPISODE", 12)


@pytest.fixture
def train(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Runs an example's ``train`` into a folder of ``tmp_path``."""
    monkeypatch.setenv("A2PERF_ENV_ID", TROT)
    monkeypatch.setenv("SEED", "3")

    def run(name: str, folder: str = "run", **arguments: str) -> Path:
        artifacts = tmp_path / folder
        artifacts.mkdir(exist_ok=True)
        monkeypatch.setenv("A2PERF_ARTIFACTS", str(artifacts))
        monkeypatch.setenv("ROOT_DIR", str(artifacts))
        with monkeypatch.context() as context:
            context.syspath_prepend(str(repository / "packages" / "baselines" / "examples" / name))
            sys.modules.pop("train", None)
            importlib.import_module("train").train(**{**TINY[name], "total_steps": "64", **arguments})
        return artifacts

    return run


def curve(artifacts: Path) -> dict[str, list[tuple[int, float]]]:
    """The points of every tag, over all event files."""
    from tests.event_logs import event_files_below, read_event_file

    points: dict[str, list[tuple[int, float]]] = {}
    for file in event_files_below(artifacts):
        for tag, series in read_event_file(file).scalars.items():
            points.setdefault(tag, []).extend(zip(series.steps.tolist(), series.values.tolist(), strict=True))
    return points


def weights(artifacts: Path) -> list[np.ndarray]:
    from stable_baselines3.common.save_util import load_from_zip_file

    newest = sorted((artifacts / "resume").glob("step_*"))[-1]
    _, parameters, _ = load_from_zip_file(newest / "model.zip", device="cpu")
    return [value.numpy() for value in parameters["policy"].values()]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_resumed_training_is_the_uninterrupted_one(train, name: str) -> None:
    whole = train(name, "whole", actors="1")
    train(name, "parts", total_steps="32", actors="2")
    parts = train(name, "parts", actors="1")
    for one, other in zip(weights(whole), weights(parts), strict=True):
        np.testing.assert_array_equal(one, other)
    points = curve(whole)
    assert points == curve(parts)
    assert {32, 64} <= {step for step, _ in points["Metrics/AverageReturn"]}
    assert [step for step, _ in points["Evaluation/AverageReturn"]] == [32, 64]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_settings_of_the_zoo_make_a_model(train, name: str) -> None:
    points = curve(train(name, config="zoo"))
    assert 64 in {step for step, _ in points["Metrics/AverageReturn"]}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_policy_acts_in_the_environment(train, repository: Path, name: str) -> None:
    import gymnasium

    from a2perf_baselines.quadruped_locomotion.residual_control import ResidualControl

    artifacts = train(name, total_steps="32", scale="0.25")
    assert ResidualControl.read(artifacts / "policy") == ResidualControl(scale=0.25, differences=False)
    sys.path.insert(0, str(repository / "packages" / "baselines" / "examples" / name))
    inference = importlib.import_module("inference")
    sys.path.pop(0)
    with gymnasium.make(TROT, mode="test") as env:
        policy = inference.load_policy(env)
        observation, _ = env.reset(seed=0)
        control = ResidualControl(scale=0.25)
        for _ in range(3):
            action = inference.infer_once(policy, inference.preprocess_observation(observation))
            deviation = np.abs(action - control.reference(observation))
            assert 0.0 < deviation.max() <= 0.25 + 1e-6
            observation, *_ = env.step(action)


KILLED = """
import os, sys
from a2perf.domains.quadruped_locomotion import rules
rules.LONGEST_EPISODE = 12
sys.path.insert(0, sys.argv[1])
import train
train.train(**dict(pair.split("=") for pair in sys.argv[2:]))
"""


def test_a_killed_training_goes_on_as_if_nothing_had_been(
    train, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train("sb3_ppo", "whole", total_steps="160")
    killed = tmp_path / "killed"
    killed.mkdir()
    environment = {**os.environ, "A2PERF_ARTIFACTS": str(killed)}
    settings = {**TINY["sb3_ppo"], "total_steps": "100000"}
    child = Child(
        [
            sys.executable,
            "-c",
            KILLED,
            str(repository / "packages" / "baselines" / "examples" / "sb3_ppo"),
            *(f"{name}={value}" for name, value in settings.items()),
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    until(lambda: list(killed.glob("resume/step_*")))
    child.send_signal(signal.SIGKILL)
    assert child.wait(300) == -signal.SIGKILL
    reached = int(sorted(killed.glob("resume/step_*"))[-1].name[5:])
    assert 0 < reached < 160, "the training was killed too late to see a resumption"
    train("sb3_ppo", "killed", total_steps="160")
    assert curve(killed) == curve(whole)
    for one, other in zip(weights(whole), weights(killed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_seed_is_another_training_and_another_configuration_is_refused(
    train, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = curve(train("sb3_ppo", "one", total_steps="32"))
    with pytest.raises(UserError, match=r"settings\.gamma was 0\.95 and is 0\.5"):
        train("sb3_ppo", "one", gamma="0.5")
    monkeypatch.setenv("SEED", "4")
    assert curve(train("sb3_ppo", "two", total_steps="32")) != first
    with pytest.raises(UserError, match="seed was 3 and is 4"):
        train("sb3_ppo", "one")
    monkeypatch.setenv("A2PERF_ENV_ID", "CircuitTraining-ToyMacro-v0")
    with pytest.raises(UserError, match="CircuitTraining-ToyMacro-v0 is not an environment of quadruped_locomotion"):
        train("sb3_ppo", "three")


def test_a_budget_is_never_exceeded(train) -> None:
    points = curve(train("sb3_ppo", total_steps="70"))
    assert max(step for steps in points.values() for step, _ in steps) == 64


@pytest.mark.slow
def test_it_trains_and_infers_as_a_submission(repository: Path, tmp_path: Path) -> None:
    example = repository / "packages" / "baselines" / "examples" / "sb3_ppo"
    arguments = ",".join(f"{key}={value}" for key, value in {**TINY["sb3_ppo"], "total_steps": "32"}.items())
    for config, more in (
        ("training.gin", ("--participant-args", arguments)),
        (
            "synthetic_trot/inference.gin",
            (
                "--gin-bindings",
                "Submission.num_inference_steps = 5",
                "--gin-bindings",
                "Submission.num_inference_episodes = 1",
            ),
        ),
    ):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from a2perf.cli import launch_main; launch_main()",
                "--submission",
                str(example),
                "--gin-config",
                config,
                "--domain",
                "quadruped_locomotion",
                "--gin-bindings",
                f"create_domain.env_name = '{TROT}'",
                "--root-dir",
                str(tmp_path),
                *more,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    rollouts = json.loads((tmp_path / "inference" / "metrics" / "rollouts.json").read_text())
    assert len(rollouts["episodes"]) == 1
