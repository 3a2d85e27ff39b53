"""The site in a real Chromium: sorting, filtering, links, keyboard, names, width, and no complaint of the browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a2perf.report.leaderboard import LeaderboardFiles

pytestmark = pytest.mark.group("chromium")
NOTHING_WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless Chromium of its own; one for the module, since starting it takes seconds."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
        "--no-first-run", "--hide-scrollbars", "--force-prefers-reduced-motion", "--lang=en-US",
        f"--user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser: Any, built: LeaderboardFiles) -> Iterator[Any]:
    """The leaderboard, fresh and 1280 px wide; no test may leave a message on the console."""
    _resize(browser, 1280)
    browser.get(built.page.as_uri())
    yield browser
    # Chromium's own pages may have been slow without a network
    assert [entry for entry in browser.get_log("browser") if not entry["message"].startswith("chrome://")] == []


def _resize(browser: Any, width: int) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )


def _board(browser: Any, task: str) -> Any:
    return browser.find_element("css selector", f'section.board[data-task="{task}"]')


def _names(board: Any) -> list[str]:
    return [link.text for link in board.find_elements("css selector", "table.ranking tbody th a")]


def _column(board: Any, key: str) -> list[str | None]:
    script = """
      const table = arguments[0].querySelector("table.ranking");
      const place = [...table.tHead.rows[0].cells].findIndex(head => head.dataset.key === arguments[1]);
      return [...table.tBodies[0].rows].map(row => row.cells[place].dataset.v ?? null);"""
    return list(board.parent.execute_script(script, board, key))


def _head(board: Any, key: str) -> Any:
    return board.find_element("css selector", f'table.ranking th[data-key="{key}"]')


def _choose(browser: Any, selector: str, value: str) -> None:
    from selenium.webdriver.support.select import Select

    Select(browser.find_element("css selector", selector)).select_by_value(value)


def test_the_default_order_is_the_score(page: Any) -> None:
    board = _board(page, "trot")
    assert _names(board)[:2] == ["quick_learner", "slow_learner"]
    assert _head(board, "score").get_attribute("aria-sort") == "descending"
    ranks = [cell.text for cell in board.find_elements("css selector", "table.ranking td.rank")]
    assert ranks == ["1–2", "1–2", "3", "4", "–"]


def test_a_click_sorts_and_another_turns_it_with_missing_values_last(page: Any) -> None:
    board = _board(page, "trot")
    for key, numeric in (("inference.energy_gross", True), ("train.time_to_threshold", True), ("submission", False)):
        button = _head(board, key).find_element("css selector", "button")
        seen = set()
        for _ in range(2):
            button.click()
            state = _head(board, key).get_attribute("aria-sort")
            seen.add(state)
            values = _column(board, key)
            known = [float(v) if numeric else v for v in values if v is not None]  # type: ignore[misc]
            assert known == sorted(known, reverse=state == "descending")  # type: ignore[type-var]
            assert all(value is None for value in values[len(known) :])
            others = board.find_elements("css selector", 'th[aria-sort="ascending"], th[aria-sort="descending"]')
            assert len(others) == 1
        assert seen == {"ascending", "descending"}
    assert None in _column(board, "train.time_to_threshold")
    assert page.find_element("id", "said").text.startswith("Sorted by Submission")


def test_sorting_is_by_number_not_by_text(page: Any) -> None:
    board = _board(page, "trot")
    page.execute_script(
        """const cells = [...arguments[0].querySelectorAll("table.ranking tbody tr")].map(row => row.cells[3]);
           [9, 10, 100, 1e-7, 2].forEach((value, at) => { cells[at].dataset.v = String(value); });""",
        board,
    )
    _head(board, "inference.returns").find_element("css selector", "button").click()
    assert [float(value or "nan") for value in _column(board, "inference.returns")] == [100, 10, 9, 2, 1e-7]


def test_the_keyboard_sorts_too(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    board = _board(page, "trot")
    button = _head(board, "submission").find_element("css selector", "button")
    page.execute_script("arguments[0].focus()", button)
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert _names(board) == sorted(_names(board), key=str.lower)
    page.switch_to.active_element.send_keys(Keys.SPACE)
    assert _names(board) == sorted(_names(board), key=str.lower, reverse=True)


def test_every_metric_can_be_sorted_by(page: Any) -> None:
    board = _board(page, "trot")
    values = page.execute_script("return [...document.getElementById('sort-by').options].map(o => o.value)")
    assert len(values) > 40
    wanted = "inference.IqrAcrossRollouts"
    assert wanted in values
    _choose(page, "#sort-by", wanted)
    known = [float(value) for value in _column(board, wanted) if value is not None]
    assert len(known) >= 4
    assert known == sorted(known)
    page.find_element("id", "turn").click()
    assert [float(value) for value in _column(board, wanted) if value is not None] == known[::-1]
    assert _head(board, wanted).get_attribute("aria-sort") == "descending"
    _choose(page, "#sort-by", "score")
    assert _names(board)[0] == "quick_learner"


def test_filters_hide_the_tables_that_do_not_match(page: Any) -> None:
    assert len([b for b in page.find_elements("css selector", "section.board") if b.is_displayed()]) == 2
    _choose(page, '[data-filter="task"]', "pace")
    shown = [
        b.get_attribute("data-task") for b in page.find_elements("css selector", "section.board") if b.is_displayed()
    ]
    assert shown == ["pace"]
    assert page.find_element("id", "said").text == "1 of 2 tables shown."
    _choose(page, '[data-filter="provenance"]', "estimated")
    assert _board(page, "pace").is_displayed()
    _choose(page, '[data-filter="task"]', "")
    assert _board(page, "trot").is_displayed()


def test_the_pareto_view_is_reached_and_read_by_keyboard(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    board = _board(page, "trot")
    figure = board.find_element("css selector", "figure")
    points = figure.find_elements("css selector", "svg a.point")
    names = [point.get_attribute("aria-label") for point in points]
    assert sum("on the front" in name for name in names) == 1
    assert sum("dominated" in name for name in names) == 1
    rows = figure.find_elements("css selector", "table.front tbody tr")
    assert [row.find_element("css selector", "a").text for row in rows] == ["quick_learner"]
    assert figure.find_element("css selector", "svg").get_attribute("role") == "group"
    fills = page.execute_script(
        "return arguments[0].map(a => getComputedStyle(a.querySelector('use, path')).fill)", points
    )
    assert len(set(fills)) == 2
    page.execute_script("arguments[0].focus()", points[0])
    assert page.switch_to.active_element.get_attribute("aria-label") == names[0]
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert "/submissions/" in page.current_url
    assert page.find_element("css selector", "h1").text in names[0]


def test_a_submission_is_one_click_away_and_back(page: Any) -> None:
    board = _board(page, "trot")
    name = _names(board)[2]
    board.find_elements("css selector", "table.ranking tbody th a")[2].click()
    assert page.find_element("css selector", "h1").text == name
    assert "<script>" in name
    assert page.title != "owned"
    assert page.find_elements("xpath", "//*[contains(text(), 'hashes match')]")
    page.find_element("css selector", ".standing a").click()
    assert page.current_url.split("#")[1] == _board(page, "trot").get_attribute("id")


def test_everything_that_can_be_used_has_a_name(page: Any, built: LeaderboardFiles) -> None:
    submission = next(built.page.parent.glob("submissions/crasher-*/index.html"))
    for address in (built.page.as_uri(), submission.as_uri()):
        page.get(address)
        for element in page.find_elements("css selector", "a, button, select, [role=region], section, nav, svg"):
            if element.is_displayed():
                assert element.accessible_name.strip(), element.get_attribute("outerHTML")[:200]
        for table in page.find_elements("css selector", "table"):
            assert table.accessible_name.strip() or not table.is_displayed()
        assert len(page.find_elements("css selector", "h1")) == 1


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_screen(page: Any, built: LeaderboardFiles, width: int) -> None:
    _resize(page, width)
    for path in (built.page, *built.page.parent.glob("submissions/*/index.html")):
        page.get(path.as_uri())
        assert page.execute_script(NOTHING_WIDER) <= 0, path


def test_without_scripts_the_page_has_everything_but_sorting(page: Any, built: LeaderboardFiles) -> None:
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.get(built.page.as_uri())
        assert not page.find_element("id", "tools").is_displayed()
        assert all(not b.is_enabled() for b in page.find_elements("css selector", "thead button"))
        assert _names(_board(page, "trot"))[0] == "quick_learner"
        assert page.find_element("link text", "leaderboard.csv")
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_dark_and_light_differ_in_colours_only(page: Any, tmp_path: Path) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        page.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        ink = page.execute_script(
            "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor, document.body.scrollHeight]"
        )
        colours[scheme] = ink
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert colours["light"][:2] != colours["dark"][:2]
    assert colours["light"][2] == colours["dark"][2]
