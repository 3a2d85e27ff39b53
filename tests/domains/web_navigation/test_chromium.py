"""The Chromium backend on its own: round trips, pictures, scrolling, errors of a page, Gymnasium's own checks."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from a2perf.domains import register_environments
from a2perf.domains.web_navigation.browsers.browser import COLLECT_EVERY
from a2perf.domains.web_navigation.browsers.chromium import ChromiumBackend
from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.sites.website import build_site, checked_design
from a2perf.domains.web_navigation.solver import solve
from tests.domains.web_navigation.sample_sites import row_of

pytestmark = [pytest.mark.group("chromium"), pytest.mark.usefixtures("keeper")]

SHOP = checked_design({"action": ["city", "rememberme", "cart", "deck", "footer1"], "action_page": [0] * 5})
GOLD: dict[str, str | bool] = {"city": "Mountain View", "rememberme": True}


Show = Callable[..., ChromiumBackend]


def _row(backend: ChromiumBackend, html_id: str) -> int:
    return row_of(backend.rows(), html_id)


def test_a_step_is_one_round_trip_and_so_is_a_reset() -> None:
    with WebNavigationEnv(designs=[SHOP], num_websites=1, backend="chromium") as env:
        env.reset(seed=0)
        backend = env._backend
        assert isinstance(backend, ChromiumBackend)
        assert backend.browser is not None
        before = backend.browser.round_trips
        for action in range(20):
            env.step(action % 8)
            assert env.elements
        assert backend.browser.round_trips == before + 20
        for seed in range(COLLECT_EVERY):
            env.reset(seed=seed)
        assert backend.browser.round_trips == before + 20 + COLLECT_EVERY + 1  # and one that frees memory


def test_pages_of_one_process_share_a_browser_and_nothing_else(keeper: ChromiumBackend, show: Show) -> None:
    site = build_site(SHOP)
    texts = site.draw_texts(np.random.default_rng(0))
    first, second = show(site, GOLD, texts), show(site, GOLD, texts)
    assert first.browser is second.browser is keeper.browser
    first.act(_row(first, "actionable_city"), "Mountain View")
    outcome = second.act(_row(second, "label_rememberme"), None)
    assert outcome.matched == 0
    assert second.rows()[_row(second, "actionable_city")].value == ""
    assert first.rows()[_row(first, "actionable_city")].value == "Mountain View"
    assert not first.rows()[_row(first, "actionable_rememberme")].focused
    assert second.rows()[_row(second, "actionable_rememberme")].focused


def test_a_picture_shows_what_was_typed_and_nothing_else_changes(show: Show) -> None:
    site = build_site(checked_design({"action": ["city", "username"], "action_page": [0, 0]}))
    backend = show(site, {"city": "x", "username": "y"})
    before = backend.picture()
    assert before.shape == (667, 375, 3)
    assert before.dtype == np.uint8
    number = _row(backend, "actionable_city")
    backend.act(number, "Mountain View")
    left, top, width, height = (int(edge) for edge in backend.rows()[number].box)
    differs = (backend.picture() != before).any(axis=2)
    assert differs[top : top + height, left : left + width].sum() > 200
    differs[top : top + height, left : left + width] = False
    assert not differs.any()


def test_pictures_of_both_backends_show_the_same_site_half_filled_in() -> None:
    design = checked_design({"action": ["navbar", "city", "cabin", "cart"], "action_page": [0, 0, 1, 1]})
    dark = []  # colours and corners may differ; where something dark stands may not
    for backend in ("model", "chromium"):
        with WebNavigationEnv(designs=[design], num_websites=1, backend=backend, render_mode="rgb_array") as env:
            env.reset(seed=0)
            env.step(solve(env.site, env.profile)[0])
            dark.append(np.asarray(env.render()).mean(axis=2) < 140)
    assert dark[0].shape == dark[1].shape == (667, 375)
    assert (dark[0] & dark[1]).sum() > 0.7 * max(dark[0].sum(), dark[1].sum())


def test_scrolling_moves_no_element(show: Show) -> None:
    site = build_site(SHOP)
    backend = show(site, GOLD, site.draw_texts(np.random.default_rng(0)))
    boxes = [row.box for row in backend.rows()]
    assert backend.browser is not None
    tab = f"tabs.get({backend._tab})"
    assert backend.browser.evaluate(f"{tab}.scrollTo(0, 300); {tab}.scrollY") == 300
    backend.act(_row(backend, "group_city"), None)
    assert [row.box for row in backend.rows()] == boxes
    backend.act(_row(backend, "label_rememberme"), None)  # the focus goes to its checkbox
    assert backend.browser.evaluate(f"{tab}.scrollY") == 300


def test_an_error_of_a_script_is_raised_and_the_browser_lives(keeper: ChromiumBackend) -> None:
    assert keeper.browser is not None
    with pytest.raises(RuntimeError, match="no such thing"):
        keeper.browser.evaluate("throw new Error('no such thing')")
    assert keeper.browser.evaluate("1 + 1") == 2


def test_gymnasium_finds_no_fault() -> None:
    register_environments()
    with gymnasium.make("WebNavigation-v0", designs=[SHOP], num_websites=1, backend="chromium") as env:
        check_env(env.unwrapped, skip_render_check=True)
