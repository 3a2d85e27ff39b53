"""The built site as a reader meets it: links, search, accessibility, phones, and nothing undocumented."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from docs.building import links
from docs.building.commands import all_commands
from docs.building.gin_parameters import all_configurables
from tests.accessibility import NARROW, problems, served
from tests.report.browser import Browser

KINDS = (
    "index",
    "search",
    "tutorials/first_submission",
    "environments/index",
    "environments/quadruped_locomotion",
    "environments/CircuitTraining-ToyMacro-v0",
    "commands/run",
    "reference/metrics",
    "examples/minimal",
    "notebooks/first_evaluation",
)
"""One page of each kind."""

sphinx = pytest.mark.group("sphinx")
chromium = pytest.mark.group("sphinx", "chromium")


def pages_of(site: Path) -> list[Path]:
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)


# --- nothing is undocumented ------------------------------------------------------------------------------------------


def test_every_command_and_option_has_a_help_text() -> None:
    commands = all_commands()
    assert len(commands) > 35
    options = [
        (line, option)
        for line, command in commands.items()
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
    ]
    assert len(options) > 200
    assert [line for line, command in commands.items() if not command.help] == []
    assert [f"{line} {option.opts[0]}" for line, option in options if not (option.help or "").strip()] == []


def test_every_gin_parameter_is_described() -> None:
    parameters = [(one, item.name) for one in all_configurables() for item in one.parameters]
    assert len(parameters) > 150
    undescribed = [f"{one.name}.{name}" for one, name in parameters if not one.descriptions.get(name, "").strip()]
    assert undescribed == []


# --- links ------------------------------------------------------------------------------------------------------------


@sphinx
def test_no_link_is_dead(built: Path) -> None:
    found = links.check(built)
    assert found.internal > 10_000
    assert len(found.external) > 10
    assert found.dead == []


# --- the head of pages ------------------------------------------------------------------------------------------------


@sphinx
def test_every_page_has_a_description_a_preview_and_an_icon(built: Path) -> None:
    pages = pages_of(built)
    assert len(pages) > 90
    descriptions = {}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        (descriptions[page],) = re.findall(r'<meta name="description" content="([^"]+)">', text)
        assert f'<meta property="og:description" content="{descriptions[page]}">' in text
        assert '<meta property="og:title"' in text
        (icon,) = re.findall(r'<link rel="(?:shortcut )?icon" href="([^"?]+)', text)
        assert (page.parent / icon).is_file()
    front = descriptions[built / "index.html"]
    assert front.startswith("a2perf runs reinforcement-learning agents")
    assert max(map(len, descriptions.values())) < 300


@sphinx
def test_the_front_page_leads_each_reader_to_the_first_ten_minutes(built: Path) -> None:
    text = (built / "index.html").read_text(encoding="utf-8")
    for reader, page in (
        ("Participant", "tutorials/first_submission.html"),
        ("Organizer", "how_to/organizing_a_competition.html"),
        ("Analyst", "how_to/scores_and_papers.html"),
    ):
        card = text.partition(f"{reader}</div>")[2].partition("sd-card-title")[0]
        assert f'href="{page}"' in card, reader
    assert "pip install" in re.sub(r"<[^>]+>", "", text)
    assert text.count('<img src="_static/strip_') == 3


# --- in a browser -----------------------------------------------------------------------------------------------------


def search(browser: Browser, address: str, query: str) -> list[str]:
    """Returns the pages of the results, the first one first."""
    browser.open(f"{address}search.html?q={query}")
    browser.wait_for(
        lambda: "inished" in browser.run("return document.querySelector('.search-summary')?.innerText || ''")
    )
    hrefs = browser.run(
        "return [...document.querySelectorAll('#search-results li > a')].map(a => a.getAttribute('href'))"
    )
    return [re.sub(r"\.html.*", "", href) for href in hrefs]


@chromium
@pytest.mark.parametrize("query", ["energy", "competition", "sandbox", "metric"])
def test_search_finds_guides_before_generated_pages(built: Path, browser: Browser, query: str) -> None:
    with served(built) as address:
        found = search(browser, address, query)
    assert re.match("(tutorials|how_to|explanation)/", found[0]), found[:5]
    assert sum(bool(re.match("(tutorials|how_to|explanation)/", page)) for page in found[:5]) >= 2, found[:5]
    assert "reference/file_schemas" not in found[:10]


@chromium
def test_search_works_from_files_and_knows_flags_and_parameters(built: Path, browser: Browser) -> None:
    address = f"{built.as_uri()}/"
    assert "commands/run" in search(browser, address, "gin-bindings")[:10]  # guides come first
    assert "reference/gin_parameters" in search(browser, address, "num_inference_episodes")
    assert [line for line in browser.complaints() if "SEVERE" in line or "Uncaught" in line] == []


@chromium
@pytest.mark.parametrize("page", KINDS)
def test_each_kind_of_page_is_accessible_on_a_phone_and_fits_it(built: Path, browser: Browser, page: str) -> None:
    widths = (NARROW, 1280) if page in ("index", "search", "commands/run") else (NARROW,)
    assert problems(browser, built / f"{page}.html", widths=widths) == []


@chromium
def test_moving_pictures_rest_for_readers_who_prefer_that_and_play_on_request(built: Path, browser: Browser) -> None:
    """The browser of the tests asks for reduced motion."""
    count = "return [document.querySelectorAll('canvas.still').length, document.querySelectorAll('img[hidden]').length]"
    browser.open(built / "index.html")
    browser.wait_for(lambda: browser.run(count) == [3, 3])
    assert browser.run("return document.querySelector('button.pause').textContent") == "Play pictures"
    browser.run("document.querySelector('button.pause').click()")
    assert browser.run(count) == [0, 0]
    assert browser.run("return document.querySelector('button.pause').textContent") == "Pause pictures"


@pytest.mark.slow
@chromium
def test_every_page_is_accessible_and_fits_a_phone(built: Path, browser: Browser) -> None:
    found = [problem for page in pages_of(built) for problem in problems(browser, page)]
    assert found == []
