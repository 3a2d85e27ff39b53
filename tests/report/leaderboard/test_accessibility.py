"""axe-core on every kind of page of the site; light and dark, wide and narrow."""

from __future__ import annotations

import pytest

from a2perf.report.leaderboard import WrittenLeaderboard
from tests.accessibility import problems
from tests.report.browser import Browser

pytestmark = pytest.mark.group("chromium")


def test_pages_of_the_leaderboard_are_accessible(browser: Browser, built: WrittenLeaderboard) -> None:
    site = built.page.parent
    pages = [built.page, next(site.glob("tasks/trot-*.html")), next(site.glob("submissions/crasher-*/index.html"))]
    assert [problem for page in pages for problem in problems(browser, page)] == []
