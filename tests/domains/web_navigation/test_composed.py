"""Compositions: several websites per episode, one profile, success only if all of them are submitted correctly."""

import json
import pickle

import gymnasium
import numpy as np
import pytest

from a2perf.domains.registry import register_environments
from a2perf.domains.web_navigation.composed import ComposedWebNavigationEnv
from a2perf.domains.web_navigation.observation import NEW
from a2perf.domains.web_navigation.sites import generator
from a2perf.domains.web_navigation.solver import solution_length
from a2perf.errors import ConfigError
from tests.domains.web_navigation.sample_sites import LOGIN, SHOP, row_of

register_environments()
PAIR = {"subtasks": 2, "num_websites": 2, "designs": [LOGIN, SHOP]}
IDS = tuple(f"WebNavigation-Composed-0{depth}-v0" for depth in (1, 2, 3))


def perfect_return(site):
    return (2 if site.fields else 1) - 0.05 * (solution_length(site.design) - 1)


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(1000, 1500), marks=pytest.mark.slow)], ids=len)
@pytest.mark.parametrize("order", ["given", "reversed"])
@pytest.mark.parametrize("env_id", IDS)
def test_the_solver_solves_every_composition_with_the_full_return(env_id, order, seeds):
    with gymnasium.make(env_id, order=order, num_websites=100, disable_env_checker=True) as made:
        env = made.unwrapped
        for seed in seeds:
            env.reset(seed=seed)
            actions = env.solution()
            outcomes = [env.step(action) for action in actions]
            assert outcomes[-1][2:4] == (True, False)
            assert outcomes[-1][4]["reason"] == "solved"
            assert outcomes[-1][4]["subtasks_solved"] == len(env.sites) == env.subtasks
            assert sum(one[1] for one in outcomes) == pytest.approx(sum(map(perfect_return, env.sites)))
            assert len({site.design for site in env.sites}) == env.subtasks
            assert len(actions) <= 25 * env.subtasks


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_each_rung_doubles_the_websites_and_adds_a_level(depth):
    with gymnasium.make(IDS[depth - 1], disable_env_checker=True) as made:
        env = made.unwrapped
        assert (env.subtasks, env.step_limit, len(env.designs)) == (2**depth, 25 * 2**depth, 10 * depth)
        lengths = [solution_length(design) for design in env.designs]
        assert max(lengths) <= {1: 3, 2: 6, 3: 18}[depth]


def test_a_correct_submission_opens_the_next_website_and_pays_like_an_episode():
    env = ComposedWebNavigationEnv(**PAIR)
    _, info = env.reset(seed=1, options={"designs": [0, 1]})
    assert (info["subtasks"], info["subtask"], info["subtasks_solved"]) == (2, 0, 0)
    assert set(env.profile) == {
        "username",
        "password",
        "rememberme",
        "state",
        "credit_card_type",
        "cabin",
        "numberofpeople",
    }
    first = env.solution()[:3]
    observation, reward, terminated, truncated, info = [env.step(action) for action in first][-1]
    assert (reward, terminated, truncated) == (1.0, False, False)
    assert (info["raw_reward"], info["reason"], info["is_success"]) == (1.0, None, False)
    assert (info["subtask"], info["subtasks_solved"]) == (1, 1)
    assert not env.is_task_completed
    assert env.site.design == env.designs[1]
    listed = int(observation["dom_elements_mask"].sum())
    assert listed == len(env.elements)
    assert observation["dom_features"][:listed, NEW].all()
    assert observation["time_step"][0] == pytest.approx(3 / 50)
    observation, reward, *_, info = env.step(row_of(env.elements, "label_rememberme"))
    assert not observation["dom_features"][:, NEW].any()
    assert info["raw_reward"] == 0.0


def test_a_wrong_submission_of_any_website_ends_the_episode():
    env = ComposedWebNavigationEnv(**PAIR)
    env.reset(seed=0, options={"designs": [1, 0]})
    second = len(env.solution()) - 3
    for action in env.solution()[:second]:
        assert not env.step(action)[2]
    _, reward, terminated, _, info = env.step(row_of(env.elements, "actionable_submit_p0"))
    assert (reward, terminated, info["reason"]) == (-1.0, True, "wrong")
    assert (info["subtasks_solved"], info["is_success"]) == (1, False)


@pytest.mark.parametrize(("order", "first"), [("given", LOGIN), ("reversed", SHOP)])
def test_the_order_decides_which_keys_the_profile_lists_first(order, first):
    env = ComposedWebNavigationEnv(order=order, **PAIR)
    observation, _ = env.reset(seed=0, options={"designs": [LOGIN, SHOP]})
    words = {number: word for word, number in env.vocabulary.save().items()}
    keys = [
        "".join(words[number] for number in row[mask > 0])
        for row, mask in zip(observation["profile_key"], observation["profile_key_mask"], strict=True)
        if mask.any()
    ]
    other = ComposedWebNavigationEnv(subtasks=1, num_websites=1, designs=[first])
    other.reset(seed=0)
    assert keys[0] == "_dummy"
    assert keys[1 : 1 + len(other.profile)] == sorted(other.profile)
    assert sorted(keys[1:]) == sorted(env.profile)  # "username" is on both websites and has one row


def test_websites_share_the_step_limit():
    env = ComposedWebNavigationEnv(**PAIR)
    env.reset(seed=0, options={"designs": [0, 1]})
    outcomes = [env.step(action) for action in env.solution()[:3]]
    outcomes += [env.step(0) for _ in range(47)]
    assert [one[3] for one in outcomes] == [False] * 49 + [True]
    assert outcomes[-1][4]["subtasks_solved"] == 1


def test_a_reset_fixes_websites_and_gold_values():
    env = ComposedWebNavigationEnv(**PAIR)
    env.reset(seed=0, options={"designs": [SHOP, 0], "profile": {"state": "NY", "password": "open sesame"}})
    assert [site.design for site in env.sites] == [env.designs[1], env.designs[0]]
    assert (env.profile["state"], env.profile["password"]) == ("NY", "open sesame")
    assert [env.step(action) for action in env.solution()][-1][4]["is_success"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"order": "backwards"}, "order is 'backwards'"),
        ({"subtasks": 3}, "there are 2 websites"),
        ({"compat": True}, "no compositions"),
        ({"sub_tasks": 2}, "did you mean 'subtasks'"),
        ({"step_limit": 10}, "a composition needs 11 steps, step_limit is 10"),
        ({"number_of_fields": 7, "keyboard_action_size": 7}, "the websites have 7 profile keys"),
        ({"difficulty": [1, 2]}, "both difficulty and designs"),
        ({"designs": None, "difficulty": [1, 4]}, "difficulty is 4"),
    ],
)
def test_what_cannot_be_composed_is_refused(changes, words):
    with pytest.raises(ConfigError) as caught:
        ComposedWebNavigationEnv(**{**PAIR, **changes})
    assert words in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"design": 0}, "'design' is not an option"),
        ({"designs": [0]}, "give a list of 2 designs"),
        ({"designs": [0, 2]}, "there is no design 2"),
        ({"designs": [0, 0], "profile": {"state": "NY"}}, "'state' is not a profile key"),
    ],
)
def test_wrong_options_of_a_reset_are_refused(options, words):
    env = ComposedWebNavigationEnv(**PAIR)
    with pytest.raises(ConfigError) as caught:
        env.reset(seed=0, options=options)
    assert words in f"{caught.value.message} {caught.value.hint}"


def test_a_pickled_copy_keeps_order_and_websites():
    env = ComposedWebNavigationEnv(order="reversed", seed=3, **PAIR)
    copy = pickle.loads(pickle.dumps(env))
    assert (copy.order, copy.subtasks, copy.designs, copy.step_limit) == ("reversed", 2, env.designs, 50)


def test_held_out_compositions_follow_their_seed_and_have_the_spaces_of_their_task(monkeypatch):
    monkeypatch.setattr(generator, "EPISODES", 100)  # the difficulty is measured less exactly, and sooner
    (task,), (again,), (other,) = (generator.held_out_compositions(1, seed) for seed in (7, 7, 8))
    assert task == again != other
    kwargs = json.loads(json.dumps(dict(task.kwargs)))
    with gymnasium.make(task.env_id, **kwargs) as secret, gymnasium.make(task.env_id, **dict(task.told)) as public:
        assert (secret.observation_space, secret.action_space) == (public.observation_space, public.action_space)
        assert len(secret.unwrapped.designs) == 10
        assert set(secret.unwrapped.designs) != set(public.unwrapped.designs)


@pytest.mark.group("chromium")
@pytest.mark.usefixtures("keeper")
def test_chromium_shows_the_same_composition():
    model, browser = (
        ComposedWebNavigationEnv(backend=backend, render_mode="rgb_array", **PAIR) for backend in ("model", "chromium")
    )
    with model, browser:
        seen = [env.reset(seed=4, options={"designs": [0, 1]}) for env in (model, browser)]
        for action in [*model.solution(), None]:
            for key, array in seen[0][0].items():
                np.testing.assert_allclose(array, seen[1][0][key], atol=2 / 375)
            if action is not None:
                seen = [env.step(action) for env in (model, browser)]
                assert seen[0][1:4] == seen[1][1:4]
        assert seen[1][4]["is_success"]
        assert browser.render().shape == (667, 375, 3)
