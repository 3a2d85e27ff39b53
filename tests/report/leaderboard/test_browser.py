"""The site in a real Chromium: sorting, filtering, links, keyboard, names, width, and no complaint of the browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a2perf.report.leaderboard import WrittenLeaderboard
from tests.report.browser import Browser

pytestmark = pytest.mark.group("chromium")


def _task_page(built: WrittenLeaderboard, task: str) -> Path:
    (found,) = built.page.parent.glob(f"tasks/{task}-*.html")
    return found


@pytest.fixture
def page(browser: Browser, built: WrittenLeaderboard) -> Iterator[Any]:
    """The page of the task "trot", fresh and 1280 px wide; no test may leave a message on the console."""
    browser.open(_task_page(built, "trot"))
    yield browser.driver
    assert browser.complaints() == []


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
    for key, numeric in (
        ("inference.energy_per_decision", True),
        ("train.time_to_threshold", True),
        ("submission", False),
    ):
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
    assert page.find_element("id", "status").text.startswith("Sorted by Submission")


def test_the_keyboard_sorts_too(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    board = _board(page, "trot")
    button = _head(board, "submission").find_element("css selector", "button")
    page.execute_script("arguments[0].focus()", button)
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert _names(board) == sorted(_names(board), key=str.lower)
    page.switch_to.active_element.send_keys(Keys.SPACE)
    assert _names(board) == sorted(_names(board), key=str.lower, reverse=True)


def test_every_metric_can_be_added_and_sorted_by(page: Any) -> None:
    board = _board(page, "trot")
    values = page.execute_script("return [...document.getElementById('add').options].map(o => o.value)")
    assert len(values) > 30
    wanted = "inference.IqrAcrossRollouts"
    assert wanted in values
    _choose(page, "#add", wanted)
    known = [float(value) for value in _column(board, wanted) if value is not None]
    assert len(known) >= 4
    assert known == sorted(known)
    _head(board, wanted).find_element("css selector", "button").click()
    assert [float(value) for value in _column(board, wanted) if value is not None] == known[::-1]
    assert _head(board, wanted).get_attribute("aria-sort") == "descending"


def test_a_view_can_be_shared_by_its_address(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    wanted = "inference.IqrAcrossRollouts"
    _choose(page, "#add", wanted)
    page.find_element("id", "find").send_keys("learner" + Keys.ENTER)
    address = page.current_url
    assert "find=learner" in address
    page.get("about:blank")
    page.get(address)
    board = _board(page, "trot")
    assert _head(board, wanted).get_attribute("aria-sort") == "ascending"
    shown = [row for row in board.find_elements("css selector", "tbody tr") if row.is_displayed()]
    assert len(shown) == 2
    assert page.find_element("id", "status").text == "2 of 5 rows shown."


def test_the_first_page_has_one_ranked_table_with_links_to_the_tasks(page: Any, built: WrittenLeaderboard) -> None:
    page.get(built.page.as_uri())
    tables = page.find_elements("css selector", "section.board")
    assert [table.get_attribute("data-domain") for table in tables] == ["quadruped_locomotion"] * 2
    assert page.find_element("css selector", ".result").text.startswith("quick_learner and slow_learner share the lead")
    best = tables[0].find_elements("css selector", "td.score.best")
    assert len(best) == 2
    tables[0].find_element("css selector", ".task-links a").click()
    assert _board(page, "trot").is_displayed()


def test_the_pareto_view_is_reached_and_read_by_keyboard(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    board = _board(page, "trot")
    figure = board.find_elements("css selector", "figure")[1]  # energy per decision
    points = figure.find_elements("css selector", "svg a.point")
    names = [point.get_attribute("aria-label") for point in points]
    assert sum("on the Pareto front" in name for name in names) == 2, names  # tied, so neither beats the other
    assert sum("dominated" in name for name in names) == 2
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


def test_without_scripts_the_page_has_everything_but_sorting(browser: Browser, built: WrittenLeaderboard) -> None:
    browser.open(_task_page(built, "trot"), script=False)
    page = browser.driver
    assert not page.find_element("id", "tools").is_displayed()
    assert all(not b.is_enabled() for b in page.find_elements("css selector", "thead button"))
    assert _names(_board(page, "trot"))[0] == "quick_learner"
    assert page.find_element("link text", "leaderboard.csv")
