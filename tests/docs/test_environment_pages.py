"""The pages of environments: their tables agree with the spaces, the rewards and the registry."""

import functools
import math
import re

import gymnasium
import numpy as np
import pytest

from a2perf.domains.availability import needed_command
from a2perf.domains.registry import Environment, domains, register_environments
from docs.building import environments, space_tables
from docs.building.markdown import with_tables
from docs.building.strips import MAX_BYTES, SIZE, STRIPS

register_environments()
DOMAINS = tuple(environments.TYPICAL)


@functools.cache
def page_of(domain: str) -> str:
    """Returns the page on the site."""
    page = (environments.PAGES / f"{domain}.md").read_text("utf-8")
    return with_tables(page, functools.partial(environments.block, domains()[domain]))


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_page_on_the_site_has_every_section_and_generated_table(domain: str) -> None:
    headings = re.findall(r"^## (.*)$", page_of(domain), re.MULTILINE)
    sections = "Environments, Action space, Observation space, Rewards, Starting state, Episode end, Arguments"
    assert headings[:10] == [*sections.split(", "), "Measured returns", "Version history", "References"]
    for heading in ("Environments", "Action space", "Observation space", "Arguments", "Measured returns"):
        assert environments.section(page_of(domain), heading).count("\n| ") >= 2
    assert environments.section(page_of(domain), "References").count("https://doi.org/") >= 1
    assert "Generated table" not in page_of(domain)
    ids = environments.section(page_of(domain), "Environments")
    assert all(f"| `{one.id}` |" in ids for one in domains()[domain].environments)


def test_rows_of_the_quadruped_cover_each_space_once_with_its_bounds() -> None:
    env = gymnasium.make(environments.TYPICAL["quadruped_locomotion"], disable_env_checker=True)
    for parts, space in (
        (space_tables.ACTIONS["quadruped_locomotion"](), env.action_space),
        (space_tables.OBSERVATIONS["quadruped_locomotion"](), env.observation_space),
    ):
        covered = [index for part in parts for index in range(part.start, part.stop)]
        assert covered == list(range(int(np.prod(space.shape))))
    table = space_tables.observation_table("quadruped_locomotion", env)
    assert "| 0 | roll, now | -6.283 | 6.283 | rad |" in table
    assert "| 84-86 | reference 1 step ahead: root position from the robot's, x y z | -inf | inf | m |" in table
    env.close()


INSTALLED = [
    pytest.param(one, id=one.id)
    for domain in domains().values()
    for one in domain.environments
    if not needed_command(domain, one)
]


@pytest.mark.parametrize("environment", INSTALLED)
def test_spaces_of_every_environment_have_tables(environment: Environment) -> None:
    env = gymnasium.make(environment.id, disable_env_checker=True, **environment.example)
    domain = next(domain.name for domain in domains().values() if environment in domain.environments)
    assert space_tables.action_table(domain, env)
    rows = space_tables.observation_table(domain, env).count("\n")
    assert rows >= (len(env.observation_space) if isinstance(env.observation_space, gymnasium.spaces.Dict) else 1)
    assert space_tables.space_text(env.observation_space)
    env.close()


@pytest.mark.parametrize("domain", ["web_navigation", "circuit_training"])
def test_each_array_of_an_observation_is_described(domain: str) -> None:
    env = gymnasium.make(environments.TYPICAL[domain], disable_env_checker=True)
    assert set(space_tables.ARRAYS[domain]) == set(env.observation_space.spaces)
    sizes = [int(row[3]) + 1 for row in space_tables.DISCRETE[domain](int(env.action_space.n))]
    assert math.prod(sizes) == env.action_space.n
    env.close()


def test_rewards_of_the_quadruped_are_those_of_the_code() -> None:
    from a2perf.domains.quadruped_locomotion.motion import imitation

    text = environments.section(page_of("quadruped_locomotion"), "Rewards")
    terms = " + ".join(f"{weight:g} {term}" for weight, term in zip(imitation.WEIGHTS, imitation.TERMS, strict=True))
    assert f"`reward = {terms}`" in text
    scales = [
        imitation.POSE_SCALE,
        imitation.VELOCITY_SCALE,
        imitation.END_EFFECTOR_SCALE,
        imitation.ROOT_POSE_SCALE,
        imitation.ROOT_VELOCITY_SCALE,
    ]
    for term, scale in zip(imitation.TERMS, scales, strict=True):
        assert f"| `{term}` | exp(-{scale:g} e) |" in text


def test_rewards_of_web_and_circuits_are_those_of_the_code() -> None:
    from a2perf.domains.circuit_training.engine.cost_model import CostWeights
    from a2perf.domains.web_navigation.reward import Reward

    web, circuit = Reward(), CostWeights()
    costs = f"- {web.timestep_penalty} - {web.cyclic_action_penalty} [nothing changed]"
    assert f"`reward = page + (P after - P before) {costs}`" in page_of("web_navigation")
    terms = f"{circuit.wirelength} wirelength + {circuit.congestion} congestion + {circuit.density} density"
    assert f"`reward = -({terms})`" in page_of("circuit_training")


@pytest.mark.parametrize("name", STRIPS)
def test_strips_of_the_readme_are_small_and_move(name: str) -> None:
    from PIL import Image

    path = environments.STRIPS / f"strip_{name}.webp"
    assert path.stat().st_size <= MAX_BYTES
    with Image.open(path) as strip:
        assert strip.size == SIZE
        assert strip.n_frames >= 5
        assert strip.info["loop"] == 0
