"""Rewards: the table of the specification, number by number."""

import pytest

from a2perf.domains.web_navigation.browsers.backend import End
from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.reward import Reward
from a2perf.errors import ConfigError
from tests.domains.web_navigation.sample_sites import LOGIN, row_of


def test_reward_of_a_step():
    for end, gain, changed, value in (
        (End.RUNNING, 0.0, False, -0.55),
        (End.RUNNING, 0.0, True, -0.05),
        (End.RUNNING, 1 / 3, True, 1 / 3 - 0.05),
        (End.RUNNING, -0.5, True, -0.55),
        (End.SOLVED, 0.0, True, 1.0),
        (End.WRONG, 0.0, False, -1.0),
        (End.LINK, 0.0, True, -1.0),
    ):
        assert Reward()(end, gain, changed) == pytest.approx(value)
    assert Reward(exact_wob_reward=True)(End.RUNNING, 0.5, False) == 0.0
    assert Reward(exact_wob_reward=True)(End.WRONG, 0.5, False) == -1.0
    assert Reward(use_potential_based_reward=False)(End.RUNNING, 0.5, True) == pytest.approx(-0.05)
    assert Reward(final_reward_bias=0.25)(End.SOLVED, 0.0, True) == 1.25
    assert Reward(0.0, 0.0)(End.RUNNING, 0.0, False) == 0.0


@pytest.mark.parametrize("setting", ["cyclic_action_penalty", "timestep_penalty"])
@pytest.mark.parametrize("value", [-0.1, 1.5, "much", True])
def test_a_penalty_out_of_range_is_refused(setting, value):
    with pytest.raises(ConfigError, match=setting):
        Reward(**{setting: value})


def test_an_action_on_no_element_costs_the_same_each_time():
    env = WebNavigationEnv(num_websites=1, designs=[LOGIN])
    env.reset(seed=0)
    env.step(250 * 2 + row_of(env.elements, "actionable_username"))
    rewards = [env.step(249)[1] for _ in range(3)]
    assert rewards == pytest.approx([-0.55, -0.55, -0.55])
