"""The checks of pages find what they claim to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.accessibility import problems, served
from tests.report.browser import Browser

pytestmark = pytest.mark.group("chromium")
PAGE = (
    '<!doctype html><html lang="en"><head><title>t</title><meta name="viewport" content="width=device-width">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    "<style>@media (prefers-color-scheme: dark) {{ body {{ background: #000; color: #eee }} {dark} }}</style></head>"
    "<body><main><h1>Title</h1>{body}</main></body></html>"
)


def test_a_good_page_has_no_problems_as_a_file_and_served(browser: Browser, tmp_path: Path) -> None:
    table = "<div style='overflow-x:auto' tabindex=0><table style='width:900px'><tr><td>1</td></tr></table></div>"
    (tmp_path / "good.html").write_text(PAGE.format(dark="", body=f"<p>Text</p>{table}"))
    assert problems(browser, tmp_path / "good.html") == []
    with served(tmp_path) as address:
        assert problems(browser, f"{address}good.html", widths=(390,)) == []


def test_violations_and_overflow_are_found_in_the_views_that_have_them(browser: Browser, tmp_path: Path) -> None:
    body = '<img src="data:,"><p class="pale">Text</p><div style="width:500px">wide</div>'
    (tmp_path / "bad.html").write_text(PAGE.format(dark=".pale { color: #333 }", body=body))
    found = problems(browser, tmp_path / "bad.html")
    every = {f"{width} px, {scheme}" for width in (1280, 390) for scheme in ("light", "dark")}
    assert {one.view for one in found if one.rule == "image-alt"} == every
    assert {one.view for one in found if one.rule == "color-contrast"} == {"1280 px, dark", "390 px, dark"}
    (overflow,) = [one for one in found if one.rule == "overflow"]
    assert overflow.view == "390 px"
    assert "div reaches 508 px" in repr(overflow)


def test_a_page_is_prepared_before_the_check(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "closed.html").write_text(PAGE.format(dark="", body="<details><summary>s</summary><img></details>"))
    opened = "document.querySelectorAll('details').forEach(one => { one.open = true })"
    assert problems(browser, tmp_path / "closed.html", widths=(1280,), dark=(False,)) == []
    found = problems(browser, tmp_path / "closed.html", widths=(1280,), dark=(False,), prepare=opened)
    assert [one.rule for one in found] == ["image-alt"]
