"""Models of Stable-Baselines3, policies of TF-Agents and PyTorch modules as policies of ``evaluate``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import a2perf
from a2perf.api.live_policy import live_policy
from a2perf.domains.tfa import suite_gym
from a2perf.experiments.script_wrapper.acting import NotFound, find_acting, for_environment, names_of_wrappers
from tests.submission.adapters import submissions

OBSERVATIONS = [np.random.default_rng(seed).normal(size=160).astype(np.float32) for seed in range(2)]


def _answers(policy: Any, tmp_path: Path) -> list[Any]:
    """Returns the actions of the submission that is made of a policy, in a participant process."""
    return submissions.answers(live_policy(policy).written_to(tmp_path / "place"), tmp_path, OBSERVATIONS)


def _evaluated(policy: Any, root: Path) -> a2perf.Result:
    settings = ("Submission.num_inference_steps = 0", "Submission.record_frames = 0", "Submission.load_timeout_s = 120")
    return a2perf.evaluate(
        policy, "synthetic_trot", episodes=1, bindings=settings, progress=False, root_dir=root, public_seeds=True
    )


# --- Stable-Baselines3 ------------------------------------------------------------------------------------------------

sb3_only = pytest.mark.group("sb3")


def _robot() -> Any:
    from gymnasium import spaces

    return submissions.Standing(
        spaces.Box(-9, 9, (160,), np.float32), spaces.Box(-6.2831855, 6.2831855, (12,), np.float32)
    )


def _model(**given: Any) -> Any:
    import stable_baselines3

    kind = given.pop("kind", stable_baselines3.PPO)
    return kind("MlpPolicy", given.pop("env", None) or _robot(), device="cpu", **{"seed": 1, **given})


@sb3_only
@pytest.mark.slow
def test_a_model_of_stable_baselines3_is_evaluated_with_the_numbers_of_its_file(tmp_path: Path) -> None:
    model = _model()
    result = _evaluated(model, tmp_path / "python")
    assert (result.name, result.state) == ("PPO", "finished")
    (folder,) = tmp_path.glob("python/submission-*/PPO")
    assert "stable-baselines3==" in (folder / "requirements.txt").read_text()
    assert 'sb3.contract("model.zip", algorithm="PPO")' in (folder / "inference.py").read_text()

    def direct(observation: Any) -> Any:
        return model.predict(observation, deterministic=True)[0]

    for given, observation in zip(_answers(model, tmp_path), OBSERVATIONS, strict=True):
        np.testing.assert_allclose(given, direct(observation), rtol=1e-5)


@sb3_only
def test_a_model_is_known_again_and_another_one_is_not() -> None:
    known, again, other = (live_policy(_model(seed=seed)) for seed in (1, 1, 2))
    assert again.digest == known.digest
    assert other.digest != known.digest
    assert other.code == known.code
    assert live_policy(_model(policy_kwargs={"net_arch": [8]})).code != known.code


@sb3_only
@pytest.mark.slow
def test_three_trained_models_are_one_group_and_each_is_one_seed_of_it(tmp_path: Path) -> None:
    import stable_baselines3

    models = [
        stable_baselines3.PPO("MlpPolicy", "CartPole-v1", device="cpu", n_steps=64, seed=seed).learn(64)
        for seed in range(3)
    ]
    for place in ("first", "second"):  # a file of a model differs each time that it is saved
        a2perf.evaluate(models, env="CartPole-v1", episodes=2, root_dir=tmp_path / place, progress=False)
    groups = a2perf.score(tmp_path).groups
    assert [group["returns"].n for group in groups] == [3]
    assert str(groups[0]).startswith("PPO, inference on gymnasium/CartPole-v1: 3 trained policies, 4 episodes each\n")


@sb3_only
def test_normalization_and_the_callers_own_class_travel_with_the_model(tmp_path: Path) -> None:
    import stable_baselines3
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    class Opposite(stable_baselines3.PPO):
        def predict(self, observation: Any, *rest: Any, **given: Any) -> Any:
            action, state = super().predict(observation, *rest, **given)
            return -action, state

    scaled = VecNormalize(DummyVecEnv([_robot]))
    scaled.obs_rms.mean[:] = 0.5
    model = _model(kind=Opposite, env=scaled)
    digest = live_policy(model).digest
    given = _answers(model, tmp_path)
    for answer, observation in zip(given, OBSERVATIONS, strict=True):
        wanted = model.predict(scaled.normalize_obs(observation), deterministic=True)[0]
        np.testing.assert_allclose(answer, wanted, rtol=1e-5)
    scaled.obs_rms.mean[:] = 0.25
    assert live_policy(model).digest != digest


def _around(kind: str) -> Any:
    import gymnasium
    from gymnasium.wrappers import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics, TransformObservation
    from stable_baselines3.common.monitor import Monitor

    wrappers = {
        "normalized": NormalizeObservation,
        "transformed": lambda env: TransformObservation(env, lambda seen: 0 * seen, env.observation_space),
        "normalized below a monitor": lambda env: Monitor(NormalizeObservation(env)),
        "counted": lambda env: Monitor(NormalizeReward(RecordEpisodeStatistics(env))),
        "bare": lambda env: env,
    }
    return lambda: wrappers[kind](gymnasium.make("CartPole-v1"))


@sb3_only
@pytest.mark.parametrize("vector", ["DummyVecEnv", "SubprocVecEnv"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("normalized", "NormalizeObservation"),
        ("transformed", "TransformObservation"),
        ("normalized below a monitor", "NormalizeObservation"),
    ],
)
def test_a_wrapper_that_changes_values_is_refused_by_its_name(kind: str, name: str, vector: str) -> None:
    from stable_baselines3.common import vec_env

    with contextlib.closing(getattr(vec_env, vector)([_around(kind)])) as env:
        with pytest.raises(a2perf.UserError, match=f"may change observations or actions.* {name}\n") as caught:
            a2perf.evaluate(_model(env=env), env="CartPole-v1", episodes=1, progress=False)
        assert "PPO.load(file)" in caught.value.hint


@sb3_only
@pytest.mark.parametrize("vector", ["DummyVecEnv", "SubprocVecEnv"])
@pytest.mark.parametrize("kind", ["counted", "bare"])
def test_a_wrapper_that_keeps_values_is_accepted(kind: str, vector: str) -> None:
    from stable_baselines3.common import vec_env

    with contextlib.closing(vec_env.VecMonitor(getattr(vec_env, vector)([_around(kind)]))) as env:
        assert live_policy(_model(env=env)).name == "PPO"


@sb3_only
def test_a_frame_stack_of_the_library_is_refused_by_its_name() -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

    with pytest.raises(a2perf.UserError, match="VecFrameStack"):
        live_policy(_model(env=VecFrameStack(DummyVecEnv([_around("bare")]), 4)))


@sb3_only
def test_a_wrapper_of_the_id_itself_is_no_reason_to_refuse() -> None:
    import gymnasium
    from gymnasium.envs.classic_control import CartPoleEnv
    from gymnasium.wrappers import NormalizeObservation

    gymnasium.register("OwnWrapper-v0", lambda **given: NormalizeObservation(CartPoleEnv(**given)))
    assert live_policy(_model(env=gymnasium.make("OwnWrapper-v0"))).name == "PPO"


@sb3_only
def test_episodes_of_a_script_see_what_the_model_learned_from() -> None:
    import gymnasium
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    scaled = VecNormalize(DummyVecEnv([_around("bare")]))
    scaled.obs_rms.mean[:] = 0.5
    model = _model(env=scaled)
    seen = np.array([0.01, 0.4, -0.02, 0.3], np.float32)
    acting = for_environment(find_acting({"model": model}), ())
    wanted = model.predict(scaled.normalize_obs(seen), deterministic=True)[0]
    assert acting.choose(seen)[0] == wanted
    wrapped = _model(env=_around("transformed")())
    with pytest.raises(NotFound, match=r"missing in a new environment: TransformObservation; name it env"):
        for_environment(find_acting({"model": wrapped}), ())
    with pytest.raises(NotFound):
        for_environment(find_acting({"model": wrapped}), names_of_wrappers(gymnasium.make("CartPole-v1")))
    for_environment(find_acting({"model": wrapped}), names_of_wrappers(_around("transformed")()))


# --- PyTorch ----------------------------------------------------------------------------------------------------------


def _network(outputs: int = 12) -> Any:
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(160, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, outputs))
            self.register_buffer("scale", torch.tensor(0.5, dtype=torch.float64))

        def forward(self, observation: Any) -> Any:
            assert observation.shape == (1, 160)
            return self.body(observation) * self.scale.float()

    torch.manual_seed(3)
    return Network()


@sb3_only
def test_a_module_gets_batches_of_one_and_gives_an_action(tmp_path: Path) -> None:
    import torch

    module = _network()
    prepared = live_policy(module)
    assert any(line.startswith("torch==") for line in prepared.packages)
    assert live_policy(_network()).digest == prepared.digest
    assert module.training, "the caller's module stays as it is"
    given = _answers(module, tmp_path)
    for answer, observation in zip(given, OBSERVATIONS, strict=True):
        with torch.no_grad():
            wanted = module.eval()(torch.from_numpy(observation)[None])[0].numpy()
        assert answer.shape == (12,)
        np.testing.assert_allclose(answer, wanted, rtol=1e-5)


@sb3_only
def test_a_function_that_uses_a_module_travels_with_its_weights(tmp_path: Path) -> None:
    import torch

    module = _network().eval()

    def act(observation: Any) -> Any:
        with torch.no_grad():
            return module(torch.from_numpy(np.array(observation))[None])[0]

    given = _answers(act, tmp_path)
    np.testing.assert_allclose(given[0], act(OBSERVATIONS[0]).numpy(), rtol=1e-5)


@sb3_only
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64", "bool", "complex64"])
def test_tensors_of_every_type_come_back_bit_for_bit(dtype: str) -> None:
    import pickle

    import torch

    from a2perf.api import live_policy_pickle

    for shape in ((), (0, 3), (2, 3)):
        sent = torch.arange(6)[: int(np.prod(shape))].reshape(shape).to(getattr(torch, dtype))
        kept = torch.nn.Parameter(sent, requires_grad=False)
        both = {"plain": sent, "kept": kept, "again": kept}
        found = pickle.loads(live_policy_pickle.pickled(both))
        assert found["kept"] is found["again"]
        assert isinstance(found["kept"], torch.nn.Parameter)
        assert found["plain"].dtype is sent.dtype
        assert found["plain"].shape == sent.shape
        assert torch.equal(found["plain"], sent)


@sb3_only
def test_scores_of_discrete_actions_become_the_best_action() -> None:
    import torch
    from gymnasium import spaces

    from a2perf.submission.participant.adapters.live import module_policy

    class Env:
        action_space = spaces.Discrete(3, start=5)

    class Scores(torch.nn.Module):
        def forward(self, observation: Any) -> Any:
            assert observation["a"].dtype is torch.int64
            assert observation["b"][0].shape == (1, 2)
            return torch.tensor([[0.1, 0.7, 0.2]]), "value"

    act = module_policy(Scores(), Env())
    assert act({"a": np.array(3), "b": (np.zeros(2),)}) == 6


# --- TF-Agents --------------------------------------------------------------------------------------------------------


def _tf_policy(seed: int = 1) -> Any:
    import tensorflow as tf
    from tf_agents.networks import actor_distribution_network
    from tf_agents.policies import actor_policy, greedy_policy
    from tf_agents.specs import tensor_spec
    from tf_agents.trajectories import time_step as ts

    env = suite_gym.create_domain(submissions.TASK, framework="tf_agents")
    seen, action = (tensor_spec.from_spec(spec) for spec in (env.observation_spec(), env.action_spec()))
    env.close()
    network = actor_distribution_network.ActorDistributionNetwork(seen, action, fc_layer_params=(8,))
    network.create_variables()
    for number, variable in enumerate(network.variables):
        values = np.random.default_rng([seed, number]).normal(size=variable.shape) * 0.01
        variable.assign(tf.constant(values, variable.dtype))
    return greedy_policy.GreedyPolicy(actor_policy.ActorPolicy(ts.time_step_spec(seen), action, network))


@pytest.mark.group("tf_agents")
@pytest.mark.slow
def test_a_policy_of_tf_agents_is_evaluated_and_known_again(tmp_path: Path) -> None:
    from tf_agents.policies import py_tf_eager_policy
    from tf_agents.trajectories import time_step as ts

    policy = _tf_policy()
    result = _evaluated(policy, tmp_path / "python")
    assert (result.name, result.state) == ("GreedyPolicy", "finished")
    direct = py_tf_eager_policy.PyTFEagerPolicy(policy)
    for given, observation in zip(_answers(policy, tmp_path), OBSERVATIONS, strict=True):
        np.testing.assert_allclose(given, direct.action(ts.restart(observation)).action, rtol=1e-4)
    digest = live_policy(policy).digest
    assert live_policy(_tf_policy()).digest == digest
    assert live_policy(_tf_policy(seed=2)).digest != digest
    assert live_policy(policy.wrapped_policy).digest != digest


@pytest.mark.group("tf_agents")
def test_the_code_of_the_callers_own_policy_counts() -> None:
    import tensorflow as tf
    from tf_agents.policies import tf_policy
    from tf_agents.trajectories import policy_step

    wrapped = _tf_policy()

    def own(action: float) -> str:
        class Mine(tf_policy.TFPolicy):
            def _variables(self) -> Any:
                return []

            def _action(self, time_step: Any, policy_state: Any, seed: Any) -> Any:
                return policy_step.PolicyStep(tf.fill([tf.shape(time_step.reward)[0], 12], action), policy_state)

        return live_policy(Mine(wrapped.time_step_spec, wrapped.action_spec)).digest

    assert own(0.1) == own(0.1)
    assert own(0.1) != own(0.2)
