"""The hand-made websites: what each step of difficulty adds, and that they can be solved."""

import gin
import pytest

from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.sites import sample_websites as made
from a2perf.domains.web_navigation.solver import solve
from a2perf.errors import ConfigError

CREATORS = (
    made.create_login_pages,
    made.create_address_pages,
    made.create_home_page_and_login,
    made.create_home_page_and_address,
    made.create_shopping_website,
    made.create_flight_website,
    made.create_payment_website,
)


@pytest.mark.parametrize("create", CREATORS)
def test_each_step_adds_to_the_site_and_can_be_solved(create):
    sizes = []
    for difficulty in range(4):
        env = WebNavigationEnv(num_websites=1, designs=[made.as_design(create(difficulty))])
        env.reset(seed=difficulty)
        outcomes = [env.step(action) for action in solve(env.site, env.profile)]
        assert outcomes[-1][4]["reason"] == "solved"
        sizes.append(len(env.site.nodes))
    assert sizes == sorted(set(sizes))


def test_the_pages_are_those_of_the_specification():
    assert made.create_login_pages(0) == {0: ["username", "password", "submit"]}
    assert made.create_shopping_website(1) == {
        0: ["navbar", "carousel", "next_login_page"],
        1: ["navbar", "username", "password", "rememberme", "next_login"],
        2: ["navbar", "firstname", "lastname", "addressline1", "submit"],
    }
    assert len(made.create_global_website()[0]) == 40


def test_gin_sets_the_difficulty_and_a_wrong_one_is_refused():
    gin.clear_config()
    try:
        gin.parse_config("create_flight_website.difficulty = 1")
        assert "departuredate" in made.create_flight_website()[0]
    finally:
        gin.clear_config()
    with pytest.raises(ConfigError, match="difficulty is 4"):
        made.create_payment_website.__wrapped__(4)
