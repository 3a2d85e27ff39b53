"""The page in a real Chromium: it reads well at any width, hides series, reads values out, and needs no script."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from a2perf.report import write_report
from a2perf.runs import read_runs
from tests.report.rivals import write_rivals

pytest.importorskip("selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.accessibility import problems
from tests.report.browser import Browser

pytestmark = [pytest.mark.group("chromium"), pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def page(rivals_report: Path) -> Path:
    """The page of a report of three rivals with three seeds each, one of them with measured energy."""
    return rivals_report


def _chart(browser: Browser, page: Path, title: str) -> tuple[str, WebElement]:
    """Opens the page; returns the id prefix of the chart with a title, and its element."""
    browser.open(page)
    prefix = browser.run(
        "return [...document.querySelectorAll('figure.chart')]"
        ".find(f => f.querySelector('.chart-title').textContent === arguments[0]).dataset.prefix",
        title,
    )
    return str(prefix), browser.driver.find_element(By.ID, f"{prefix}-chart")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_sticks_out_and_the_console_is_silent(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width=width, dark=dark)
    for details in browser.driver.find_elements(By.TAG_NAME, "details"):
        browser.run("arguments[0].open = true", details)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
    light = browser.run("return getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in re.findall(r"\d+", light)[:3]) / 3
    assert (brightness < 60) == dark


def test_nine_algorithms_fit_a_screen_and_scroll_inside_their_box_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    write_rivals(tmp_path / "runs", 9, 2, points=6)
    page = write_report(read_runs([tmp_path / "runs"]), tmp_path / "out").page
    fits = "const b = document.querySelector('.setting .scroll'); return [b.scrollWidth, b.clientWidth]"
    browser.open(page, width=1280)
    needed, given = browser.run(fits)
    assert needed <= given
    browser.open(page, width=390)
    needed, given = browser.run(fits)
    assert needed > given
    assert browser.run("return document.documentElement.scrollWidth") <= 390


def test_a_box_hides_an_algorithm_with_its_runs_and_brings_it_back(browser: Browser, page: Path) -> None:
    prefix, figure = _chart(browser, page, "Learning curve against steps")
    visible = (
        "return [...document.querySelectorAll(`[id^='${arguments[0]}v0-s0-']`)]"
        ".map(e => e.getBoundingClientRect().width > 0)"
    )
    assert all(browser.run(visible, prefix))
    box = figure.find_element(By.CSS_SELECTOR, "fieldset input[data-series='s0-']")
    assert box.accessible_name == "ppo"
    box.click()
    hidden = browser.run(visible, prefix)
    assert len(hidden) == 5  # line, band and three runs
    assert not any(hidden)
    others = browser.run(visible.replace("-s0-", "-s1-"), prefix)
    assert all(others)
    box.send_keys(Keys.SPACE)
    assert all(browser.run(visible, prefix))


def test_a_single_run_can_be_hidden(browser: Browser, page: Path) -> None:
    prefix, figure = _chart(browser, page, "Learning curve against steps")
    figure.find_element(By.CSS_SELECTOR, ".controls summary").click()
    box = figure.find_element(By.CSS_SELECTOR, "details input[data-series='s1-r0-']")
    assert box.accessible_name == "random & <b>free</b>, seed 1"
    box.click()
    hidden = (
        "return [...document.querySelectorAll(`[id^='${arguments[0]}v0-s1-']`)]"
        ".filter(e => e.style.display === 'none').map(e => e.id)"
    )
    assert browser.run(hidden, prefix) == [f"{prefix}v0-s1-r0-line2d0"]


def test_pointing_at_a_line_reads_its_value_out(browser: Browser, page: Path) -> None:
    prefix, _ = _chart(browser, page, "Learning curve against steps")
    data = json.loads(browser.run("return document.querySelector(`#${arguments[0]}-chart .data`).textContent", prefix))
    (series,) = [entry for entry in data["series"] if entry["key"] == "s2-"]
    x, y = series["points"][30][:2]
    frame = data["views"][0]
    (left, top, width, height), (x0, x1, _), (y0, y1, _) = frame["box"], frame["x"], frame["y"]
    at = (left + width * (x - x0) / (x1 - x0), top + height * (1 - (y - y0) / (y1 - y0)))
    said = browser.run(
        """
        const plot = document.querySelector(`#${arguments[0]}-chart .plot`), svg = plot.querySelector("svg");
        plot.scrollIntoView();
        const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
        plot.dispatchEvent(new PointerEvent("pointermove", {bubbles: true,
          clientX: box.left + arguments[1] * scale, clientY: box.top + arguments[2] * scale}));
        return document.querySelector(`#${arguments[0]}-chart .readout`).textContent;
        """,
        prefix,
        *at,
    )
    label, _, rest = said.partition(": ")
    assert label == "sac"
    numbers = [float(part) for part in re.findall(r"-?[\d.]+(?:e[+-]\d+)?", rest)]
    assert numbers[:2] == pytest.approx([x, y], rel=1e-2)
    low, high = numbers[2:]
    assert low <= y <= high


def test_the_arrow_keys_read_values_out(browser: Browser, page: Path) -> None:
    _, figure = _chart(browser, page, "Returns of rollouts")
    plot, readout = (figure.find_element(By.CLASS_NAME, name) for name in ("plot", "readout"))
    browser.run("arguments[0].focus()", plot)
    plot.send_keys(Keys.ARROW_RIGHT)
    assert readout.text.startswith("ppo: return ")
    plot.send_keys(Keys.ARROW_DOWN)
    assert readout.text.startswith("random & <b>free</b>: return ")
    assert readout.get_attribute("aria-live") == "polite"
    plot.send_keys(Keys.ESCAPE)
    assert readout.text == ""


def test_the_scale_is_switched(browser: Browser, page: Path) -> None:
    _, figure = _chart(browser, page, "Decision latency (infer_once)")
    (button,) = [b for b in figure.find_elements(By.TAG_NAME, "button") if b.text == "Linear scale"]
    first, second = figure.find_elements(By.CLASS_NAME, "view")
    assert (first.is_displayed(), second.is_displayed()) == (True, False)
    button.click()
    assert (first.is_displayed(), second.is_displayed()) == (False, True)
    assert button.get_attribute("aria-pressed") == "true"
    assert browser.complaints() == []


def test_a_chart_is_saved_as_a_document_of_its_own(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path), eventsEnabled=False)
    _, figure = _chart(browser, page, "Returns of rollouts")
    figure.find_element(By.CSS_SELECTOR, ".files > summary").click()
    (button,) = [b for b in figure.find_elements(By.TAG_NAME, "button") if b.text == "Save as SVG"]
    button.click()
    saved = tmp_path / "quadruped-locomotion-dog-pace-returns.svg"
    browser.wait_for(saved.exists)
    text = saved.read_text()
    assert text.startswith("<svg")
    assert "var(--" not in text
    assert browser.complaints() == []


def test_without_a_script_all_is_there_but_the_controls(browser: Browser, page: Path) -> None:
    browser.open(page, script=False)
    figure = browser.driver.find_element(By.CSS_SELECTOR, "figure.chart")
    assert not figure.find_element(By.CLASS_NAME, "controls").is_displayed()
    assert [b for b in figure.find_elements(By.TAG_NAME, "button") if b.is_displayed()] == []
    assert figure.find_element(By.TAG_NAME, "svg").is_displayed()
    table = browser.driver.find_element(By.CSS_SELECTOR, "table.scores")
    assert "not ranked: measured and estimated" in table.text


@pytest.mark.timeout(600)  # axe-core walks some ten thousand elements
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_page_is_accessible(browser: Browser, page: Path, width: int, dark: bool) -> None:
    assert problems(browser, page, widths=(width,), dark=(dark,)) == []


def test_a_link_to_a_run_opens_its_details(browser: Browser, tmp_path: Path) -> None:
    write_rivals(tmp_path / "runs", seeds=1)
    browser.open(write_report(read_runs(tmp_path / "runs"), tmp_path / "report").page)
    link = browser.driver.find_element(By.CSS_SELECTOR, "#runs tbody a")
    target = str(link.get_attribute("href")).partition("#")[2]
    section = browser.driver.find_element(By.ID, target)
    assert not section.is_displayed()
    browser.run("arguments[0].click()", link)
    browser.wait_for(section.is_displayed)


def test_each_run_of_a_large_report_has_a_page_that_is_read_on_demand(browser: Browser, page: Path) -> None:
    numbers = "All numbers of this run"
    assert numbers not in page.read_text()
    links = set(re.findall(r'href="(run_pages/[^"]+)"', page.read_text()))
    files = {link.partition("#")[0] for link in links}
    assert len(links) == 18
    assert files == {f"run_pages/{path.name}" for path in page.parent.glob("run_pages/*")}
    for link in links:
        name, _, anchor = link.partition("#")
        text = (page.parent / name).read_text()
        assert f'id="{anchor}"' in text
        assert numbers in text
    browser.open(page)
    browser.run("arguments[0].click()", browser.driver.find_element(By.CSS_SELECTOR, "#runs tbody a"))
    browser.wait_for(lambda: "/run_pages/" in browser.driver.current_url)
    assert browser.run("return document.querySelector(':target').getBoundingClientRect().height") > 0
    assert browser.complaints() == []
    browser.run("document.querySelector('.mark a').click()")
    browser.wait_for(lambda: browser.driver.current_url == page.as_uri())


def test_legends_stay_in_print(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.command("Emulation.setEmulatedMedia", media="print")
    try:
        label = browser.driver.find_element(By.CSS_SELECTOR, "figure.chart .controls label")
        assert label.is_displayed()
        assert not label.find_element(By.TAG_NAME, "input").is_displayed()
        assert not browser.driver.find_element(By.CSS_SELECTOR, "nav.sidebar").is_displayed()
    finally:
        browser.command("Emulation.setEmulatedMedia", media="")
