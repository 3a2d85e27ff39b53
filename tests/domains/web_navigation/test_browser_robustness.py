"""A Chromium that dies, a Python process that dies, and a host without Chromium."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from a2perf.domains.web_navigation.browsers.backend import BackendLost, PageRow
from a2perf.domains.web_navigation.browsers.chromium import ChromiumBackend
from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.domains.web_navigation.sites.website import build_site, checked_design
from a2perf.domains.web_navigation.solver import solve
from a2perf.errors import ConfigError, MissingDependency
from tests.domains.web_navigation.sample_sites import row_of
from tests.waiting import Child

LOGIN = build_site(
    checked_design({"action": ["navbar", "username", "rememberme", "submit"], "action_page": [0, 0, 0, 0]})
)
GOLD: dict[str, str | bool] = {"username": "john@email.com", "rememberme": True}
GONE_WITHIN_S = 15.0

CHILD = """
import sys
from a2perf.domains.web_navigation.browsers.chromium import ChromiumBackend
from a2perf.domains.web_navigation.sites.website import build_site, checked_design
site = build_site(checked_design({"action": ["submit"], "action_page": [0]}))
backend = ChromiumBackend()
backend.reset(site, {}, {})
print(backend.browser.guard_pid, backend.browser.folder, flush=True)
sys.stdin.readline()
"""


def _seen(rows: list[PageRow]) -> list[tuple[object, ...]]:
    return [tuple(row)[:9] for row in rows]


def _processes(guard: int) -> list[psutil.Process]:
    return [psutil.Process(guard), *psutil.Process(guard).children(recursive=True)]


def _kill_chromium(backend: ChromiumBackend) -> None:
    if backend.browser is None or backend.browser.lost:
        backend.reset(LOGIN, GOLD, {})
    assert backend.browser is not None
    for process in psutil.Process(backend.browser.guard_pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended with those killed before
            if "chromium" in process.name():
                process.send_signal(signal.SIGKILL)


def _still_there(processes: list[psutil.Process]) -> list[psutil.Process]:
    return psutil.wait_procs(processes, timeout=GONE_WITHIN_S)[1]


@pytest.fixture
def pages(
    keeper: ChromiumBackend, show: Callable[..., ChromiumBackend]
) -> Iterator[tuple[ChromiumBackend, ChromiumBackend]]:
    keeper.reset(LOGIN, GOLD, {})
    yield show(LOGIN, GOLD), show(LOGIN, GOLD)
    if keeper.browser is not None:
        keeper.reset(LOGIN, GOLD, {})  # into the browser of those two, should the test have killed the first one


@pytest.mark.group("chromium")
def test_a_killed_chromium_is_reported_restarted_and_costs_no_other_environment(
    pages: tuple[ChromiumBackend, ChromiumBackend],
) -> None:
    acting, waiting = pages
    assert acting.browser is waiting.browser
    twin = PageModel()
    twin.reset(LOGIN, GOLD, {})
    for backend in (waiting, twin):
        backend.act(row_of(backend.rows(), "actionable_username"), "john@email.com")
        backend.act(row_of(backend.rows(), "label_rememberme"), None)
    old = acting.browser
    _kill_chromium(acting)
    with pytest.raises(BackendLost, match="reset"):
        acting.act(0, None)
    with pytest.raises(BackendLost, match="reset"):
        acting.act(0, None)

    # the other page comes back as it was left, in another browser, and continues
    outcome = waiting.act(row_of(waiting.rows(), "actionable_navbar_p0_i6"), None)
    expected = twin.act(row_of(twin.rows(), "actionable_navbar_p0_i6"), None)
    assert outcome == expected
    assert _seen(list(waiting.rows())) == _seen(twin.rows())
    assert waiting.browser is not old

    acting.reset(LOGIN, GOLD, {})
    assert acting.browser is waiting.browser
    assert acting.act(row_of(acting.rows(), "actionable_username"), "john@email.com").matched == 1


@pytest.mark.group("chromium")
def test_an_environment_reports_a_killed_chromium_and_resets(keeper: ChromiumBackend) -> None:
    with WebNavigationEnv(designs=[LOGIN.design], num_websites=1, backend="chromium") as env:
        env.reset(seed=0)
        _kill_chromium(keeper)
        with pytest.raises(BackendLost, match="Chromium ended"):
            env.step(0)
        env.reset(seed=0)
        for action in solve(env.site, env.profile):
            env.step(action)
        assert env.is_task_completed
        # killed between two episodes nothing is lost at all
        _kill_chromium(keeper)
        env.reset(seed=1)
        assert [row.html_id for row in env.elements][-1] == "actionable_submit_p0"
        keeper.reset(LOGIN, GOLD, {})


@pytest.mark.group("chromium")
@pytest.mark.parametrize(
    "end",
    [
        "python killed",
        pytest.param("python ends", marks=pytest.mark.slow),
        pytest.param("guard killed", marks=pytest.mark.slow),
    ],
)
def test_no_process_of_the_browser_outlives_python(end: str, tmp_path: Path) -> None:
    with Child(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # too long a path for Chromium
    ) as child:
        assert child.stdout is not None
        first, folder = child.stdout.readline().split()
        guard = int(first)
        processes = _processes(guard)
        names = {process.name() for process in processes}
        assert "chromedriver" in names
        assert any("chromium" in name for name in names)
        assert Path(folder, "page.html").exists()
        if end == "python killed":
            child.kill()
        elif end == "guard killed":
            os.kill(guard, signal.SIGKILL)
            assert not _still_there(processes[1:])
            child.communicate("\n", timeout=300)
        else:
            child.communicate("\n", timeout=300)
        assert not _still_there(processes)
        assert not Path(folder).exists()


@pytest.mark.group("chromium")
def test_a_fork_leaves_the_browser_to_its_parent(pages: tuple[ChromiumBackend, ChromiumBackend]) -> None:
    child = os.fork()
    if child == 0:
        try:
            pages[0].close()
            pages[1].close()
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert pages[0].act(row_of(pages[0].rows(), "actionable_username"), "x").changed


@pytest.mark.group("chromium")
def test_the_browser_ends_with_its_last_page(
    keeper: ChromiumBackend, pages: tuple[ChromiumBackend, ChromiumBackend]
) -> None:
    keeper.close()
    first, second = pages
    browser = first.browser
    assert browser is not None
    processes = _processes(browser.guard_pid)
    first.close()
    assert second.act(row_of(second.rows(), "actionable_username"), "x").changed
    second.close()
    assert browser.lost
    assert not _still_there(processes)
    with pytest.raises(BackendLost):
        second.act(0, None)


def test_without_chromium_one_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingDependency, match="needs chromium and chromedriver") as raised:
        ChromiumBackend()
    assert "apt-get install chromium chromium-driver" in str(raised.value.hint)
    assert "backend='model'" in str(raised.value.hint)
    model = PageModel()
    model.reset(LOGIN, GOLD, {})
    assert model.act(row_of(model.rows(), "actionable_username"), "john@email.com").matched == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"chrome_option": []}, "did you mean 'chrome_options'"),
        ({"chrome_options": "--headless"}, "list of flags"),
        ({"chrome_options": ["headless"]}, "'headless' is not a flag"),
    ],
)
def test_bad_browser_arguments_are_named(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        ChromiumBackend(arguments)


def _memory_bytes(backend: ChromiumBackend) -> int:
    assert backend.browser is not None
    return sum(process.memory_full_info().pss for process in _processes(backend.browser.guard_pid))


@pytest.mark.slow
@pytest.mark.group("chromium")
def test_memory_of_the_browser_stays_flat_over_a_thousand_resets() -> None:
    random = np.random.default_rng(0)
    parts = ["navbar", "carousel", "deck", "cart", "cc", "firstname", "footer1", "submit"]
    sites = [build_site(checked_design({"action": parts[: 3 + n], "action_page": [0] * (3 + n)})) for n in range(5)]
    backend = ChromiumBackend()
    try:
        sizes = []
        for episode in range(1201):
            site = sites[episode % len(sites)]
            backend.reset(site, site.draw_profile(random), site.draw_texts(random))
            backend.act(int(random.integers(len(backend.rows()))), "John")
            if episode >= 200 and episode % 200 == 0:
                time.sleep(0.5)  # let the browser collect what it does while idle
                sizes.append(_memory_bytes(backend))
    finally:
        backend.close()
    assert max(sizes[1:]) < sizes[0] + 15e6, sizes
