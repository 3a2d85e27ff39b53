"""The environment: ids, resets, options, ends, seeds, rendering, bad input."""

import json
import zipfile

import gymnasium
import numpy as np
import pytest

from a2perf.domains.arguments import EpisodeOverError
from a2perf.domains.tfa.suite_gym import create_domain
from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.page.vocabulary import LockedThreadedVocabulary, built_in_words
from a2perf.errors import ConfigError
from tests.domains.web_navigation.sample_sites import LOGIN, SHOP, row_of


@pytest.fixture
def env():
    env = WebNavigationEnv(num_websites=2, designs=[LOGIN, SHOP])
    yield env
    env.close()


@pytest.mark.parametrize("name", ["Difficulty", "DifficultyLevel"])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_both_families_of_ids_make_the_level(name, level):
    env = gymnasium.make(f"WebNavigation-{name}-0{level}-v0")
    plain = gymnasium.make("WebNavigation-v0", num_websites=1, difficulty=level)
    assert env.unwrapped.designs == plain.unwrapped.designs
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert info["action_mask"].any()


def test_platform_makes_it_through_create_domain(monkeypatch):
    env = create_domain("WebNavigation-DifficultyLevel-02-v0", num_websites=5)
    assert len(env.unwrapped.designs) == 5
    monkeypatch.setenv("NUM_WEBSITES", "3")
    assert len(create_domain("WebNavigation-v0", difficulty=1).unwrapped.designs) == 3


def test_the_seed_chooses_the_websites_and_without_another_one_the_episodes():
    def chosen(seed):
        env = WebNavigationEnv(num_websites=10, difficulty=2, seed=seed)
        return env.designs, [env.reset() and env.profile for _ in range(6)]

    first, again, other = chosen(1), chosen(1), chosen(2)
    assert first == again
    assert first[0] != other[0]
    assert first[1] != other[1]
    assert len(set(first[0])) == 10


def test_a_reset_fixes_design_and_gold_values(env):
    env.reset(seed=0, options={"design": 1, "profile": {"state": "NY", "rememberme": False}})
    assert env.profile["state"] == "NY"
    assert env.profile["rememberme"] is False
    env.reset(options={"design": {"action": ["city"], "action_page": [0]}, "profile": {"city": "Rome"}})
    assert env.profile == {"city": "Rome"}
    _, reward, *_ = env.step(250 + row_of(env.elements, "actionable_city"))
    assert reward == pytest.approx(0.95)


def test_words_of_a_user_come_behind_the_built_in_ones_and_a_loaded_table_is_used(env):
    observation, _ = env.reset(options={"design": 0, "profile": {"username": "zanzibar"}})
    assert observation["profile_value"][2, 0] == env.state["word_to_id"]["zanzibar"] == len(built_in_words())
    before, _ = env.reset(seed=1)
    table = {word: number + 100 for word, number in env.state["word_to_id"].items()}
    env.load({"word_to_id": table})
    after, _ = env.reset(seed=1)
    assert np.array_equal(after["dom_elements"], before["dom_elements"] + 100)
    assert np.array_equal(after["profile_value"], before["profile_value"] + 100)


def test_environments_share_a_given_table_and_take_over_the_newest_one_of_the_run(tmp_path, monkeypatch):
    words = LockedThreadedVocabulary()
    one, other = (WebNavigationEnv(num_websites=1, designs=[LOGIN], global_vocabulary=words) for _ in range(2))
    one.reset(options={"profile": {"username": "zanzibar"}})
    other.reset(options={"profile": {"username": "quokka zanzibar"}})
    assert words["quokka"] == words["zanzibar"] + 1
    (tmp_path / "vocabulary").mkdir()
    for name, number in (("1.json", 800), ("2.json", 900)):
        (tmp_path / "vocabulary" / name).write_text(json.dumps({"zanzibar": number}))
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    assert WebNavigationEnv(num_websites=1, designs=[LOGIN]).vocabulary["zanzibar"] == 900
    assert "zanzibar" not in WebNavigationEnv(num_websites=1, designs=[LOGIN], reload_vocab=False).vocabulary
    (tmp_path / "vocabulary" / "3.json").write_text("{")
    with pytest.raises(ConfigError, match=r"3\.json is not a vocabulary file"):
        WebNavigationEnv(num_websites=1, designs=[LOGIN])


def test_an_ended_episode_and_a_closed_environment_take_no_step(env):
    with pytest.raises(EpisodeOverError, match="before reset"):
        env.step(0)
    env.reset(options={"design": 0})
    _, reward, terminated, truncated, info = env.step(row_of(env.elements, "actionable_submit_p0"))
    assert (reward, terminated, truncated, info["reason"], info["raw_reward"]) == (-1.0, True, False, "wrong", -1.0)
    assert info["is_success"] is False
    assert not env.is_task_completed
    with pytest.raises(EpisodeOverError, match="after the end"):
        env.step(0)
    env.reset(seed=0)
    env.close()
    env.close()
    with pytest.raises(EpisodeOverError, match="closed"):
        env.reset()
    with pytest.raises(EpisodeOverError, match="closed"):
        env.step(0)


def test_observations_are_kept_unless_a_caller_lets_steps_rewrite_them(env):
    reusing = WebNavigationEnv(num_websites=2, designs=[LOGIN, SHOP])
    reusing.reuse_observations()
    (first, _), (kept, _) = reusing.reset(seed=3), env.reset(seed=3)
    before = kept["time_step"].copy()
    for action in (0, 3, 7):
        again, plain = reusing.step(action)[0], env.step(action)[0]
        assert all(np.array_equal(again[name], plain[name]) for name in plain)
        assert all(np.shares_memory(again[name], first[name]) for name in first)
    assert np.array_equal(kept["time_step"], before)


def test_conceptual_actions_touch_elements_and_legacy_flags_give_the_older_tuples():
    env = WebNavigationEnv(
        num_websites=1, designs=[SHOP], use_conceptual=True, use_legacy_reset=True, use_legacy_step=True
    )
    assert set(env.reset(seed=0)) == set(env.observation_space.spaces)
    _, reward, done, _ = env.step(row_of(env.elements, "actionable_username"))
    assert (reward, done) == (pytest.approx(1 / 6 - 0.05), False)
    assert env.step(2500)[1] == pytest.approx(-0.55)


def test_pictures_show_what_is_typed():
    old = {"base_url": "file:///x", "verbose": True, "mode": "test"}  # arguments without effect
    env = WebNavigationEnv(num_websites=1, designs=[SHOP], render_mode="rgb_array", **old)
    with pytest.raises(EpisodeOverError, match="before the first reset"):
        env.render()
    env.reset(seed=0)
    before = env.render()
    assert before.dtype == np.uint8
    assert before.shape == (667, 375, 3)
    env.step(250 * 6 + row_of(env.elements, "actionable_navbar_p0_i6"))
    assert (env.render() != before).mean() > 0.02
    assert WebNavigationEnv(num_websites=1, designs=[LOGIN]).render_mode is None


def test_designs_of_a_folder_replace_the_shipped_ones(tmp_path):
    (tmp_path / "01.json").write_text(json.dumps([LOGIN, SHOP]))
    with zipfile.ZipFile(tmp_path / "02.json.zip", "w") as archive:
        archive.writestr("02.json", json.dumps([SHOP]))
    assert len(WebNavigationEnv(num_websites=2, difficulty=1, data_dir=tmp_path).designs) == 2
    assert WebNavigationEnv(num_websites=1, difficulty=2, data_dir=tmp_path).designs[0].pages == 2
    with pytest.raises(ConfigError, match="no designs of level 3"):
        WebNavigationEnv(num_websites=1, difficulty=3, data_dir=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"difficulty": 1}, "num_websites is not given"),
        ({"num_websites": 1}, "neither difficulty nor designs is given"),
        ({"num_websites": 1, "designs": []}, "neither difficulty nor designs is given"),
        ({"num_websites": 1, "designs": [LOGIN], "difficulty": 1}, "both difficulty and designs are given"),
        ({"num_websites": 0, "difficulty": 1}, "num_websites is 0"),
        ({"num_websites": 1001, "difficulty": 1}, "there are 1000 designs"),
        ({"num_websites": 1, "difficulty": 4}, "difficulty is 4"),
        ({"num_websites": 1, "designs": [LOGIN, {"action": ["x"], "action_page": [0]}]}, "design 1: primitive 'x'"),
        ({"num_websites": 1, "difficulty": 1, "backend": "chrome"}, "did you mean 'chromium'"),
        ({"num_websites": 1, "difficulty": 1, "render_mode": "image"}, "render_mode is 'image'"),
        ({"num_websites": 1, "difficulty": 1, "dificulty": 1}, "did you mean 'difficulty'"),
        ({"num_websites": 1, "difficulty": 1, "timestep_penalty": 2}, "timestep_penalty is 2"),
        ({"num_websites": 1, "difficulty": 1, "keyboard_action_size": 5}, "keyboard_action_size is 5"),
        ({"num_websites": 1, "difficulty": 1, "profile_length": 5}, "profile_length is 5"),
        ({"num_websites": 1, "difficulty": 1, "step_limit": 0}, "step_limit is 0"),
        ({"num_websites": 1, "difficulty": 1, "seed": -1}, "seed is -1"),
        ({"num_websites": 1, "difficulty": 1, "vocab_type": "locked"}, "did you mean 'unlocked'"),
        ({"num_websites": 1, "difficulty": 1, "global_vocabulary": {}}, "global_vocabulary is {}"),
        ({"num_websites": 1, "difficulty": 1, "data_dir": "/nowhere"}, "has no designs of level 1"),
    ],
)
def test_a_wrong_argument_is_refused_with_its_value(arguments, message, monkeypatch):
    monkeypatch.delenv("NUM_WEBSITES", raising=False)
    with pytest.raises(ConfigError, match=message):
        WebNavigationEnv(**arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"desing": 0}, "did you mean 'design'"),
        ({"design": 2}, "there is no design 2"),
        ({"design": {"action": ["city"], "action_page": [-1]}}, "page -1"),
        ({"design": 0, "profile": {"city": "Rome"}}, "'city' is not a profile key of this site"),
        ({"design": 1, "profile": {"state": "TX"}}, "state is 'TX'"),
        ({"design": 1, "profile": {"rememberme": "True"}}, "rememberme is 'True'"),
        ({"design": 0, "profile": {"username": 3}}, "username is 3"),
        ({"profile": [1]}, "profile is"),
    ],
)
def test_a_wrong_option_is_refused_with_its_value(env, options, message):
    with pytest.raises(ConfigError, match=message):
        env.reset(options=options)


@pytest.mark.parametrize("action", [-1, 12500, 1.5, "a", None, np.array([1, 2])])
def test_an_action_outside_the_space_is_refused(env, action):
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="is not an action"):
        env.step(action)
