"""PPO in the batch of MuJoCo robots: exact resume, the same actor in NumPy, shipped weights that walk."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from a2perf.domains.quadruped_locomotion.environment import QuadrupedLocomotionEnv
from a2perf.errors import ConfigError

TRAINS = pytest.mark.group("sb3")  # the environment with Stable-Baselines3 has PyTorch and MuJoCo
MODULES = ("train", "bullet_robots", "inference", "actor", "clips", "model", "evaluation")
TINY = {
    "robots": "4",
    "horizon": "4",
    "minibatches": "2",
    "epochs": "1",
    "widths": "8",
    "longest": "12",
    "evaluate_every": "32",
    "evaluation_episodes": "1",
    "threads": "1",
    "total_steps": "64",
}


@pytest.fixture(autouse=True)
def _example(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = repository / "packages" / "baselines" / "examples" / "mujoco_ppo"
    monkeypatch.syspath_prepend(str(folder))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Runs ``train`` into a folder of ``tmp_path``."""
    monkeypatch.setenv("A2PERF_ENV_ID", "QuadrupedLocomotion-SyntheticPace-v0")
    monkeypatch.setenv("SEED", "3")

    def run(folder: str, **arguments: str) -> Path:
        artifacts = tmp_path / folder
        artifacts.mkdir(exist_ok=True)
        for name in ("A2PERF_ARTIFACTS", "ROOT_DIR"):
            monkeypatch.setenv(name, str(artifacts))
        importlib.import_module("train").train(**{**TINY, **arguments})
        return artifacts

    return run


@TRAINS
@pytest.mark.parametrize("simulator", ["twin", "pybullet"])
def test_a_resumed_training_is_the_uninterrupted_one_and_its_actor_acts(
    train: Callable[..., Path], simulator: str
) -> None:
    whole = train("whole", simulator=simulator)
    train("parts", total_steps="32", simulator=simulator)
    parts = train("parts", simulator=simulator)
    with np.load(whole / "latest.npz") as one, np.load(parts / "latest.npz") as other:
        assert set(one.files) == set(other.files)
        for name in one.files:
            np.testing.assert_array_equal(one[name], other[name])
    with (parts / "curve.csv").open(encoding="utf-8") as stream:
        assert [row["steps"] for row in csv.DictReader(stream)] == ["32", "64"]
    inference = importlib.import_module("inference")
    policy = inference.load_policy(None)
    env = QuadrupedLocomotionEnv(clip="synthetic_pace", mode="test")
    observation, _ = env.reset(seed=0)
    action = inference.infer_once(policy, inference.preprocess_observation(observation))
    env.close()
    assert action.shape == (12,)
    assert action.dtype == np.float32
    assert not np.array_equal(action, policy.control.reference(observation).astype(np.float32))


@TRAINS
def test_numpy_computes_what_pytorch_computed() -> None:
    torch = pytest.importorskip("torch")
    from a2perf_baselines.quadruped_locomotion.residual_control import ResidualControl

    model = importlib.import_module("model").RobotPolicy(148, 20, (16, 8), -1.0, 0)
    with torch.no_grad():
        model.actor[-1].weight *= 100.0
    seen = torch.randn(50, 148, generator=torch.Generator().manual_seed(0)) * 3.0 + 1.0
    model.see({"policy": seen, "privileged": torch.zeros(50, 20)})
    actor = model.exported(ResidualControl())
    with torch.no_grad():
        expected = model.actor(model.normalize(seen)).numpy()
    np.testing.assert_allclose(actor.mean_action(seen.numpy()), expected, atol=1e-5)


@pytest.mark.group("clips")
@pytest.mark.parametrize("gait", ["pace", "trot", "spin"])
def test_shipped_weights_walk_for_a_hundred_steps(gait: str) -> None:
    inference = importlib.import_module("inference")
    policy = inference.load_policy(None, weights=f"dog_{gait}")
    env = QuadrupedLocomotionEnv(clip=f"dog_{gait}", mode="test")
    observation, _ = env.reset(seed=1, options={"phase": 0.1})
    total = 0.0
    for _ in range(100):
        observation, reward, terminated, _, _ = env.step(inference.infer_once(policy, observation))
        total += reward
        assert not terminated
    env.close()
    assert total > 50.0


def test_weights_are_used_only_if_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inference = importlib.import_module("inference")
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match=r"there is no actor\.npz"):
        inference.load_policy(None)
    with pytest.raises(ConfigError, match=r"there is no nothing\.npz"):
        inference.load_policy(None, weights="nothing")
