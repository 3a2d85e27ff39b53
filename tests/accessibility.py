"""Checks pages for accessibility and width in a real Chromium: axe-core, rules of WCAG 2.0 to 2.2, levels A and AA.

    def test_the_page_is_accessible(browser: Browser, page: Path) -> None:
        assert problems(browser, page) == []

``problems`` opens the page at 1280 and 390 px, light and dark. A problem prints as one line that names the page, the
view, the rule and the first elements. Tests that use it belong to the group ``chromium``. No request leaves the
machine: axe-core comes from the package ``axe-playwright-python``, and ``served`` shows a folder on the loopback
interface to pages that do not work from files.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.report.browser import Browser

TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
"""Rules of axe-core that are run; "best-practice" is not among them."""
WIDE, NARROW = 1280, 390
SCRIPT_TIMEOUT_S = 600  # the largest generated page takes a minute, and longer on a busy machine

# Colours in transition would be measured half-way. A constructed style sheet is not subject to the page's CSP.
_STILL = """
const sheet = new CSSStyleSheet();
sheet.replaceSync("*, *::before, *::after { transition: none !important; animation: none !important }");
document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
"""
_RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {runOnly: {type: "tag", values: arguments[0]}, resultTypes: ["violations"]}).then(
  found => done(found.violations.map(one => ({
    rule: one.id, impact: one.impact, help: one.help,
    elements: one.nodes.map(node => node.target.flat(9).join(" ") + (
      node.any.length ? " (" + node.any[0].message + ")" : ""))
  }))),
  error => done([{rule: "axe-core failed", impact: "critical", help: String(error), elements: []}]));
"""
# The outermost elements that reach over the right edge, without those inside something that scrolls by itself.
_TOO_WIDE = """
const width = arguments[0];
if (document.documentElement.scrollWidth <= width) return [];
const found = [];
const visit = element => {
  for (const child of element.children) {
    const style = getComputedStyle(child);
    if (style.position === "fixed") continue;
    const box = child.getBoundingClientRect();
    const clipped = ["auto", "scroll", "hidden", "clip"].includes(style.overflowX);
    if (box.width && box.right + scrollX > width + 0.5) {
      const inner = found.length;
      if (!clipped) visit(child);
      if (found.length === inner) found.push(
        child.tagName.toLowerCase() + (child.id ? "#" + child.id : "") +
        (typeof child.className === "string" && child.className ? "." + child.className.split(/\\s+/).join(".") : "") +
        " reaches " + Math.round(box.right + scrollX) + " px");
    } else if (!clipped) visit(child);
  }
};
visit(document.body);
return found.length ? found : ["the page is " + document.documentElement.scrollWidth + " px wide"];
"""


@dataclass(frozen=True)
class Problem:
    """One violated rule on one page in one view.

    Attributes:
        page: file name or address.
        view: ``"1280 px, dark"``.
        rule: id of the rule of axe-core, or ``"overflow"``.
        impact: ``"minor"`` to ``"critical"``, as axe-core rates it.
        help: the rule in one sentence.
        elements: CSS selectors of the elements, with the reason where axe-core names one.
    """

    page: str
    view: str
    rule: str
    impact: str
    help: str
    elements: tuple[str, ...]

    def __repr__(self) -> str:
        more = f" and {len(self.elements) - 3} more" if len(self.elements) > 3 else ""
        named = "; ".join(self.elements[:3])
        return f"{self.page} [{self.view}] {self.impact} {self.rule}: {self.help}: {named}{more}"


def problems(
    browser: Browser,
    page: Path | str,
    *,
    widths: Sequence[int] = (WIDE, NARROW),
    dark: Sequence[bool] = (False, True),
    prepare: str = "",
) -> list[Problem]:
    """Opens a page in every combination of width and colour scheme and returns what is wrong.

    Args:
        browser: of ``tests/report/browser.py``.
        page: a file, or an address of ``served``.
        widths: of the viewport, in CSS pixels; below 600 px a phone is emulated and the page may not scroll sideways.
        dark: whether the reader prefers dark colours.
        prepare: a function body that is run in the page before the check, e.g. to open all ``details``.
    """
    browser.driver.set_script_timeout(SCRIPT_TIMEOUT_S)
    found: list[Problem] = []
    for width in widths:
        browser.open(page, width=width, dark=dark[0])
        browser.run(_STILL)
        if prepare:
            browser.run(prepare)
        browser.run(axe_core())
        name = page if isinstance(page, str) else page.name
        for is_dark in dark:
            browser.colour_scheme(dark=is_dark)
            view = f"{width} px, {'dark' if is_dark else 'light'}"
            for one in browser.driver.execute_async_script(_RUN, list(TAGS)):
                found.append(Problem(name, view, one["rule"], str(one["impact"]), one["help"], tuple(one["elements"])))
        if width < 600 and (wide := too_wide(browser, width)):
            found.append(Problem(name, f"{width} px", "overflow", "serious", "the page scrolls sideways", tuple(wide)))
    return found


def too_wide(browser: Browser, width: int) -> list[str]:
    """Returns the elements that make the open page wider than the viewport."""
    elements: list[str] = browser.run(_TOO_WIDE, width)
    return elements


@functools.cache
def axe_core() -> str:
    """Returns the source of axe-core."""
    spec = importlib.util.find_spec("axe_playwright_python")
    assert spec is not None, "axe-core is missing: pip install -e '.[dev]'"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0], "axe.min.js").read_text(encoding="utf-8")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves a folder on the loopback interface; yields its address, which ends with a slash."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join(300)
