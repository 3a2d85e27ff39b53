"""A zip of Stable-Baselines3 as a submission of three lines, and what is said of one that does not fit."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from a2perf.records import FailureKind
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.participant.adapters import sb3
from a2perf.submission.participant.signatures import ContractError
from tests.made_submissions import TROT, write_submission
from tests.submission.adapters import submissions

pytestmark = pytest.mark.group("sb3")


ROBOT = submissions.Standing(
    spaces.Box(-9, 9, (160,), np.float32), spaces.Box(-6.2831855, 6.2831855, (12,), np.float32)
)


def _model(env: gymnasium.Env[Any, Any] = ROBOT, algorithm: str = "PPO", policy: str = "MlpPolicy") -> Any:
    import stable_baselines3

    return getattr(stable_baselines3, algorithm)(policy, env, seed=1, device="cpu")


def _submission(folder: Path, arguments: str) -> Path:
    return write_submission(
        folder,
        "from a2perf.submission.participant.adapters import sb3\n\n"
        f"load_policy, preprocess_observation, infer_once = sb3.contract({arguments})\n",
    )


@pytest.mark.parametrize("algorithm", ["PPO", "SAC"])
def test_saved_model_answers_as_the_model_does(tmp_path: Path, algorithm: str) -> None:
    model = _model(algorithm=algorithm)
    model.save(tmp_path / "model.zip")
    folder = _submission(tmp_path / "entry", f'"model.zip", algorithm="{algorithm}"')
    seen = [np.random.default_rng(seed).normal(size=160).astype(np.float32) for seed in range(3)]
    given = submissions.answers(folder, tmp_path, seen)
    for observation, action in zip(seen, given, strict=True):
        assert action.dtype == np.float32
        np.testing.assert_allclose(action, model.predict(observation, deterministic=True)[0], rtol=1e-5)


def test_discrete_action_is_a_whole_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = submissions.Standing(spaces.Dict({"a": spaces.Box(0, 1, (3,)), "b": spaces.Discrete(4)}), spaces.Discrete(5))
    _model(env, "DQN", "MultiInputPolicy").save(tmp_path / "model.zip")
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    load, preprocess, infer = sb3.contract(algorithm="DQN")
    # arguments of train() come along when one command line serves both
    policy = load(env, total_steps="512")
    action = infer(policy, preprocess({"a": np.zeros(3, np.float32), "b": 2}))
    assert type(action) is int
    assert 0 <= action < 5
    rows = {"a": np.random.default_rng(0).random((4, 3), np.float32), "b": np.array([0, 2, 3, 1])}
    alone = [infer(policy, preprocess({name: values[row] for name, values in rows.items()})) for row in range(4)]
    assert infer.infer_batch(policy, rows) == alone  # type: ignore[attr-defined]


def test_observations_are_scaled_as_in_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    normalized = VecNormalize(DummyVecEnv([lambda: ROBOT]))
    normalized.obs_rms.mean, normalized.obs_rms.var = np.full(160, 3.0), np.full(160, 4.0)
    normalized.save(str(tmp_path / "vecnormalize.pkl"))
    model = _model()
    model.save(tmp_path / "model.zip")
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    load, preprocess, infer = sb3.contract(algorithm="PPO", normalization="vecnormalize.pkl")
    policy = load(ROBOT)
    prepared = preprocess(np.full(160, 5.0, np.float32))
    np.testing.assert_allclose(prepared, 1.0, rtol=1e-4)
    np.testing.assert_allclose(infer(policy, prepared), model.predict(prepared, deterministic=True)[0])


def test_model_of_another_environment_is_refused_with_both_shapes(tmp_path: Path) -> None:
    cart_pole = gymnasium.make("CartPole-v1")
    _model(cart_pole).save(tmp_path / "model.zip")
    folder = _submission(tmp_path / "entry", 'algorithm="PPO"')
    with pytest.raises(ParticipantFailure) as caught:
        submissions.answers(folder, tmp_path, [])
    failure = caught.value.failure
    assert failure.kind is FailureKind.CONTRACT
    assert f"model.zip does not match the environment {TROT}" in failure.message
    assert "the policy has the shape (4,), the environment (160,)" in failure.message
    assert "action: the policy has the shape (), the environment (12,)" in failure.message


def test_model_may_be_translated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _model(gymnasium.make("CartPole-v1")).save(tmp_path / "model.zip")
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    load, preprocess, infer = sb3.contract(
        algorithm="PPO", observation=lambda seen: seen[:4], action=lambda chosen: np.full(12, chosen)
    )
    assert infer(load(ROBOT), preprocess(np.zeros(160, np.float32))).shape == (12,)


def test_other_range_of_actions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _model(submissions.Standing(ROBOT.observation_space, spaces.Box(-1, 1, (12,)))).save(tmp_path / "model.zip")
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    with pytest.raises(ContractError, match=r"the policy's range is -1 to 1, the environment's -6\.28319 to 6\.28319"):
        sb3.contract(algorithm="PPO").load_policy(ROBOT)


def test_wrong_algorithm_and_damaged_file_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _model().save(tmp_path / "model.zip")
    (tmp_path / "text.zip").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as empty:
        empty.writestr("other", "")
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    with pytest.raises(ContractError, match="no algorithm 'PPPO'; did you mean 'PPO'"):
        sb3.contract(algorithm="PPPO").load_policy(ROBOT)
    with pytest.raises(ContractError, match=r"model\.zip cannot be loaded as SAC"):
        sb3.contract(algorithm="SAC").load_policy(ROBOT)
    for name in ("text.zip", "empty.zip"):
        with pytest.raises(ContractError, match=f"{name} cannot be loaded as PPO"):
            sb3.contract(name, algorithm="PPO").load_policy(ROBOT)
    with pytest.raises(ContractError, match=r"text\.zip cannot be loaded as VecNormalize"):
        sb3.contract(algorithm="PPO", normalization="text.zip").load_policy(ROBOT)


def test_missing_framework_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.zip").touch()
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(ContractError, match="needs Stable-Baselines3, but the package 'stable_baselines3' is not"):
        sb3.contract(algorithm="PPO").load_policy(ROBOT)
