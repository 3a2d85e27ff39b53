"""The callback of Stable-Baselines3 in training runs; those with the framework run in the Python that has it."""

from __future__ import annotations

import csv
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import a2perf
from a2perf.errors import ConfigError, RunFailed
from a2perf_trackers.periodic_evaluation import PeriodicEvaluation
from tests.api.evaluate_runs import BINDINGS, TASK

OPTIONS = {"bindings": BINDINGS, "sandbox": "process"}


def first(observation: Any) -> int:
    return 0


# --- evaluations during a training run ------------------------------------------------------------------------------


@pytest.mark.parametrize("background", [False, True])
def test_policies_are_evaluated_one_after_the_other(tmp_path: Path, background: bool) -> None:
    evaluation = PeriodicEvaluation(
        TASK, every=10, episodes=1, name="mine", root_dir=tmp_path, background=background, options=OPTIONS
    )
    ended = evaluation.start(first, 10) + evaluation.wait()
    assert [entry.step for entry in ended] == [10]
    (result,) = evaluation.results
    assert result.bundle == tmp_path / "mine_step_10" / "inference"
    assert result.name == "mine_step_10"
    values = ended[0].values()
    assert values["a2perf/return"] == result.mean_return
    assert values["a2perf/evaluation_s"] > 0
    assert evaluation.failures == {}


def test_a_policy_that_fails_does_not_end_the_training(tmp_path: Path) -> None:
    def broken(observation: Any) -> int:
        raise RuntimeError("the policy broke")

    evaluation = PeriodicEvaluation(TASK, every=1, episodes=1, name="mine", root_dir=tmp_path, options=OPTIONS)
    (entry,) = evaluation.start(broken, 1)
    assert entry.result is None
    assert entry.values() == {}
    assert "the policy broke" in evaluation.failures[1]
    assert len(evaluation.results) == 0


def test_a_changed_policy_does_not_change_a_queued_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release, seen = threading.Event(), []

    def evaluate(policy: Path, task: str, **given: Any) -> Any:
        release.wait(300)
        seen.append((policy / "policy.pkl").read_bytes())
        return SimpleNamespace(mean_return=1.0, normalised_score=None, success_rate=None, energy=None)

    monkeypatch.setattr("a2perf.api.evaluation.evaluate", evaluate)
    evaluation = PeriodicEvaluation(TASK, every=1, name="mine", root_dir=tmp_path, background=True)

    class Weights:
        value = 1

        def act(self, observation: Any) -> int:
            return self.value

    weights = Weights()
    assert evaluation.start(weights, 1) == []
    weights.value = 2
    assert evaluation.start(weights, 2) == []
    release.set()
    assert [entry.step for entry in evaluation.wait()] == [1, 2]
    assert seen[0] != seen[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "dog_pce", "every": 1}, "dog_pace"),
        ({"task": "dog_pace", "every": 0}, "every 0 steps"),
        ({"task": "dog_pace", "every": 1, "episodes": 0}, "leaves no episode"),
    ],
)
def test_wrong_arguments_are_refused_before_the_training(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PeriodicEvaluation(**arguments)


def test_a_missing_framework_names_what_to_install() -> None:
    code = """
import sys
sys.modules["stable_baselines3"] = None  # an import of it raises ModuleNotFoundError
import a2perf
import a2perf_trackers
try:
    a2perf_trackers.sb3.EvaluateCallback
except a2perf.UserError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "MissingDependency a2perf_trackers.sb3 needs the package stable_baselines3, which is not installed",
        "  Hint: pip install stable-baselines3",
    ]


# --- Stable-Baselines3 ----------------------------------------------------------------------------------------------


@pytest.mark.group("sb3")
@pytest.mark.parametrize("background", [False, True])
def test_sb3_logs_and_keeps_the_best_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, background: bool) -> None:
    import gymnasium
    from stable_baselines3 import PPO
    from stable_baselines3.common.logger import configure

    from a2perf_trackers.sb3 import EvaluateCallback

    returns = {64: 1.0, 128: 3.0, 192: 2.0}

    def evaluate(policy: Path, task: str, *, name: str, **given: Any) -> Any:
        step = int(name.rpartition("_")[2])
        if step == 256:
            raise RunFailed("the policy broke")
        assert (policy / "model.zip").is_file()
        return SimpleNamespace(mean_return=returns[step], normalised_score=0.5, success_rate=None, energy=None)

    monkeypatch.setattr("a2perf.api.evaluation.evaluate", evaluate)
    logged: list[tuple[int, float]] = []
    callback = EvaluateCallback(
        "dog_pace",
        every_steps=64,
        root_dir=tmp_path / "runs",
        best_model_path=tmp_path / "best" / "model.zip",
        background=background,
        logger=lambda values, step: logged.append((step, values["a2perf/return"])),
    )
    model = PPO("MlpPolicy", gymnasium.make("CartPole-v1"), n_steps=64, n_epochs=1)
    model.set_logger(configure(str(tmp_path / "log"), ["csv"]))
    model.learn(256, callback=callback)
    assert logged == [(64, 1.0), (128, 3.0), (192, 2.0)]
    assert callback.failures == {256: "the policy broke"}
    assert callback.best_mean_return == 3.0
    best = tmp_path / "best" / "model.zip"
    snapshot = tmp_path / "runs" / "ppo_step_128" / "submission" / "ppo_step_128" / "model.zip"
    assert best.read_bytes() == snapshot.read_bytes()
    PPO.load(best)
    with (tmp_path / "log" / "progress.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["a2perf/return"]]
    assert sorted(float(row["a2perf/return"]) for row in rows) == [1.0, 2.0, 3.0]
    if background:
        assert [row["a2perf/evaluated_step"] for row in rows] == ["64.0", "128.0", "192.0"]
    else:
        assert [row["time/total_timesteps"] for row in rows] == ["64", "128", "192"]


@pytest.mark.group("sb3")
@pytest.mark.slow
def test_sb3_evaluates_a_normalized_model_in_the_participant_process(tmp_path: Path) -> None:
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from a2perf_trackers.sb3 import EvaluateCallback

    env = VecNormalize(DummyVecEnv([lambda: a2perf.make("synthetic_trot")]))
    callback = EvaluateCallback(
        "synthetic_trot",
        every_steps=64,
        episodes=1,
        root_dir=tmp_path,
        best_model_path=tmp_path / "best.zip",
        options=OPTIONS,
    )
    PPO("MlpPolicy", env, n_steps=64, n_epochs=1).learn(64, callback=callback)
    (result,) = callback.results
    assert callback.failures == {}
    assert result.task == "synthetic_trot"
    assert result.mean_return == callback.best_mean_return
    assert (tmp_path / "best.zip").is_file()
