"""The scripted solver solves whatever has a solution, in the fewest steps."""

import numpy as np
import pytest

from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.observation import Sizes
from a2perf.domains.web_navigation.page.primitives import CORE
from a2perf.domains.web_navigation.sites.website import checked_design
from a2perf.domains.web_navigation.solver import check_solvable, solution_length, solve
from a2perf.errors import ConfigError
from tests.domains.web_navigation.sample_sites import PARTS


def test_random_designs_are_solved_with_the_full_return():
    random = np.random.default_rng(3)
    for _ in range(40):
        names = [str(name) for name in random.choice(PARTS, int(random.integers(1, 12)))]
        design = {"action": names, "action_page": [int(page) for page in random.integers(0, 3, len(names))]}
        with WebNavigationEnv(num_websites=1, designs=[design]) as env:
            env.reset(seed=int(random.integers(1000)))
            actions = solve(env.site, env.profile)
            outcomes = [env.step(action) for action in actions]
            assert len(actions) == solution_length(env.site.design)
            assert outcomes[-1][4]["reason"] == "solved"
            assert outcomes[-1][4]["is_success"]
            assert env.is_task_completed
            assert [outcome[2] for outcome in outcomes] == [False] * (len(actions) - 1) + [True]
            shown = 1.0 if env.site.fields else 0.0
            assert sum(outcome[1] for outcome in outcomes) == pytest.approx(1 + shown - 0.05 * (len(actions) - 1))


def test_preconditions_are_met_on_the_way():
    design = {"action": ["rememberme", "city"], "action_page": [0, 1], "preconditions": {"0": ["rememberme"]}}
    with WebNavigationEnv(num_websites=1, designs=[design]) as env:
        env.reset(seed=1)
        outcomes = [env.step(action) for action in solve(env.site, env.profile)]
        assert outcomes[-1][4]["reason"] == "solved"


def test_a_design_that_needs_more_steps_than_there_are_is_refused():
    design = {"action": list(CORE), "action_page": [0] * 23 + [2]}
    with pytest.raises(ConfigError, match="needs 27 steps, an episode has 25"):
        WebNavigationEnv(num_websites=1, designs=[design])
    assert WebNavigationEnv(num_websites=1, designs=[design], step_limit=27).step_limit == 27


def test_a_design_whose_field_lies_behind_the_observed_rows_is_refused():
    design = checked_design({"action": ["deck", "city"], "action_page": [0, 0]})
    with pytest.raises(ConfigError, match="no solution: city cannot be filled"):
        check_solvable(design, 25, Sizes(elements=67))
    check_solvable(design, 25, Sizes())
