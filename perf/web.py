"""Speed and memory of the page model of web navigation, compared with a plain Selenium loop in a browser.

    python perf/web.py [--json] [--seconds 3] [--browser]

Single steps go through ``env.unwrapped`` and build the observation dictionary every time; batched steps rewrite shared
arrays in one process and in two. Actions are random valid ones, and resets count in the batched numbers. Processor time
is given with wall time, because a shared machine distorts the latter. The baseline (``--browser``) fills the same
pages in a headless Chromium and reads the DOM with five calls per step.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import time
from collections.abc import Callable

import gymnasium
import numpy as np

import a2perf  # noqa: F401  registers the ids

TARGETS = {
    "single steps/s": 30_000,
    "batched steps/s, 2 processes": 150_000,
    "reset (ms)": 0.5,
    "memory of a further environment (MB)": 5.0,
}


def _timed(work: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Units per second of wall and of processor time."""
    work()
    units, wall, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        units += work()
    return units / (time.perf_counter() - wall), units / (time.process_time() - cpu)


def single(seconds: float) -> dict[str, float]:
    env = gymnasium.make("WebNavigation-Difficulty-02-v0", num_websites=10).unwrapped
    random = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    spent = {"reset": 0.0, "resets": 0.0, "step": 0.0, "steps": 0.0, "step_cpu": 0.0}
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        # valid actions are drawn outside the clock; a page change ends the list
        for _ in range(50):
            valid = np.flatnonzero(info["action_mask"])
            actions = random.choice(valid, 25).tolist()
            listed = len(valid)
            taken, wall, cpu = 0, time.perf_counter(), time.process_time()
            for action in actions:
                _, _, terminated, truncated, info = env.step(action)
                taken += 1
                if terminated or truncated:
                    break
            spent["step"] += time.perf_counter() - wall
            spent["step_cpu"] += time.process_time() - cpu
            spent["steps"] += taken
            assert listed > 0
            if terminated or truncated:
                wall = time.perf_counter()
                _, info = env.reset()
                spent["reset"] += time.perf_counter() - wall
                spent["resets"] += 1
    return {
        "single steps/s": spent["steps"] / spent["step"],
        "single steps/s of processor time": spent["steps"] / spent["step_cpu"],
        "reset (ms)": 1e3 * spent["reset"] / spent["resets"],
    }


def batched(seconds: float, num_envs: int, workers: int) -> dict[str, float]:
    many = gymnasium.make_vec(
        "WebNavigation-Difficulty-02-v0",
        num_envs=num_envs,
        vectorization_mode="vector_entry_point",
        num_websites=10,
        workers=workers,
    )
    random = np.random.default_rng(0)
    observations, _ = many.reset(seed=0)
    draws = [(random.random(num_envs), random.random(num_envs)) for _ in range(64)]
    turn = 0

    def steps() -> int:
        nonlocal turn
        for _ in range(8):
            of_element, of_row = draws[turn % len(draws)]
            turn += 1
            listed = observations["dom_elements_mask"].sum(axis=1)
            rows = observations["profile_key_mask"][:, :, 0].sum(axis=1)
            many.step((of_element * listed).astype(np.int64) + 250 * (of_row * rows).astype(np.int64))
        return 8 * num_envs

    wall, cpu = _timed(steps, seconds)
    many.close()
    name = f"batched steps/s, {workers} process{'es' if workers > 1 else ''}"
    return {name: wall, **({f"{name}, of processor time": cpu} if workers == 1 else {})}


def memory() -> float:
    """Megabytes that one more environment takes, over 20 of them."""
    kept = [gymnasium.make("WebNavigation-Difficulty-02-v0", num_websites=10) for _ in range(2)]
    for env in kept:
        env.reset(seed=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    more = [gymnasium.make("WebNavigation-Difficulty-02-v0", num_websites=10) for _ in range(20)]
    for env in more:
        env.reset(seed=0)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 / 20


def browser(seconds: float) -> float:
    """Steps per second of a plain Selenium loop: one call to act, five to read the DOM."""
    from selenium import webdriver

    from a2perf.domains.web_navigation.page.html import body_of, style_sheet
    from a2perf.domains.web_navigation.sites.designs import shipped_designs
    from a2perf.domains.web_navigation.sites.website import build_site

    options = webdriver.ChromeOptions()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    # a driver named here keeps Selenium from asking a server for one
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    body = body_of(build_site(shipped_designs(2)[0]))[1]
    try:
        driver.get("about:blank")
        driver.execute_script(
            "document.head.innerHTML = '<style>' + arguments[0] + '</style>'; document.body.innerHTML = arguments[1]",
            style_sheet(),
            body,
        )
        reads = (
            "e => e.tagName",
            "e => e.textContent",
            "e => e.value",
            "e => e.className",
            "e => e.getBoundingClientRect()",
        )

        def steps() -> int:
            driver.execute_script("const e = document.querySelector('input'); if (e) e.value = 'x'")
            for read in reads:
                driver.execute_script(f"return [...document.body.querySelectorAll('*')].map({read})")
            return 1

        return _timed(steps, seconds)[0]
    finally:
        driver.quit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--envs", type=int, default=256)
    parser.add_argument("--browser", action="store_true")
    options = parser.parse_args()
    numbers = {"memory of a further environment (MB)": memory()}
    numbers |= single(options.seconds)
    for workers in (1, 2):
        numbers |= batched(options.seconds, options.envs, workers)
    if options.browser:
        numbers["plain Selenium steps/s"] = browser(options.seconds)
        numbers["single over plain Selenium"] = numbers["single steps/s"] / numbers["plain Selenium steps/s"]
    if options.json:
        print(json.dumps(numbers, indent=2))
        return
    for name, value in numbers.items():
        target = f"   target {TARGETS[name]:,}" if name in TARGETS else ""
        print(f"{name:<55} {value:14,.3f}{target}")


if __name__ == "__main__":
    main()
