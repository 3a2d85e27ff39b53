"""Many environments at once give the episodes of single ones."""

import json

import gymnasium
import numpy as np
import pytest

from a2perf.domains.arguments import EpisodeOverError
from a2perf.domains.web_navigation.composed import ComposedWebVectorEnv
from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.vector import WebVectorEnv
from a2perf.errors import ConfigError
from tests.commands import run_python
from tests.domains.web_navigation.sample_sites import LOGIN, SHOP, random_action, row_of

SITES = {"num_websites": 2, "designs": [LOGIN, SHOP]}


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (WebVectorEnv, {"workers": 1}),
        (WebVectorEnv, {"workers": 2}),
        (WebVectorEnv, {"workers": 1, "compat": True}),
        (ComposedWebVectorEnv, {"workers": 1, "subtasks": 2}),
    ],
)
def test_members_give_the_episodes_of_single_environments(kind, arguments):
    count, random, compat = 5, np.random.default_rng(0), "compat" in arguments
    many = kind(count, **arguments, **SITES)
    own = {name: value for name, value in arguments.items() if name != "workers"}
    single = [kind.build(**own, **SITES) for _ in range(count)]
    observations, info = many.reset(seed=9)
    now = [env.reset(seed=9 + member) for member, env in enumerate(single)]
    # Two members solve the first episode, the others act at random.
    plans = [[] if compat else env.solution() for env in single[:2]]
    over = np.zeros(count, bool)
    for _ in range(80):
        for member, (observation, answer) in enumerate(now):
            assert all(np.array_equal(observation[key], observations[key][member]) for key in observation)
            if not compat or not over[member]:
                assert np.array_equal(info["action_mask"][member], answer["action_mask"])
        actions = np.array([random_action(random, mask) for mask in info["action_mask"]])
        for member, plan in enumerate(plans):
            actions[member] = plan.pop(0) if plan else actions[member]
        observations, rewards, terminated, truncated, info = many.step(actions)
        for member, env in enumerate(single):
            if over[member]:
                now[member], over[member] = env.reset(), False
                assert (rewards[member], terminated[member], truncated[member]) == (0.0, False, False)
                continue
            observation, reward, *ends, answer = env.step(actions[member])
            now[member], over[member] = (observation, answer), any(ends)
            assert rewards[member] == reward
            assert compat or info["raw_reward"][member] == answer["raw_reward"]
            assert [terminated[member], truncated[member]] == ends
    many.close()


@pytest.mark.parametrize(
    ("env_id", "kind"),
    [("WebNavigation-Difficulty-01-v0", WebVectorEnv), ("WebNavigation-Composed-01-v0", ComposedWebVectorEnv)],
)
def test_gymnasium_makes_it(env_id, kind):
    many = gymnasium.make_vec(env_id, num_envs=3, vectorization_mode="vector_entry_point")
    assert type(many.unwrapped) is kind
    observations, info = many.reset(seed=[1, 2, 3])
    assert many.observation_space.contains(observations)
    assert info["action_mask"].shape == (3, 12500)
    many.close()
    synchronous = gymnasium.make_vec(env_id, num_envs=2, vectorization_mode="sync")
    assert synchronous.reset(seed=0)[0]["dom_elements"].shape == (2, 250, 5, 10)
    synchronous.close()


def test_a_step_rewrites_the_same_arrays():
    with_arrays = WebVectorEnv(2, num_websites=1, designs=[LOGIN])
    first, _ = with_arrays.reset(seed=0)
    second, *_ = with_arrays.step(np.array([0, 0]))
    assert first["dom_elements"] is second["dom_elements"]
    assert first["time_step"][:, 0] == pytest.approx([0.04, 0.04])


def test_the_caller_may_reset_members():
    many = WebVectorEnv(2, autoreset_mode="Disabled", num_websites=1, designs=[LOGIN])
    many.reset(seed=0)
    env = WebNavigationEnv(num_websites=1, designs=[LOGIN])
    env.reset(seed=0)
    submit = row_of(env.elements, "actionable_submit_p0")
    terminated = many.step(np.array([submit, 0]))[2]
    assert terminated.tolist() == [True, False]
    with pytest.raises(EpisodeOverError, match="member 0"):
        many.step(np.array([0, 0]))
    observations, _ = many.reset(options={"reset_mask": np.array([True, False])})
    assert observations["time_step"][0, 0] == 0.0
    assert observations["time_step"][1, 0] > 0.0
    many.step(np.array([0, 0]))


def test_options_hold_for_every_member():
    many = WebVectorEnv(4, workers=2, **SITES)
    observations, _ = many.reset(seed=0, options={"design": 0, "profile": {"username": "zanzibar"}})
    assert len(set(observations["profile_value"][:, 2, 0].tolist())) == 1
    many.close()


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0], "shape"),
        ([0, 12500], "12500 is not an action"),
        ([0, -1], "-1 is not an action"),
        ([0.5, 1], "0.5 is not"),
    ],
)
def test_wrong_actions_are_refused(actions, message):
    many = WebVectorEnv(2, num_websites=1, designs=[LOGIN])
    many.reset(seed=0)
    with pytest.raises(ConfigError, match=message):
        many.step(np.array(actions))


def test_a_killed_process_leaves_no_worker_behind():
    code = (
        "import os, signal\n"
        "from a2perf.domains.web_navigation.vector import WebVectorEnv\n"
        f"many = WebVectorEnv(3, workers=3, num_websites=1, designs=[{LOGIN!r}])\n"
        "print([process.pid for process in many._processes], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # workers inherit standard output, so this ends only when the last of them is gone; else it times out
    killed = run_python(code)
    assert len(json.loads(killed.stdout)) == 2


def test_wrong_arguments_and_a_closed_object_are_refused():
    with pytest.raises(ConfigError, match="num_envs is 0"):
        WebVectorEnv(0, **SITES)
    with pytest.raises(ConfigError, match="'SameStep'"):
        WebVectorEnv(1, autoreset_mode="SameStep", **SITES)
    many = WebVectorEnv(2, workers=2, **SITES)
    with pytest.raises(ConfigError, match="3 seeds for 2"):
        many.reset(seed=[1, 2, 3])
    with pytest.raises(ConfigError, match="there is no design 5"):
        many.reset(options={"design": 5})
    process = many._processes[0]
    many.close()
    assert not process.is_alive()
    with pytest.raises(EpisodeOverError, match="closed"):
        many.reset()
