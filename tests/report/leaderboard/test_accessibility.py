"""axe-core on every kind of page of the site, and on the page of a competition; light and dark, wide and narrow."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.experiments.competition.standings import EntrantStanding, TaskStanding
from a2perf.report.competition_page import FrontPage, competition_page
from a2perf.report.leaderboard import WrittenLeaderboard
from tests.accessibility import problems
from tests.report.browser import Browser

pytestmark = pytest.mark.group("chromium")


def test_pages_of_the_leaderboard_are_accessible(browser: Browser, built: WrittenLeaderboard) -> None:
    site = built.page.parent
    pages = [built.page, next(site.glob("tasks/trot-*.html")), next(site.glob("submissions/crasher-*/index.html"))]
    assert [problem for page in pages for problem in problems(browser, page)] == []


def test_page_of_a_competition_is_accessible(browser: Browser, tmp_path: Path) -> None:
    ada = TaskStanding(task="one", held_out=True, returns=[-1.5])
    bob = TaskStanding(task="one", held_out=True, failures=[["timeout", "too slow"]])
    results = [
        EntrantStanding(number=1, name="ada", place="ada", sha256="", tasks=[ada], rank=1, mean=-1.5),
        EntrantStanding(number=2, name="bob", place="bob", sha256="", tasks=[bob]),
    ]
    page = tmp_path / "index.html"
    front = FrontPage("Cup", [("Sandbox", "bubblewrap")], "ab" * 32, "then", "now", ["a problem"], results, "cd" * 32)
    page.write_text(competition_page(front))
    assert problems(browser, page) == []
