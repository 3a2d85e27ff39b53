"""The callbacks in trainings with the real frameworks; each in the Python that has it."""

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
from a2perf.integrations.epoch_tracking import EpochTracking
from a2perf.integrations.periodic_evaluation import PeriodicEvaluation
from a2perf.runs.reading import read_runs
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


def test_epochs_are_phases_and_an_open_block_ends_with_the_next_one(tmp_path: Path) -> None:
    tracking = EpochTracking(
        "mine", folder=tmp_path, interval_s=None, task="", seed=0, evaluates=False, every_epochs=1, episodes=None,
        root_dir="runs", options=None,
    )  # fmt: skip
    assert tracking.end_epoch() == {}
    tracking.begin()
    first_block = tracking.tracked
    total = 0.0
    for epoch in range(2):
        tracking.begin_epoch(epoch)
        sum(range(2_000_000))
        values = tracking.end_epoch()
        total += values["a2perf/energy_epoch_kwh"]
        assert values["a2perf/energy_kwh"] == pytest.approx(total)
    tracking.begin()
    assert first_block is not None
    assert not first_block.is_running
    assert list(first_block.phases) == ["epoch 0", "epoch 1"]
    tracking.end()
    tracking.end()
    assert tracking.tracked is not first_block
    with pytest.raises(ConfigError, match="needs the name of a task"):
        EpochTracking(
            "mine", folder=None, interval_s=None, task="", seed=0, evaluates=True, every_epochs=1, episodes=None,
            root_dir="runs", options=None,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("module", "package", "name", "fix"),
    [
        ("sb3", "stable_baselines3", "EvaluateCallback", "pip install -e '.[sb3]'"),
        ("lightning", "lightning", "LightningTracker", "pip install -e '.[lightning]'"),
        ("keras", "keras", "KerasTracker", "pip install keras"),
    ],
)
def test_a_missing_framework_names_what_to_install(module: str, package: str, name: str, fix: str) -> None:
    code = f"""
import importlib.util
import a2perf
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == {package!r} else find(name, *rest)
held = getattr(a2perf.integrations, {module!r})
try:
    held.{name}
except a2perf.UserError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"MissingDependency a2perf.integrations.{module} needs the package {package}, which is not installed",
        f"  Hint: {fix}",
    ]
    with pytest.raises(AttributeError):
        _ = getattr(a2perf.integrations, module).Unknown


# --- Stable-Baselines3 ----------------------------------------------------------------------------------------------


@pytest.mark.group("sb3")
@pytest.mark.parametrize("background", [False, True])
def test_sb3_logs_and_keeps_the_best_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, background: bool) -> None:
    import gymnasium
    from stable_baselines3 import PPO
    from stable_baselines3.common.logger import configure

    from a2perf.integrations.sb3 import EvaluateCallback

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
        "dog_pace", every_steps=64, root_dir=tmp_path / "runs", best_model_path=tmp_path / "best" / "model.zip",
        background=background, logger=lambda values, step: logged.append((step, values["a2perf/return"])),
    )  # fmt: skip
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

    from a2perf.integrations.sb3 import EvaluateCallback

    env = VecNormalize(DummyVecEnv([lambda: a2perf.make("synthetic_trot")]))
    callback = EvaluateCallback(
        "synthetic_trot", every_steps=64, episodes=1, root_dir=tmp_path, best_model_path=tmp_path / "best.zip",
        options=OPTIONS,
    )  # fmt: skip
    PPO("MlpPolicy", env, n_steps=64, n_epochs=1).learn(64, callback=callback)
    (result,) = callback.results
    assert callback.failures == {}
    assert result.task == "synthetic_trot"
    assert result.mean_return == callback.best_mean_return
    assert (tmp_path / "best.zip").is_file()


# --- Lightning and Keras --------------------------------------------------------------------------------------------


@pytest.mark.group("lightning")
def test_lightning_logs_the_costs_by_epoch(tmp_path: Path) -> None:
    import lightning.pytorch as lightning
    import torch
    from lightning.pytorch.loggers import CSVLogger

    from a2perf.integrations.lightning import LightningTracker

    class Regression(lightning.LightningModule):
        def __init__(self, fails: bool = False) -> None:
            super().__init__()
            self.layer, self.fails = torch.nn.Linear(8, 8), fails

        def training_step(self, batch: Any, index: int) -> Any:
            if self.fails:
                raise RuntimeError("diverged")
            return (self.layer(batch[0]) - batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-2)

    def fit(callback: LightningTracker, logger: Any, *, fails: bool = False) -> None:
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 8)), batch_size=32)
        lightning.Trainer(
            max_epochs=2, callbacks=[callback], logger=logger, enable_progress_bar=False, enable_checkpointing=False,
            accelerator="cpu",
        ).fit(Regression(fails), data)  # fmt: skip

    logger = CSVLogger(tmp_path / "log")
    tracker = LightningTracker(
        "bc", folder=tmp_path / "run", policy=lambda trainer, module: first, task=TASK, every_epochs=2, episodes=1,
        root_dir=tmp_path / "evaluations", options=OPTIONS,
    )  # fmt: skip
    fit(tracker, logger)
    assert tracker.tracked is not None
    assert list(tracker.tracked.phases) == ["epoch 0", "epoch 1", "evaluation"]
    with (Path(logger.log_dir) / "metrics.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["a2perf/energy_kwh"]]
    assert [row["step"] for row in rows] == ["2", "4"]
    assert sum(float(row["a2perf/energy_epoch_kwh"]) for row in rows) == pytest.approx(
        float(rows[-1]["a2perf/energy_kwh"])
    )
    (result,) = tracker.results
    assert float(rows[-1]["a2perf/return"]) == result.mean_return
    assert tracker.failures == {}
    (run,) = read_runs([tmp_path / "run"])
    assert (run.algorithm, run.state) == ("bc", "finished")
    tracker = LightningTracker("bad", folder=tmp_path / "bad")
    with pytest.raises(RuntimeError, match="diverged"):
        fit(tracker, False, fails=True)
    assert tracker.tracked is not None
    assert tracker.tracked.failure == "RuntimeError: diverged"


@pytest.mark.group("tf_agents")
def test_keras_logs_the_costs_by_epoch(tmp_path: Path) -> None:
    import keras
    import numpy as np

    from a2perf.integrations.keras import KerasTracker

    model = keras.Sequential([keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    given = np.ones((64, 4), np.float32)
    tracker = KerasTracker(
        "bc", folder=tmp_path / "run", policy=lambda model: first, task=TASK, every_epochs=2, episodes=1,
        root_dir=tmp_path / "evaluations", options=OPTIONS,
    )  # fmt: skip
    history = model.fit(given, given, epochs=2, verbose=0, callbacks=[tracker]).history
    assert tracker.tracked is not None
    assert list(tracker.tracked.phases) == ["epoch 0", "epoch 1", "evaluation"]
    assert sum(history["a2perf/energy_epoch_kwh"]) == pytest.approx(history["a2perf/energy_kwh"][-1])
    (result,) = tracker.results
    assert history["a2perf/return"] == [result.mean_return]
    (run,) = read_runs([tmp_path / "run"])
    assert (run.algorithm, run.state) == ("bc", "finished")

    class Fails(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            raise RuntimeError("diverged")

    tracker = KerasTracker("bad")
    with pytest.raises(RuntimeError, match="diverged"):
        model.fit(given, given, epochs=2, verbose=0, callbacks=[tracker, Fails()])
    tracker.close(RuntimeError("diverged"))
    assert tracker.tracked is not None
    assert tracker.tracked.failure == "RuntimeError: diverged"
