"""One Chromium per process: start under a guard process, tabs, and one evaluation per call.

A page of ours, the controller, opens every tab as a pop-up. Pages that were opened so live in one renderer process and
may call each other, so one evaluation in the controller reaches any tab: no tab is ever switched to but for a
screenshot, and a further tab costs a few megabytes. Selenium speaks to ChromeDriver, which ``browser_guard`` starts and
outlives; selenium-manager is never run. Selenium is imported when the first browser starts.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import logging
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from a2perf.domains.web_navigation.browsers.backend import BackendLost
from a2perf.domains.web_navigation.browsers.browser_programs import find_programs, sandbox_is_refused
from a2perf.errors import InfrastructureError
from a2perf.system import POSIX

START_TIMEOUT_S = 60
CALL_TIMEOUT_S = 60
CLOSE_TIMEOUT_S = 10
LONGEST_PARENT = 35  # characters; a socket's path has at most 107, of which Chromium takes 45 and our folder 25
COLLECT_EVERY = 50  # websites
VIEWPORT = (375, 667)  # px
_GUARD = Path(__file__).with_name("browser_guard.py")
_log = logging.getLogger(__name__)

FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--no-first-run",
    "--no-default-browser-check",
    "--remote-debugging-pipe",  # Chromium ends when the pipe breaks
    # nothing that calls out
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-dev-shm-usage",
    # the same geometry everywhere
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--force-color-profile=srgb",
    "--force-prefers-reduced-motion",
    "--lang=en-US",
    f"--window-size={VIEWPORT[0] + 100},{VIEWPORT[1] + 200}",
    # tabs in the background work like the one in front, and share a renderer
    "--disable-popup-blocking",
    "--allow-file-access-from-files",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)

_CONTROLLER = """<!doctype html><meta charset="utf-8"><title>a2perf</title><script>
"use strict";
const tabs = new Map(), waiting = new Map();
function openTab(id, url) {
  return new Promise((resolve, reject) => {
    waiting.set(id, resolve);
    const tab = window.open(url, "a2perf" + id);
    if (tab === null) reject(new Error("the pop-up was blocked"));
    else tabs.set(id, tab);
  });
}
function ready(name, problem) { waiting.get(Number(name.slice(6)))(problem); }
function closeTab(id) { tabs.get(id).close(); tabs.delete(id); waiting.delete(id); }
</script>"""


def _temporary_folder() -> Path:
    """Makes a folder with a path short enough for Chromium's socket (Unix sockets allow about 100 characters)."""
    parent = tempfile.gettempdir()
    if len(parent) > LONGEST_PARENT and os.access("/tmp", os.W_OK):
        parent = "/tmp"
    return Path(tempfile.mkdtemp(prefix="a2perf-chromium-", dir=parent))


def _first_line(error: Exception) -> str:
    return str(getattr(error, "msg", None) or error).strip().partition("\n")[0]


class Browser:
    """A running Chromium with the tabs that were opened in it. Its methods may be called from several threads.

    Args:
        pages: name -> text of the pages that tabs show; they are written beside the controller.

    Attributes:
        folder: profile and temporary files; removed at the end.
        lost: the browser ended; every further call raises ``BackendLost``.

    Raises:
        MissingDependency: see ``find_programs``.
        InfrastructureError: the browser does not start.
    """

    def __init__(self, pages: dict[str, str], flags: Iterable[str] = ()) -> None:
        chromium, chromedriver = find_programs()
        self.round_trips = 0
        self.lost = False
        # Reentrant: a call that loses the browser holds it and runs close().
        self._lock = threading.RLock()
        self._handles: dict[int, str] = {}
        self._next_tab = 0
        self._websites = 0
        self.folder = _temporary_folder()
        control, self._control = os.pipe()
        try:
            for name, text in {"controller.html": _CONTROLLER, **pages}.items():
                (self.folder / name).write_text(text, encoding="utf-8")
            self._guard = self._start_guard(control, chromedriver)
        except BaseException:
            os.close(self._control)
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        finally:
            os.close(control)
        try:
            self._driver = self._start_session(self._read_port(), chromium, flags)
        except BaseException:
            self.close()
            raise

    def _start_guard(self, control: int, chromedriver: str) -> subprocess.Popen[bytes]:
        # Temporary files of Chromium must lie in the folder that the guard removes.
        own = {"TMPDIR": str(self.folder), "SE_AVOID_STATS": "true", "SE_OFFLINE": "true"}
        proxies = {"http_proxy", "https_proxy", "all_proxy"}
        environment = {name: value for name, value in os.environ.items() if name.lower() not in proxies}
        return subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(_GUARD), str(control), str(self.folder), str(os.getpid())),
                *(chromedriver, "--port=0"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment | own,
            # Only the read end: with the write end the guard would never see the pipe close.
            pass_fds=[control],
            # Ctrl-C in the terminal must not reach ChromeDriver and Chromium.
            start_new_session=True,
        )

    def _read_port(self) -> int:
        """Reads the port that ChromeDriver prints on its standard output."""
        assert self._guard.stdout is not None
        output, deadline = b"", time.monotonic() + START_TIMEOUT_S
        while (found := re.search(rb"started successfully on port (\d+)", output)) is None:
            if not select.select([self._guard.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise InfrastructureError(f"ChromeDriver did not start within {START_TIMEOUT_S} s")
            data = os.read(self._guard.stdout.fileno(), 4096)
            if not data:
                raise InfrastructureError(
                    "ChromeDriver ended at its start", hint="see whether `chromedriver --version` works"
                )
            output += data
        return int(found[1])

    def _start_session(self, port: int, chromium: str, flags: Iterable[str]) -> Any:
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver import ChromeOptions, Remote
        from selenium.webdriver.chrome.remote_connection import ChromeRemoteConnection
        from selenium.webdriver.common.proxy import Proxy
        from selenium.webdriver.remote.client_config import ClientConfig
        from urllib3.exceptions import HTTPError

        self._failures = (WebDriverException, HTTPError, OSError)
        options = ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, *flags, f"--user-data-dir={self.folder / 'profile'}"):
            options.add_argument(flag)
        if sandbox_is_refused():
            options.add_argument("--no-sandbox")
        address = f"http://127.0.0.1:{port}"
        direct = Proxy({"proxyType": "DIRECT"})  # never through a proxy that the environment names
        connection = ChromeRemoteConnection(
            address, client_config=ClientConfig(address, proxy=direct, timeout=CALL_TIMEOUT_S)
        )
        try:
            driver = Remote(connection, options=options)
            driver.get((self.folder / "controller.html").as_uri())
            self._controller = driver.current_window_handle
        except self._failures as error:
            raise InfrastructureError(
                f"{chromium} did not start: {_first_line(error)}",
                hint="see whether `chromium --headless --dump-dom about:blank` works; where the kernel forbids its"
                " sandbox, give browser_args={'chrome_options': ['--no-sandbox']}",
            ) from error
        return driver

    # --- tabs -------------------------------------------------------------------------------------------

    def evaluate(self, expression: str) -> Any:
        """Evaluates JavaScript in the controller and returns its value (a promise is awaited), in one round trip.

        Raises:
            BackendLost: the browser ended or does not answer.
            RuntimeError: the script threw; the text has its stack.
        """
        answer = self._command(
            "Runtime.evaluate",
            {"expression": expression, "returnByValue": True, "awaitPromise": True, "userGesture": True},
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details.get("text"))
        return answer["result"].get("value")

    def _command(self, name: str, arguments: dict[str, Any]) -> Any:
        with self._alive():
            self.round_trips += 1
            return self._driver.execute("executeCdpCommand", {"cmd": name, "params": arguments})["value"]

    def collect(self) -> None:
        """Counts a closed website, and frees the memory of closed ones from time to time.

        Otherwise the renderer keeps more than 100 MB.
        """
        self._websites += 1
        if self._websites % COLLECT_EVERY == 0:
            self._command("HeapProfiler.collectGarbage", {})

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        """Holds the lock while a block talks to the browser; raises ``BackendLost`` if it does not answer."""
        with self._lock:
            if self.lost:
                raise BackendLost("the browser of this environment has ended", hint="reset() starts another")
            try:
                yield
            except self._failures as error:
                self.close()
                reason = _first_line(error)
                _log.warning("Chromium was lost: %s", reason)
                raise BackendLost(
                    f"Chromium ended or does not answer: {reason}", hint="reset() starts another"
                ) from error

    def open_tab(self, page: str) -> int:
        """Opens a tab with that page, waits until it says ``opener.ready(name, problem)`` and returns its number."""
        with self._alive():
            tab, self._next_tab = self._next_tab, self._next_tab + 1
            before = set(self._driver.window_handles)
            problem = self.evaluate(f"openTab({tab}, {json.dumps((self.folder / page).as_uri())})")
            if problem is not None:
                raise RuntimeError(f"the page is not usable: {problem}")
            (self._handles[tab],) = set(self._driver.window_handles) - before
            self._in_tab(
                tab,
                "Emulation.setDeviceMetricsOverride",
                {"width": VIEWPORT[0], "height": VIEWPORT[1], "deviceScaleFactor": 1, "mobile": False},
            )
        return tab

    def _in_tab(self, tab: int, name: str, arguments: dict[str, Any]) -> Any:
        self._driver.switch_to.window(self._handles[tab])
        answer = self._driver.execute("executeCdpCommand", {"cmd": name, "params": arguments})["value"]
        self._driver.switch_to.window(self._controller)
        return answer

    def screenshot(self, tab: int) -> bytes:
        """Returns the viewport of the tab as PNG.

        Raises:
            BackendLost: the browser ended or does not answer.
        """
        with self._alive():
            return base64.b64decode(self._in_tab(tab, "Page.captureScreenshot", {"format": "png"})["data"])

    def close_tab(self, tab: int) -> int:
        """Closes the tab, does nothing when the browser is gone, and returns how many tabs are left."""
        with self._lock:
            if not self.lost and tab in self._handles:
                del self._handles[tab]
                try:
                    self.evaluate(f"closeTab({tab})")
                except BackendLost:
                    return 0
            return len(self._handles)

    # --- the end ----------------------------------------------------------------------------------------------------

    @property
    def guard_pid(self) -> int:
        """Process id of the guard, the ancestor of every process of this browser."""
        return self._guard.pid

    def forget(self) -> None:
        """Drops the parent's browser in a forked child; it keeps running for the parent."""
        # Another thread of the parent may have held the lock at the fork; nobody here would release it.
        self._lock = threading.RLock()
        if not self.lost:
            self.lost = True
            os.close(self._control)

    def close(self) -> None:
        """Ends Chromium and ChromeDriver and removes their files; may be called twice."""
        with self._lock:
            if self.lost:
                return
            self.lost = True
            self._handles.clear()
            os.close(self._control)
            if self._guard.stdout is not None:
                self._guard.stdout.close()
            try:
                self._guard.wait(CLOSE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                _log.warning("the guard of Chromium did not end within %d s", CLOSE_TIMEOUT_S)
            shutil.rmtree(self.folder, ignore_errors=True)  # the guard may have been killed


_shared: dict[frozenset[str], Browser] = {}
_shared_lock = threading.RLock()


def shared_browser(pages: Callable[[], dict[str, str]], flags: frozenset[str] = frozenset()) -> Browser:
    """Returns the browser of this process with these flags, started when there is none or the last one was lost."""
    with _shared_lock:
        browser = _shared.get(flags)
        if browser is None or browser.lost:
            browser = _shared[flags] = Browser(pages(), sorted(flags))
        return browser


def release(browser: Browser, tab: int) -> None:
    """Closes a tab; the browser ends with its last tab."""
    with _shared_lock:
        if browser.close_tab(tab) == 0:
            browser.close()


def _after_fork() -> None:
    """The browsers belong to the parent: the child lets go of the pipes, or the parent's death would not be seen."""
    global _shared_lock
    _shared_lock = threading.RLock()
    for browser in _shared.values():
        browser.forget()
    _shared.clear()


def _close_all() -> None:
    for browser in _shared.values():
        browser.close()


if POSIX:
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_all)
