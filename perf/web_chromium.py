"""What a step of web navigation costs in a real browser, against a straightforward Selenium program.

Both show the same page and take the same actions, in turns in one run. The baseline acts as Selenium's tutorial does
(find the element, click it or type into it) and then reads the page with five calls, one for each group of attributes;
both encode the same observation. Targets: at most 1.2 round trips a step, at least 8 times as fast, less than 60 MB of
proportional memory for each further tab. ``--json`` prints machine-readable numbers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from a2perf.domains.web_navigation.browsers.backend import PageRow
from a2perf.domains.web_navigation.browsers.browser import FLAGS
from a2perf.domains.web_navigation.browsers.browser_programs import find_programs
from a2perf.domains.web_navigation.browsers.chromium import ChromiumBackend
from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.observation import Encoder, Sizes, encode, new_frame
from a2perf.domains.web_navigation.page.html import body_of, empty_page
from a2perf.domains.web_navigation.page.nodes import NodeRole
from a2perf.domains.web_navigation.page.vocabulary import UnlockedVocabulary
from a2perf.domains.web_navigation.sites.website import Site, checked_design

PARTS = ["username", "city", "firstname", "rememberme", "state", "cc", "navbar", "cart", "deck", "footer1"]
DESIGN = checked_design({"action": PARTS, "action_page": [0] * len(PARTS)})
STEPS = 20  # an episode; the two take turns, step by step
TABS = 8

_VISIBLE = """
const listed = [], walk = (element) => {
  const box = element.getBoundingClientRect();
  if (!(box.width > 0 && box.height > 0)) return;
  listed.push(element);
  if (element.localName !== "select") [...element.children].forEach(walk);
};
walk(document.body);
return listed.map((element) => %s);
"""
READS = (
    "[element.localName, element.type || '', Number(element.dataset.n), element.id]",
    "element.type === 'checkbox' || element.type === 'radio' ? element.checked : element.value ?? null",
    "[element.children.length ? null : element.textContent.trim(), element.placeholder || null]",
    "[element.className, element === document.activeElement]",
    "(({left, top, width, height}) => [left + scrollX, top + scrollY, width, height])(element.getBoundingClientRect())",
)


class Baseline:
    """The straightforward program: one browser, one window, Selenium's own calls."""

    def __init__(self, site: Site, profile: dict[str, Any], texts: dict[str, str], folder: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        chromium, chromedriver = find_programs()
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, "--no-sandbox", f"--user-data-dir={folder / 'profile'}"):
            options.add_argument(flag)
        page = folder / "page.html"
        page.write_text(empty_page(), encoding="utf-8")
        self.driver = webdriver.Chrome(options=options, service=Service(chromedriver))
        self.driver.get(page.as_uri())
        self._shown = (*body_of(site), profile, texts)
        self.round_trips = 0
        self._frame = new_frame(Sizes(), 0)
        self._encoder = Encoder(UnlockedVocabulary(), Sizes().words)
        execute = self.driver.execute

        def counted(*arguments: Any, **named: Any) -> Any:
            self.round_trips += 1
            return execute(*arguments, **named)

        self.driver.execute = counted  # type: ignore[method-assign]

    def reset(self) -> None:
        self.driver.execute_script("reset(...arguments)", *self._shown)

    def step(self, node: int, value: Any) -> None:
        element = self.driver.find_element("css selector", f'[data-n="{node}"]')
        if element.get_attribute("type") == "text":
            element.clear()
            element.send_keys(str(value))
        else:
            element.click()
        tags, values, texts, classes, boxes = (self.driver.execute_script(_VISIBLE % read) for read in READS)
        rows = [
            PageRow(
                n, f"{tag}_{kind}" if tag == "input" else tag, value, *text, *look[:1], identity, look[1], False, *box
            )
            for (tag, kind, n, identity), value, text, look, box in zip(
                tags, values, texts, classes, boxes, strict=True
            )
        ]
        encode(self._frame, rows, None, self._encoder)


def actions(env: WebNavigationEnv, seed: int) -> list[tuple[int, int, Any]]:
    """Draws (action, node, value): text fields, checkboxes and labels, which both programs can act on."""
    random = np.random.default_rng(seed)
    roles = (NodeRole.TEXT, NodeRole.CHECK, NodeRole.LABEL)
    rows = [number for number, row in enumerate(env.elements) if env.site.nodes[row.node].role in roles]
    values = [None, *(env.profile[key] for key in sorted(env.profile))]
    drawn = []
    for _ in range(STEPS):
        row, key = int(random.choice(rows)), int(random.integers(1, len(values)))
        drawn.append((250 * key + row, env.elements[row].node, values[key]))
    return drawn


def memory_bytes(guard: int) -> int:
    """Proportional set size of a browser: its shared pages count once."""
    tree = [psutil.Process(guard), *psutil.Process(guard).children(recursive=True)]
    return sum(process.memory_full_info().pss for process in tree)


def measure_steps(episodes: int) -> dict[str, float]:
    """Times steps of both in turns."""
    env = WebNavigationEnv(designs=[DESIGN], num_websites=1, backend="chromium", step_limit=10 * STEPS)
    env.reset(seed=0)
    ours: list[float] = []
    theirs: list[float] = []
    trips = other_trips = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        texts = env.site.draw_texts(np.random.default_rng(0))
        baseline = Baseline(env.site, env.profile, texts, Path(folder))
        try:
            for episode in range(episodes + 1):
                env.reset(seed=episode)
                baseline.reset()
                chosen = actions(env, episode)
                browser = env._backend.browser  # type: ignore[union-attr]
                before, other_before = browser.round_trips, baseline.round_trips
                for action, node, value in chosen:
                    started = time.perf_counter()
                    env.step(action)
                    between = time.perf_counter()
                    baseline.step(node, value)
                    ours.append(between - started)
                    theirs.append(time.perf_counter() - between)
                trips += browser.round_trips - before
                other_trips += baseline.round_trips - other_before
                if episode == 0:  # to warm up
                    ours, theirs, trips, other_trips = [], [], 0, 0
            listed = len(env.elements)
        finally:
            baseline.driver.quit()
            env.close()
    return {
        "listed elements": listed,
        "ms per step": statistics.median(ours) * 1e3,
        "ms per step, baseline": statistics.median(theirs) * 1e3,
        "ratio of medians": statistics.median(theirs) / statistics.median(ours),
        "ratio of means": statistics.fmean(theirs) / statistics.fmean(ours),
        "round trips per step": trips / len(ours),
        "round trips per step, baseline": other_trips / len(theirs),
    }


def measure_tabs() -> dict[str, float]:
    """Measures what further tabs take."""
    environments = []
    try:
        sizes = []
        for number in range(TABS + 1):
            env = WebNavigationEnv(designs=[DESIGN], num_websites=1, backend="chromium")
            environments.append(env)
            env.reset(seed=number)
            env.step(0)
            if number in (0, TABS):
                backend = env._backend
                assert isinstance(backend, ChromiumBackend)
                assert backend.browser is not None
                time.sleep(2.0)
                sizes.append(memory_bytes(backend.browser.guard_pid))
    finally:
        for env in environments:
            env.close()
    return {"MB of one tab with its browser": sizes[0] / 1e6, "MB per further tab": (sizes[1] - sizes[0]) / TABS / 1e6}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--episodes", type=int, default=5, help=f"episodes of {STEPS} steps")
    options = parser.parse_args()
    results = measure_steps(options.episodes) | measure_tabs()
    if options.json:
        print(json.dumps(results))
    else:
        for name, value in results.items():
            print(f"{name:<34} {value:10.2f}")
    met = (
        results["round trips per step"] <= 1.2
        and results["ratio of medians"] >= 8.0
        and results["MB per further tab"] < 60.0
    )
    print("targets met" if met else "targets missed", file=sys.stderr)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
