"""Spaces, the encoding of profile and elements, the masks."""

import numpy as np
import pytest

from a2perf.domains.web_navigation.environment import WebNavigationEnv
from tests.domains.web_navigation.sample_sites import LOGIN, row_of


@pytest.fixture
def env():
    env = WebNavigationEnv(num_websites=1, designs=[LOGIN])
    yield env
    env.close()


def texts(env, ids, mask):
    words = {number: word for word, number in env.vocabulary.save().items()}
    return [words[number] for number, real in zip(ids.tolist(), mask.tolist(), strict=True) if real]


def test_rows_of_the_profile_are_sorted_behind_a_dummy(env):
    observation, _ = env.reset(seed=0)
    keys = [texts(env, observation["profile_key"][row], observation["profile_key_mask"][row]) for row in range(25)]
    values = [
        texts(env, observation["profile_value"][row], observation["profile_value_mask"][row]) for row in range(25)
    ]
    assert keys[:3] == [["_dummy"], ["password"], ["username"]]
    assert values[:3] == [[], ["pass"], ["john", "@", "email", "com"]]
    assert not any(keys[3:])


def test_attributes_of_an_element_are_tag_value_text_placeholder_class(env):
    observation, _ = env.reset(seed=0)
    row = row_of(env.elements, "actionable_username")
    attributes = [
        texts(env, observation["dom_elements"][row, n], observation["dom_attribute_mask"][row, n]) for n in range(5)
    ]
    assert attributes == [["input_text"], [], [], ["email", "or", "user", "name"], ["form", "-", "control"]]
    body = [texts(env, observation["dom_elements"][0, n], observation["dom_attribute_mask"][0, n]) for n in range(5)]
    assert body == [["body"], [], [], [], ["no_class"]]


def test_masks_count_elements_and_profile_rows(env):
    observation, info = env.reset(seed=0)
    listed = len(env.elements)
    assert observation["dom_elements_mask"].sum() == listed
    assert observation["dom_profile_joint_mask"].sum() == 3 * listed
    assert observation["dom_profile_joint_mask"][:3, :listed].all()
    mask = info["action_mask"].reshape(50, 250)
    assert mask.sum() == 3 * listed
    assert mask[:3, :listed].all()
    assert env.action_space.sample(info["action_mask"]) < 750


def test_features_are_scaled_by_the_largest_width_and_height(env):
    observation, _ = env.reset(seed=0)
    row = row_of(env.elements, "actionable_username")
    element = env.elements[row]
    assert element.box == (15.0, 0.0, 345.0, 38.0)
    assert np.allclose(observation["dom_features"][row], [0, 0, 0, 0, 15 / 375, 0, 345 / 375, 38 / 667])
    assert observation["dom_features"][1, 3] == 1.0  # a div


def test_rows_that_were_not_there_before_are_new():
    design = {"action": ["navbar", "city"], "action_page": [0, 1]}
    with WebNavigationEnv(num_websites=1, designs=[design]) as env:
        observation, _ = env.reset(seed=0)
        assert observation["dom_features"][:, 2].sum() == 0
        before = {element.node for element in env.elements}
        observation, *_ = env.step(row_of(env.elements, "actionable_navbar_p0_i6"))
        new = [element.node not in before for element in env.elements]
        assert sum(new) == 12
        assert observation["dom_features"][: len(new), 2].tolist() == new
        observation, *_ = env.step(0)
        assert observation["dom_features"][:, 2].sum() == 0


def test_observations_are_not_rewritten_by_later_steps(env):
    observation, _ = env.reset(seed=0)
    kept = {key: array.copy() for key, array in observation.items()}
    env.step(250 + row_of(env.elements, "actionable_username"))
    assert all(np.array_equal(observation[key], kept[key]) for key in kept)


def test_long_pages_are_cut_and_other_sizes_hold():
    design = {"action": ["deck", "city"], "action_page": [0, 0]}
    env = WebNavigationEnv(
        num_websites=1,
        designs=[design],
        number_of_dom_elements=90,
        number_of_fields=3,
        keyboard_action_size=3,
        dom_attribute_sequence_length=4,
        profile_length=4,
    )
    observation, info = env.reset(seed=0)
    assert env.action_space.n == 90 * 3 * 2
    assert env.observation_space.contains(observation)
    assert observation["dom_elements_mask"].sum() == len(env.elements) == 70
    assert info["action_mask"].sum() == 2 * 70
