"""The older rules, each against the rule of version 0."""

import numpy as np
import pytest

from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.solver import solve
from a2perf.errors import ConfigError
from tests.domains.web_navigation.sample_sites import LOGIN, row_of


def made(design, **rest):
    env = WebNavigationEnv(num_websites=1, designs=[design], compat=True, **rest)
    env.reset(seed=0)
    return env


def test_rewards_of_invalid_actions_add_up():
    env = made(LOGIN)
    rewards = [env.step(249)[1] for _ in range(25)]
    assert rewards[:3] == pytest.approx([-0.55, -1.10, -1.65])
    assert rewards[-1] == pytest.approx(-13.75)
    assert sum(rewards) == pytest.approx(-178.75)


def test_the_step_limit_terminates_and_truncates():
    older, newer = made(LOGIN), WebNavigationEnv(num_websites=1, designs=[LOGIN])
    newer.reset(seed=0)
    assert [older.step(0)[2:4] for _ in range(25)][-1] == (True, True)
    assert [newer.step(0)[2:4] for _ in range(25)][-1] == (False, True)


def test_the_last_observation_and_info_are_those_of_the_step_before():
    env = made(LOGIN)
    before, *_, info = env.step(250 + row_of(env.elements, "actionable_password"))
    after, _, terminated, _, last = env.step(row_of(env.elements, "actionable_submit_p0"))
    assert terminated
    assert last is info
    assert after["time_step"][0] == pytest.approx(2 / 25)
    assert all(np.array_equal(after[key], before[key]) for key in before if key != "time_step")


def test_the_card_type_cannot_be_chosen():
    design = {"action": ["cc", "city"], "action_page": [0, 0]}
    env = made(design)
    with pytest.raises(ConfigError, match="no solution"):
        solve(env.site, env.profile)
    env.step(2 * 250 + row_of(env.elements, "actionable_credit_card_type_i0"))
    assert not any(element.value for element in env.elements if element.tag == "input_radio")


def test_of_equal_ids_only_the_first_works():
    design = {"action": ["city", "city"], "action_page": [0, 1]}
    env = made(design)
    env.step(row_of(env.elements, "actionable_next_p0"))
    _, reward, *_ = env.step(250 + row_of(env.elements, "actionable_city"))
    assert reward == pytest.approx(-0.55)


def test_placeholders_and_selected_options_are_hidden():
    env = made({"action": ["username", "state"], "action_page": [0, 0]})
    rows = {element.html_id: element for element in env.elements}
    assert rows["actionable_username"].placeholder is None
    assert rows["actionable_state"].value is None


def test_the_older_rules_need_the_page_model():
    with pytest.raises(ConfigError, match="compat and use_conceptual need the page model"):
        WebNavigationEnv(num_websites=1, designs=[LOGIN], compat=True, backend="chromium")
