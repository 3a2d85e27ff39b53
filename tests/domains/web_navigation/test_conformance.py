"""The page model against Chromium: the same episodes on both, compared step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from a2perf.domains.web_navigation.browsers.backend import rows_changed
from a2perf.domains.web_navigation.browsers.chromium import ChromiumBackend
from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.page.nodes import NodeRole
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.domains.web_navigation.page.primitives import CATALOGUE, CONCEPTS, NO_PRIMITIVE
from a2perf.domains.web_navigation.sites.website import WebsiteDesign, build_site, checked_design
from a2perf.domains.web_navigation.solver import solve
from a2perf.errors import ConfigError

pytestmark = [pytest.mark.group("chromium"), pytest.mark.usefixtures("keeper")]

NAMES = [name for name in CONCEPTS if name != NO_PRIMITIVE]
PIXELS = 2.0
STEP_LIMIT = 60
GEOMETRY = slice(4, 8)


@dataclasses.dataclass
class Counts:
    """What was compared."""

    designs: int = 0
    episodes: int = 0
    steps: int = 0
    rows: int = 0
    ends: dict[str, int] = dataclasses.field(default_factory=dict)
    roles: set[str] = dataclasses.field(default_factory=set)
    farthest: float = 0.0  # px


def _designs(count: int, seed: int) -> list[WebsiteDesign]:
    """Random designs, of which every run of ``len(NAMES)`` has each primitive; some have preconditions."""
    random = np.random.default_rng(seed)
    designs: list[WebsiteDesign] = []
    while len(designs) < count:
        pages = int(random.integers(1, 4))
        # three consecutive primitives each: a sample of 20 designs covers the catalogue too
        names = [NAMES[(3 * len(designs) + offset) % len(NAMES)] for offset in range(3)]
        names += list(random.choice(NAMES, int(random.integers(0, 10))))
        places = sorted(int(place) for place in random.integers(0, pages, len(names)))
        random.shuffle(names)
        given: dict[str, Any] = {"action": names, "action_page": places}
        first = sorted(
            {CATALOGUE[name].concept for name, page in zip(names, places, strict=True) if page == 0}
            & {CATALOGUE[name].concept for name in NAMES if CATALOGUE[name].core}
        )
        if first and random.random() < 0.3:
            given["preconditions"] = {"0": first[:2]}
        design = checked_design(given)
        try:
            site = build_site(design)
            solve(site, site.draw_profile(random))
        except ConfigError:
            continue  # more elements on a page than are observed
        designs.append(design)
    return designs


class Pair:
    """Two environments that differ in nothing but what shows the page."""

    def __init__(self, designs: Sequence[WebsiteDesign]) -> None:
        arguments: dict[str, Any] = {"designs": list(designs), "num_websites": len(designs), "step_limit": STEP_LIMIT}
        self.designs = list(designs)
        self.model = WebNavigationEnv(backend="model", **arguments)
        self.browser = WebNavigationEnv(backend="chromium", **arguments)
        self.counts = Counts()

    def close(self) -> None:
        self.model.close()
        self.browser.close()

    def reset(self, design: WebsiteDesign, seed: int) -> None:
        answers = [env.reset(seed=seed, options={"design": design}) for env in (self.model, self.browser)]
        self._compare(*answers)
        assert self.model.profile == self.browser.profile
        self.counts.episodes += 1

    def step(self, action: int) -> bool:
        """Takes a step on both; returns whether the episode continues."""
        listed = self.model.elements
        if action % 250 < len(listed):
            self.counts.roles.add(self.model.site.nodes[listed[action % 250].node].role.name)
        model, browser = self.model.step(action), self.browser.step(action)
        assert model[1:4] == browser[1:4], (model[1:4], browser[1:4])
        for key in ("raw_reward", "reason"):
            assert model[4][key] == browser[4][key]
        self._compare((model[0], model[4]), (browser[0], browser[4]))
        self.counts.steps += 1
        if model[4]["reason"]:
            self.counts.ends[model[4]["reason"]] = self.counts.ends.get(model[4]["reason"], 0) + 1
        return not (model[2] or model[3])

    def _compare(self, model: tuple[Any, Any], browser: tuple[Any, Any]) -> None:
        expected, seen = model[0], browser[0]
        assert expected.keys() == seen.keys()
        ours, theirs = self.model.elements, self.browser.elements
        assert [row[:9] for row in ours] == [row[:9] for row in theirs]
        for key in expected:
            if key != "dom_features":
                assert np.array_equal(expected[key], seen[key]), key
        assert np.array_equal(expected["dom_features"][:, :4], seen["dom_features"][:, :4])
        assert np.array_equal(model[1]["action_mask"], browser[1]["action_mask"])
        boxes = np.array([row.box for row in ours]), np.array([row.box for row in theirs])
        apart = float(np.abs(boxes[0] - boxes[1]).max())
        assert apart <= PIXELS
        # features are fractions of the largest width and height: 2 px of them
        np.testing.assert_allclose(
            expected["dom_features"][:, GEOMETRY], seen["dom_features"][:, GEOMETRY], atol=PIXELS / 375.0
        )
        self.counts.rows += len(ours)
        self.counts.farthest = max(self.counts.farthest, apart)

    # --- episodes

    def solve(self, design: WebsiteDesign, seed: int) -> None:
        self.reset(design, seed)
        actions = solve(self.model.site, self.model.profile)
        for number, action in enumerate(actions):
            assert self.step(action) == (number + 1 < len(actions))
        assert self.browser.is_task_completed

    def play_random(self, design: WebsiteDesign, seed: int, steps: int) -> None:
        """Random actions that lead away from the page late rather than early, a few of them invalid."""
        random = np.random.default_rng(seed)
        self.reset(design, seed)
        for step in range(steps):
            listed = self.model.elements
            roles = [self.model.site.nodes[row.node].role for row in listed]
            leaving = {NodeRole.END, NodeRole.SUBMIT} if step < steps - 3 else set[NodeRole]()
            inert = {NodeRole.NONE, NodeRole.CLICK}
            weights = np.array(
                [0.0 if role in leaving else 0.1 if role in inert else 1.0 for role in roles], dtype=np.float64
            )
            element = int(random.choice(len(listed), p=weights / weights.sum()))
            if random.random() < 0.03:
                element = 249
            elif random.random() < 0.5 and (field := self.model.site.nodes[listed[element].node].field):
                keys = ["_dummy", *sorted(self.model.profile)]
                if not self.step(250 * keys.index(field) + element):
                    return
                continue
            if not self.step(250 * int(random.integers(0, len(self.model.profile) + 2)) + element):
                return


MakePair = Callable[[Sequence[WebsiteDesign]], Pair]


@pytest.fixture
def pair() -> Iterator[MakePair]:
    made: list[Pair] = []

    def make(designs: Sequence[WebsiteDesign]) -> Pair:
        made.append(Pair(designs))
        return made[-1]

    yield make
    for each in made:
        each.close()


def _play(pair: Pair, designs: Sequence[WebsiteDesign], rounds: int, steps: int) -> Counts:
    for number, design in enumerate(designs):
        pair.counts.designs += 1
        pair.solve(design, number)
        for again in range(rounds):
            pair.play_random(design, 1000 * again + number, steps)
    return pair.counts


def test_twenty_designs_look_and_behave_the_same_in_both(pair: MakePair) -> None:
    designs = _designs(20, seed=1)
    assert {name for design in designs for name, _ in design.parts} == set(NAMES)
    counts = _play(pair(designs), designs, rounds=1, steps=12)
    assert counts.ends["solved"] >= 20
    assert counts.roles == {role.name for role in NodeRole}


@pytest.mark.slow
def test_two_hundred_and_forty_designs_look_and_behave_the_same_in_both(pair: MakePair) -> None:
    designs = _designs(240, seed=2)
    assert {name for design in designs for name, _ in design.parts} == set(NAMES)
    counts = _play(pair(designs), designs, rounds=3, steps=25)
    print(counts)
    assert counts.steps > 10_000
    assert min(counts.ends[reason] for reason in ("solved", "wrong", "link")) > 100
    assert counts.roles == {role.name for role in NodeRole}


def test_a_next_page_keeps_what_was_typed_and_opens_what_is_asked_for(pair: MakePair) -> None:
    both = pair(
        [checked_design({"action": ["navbar", "cart", "rememberme", "city", "city"], "action_page": [0, 0, 0, 0, 1]})]
    )
    both.reset(both.designs[0], 0)

    def press(html_id: str, field: int = 0) -> bool:
        ids = [row.html_id for row in both.model.elements]
        return both.step(250 * field + ids.index(html_id))

    assert press("actionable_navbar_p0_i6")
    assert "actionable_navbar_p0_i3" in [row.html_id for row in both.browser.elements]
    assert press("actionable_navbar_p0_i6")
    assert "actionable_navbar_p0_i3" not in [row.html_id for row in both.browser.elements]
    assert press("label_rememberme")
    (focused,) = [row.html_id for row in both.browser.elements if row.focused]
    assert focused == "actionable_rememberme"
    assert press("actionable_cart_p0_i3", 1)
    assert press("actionable_city", 1)
    assert press("actionable_next_p0")
    assert not any(row.focused for row in both.browser.elements)
    (second,) = [row for row in both.browser.elements if row.html_id == "actionable_city"]
    assert second.value == ""
    assert not press("actionable_submit_p1")


def test_fields_keep_the_same_of_odd_values(show: Callable[..., ChromiumBackend]) -> None:
    site = build_site(
        checked_design({"action": ["numberofpeople", "state", "cabin", "city", "rememberme"], "action_page": [0] * 5})
    )
    values: tuple[str | bool | None, ...] = ("4", "1e1", "four", "1.", "-3", "", "٣", " 4", "+4", ".5", "1e999")
    model, browser = PageModel(), show(site, dict.fromkeys(site.fields, "x"))
    for value in (*values, "NY", "TX", "First", "1", True, False, None):
        gold = dict.fromkeys(site.fields, "x" if value is None else value)
        for backend in (model, browser):
            backend.reset(site, gold, {})
        for number, row in enumerate(model.rows()):
            if site.nodes[row.node].field:
                before = list(browser.rows())
                outcomes = [backend.act(number, value) for backend in (model, browser)]
                assert outcomes[0] == outcomes[1], (value, row)
                assert outcomes[1].changed == rows_changed(before, browser.rows())
                assert [row[:9] for row in model.rows()] == [row[:9] for row in browser.rows()]
