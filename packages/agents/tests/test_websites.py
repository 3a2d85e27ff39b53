"""Web navigation as text: the page and the instruction, text actions, and what both keep of the arrays."""

from __future__ import annotations

import json
import pickle
import re

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from a2perf.domains.web_navigation.browsers.backend import PageRow
from a2perf.domains.web_navigation.observation import Encoder, encode, new_frame
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.errors import ConfigError
from a2perf_agents.websites import TextAction, TextView, parse_action, write_instruction
from a2perf_agents.websites.actions import ActionText

FORM = {
    "action": ["header_login", "username", "rememberme", "state", "cabin", "numberofpeople", "cart", "submit"],
    "action_page": [0, 0, 0, 0, 0, 0, 0, 0],
}
STRING = r'"(?:[^"\\]|\\.)*"'
FULL_LINE = re.compile(
    rf"(\d+) (\w+)(?: ({STRING}))?(?: hint ({STRING}))?(?: (on|off)| = ({STRING}))?(?: class ({STRING}))?"
    r" at (\S+) (\S+) (\S+) (\S+)((?: \w+)*)"
)


def text_env(level: int = 1, **kwargs):
    return gymnasium.make(
        f"WebNavigation-Difficulty-0{level}-v0", **{"observation": "text", "num_websites": 1000, **kwargs}
    )


def form_env(**kwargs):
    return gymnasium.make("WebNavigation-v0", num_websites=1, designs=[FORM], **{"observation": "text", **kwargs})


def row_of(line: str) -> tuple[PageRow, bool]:
    """Reads a line of the full view back; the flag tells whether the element is new."""
    number, tag, text, hint, checked, value, classes, *box, marks = FULL_LINE.fullmatch(line).groups()
    state = None if checked is None and value is None else json.loads(value) if value else checked == "on"
    words = marks.split()
    strings = [json.loads(given) if given else None for given in (text, hint, classes)]
    return PageRow(
        int(number),
        tag,
        state,
        strings[0],
        strings[1],
        strings[2] or "",
        "",
        "focused" in words,
        "clicked" in words,
        *map(float, box),
    ), "new" in words


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_full_view_contains_all_that_the_arrays_show_of_the_page(level: int) -> None:
    env = text_env(level, observation="full_text").unwrapped
    random = np.random.default_rng(level)
    for seed in range(4):
        observation, _ = env.reset(seed=seed)
        for _ in range(12):
            arrays = env._frame.arrays
            lines = [line for line in observation["page"].split("\n")[1:] if not line.startswith("error: ")]
            rows, new = zip(*map(row_of, lines), strict=True)
            read = new_frame(env.sizes, env.encoder.padding)
            encode(read, rows, None, Encoder(env.vocabulary, env.sizes.words))
            read.features[: len(new), 2] = new
            for key in ("dom_elements", "dom_attribute_mask", "dom_elements_mask", "dom_features"):
                np.testing.assert_array_equal(read.arrays[key], arrays[key], err_msg=key)
            step, limit = re.search(r"step (\d+)/(\d+)", observation["page"]).groups()
            assert np.float32(int(step) / int(limit)) == arrays["time_step"][0]
            row = int(random.integers(read.listed))
            if random.random() < 0.5:  # whatever the action: most have no effect, some are invalid
                action = f"click {rows[row].node}"
            else:
                action = f'fill {rows[row].node} "Ann \\"B\\" \\u00eb"'
            observation, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                break


class _Rows:
    """The page model behind the interface of a browser: an episode sees only its rows."""

    def __init__(self) -> None:
        self.model = PageModel()
        self.reset, self.act, self.rows = self.model.reset, self.model.act, self.model.rows


def test_a_page_reads_the_same_from_its_rows_and_from_the_state_of_the_model() -> None:
    env = text_env(3).unwrapped
    other = env.new_episode(_Rows(), new_frame(env.sizes, env.encoder.padding))
    view = TextView(other)
    for seed in range(8):
        observation, _ = env.reset(seed=seed)
        model = env.episode.backend
        other.start(env.site, env.profile, model.texts)
        env.action_space.seed(seed)
        actions = [env.action_space.sample() for _ in range(8)] + env.solution()
        for action in actions:
            assert view.page(env._interface.error) == observation["page"]
            observation, reward, terminated, truncated, info = env.step(action)
            expected = (-1, None) if info["error"] else view.resolve(action)
            assert other.act(*expected) == (reward, terminated, truncated)
            if terminated or truncated:
                break


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ("", '"" is not an action; valid: click N, fill N "TEXT", select N "OPTION", check N, uncheck N, submit'),
        ("press 5", '"press 5" is not an action; valid: click N'),
        ("click  5", '"click  5" is not an action; valid'),
        ("click", '"click" does not have the form of click; valid: click N'),
        ("fill 13 Ann", '"fill 13 Ann" is not an action'),
        ("submit 5", '"submit 5" does not have the form of submit; valid: submit'),
        ("click 99", "click 99: the page has no element 99; valid: 5, "),
        ("click {user}", 'element {user} is a field; valid: fill {user} "TEXT"'),
        ('fill {box} "yes"', "element {box} is a checkbox; fill takes elements: "),
        ('select {state} "TX"', 'select {state} "TX": the option does not exist; valid: "CA", "NY"'),
        ("click {state}", 'element {state} is a select; valid: select {state} "OPTION"'),
        ('select {cabin} "Business"', 'the option does not exist; valid: "Economy", "First"'),
        ("check {user}", "element {user} is a textbox; check takes elements: {box}"),
        ('fill {user} "a\\qb"', "is not a JSON string"),
        ('fill {user} "a\\nb"', 'the value "a\\nb" has characters that cannot be typed'),
        ('fill {user} "\\ud800"', "cannot be typed"),
        ('fill {user} "' + "x" * 201 + '"', "a value of 201 characters; at most 200 are valid"),
        ("x" * 5000, "an action of 5000 characters; at most 1000 are valid"),
        ("click \u0665", "is not an action"),
        ("\u00eb\x00\n", '"\\u00eb\\u0000" is not an action'),
    ],
)
def test_an_invalid_action_costs_a_step_and_explains_itself(action: str, error: str) -> None:
    env = form_env()
    before, _ = env.reset(seed=1)
    numbers = {row.html_id: str(row.node) for row in env.unwrapped.elements}
    names = ("username", "user"), ("rememberme", "box"), ("state", "state"), ("cabin_i0", "cabin")
    for html_id, name in names:
        action = action.replace(f"{{{name}}}", numbers[f"actionable_{html_id}"])
        error = error.replace(f"{{{name}}}", numbers[f"actionable_{html_id}"])
    assert action in env.action_space
    after, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated) == (-0.55, False, False)
    assert error in info["error"]
    head, line, *rest = after["page"].split("\n")
    assert head == before["page"].split("\n")[0].replace("step 0", "step 1")
    assert line == f"error: {info['error']}"
    assert rest == before["page"].split("\n")[1:]
    assert after in env.observation_space
    assert len(line) < 300
    repaired, reward, *_, info = env.step("submit")
    assert info["error"] is None
    assert "error" not in repaired["page"]


def test_free_text_is_typed_and_shown_escaped() -> None:
    env = form_env()
    observation, _ = env.reset(seed=1, options={"profile": {"username": 'Zo\u00eb "Z"'}})
    assert 'Zo\\u00eb \\"Z\\"' in observation["instruction"]
    number = next(row.node for row in env.unwrapped.elements if row.html_id == "actionable_username")
    observation, reward, *_ = env.step(f'fill {number} "Ann"')
    assert reward == -0.05
    assert f'{number} textbox hint "Email or user name" = "Ann" visited' in observation["page"].split("\n")
    observation, reward, *_ = env.step(f'fill {number} "Zo\u00eb \\"Z\\""')
    assert reward == pytest.approx(0.2 - 0.05)
    assert env.unwrapped.elements[[row.node for row in env.unwrapped.elements].index(number)].value == 'Zo\u00eb "Z"'
    people = next(row.node for row in env.unwrapped.elements if row.tag == "input_number")
    observation, *_ = env.step(f'fill {people} "many"')  # a browser empties the field
    assert f'{people} number "Number of passengers" = "" visited' in observation["page"].split("\n")


def test_checkboxes_and_radio_buttons_have_actions_for_both_states() -> None:
    env = form_env()
    env.reset(seed=1)
    number = {row.html_id: row.node for row in env.unwrapped.elements}
    box, first = number["actionable_rememberme"], number["actionable_cabin_i1"]
    states = []
    for action in (f"uncheck {box}", f"check {box}", f"check {box}", f"click {box}", f"uncheck {box}"):
        page = env.step(action)[0]["page"]
        states.append(re.search(rf"^{box} checkbox .* (on|off)", page, re.MULTILINE)[1])
    assert states == ["off", "on", "on", "off", "off"]
    for action in (f"click {first}", f'select {number["actionable_cabin_i0"]} "First"'):
        page = env.step(action)[0]["page"]
        assert f'{first} radio "First" on visited clicked' in page


def test_numbers_of_elements_stay_when_a_menu_opens_and_new_ones_are_marked() -> None:
    design = {"action": ["navbar", "username"], "action_page": [0, 0]}
    env = gymnasium.make("WebNavigation-v0", num_websites=1, designs=[design], observation="text")
    before = env.reset(seed=0)[0]["page"].split("\n")[1:]
    menu = next(line for line in before if '"menu"' in line).split()[0]
    after = env.step(f"click {menu}")[0]["page"].split("\n")[1:]
    new = [line for line in after if line.endswith(" new")]
    assert [line.split('"')[1] for line in new] == ["Home", "Login", "Account", "Cart", "Checkout"]
    kept = {line.split()[0] for line in after} - {line.split()[0] for line in new}
    assert kept == {line.split()[0] for line in before}


@pytest.mark.parametrize("order", ["given", "reversed"])
def test_a_composition_names_its_websites_in_the_order_of_the_task(order: str) -> None:
    env = gymnasium.make("WebNavigation-Composed-02-v0", order=order, observation="text")
    observation, _ = env.reset(seed=0)
    named = re.findall(r"On the (\w+) website: ", observation["instruction"])
    expected = ["first", "second", "third", "fourth"]
    assert named == (expected if order == "given" else expected[::-1])
    assert ("the last one comes first" in observation["instruction"]) == (order == "reversed")
    pages = []
    for action in env.unwrapped.solution():
        pages.append(observation["page"].split("\n")[0])
        observation, *_, info = env.step(action)
    assert (info["error"], info["is_success"], info["subtasks_solved"]) == (None, True, 4)
    assert pages[0].startswith("site 1/4 page 1/")
    assert sum(page.endswith(" new") for page in pages) == sum(site.pages for site in env.unwrapped.sites) - 1
    assert [page[5] for page in pages] == sorted(page[5] for page in pages)


def test_an_instruction_is_the_same_for_a_seed_and_differs_among_phrasings() -> None:
    profile = {"name_first": "John", "rememberme": False}
    texts = {write_instruction(profile, phrasing) for phrasing in range(40)}
    assert len(texts) == 12  # six phrasings, two orders
    assert all('"John"' in text and "off" in text and text.isascii() for text in texts)
    env = text_env(2)
    one, other = ([env.reset(seed=seed)[0]["instruction"] for seed in (3, 4, 3)] for _ in range(2))
    assert one == other
    assert one[0] == one[2] != one[1]
    env.reset(seed=3)
    assert env.reset()[0]["page"]


@pytest.mark.parametrize("observation", ["text", "full_text", "screenshot"])
def test_the_environment_keeps_gymnasiums_contract(observation: str) -> None:
    env = text_env(observation=observation, num_websites=3)
    check_env(env.unwrapped, skip_render_check=True)
    copy = pickle.loads(pickle.dumps(env.unwrapped))
    first, again = env.reset(seed=5)[0], copy.reset(seed=5)[0]
    assert (first["page"], first["instruction"]) == (again["page"], again["instruction"])
    if observation == "screenshot":
        assert first["screenshot"].shape == (667, 375, 3)
        assert first["screenshot"].std() > 1
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(20)]
    assert all(parse_action(action) for action in actions)
    assert len(set(actions)) > 10


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"observation": "texts"}, "text"),
        ({"observation": "text", "compat": True}, "need array observations"),
        ({"observation": "text", "use_conceptual": True}, "need array observations"),
    ],
)
def test_wrong_arguments_are_refused(kwargs: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        text_env(**kwargs)


def test_an_action_that_is_not_a_text_is_refused() -> None:
    env = text_env(num_websites=1).unwrapped
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="12 is not a text action"):
        env.step(12)
    assert 12 not in ActionText()
    assert str(TextAction("fill", 7, 'a"b')) == 'fill 7 "a\\"b"'
    assert parse_action(' fill 7 "a\\"b"\n') == TextAction("fill", 7, 'a"b')


def test_gymnasium_makes_vectors_of_texts():
    envs = gymnasium.make_vec("WebNavigation-Difficulty-01-v0", 2, num_websites=3, observation="text")
    observations, _ = envs.reset(seed=[3, 4])
    single = gymnasium.make("WebNavigation-Difficulty-01-v0", num_websites=3, observation="text")
    assert observations["page"][1] == single.reset(seed=4)[0]["page"]
    observations, rewards, *_ = envs.step(("submit", "nonsense"))
    assert (rewards[1], "error: " in observations["page"][1]) == (-0.55, True)
    envs.close()
