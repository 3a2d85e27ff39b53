"""Websites by difficulty: draws candidates, solves them, and keeps those with a measured difficulty of the level.

Difficulty is the measured share of episodes that a uniform choice among valid actions (``action_mask``) solves, and the
length of the shortest solution. Every candidate has a separate seed: the result does not depend on the number of
processes, and an interrupted run resumes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from a2perf.domains.registry import HeldOutTask
from a2perf.domains.web_navigation import LEVELS
from a2perf.domains.web_navigation.browsers.backend import End, Value
from a2perf.domains.web_navigation.observation import Sizes, profile_rows
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.domains.web_navigation.page.primitives import CATALOGUE, CONCEPTS, CORE, NO_PRIMITIVE
from a2perf.domains.web_navigation.sites.website import Site, WebsiteDesign, build_site
from a2perf.domains.web_navigation.solver import solve
from a2perf.errors import ConfigError
from a2perf.storage import Journal

EPISODES = 2000  # of the random agent per design
SCREENING_EPISODES = 200
STEP_LIMIT = 25
SET_SIZE = 1000
_TRAINING_STREAM = 7_477
_BUTTONS = tuple(name for name in CONCEPTS if CATALOGUE[name].concept in ("next", "submit"))
_NEXT = tuple(name for name in _BUTTONS if CATALOGUE[name].concept == "next")
_PASSIVE = tuple(name for name in CONCEPTS if name not in (*CORE, *_BUTTONS, NO_PRIMITIVE))


@dataclass(frozen=True)
class LevelRecipe:
    """Criteria of a level.

    Attributes:
        success: least and largest share of episodes that the random agent solves.
        passive: least and largest number of other parts of a candidate.
    """

    success: tuple[float, float]
    length: tuple[int, int]
    fields: tuple[int, int]
    pages: tuple[int, int]
    passive: tuple[int, int]


LEVEL_RULES: dict[int, LevelRecipe] = {
    1: LevelRecipe(success=(0.08, 1.0), length=(2, 3), fields=(1, 2), pages=(1, 1), passive=(0, 2)),
    2: LevelRecipe(success=(0.004, 0.04), length=(3, 6), fields=(2, 4), pages=(1, 2), passive=(0, 2)),
    3: LevelRecipe(success=(0.0, 0.0005), length=(7, 18), fields=(5, 14), pages=(1, 4), passive=(2, 8)),
}


class Measured(NamedTuple):
    """A design with its measured difficulty.

    Attributes:
        candidate: number of the candidate, its seed together with that of the set.
    """

    candidate: int
    design: WebsiteDesign
    success: float
    length: int


def random_success(site: Site, random: np.random.Generator, episodes: int) -> float:
    """Returns the share of episodes that a uniform choice among valid actions solves."""
    elements = Sizes().elements
    model = PageModel(elements)
    draws = random.random((episodes, STEP_LIMIT, 2)).tolist()
    solved = 0
    for episode in draws:
        profile = site.draw_profile(random)
        values: list[Value] = [value for _, value in profile_rows(profile)]
        model.reset(site, profile, {})
        for of_row, of_element in episode:
            end = model.act(int(of_element * model.view.count), values[int(of_row * len(values))]).end
            if end is not End.RUNNING:
                solved += end is End.SOLVED
                break
    return solved / episodes


def draw_candidate(level: int, seed: int, candidate: int) -> Measured | None:
    """Draws a candidate and measures it; None if it does not belong to the level."""
    rule = LEVEL_RULES[level]
    random = np.random.default_rng([seed, level, candidate])
    design = _draw_design(rule, random)
    length = len(design.fields) + design.pages
    if not rule.length[0] <= length <= rule.length[1]:
        return None
    site = build_site.__wrapped__(design)  # not kept: each candidate is seen once
    try:
        solve(site, site.draw_profile(random))
    except ConfigError:
        return None
    least, largest = rule.success
    screened = random_success(site, random, SCREENING_EPISODES)
    # Wide bounds: few episodes estimate the share too coarsely to refuse a candidate near a limit.
    if screened < least / 3 or screened > largest * 2 + 0.01:
        return None
    success = random_success(site, random, EPISODES)
    return Measured(candidate, design, success, length) if least <= success <= largest else None


def training_designs(level: int, seed: int, count: int) -> list[WebsiteDesign]:
    """Draws different solvable designs by the rules of a level, but does not measure their difficulty.

    That takes a thousandth of the time of ``generate``, and some of them are harder than their level. The stream of
    random numbers is another one than that of ``generate``, whatever the seed; a design may come out of both.
    """
    rule, found = LEVEL_RULES[level], dict[WebsiteDesign, None]()
    # The last number must not be 0: NumPy pads seeds with zeros, and this one would be that of a candidate.
    random = np.random.default_rng([seed, level, 1, _TRAINING_STREAM])
    while len(found) < count:
        design = _draw_design(rule, random)
        if not rule.length[0] <= len(design.fields) + design.pages <= rule.length[1]:
            continue
        site = build_site.__wrapped__(design)
        try:
            solve(site, site.draw_profile(random))
        except ConfigError:
            continue
        found[design] = None
    return list(found)


def _draw_design(rule: LevelRecipe, random: np.random.Generator) -> WebsiteDesign:
    def between(bounds: tuple[int, int]) -> int:
        return int(random.integers(bounds[0], bounds[1] + 1))

    pages = between(rule.pages)
    fields = random.choice(len(CORE), between(rule.fields), replace=False)
    others = random.choice(len(_PASSIVE), between(rule.passive), replace=False)
    names = [*(CORE[number] for number in fields), *(_PASSIVE[number] for number in others)]
    random.shuffle(names)
    parts = [(name, int(random.integers(pages))) for name in names]
    for page in range(pages):
        if random.random() < 0.5:  # otherwise the page gets its default button
            parts.append(("submit" if page == pages - 1 else _NEXT[int(random.integers(len(_NEXT)))], page))
    used = max(page for _, page in parts) + 1
    return WebsiteDesign(used, tuple(parts))


def generate(
    level: int,
    seed: int,
    count: int = SET_SIZE,
    journal: Journal | None = None,
    measure: Callable[[Iterable[tuple[int, int, int]]], Iterator[Measured | None]] | None = None,
) -> Iterator[Measured]:
    """Yields the designs of a level, those of the journal first.

    Args:
        measure: maps (level, seed, candidate) to measured candidates in order, in other processes perhaps.
    """
    kept = [] if journal is None else [_from_entry(entry) for entry in journal.entries()][:count]
    seen = {measured.design for measured in kept}
    yield from kept
    following = kept[-1].candidate + 1 if kept else 0
    found = len(kept)
    if found >= count:
        return
    jobs = ((level, seed, candidate) for candidate in itertools.count(following))
    for measured in itertools.starmap(draw_candidate, jobs) if measure is None else measure(jobs):
        if measured is None or measured.design in seen:
            continue
        seen.add(measured.design)
        if journal is not None:
            candidate, design, success, length = measured
            entry = {"candidate": candidate, "parts": design.parts, "success": success, "length": length}
            journal.append(entry)
        yield measured
        found += 1
        if found >= count:
            return


def _from_entry(entry: dict[str, Any]) -> Measured:
    parts = tuple((str(name), int(page)) for name, page in entry["parts"])
    design = WebsiteDesign(max(page for _, page in parts) + 1, parts)
    return Measured(int(entry["candidate"]), design, float(entry["success"]), int(entry["length"]))


# --- held-out websites: new designs, drawn and measured like the shipped ones

WEBSITES = 5
"""Designs of a task; each episode shows one of them."""
COMPOSED_WEBSITES = 10
"""Designs of each level of a composition."""


def held_out_tasks(count: int, seed: int) -> list[HeldOutTask]:
    """Generates tasks, cycling through the levels."""
    tasks = []
    for number in range(count):
        level = LEVELS[number % len(LEVELS)]
        kwargs = {"designs": _drawn((level,), seed + number, WEBSITES), "num_websites": WEBSITES}
        public = {"difficulty": level, "num_websites": WEBSITES}
        tasks.append(HeldOutTask(f"held_out_{number + 1}_level_{level}", "WebNavigation-v0", kwargs, public))
    return tasks


def held_out_compositions(count: int, seed: int) -> list[HeldOutTask]:
    """Generates compositions of unseen websites, cycling through the composed environments.

    Args:
        seed: seed of the designs, not negative.
    """
    tasks = []
    for number in range(count):
        depth = LEVELS[number % len(LEVELS)]
        drawn = _drawn(LEVELS[:depth], seed + number, COMPOSED_WEBSITES)
        kwargs = {"designs": drawn, "difficulty": None, "num_websites": len(drawn)}
        name, env_id = f"held_out_{number + 1}_composed_{depth}", f"WebNavigation-Composed-{depth:02d}-v0"
        tasks.append(HeldOutTask(name, env_id, kwargs, {"num_websites": COMPOSED_WEBSITES}))
    return tasks


def _drawn(levels: Sequence[int], seed: int, count: int) -> list[dict[str, Any]]:
    return [one.design.as_record() for level in levels for one in generate(level, seed, count)]
