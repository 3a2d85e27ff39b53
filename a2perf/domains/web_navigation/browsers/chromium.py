"""The backend that shows pages in a real Chromium: a tab of the browser of this process, and one round trip per step.

Tabs of one process share one browser. When that browser dies, the environment that was acting gets an error; the
others lost only a page, which is rebuilt in a new browser by repeating their actions since the reset.
"""

from __future__ import annotations

import io
import json
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from a2perf.domains.arguments import refuse_unknown
from a2perf.domains.web_navigation.browsers.backend import ActionOutcome, BackendLost, End, PageRow, Value, rows_changed
from a2perf.domains.web_navigation.browsers.browser import FLAGS, Browser, release, shared_browser
from a2perf.domains.web_navigation.browsers.browser_programs import find_programs, sandbox_is_refused
from a2perf.domains.web_navigation.page.html import body_of, empty_page
from a2perf.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from a2perf.domains.web_navigation.sites.website import Site

_PAGE = "page.html"
# what older configurations pass; only chrome_options still means something
_BROWSER_ARGS = (
    *("threading", "chrome_options", "cache_state", "wait_ms"),
    *("block_on_reset", "refresh_freq", "initial_mode"),
)


def _further_flags(browser_args: Mapping[str, Any] | None) -> frozenset[str]:
    """Returns the flags in ``browser_args`` that are not set anyway.

    Raises:
        ConfigError: an unknown key, or flags that are not strings beginning with ``--``.
    """
    refuse_unknown(browser_args or (), _BROWSER_ARGS, "a browser argument")
    flags = (browser_args or {}).get("chrome_options") or ()
    if isinstance(flags, str) or not isinstance(flags, Collection):
        raise ConfigError(f"chrome_options is {flags!r}", hint="give a list of flags")
    for flag in flags:
        if not isinstance(flag, str) or not flag.startswith("--"):
            raise ConfigError(f"{flag!r} is not a flag of Chromium", hint="flags begin with --")
    # it is always headless, and without its sandbox where it cannot have one
    always = {*FLAGS, "--no-sandbox"} if sandbox_is_refused() else set(FLAGS)
    return frozenset(flag for flag in flags if not flag.startswith("--headless")) - always


class ChromiumBackend:
    """A tab that shows websites.

    Args:
        browser_args: ``chrome_options`` holds further flags; the other keys of older configurations have no effect.

    Attributes:
        browser: of the tab; None before the first reset and after ``close``.

    Raises:
        MissingDependency: Chromium, ChromeDriver or Selenium is not installed.
        ConfigError: an unknown browser argument.
    """

    def __init__(self, browser_args: Mapping[str, Any] | None = None) -> None:
        self._flags = _further_flags(browser_args)
        find_programs()
        self.browser: Browser | None = None
        self._tab = -1
        self._rows: Sequence[PageRow] = ()
        self._last: dict[int, PageRow] = {}  # the last row that the tab sent of each element
        self._listed: list[int] = []
        self._shown: tuple[Site, Mapping[str, str | bool], Mapping[str, str]] | None = None
        self._done: list[tuple[int, Value]] = []
        self._release: weakref.finalize[..., ChromiumBackend] | None = None

    def reset(self, site: Site, profile: Mapping[str, str | bool], texts: Mapping[str, str]) -> None:
        """Shows a site, in a new browser if the last one was lost (once more if it is lost here).

        Raises:
            MissingDependency: Chromium, ChromeDriver or Selenium is not installed.
            InfrastructureError: Chromium does not start.
            BackendLost: a new Chromium was lost at once.
        """
        self._shown, self._done = (site, profile, texts), []
        try:
            self._show()
        except BackendLost:
            self._show()

    def _show(self) -> None:
        assert self._shown is not None
        site, profile, texts = self._shown
        if self.browser is None or self.browser.lost:
            if self._release is not None:
                self._release()
            browser = shared_browser(lambda: {_PAGE: empty_page()}, self._flags)
            self._tab = browser.open_tab(_PAGE)
            self.browser = browser
            self._release = weakref.finalize(self, release, browser, self._tab)
            self._release.atexit = False  # then the browser ends as a whole
        self.browser.collect()
        # A reset of the page forgets what it has sent, too.
        self._last.clear()
        self._evaluate("reset", *body_of(site), dict(profile), dict(texts))

    def _evaluate(self, function: str, *arguments: Any) -> tuple[int, int]:
        assert self.browser is not None
        # A JSON list without its brackets is a list of arguments in JavaScript.
        call = f"tabs.get({self._tab}).{function}({json.dumps(arguments)[1:-1]})"
        end, matched, listed, changed = json.loads(self.browser.evaluate(call))
        for row in changed:
            self._last[row[0]] = PageRow(*row)
        self._listed = self._listed if listed is None else listed
        self._rows = [self._last[node] for node in self._listed]
        return end, matched

    def act(self, row: int, value: Value) -> ActionOutcome:
        """Acts on a listed element and reads the whole page, in one round trip.

        Raises:
            BackendLost: the browser was lost during this action; ``reset`` starts another.
        """
        self._require_page()
        before, node = self._rows, self._rows[row].node
        try:
            end, matched = self._evaluate("act", node, value)
        except BackendLost:
            self._shown = None
            raise
        self._done.append((node, value))
        return ActionOutcome(rows_changed(before, self._rows), matched, End(end))

    def _require_page(self) -> None:
        """Brings a lost page back in a new browser: pages are deterministic."""
        if self._shown is None or self.browser is None:
            raise BackendLost("the page is gone", hint="call reset()")
        if not self.browser.lost:
            return
        try:
            self._show()
            for node, value in self._done:
                self._evaluate("act", node, value)
        except BackendLost:
            self._shown = None
            raise

    def rows(self) -> Sequence[PageRow]:
        """Returns the listed elements as the last action left them; no round trip."""
        return self._rows

    def picture(self) -> NDArray[np.uint8]:
        """Takes a picture of the viewport, RGB, shape (667, 375, 3).

        Raises:
            BackendLost: the browser was lost.
        """
        import numpy as np
        from PIL import Image

        self._require_page()
        assert self.browser is not None
        return np.asarray(Image.open(io.BytesIO(self.browser.screenshot(self._tab))).convert("RGB"))

    def close(self) -> None:
        """Closes the tab; the browser ends with its last tab."""
        if self._release is not None:
            self._release()
        self.browser = self._release = self._shown = None
