"""A SavedModel of TF-Agents with its checkpoints as a submission of three lines, and what is said of others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a2perf.domains.tfa import suite_gym
from a2perf.records import FailureKind
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.participant.adapters import tf_agents
from a2perf.submission.participant.signatures import ContractError
from tests.made_submissions import write_submission
from tests.submission.adapters import submissions

tf_only = pytest.mark.group("tf_agents")
ENTRY = (
    "from a2perf.submission.participant.adapters import tf_agents\n\n"
    "load_policy, preprocess_observation, infer_once = tf_agents.contract()\n"
)


def _network(env: Any, *, recurrent: bool = False) -> Any:
    from tf_agents.networks import actor_distribution_network as plain
    from tf_agents.networks import actor_distribution_rnn_network as rnn
    from tf_agents.specs import tensor_spec

    specs = [tensor_spec.from_spec(spec) for spec in (env.observation_spec(), env.action_spec())]
    if recurrent:
        return rnn.ActorDistributionRnnNetwork(*specs, input_fc_layer_params=None, lstm_size=(4,))
    return plain.ActorDistributionNetwork(*specs, fc_layer_params=(8,))


def _save(root: Path, env: Any, *, checkpoints: tuple[int, ...] = (), recurrent: bool = False) -> list[Any]:
    """Saves a policy as TF-Agents' learners do; returns its biases at each checkpoint and at the end."""
    import tensorflow as tf
    from tf_agents.policies import actor_policy, greedy_policy, policy_saver
    from tf_agents.specs import tensor_spec
    from tf_agents.trajectories import time_step as ts

    time_step_spec = ts.time_step_spec(tensor_spec.from_spec(env.observation_spec()))
    action_spec = tensor_spec.from_spec(env.action_spec())
    network = _network(env, recurrent=recurrent)
    network.create_variables()
    policy = greedy_policy.GreedyPolicy(actor_policy.ActorPolicy(time_step_spec, action_spec, network))
    step = tf.Variable(0, dtype=tf.int64)
    saver = policy_saver.PolicySaver(policy, batch_size=None, train_step=step)
    for number in checkpoints:
        step.assign(number)
        for variable in policy.variables():
            variable.assign(tf.ones_like(variable) * 0.001 * number)
        saver.save_checkpoint(str(root / "policies" / "checkpoints" / f"policy_checkpoint_{number:010d}"))
    for variable in policy.variables():
        variable.assign(tf.ones_like(variable) * 0.002)
    saver.save(str(root / "policies" / "greedy_policy"))
    return [policy, time_step_spec]


def _direct(policy: Any, observation: Any) -> Any:
    from tf_agents.policies import py_tf_eager_policy
    from tf_agents.trajectories import time_step as ts

    return py_tf_eager_policy.PyTFEagerPolicy(policy).action(ts.restart(observation)).action


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A policy for the task of ``submissions`` with two checkpoints."""
    root = tmp_path_factory.mktemp("robot")
    env = suite_gym.create_domain(submissions.TASK, framework="tf_agents")
    policy, _ = _save(root, env, checkpoints=(3, 20))
    env.close()
    return root, policy


@tf_only
def test_saved_model_answers_as_the_policy_does(tmp_path: Path, robot: tuple[Path, Any]) -> None:
    root, policy = robot
    folder = write_submission(tmp_path / "entry", ENTRY)
    seen = [np.random.default_rng(seed).normal(size=160).astype(np.float64) for seed in range(2)]
    given = submissions.answers(folder, root, seen)
    for observation, action in zip(seen, given, strict=True):
        assert action.shape == (12,)
        np.testing.assert_allclose(action, _direct(policy, observation.astype(np.float32)), rtol=1e-4)


@tf_only
def test_rows_have_the_actions_of_single_observations(tmp_path: Path, robot: tuple[Path, Any]) -> None:
    rows = list(np.random.default_rng(0).normal(size=(5, 160)).astype(np.float32))
    with submissions.process(write_submission(tmp_path / "entry", ENTRY), robot[0]) as running:
        running.start()
        running.load_policy({})
        alone = [running.infer(row).action for row in rows]
        np.testing.assert_allclose(running.infer_batch(np.stack(rows), len(rows)).action, alone, rtol=1e-4)


@tf_only
def test_checkpoint_is_chosen_by_step_or_the_latest(robot: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    root, policy = robot
    monkeypatch.setenv("ROOT_DIR", str(root))
    env = suite_gym.create_domain(submissions.TASK)
    seen = np.ones(160, np.float32)
    for asked, number in (("3", 3), ("20", 20), ("latest", 20)):
        load, preprocess, infer = tf_agents.contract(checkpoint=asked)
        action = infer(load(env), preprocess(seen))
        for variable in policy.variables():
            variable.assign(tf.ones_like(variable) * 0.001 * number)
        np.testing.assert_allclose(action, _direct(policy, seen), rtol=1e-4)
    with pytest.raises(ContractError, match=r"greedy_policy has no checkpoint '4'; available training steps: 3, 20"):
        tf_agents.contract().load_policy(env, checkpoint="4")


@tf_only
def test_policy_of_another_environment_is_refused_with_the_shapes(tmp_path: Path) -> None:
    _save(tmp_path, suite_gym.load("CartPole-v1"))
    folder = write_submission(tmp_path / "entry", ENTRY)
    with pytest.raises(ParticipantFailure) as caught:
        submissions.answers(folder, tmp_path, [])
    failure = caught.value.failure
    assert failure.kind is FailureKind.CONTRACT
    assert "greedy_policy does not match the environment QuadrupedLocomotion-Synthetic" in failure.message
    assert "observation: the policy has the shape (4,), the environment (160,)" in failure.message


@tf_only
def test_first_observation_tells_where_the_environment_cannot_be_made(
    robot: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unmakeable:
        @property
        def observation_space(self) -> Any:
            raise ModuleNotFoundError("No module named 'pybullet'", name="pybullet")

    monkeypatch.setenv("ROOT_DIR", str(robot[0]))
    load, preprocess, infer = tf_agents.contract()
    policy = load(Unmakeable())
    assert infer(policy, preprocess(np.zeros(160))).shape == (12,)
    with pytest.raises(ContractError, match=r"does not match .* observation has the shape \(4,\), not \(160,\)"):
        preprocess(np.zeros(4))


@tf_only
def test_checkpoint_of_another_policy_is_refused(
    tmp_path: Path, robot: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    shutil.copytree(robot[0], root)
    _save(tmp_path / "other", suite_gym.load("CartPole-v1"), checkpoints=(20,))
    shutil.rmtree(root / "policies" / "checkpoints")
    shutil.copytree(tmp_path / "other" / "policies" / "checkpoints", root / "policies" / "checkpoints")
    monkeypatch.setenv("ROOT_DIR", str(root))
    with pytest.raises(
        ContractError, match="policy_checkpoint_0000000020 is not a checkpoint of the policy greedy_policy"
    ):
        tf_agents.contract(checkpoint="latest").load_policy(suite_gym.create_domain(submissions.TASK))


@tf_only
def test_nested_observation_and_a_discrete_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium
    from gymnasium import spaces

    flat = submissions.Standing(spaces.Box(0, 1, (3,), np.float32), spaces.Discrete(5))
    _save(tmp_path, suite_gym.wrap_env(flat))
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    nested = submissions.Standing(
        spaces.Dict({"a": flat.observation_space, "rest": spaces.Discrete(2)}), flat.action_space
    )
    load, preprocess, infer = tf_agents.contract(observation=lambda seen: seen["a"])
    action = infer(load(nested), preprocess({"a": np.ones(3), "rest": 1}))
    assert isinstance(nested, gymnasium.Env)
    assert action.dtype == np.int64
    assert nested.action_space.contains(action[()])
    other = submissions.Standing(flat.observation_space, spaces.Discrete(6))
    with pytest.raises(ContractError, match="action: the policy's range is 0 to 4, the environment's 0 to 5"):
        tf_agents.contract().load_policy(other)


@tf_only
def test_policy_with_a_state_has_to_be_told_when_an_episode_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = suite_gym.load("CartPole-v1")
    _save(tmp_path, env, recurrent=True)
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    with pytest.raises(ContractError, match="does not pass when an episode starts"):
        tf_agents.contract().load_policy(env.gym)
    load, preprocess, infer = tf_agents.contract(episode_start=lambda seen: bool(seen[0] == 0))
    policy = load(env.gym)

    def states() -> list[Any]:
        found = []
        for first in (0, 1, 1):
            infer(policy, preprocess(np.array([first, 0.1, 0.2, 0.3])))
            found.append([np.asarray(part).tolist() for part in policy.state])
        return found

    before, again = states(), states()
    assert before == again
    assert before[0] != before[1] != before[2]


@tf_only
def test_folder_without_a_policy_is_named(
    tmp_path: Path, robot: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOT_DIR", str(robot[0]))
    with pytest.raises(ContractError, match="policies has no policy 'collect'; it contains greedy_policy"):
        tf_agents.contract(policy_name="collect").load_policy(None)
    root = tmp_path / "damaged"
    shutil.copytree(robot[0], root)
    (root / "policies" / "greedy_policy" / "saved_model.pb").write_bytes(b"damaged")
    monkeypatch.setenv("ROOT_DIR", str(root))
    with pytest.raises(ContractError, match="the policy greedy_policy cannot be loaded"):
        tf_agents.contract().load_policy(None)


def test_evaluator_steps_gymnasium_whatever_the_gin_file_asks_for() -> None:
    import gin

    from a2perf.submission.evaluator.submitted.identity import RunTask

    gin.clear_config()
    gin.parse_config(f"create_domain.env_name = {submissions.TASK!r}\ncreate_domain.framework = 'tf_agents'")
    task = RunTask.configured("quadruped_locomotion")
    gin.clear_config()
    assert "framework" not in task.env_kwargs


def test_missing_framework_is_named_in_the_run(tmp_path: Path) -> None:
    saved = tmp_path / "policies" / "greedy_policy"
    saved.mkdir(parents=True)
    for name in ("saved_model.pb", tf_agents.SPECS_FILE):
        (saved / name).touch()
    folder = write_submission(tmp_path / "entry", f"import sys\nsys.modules['tf_agents'] = None\n{ENTRY}")
    with pytest.raises(ParticipantFailure) as caught:
        submissions.answers(folder, tmp_path, [])
    assert caught.value.failure.kind is FailureKind.CONTRACT
    assert "TF-Agents needs the package 'tf_agents" in caught.value.failure.message
    assert "pip install --no-deps tf-agents==0.19.0" in caught.value.failure.message


def test_foreign_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "saved_model.pb").touch()
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    with pytest.raises(ContractError, match=r"policies has no policy_specs\.pbtxt"):
        tf_agents.contract().load_policy(None)
