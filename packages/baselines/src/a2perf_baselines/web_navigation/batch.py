"""Hundreds of web episodes that step in one call and show the tables of ``pairs``, for learners in the same process.

It implements ``learning.batch.BatchEnvironment``. Pages behave as in the environment: each episode has a
``PageModel``. What an observation shows of it is written by one compiled loop over all episodes; texts are compared
once per page and profile key. Every design is prepared by the constructor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.compilation import compiled
from a2perf.domains.web_navigation.browsers.backend import Value
from a2perf.domains.web_navigation.observation import Sizes
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.domains.web_navigation.page.primitives import GOLD
from a2perf.domains.web_navigation.page.vocabulary import DUMMY_KEY, VISITED, tokenize
from a2perf.domains.web_navigation.reward import RAW, Reward
from a2perf.domains.web_navigation.sites.site_tables import PageView, SiteTables
from a2perf.domains.web_navigation.sites.website import Site, WebsiteDesign, build_site
from a2perf_baselines.learning.batch import BatchStep
from a2perf_baselines.web_navigation.pairs import FEATURES, FIXED, NUMBERS, PAGE_FEATURES, ElementTexts, PagePairs

STEP_LIMIT = 25
_CHOICES = max(len(gold) for gold in GOLD.values())
_SOLVED = 2  # End.SOLVED


class FinishedEpisodes(NamedTuple):
    """Episodes that ended, one number per episode.

    Attributes:
        members: place in the batch, int64.
        designs: number of the design, int64.
        returns: sum of rewards, float64.
        lengths: steps, int64.
    """

    members: NDArray[np.int64]
    designs: NDArray[np.int64]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    solved: NDArray[np.bool_]


class WebBatch:
    """Episodes on some designs.

    An action is a row of the table. Observations are ``features`` (float32, shape (count, rows, 8)), ``numbers``
    (int16, (count, rows, 3)), ``page`` (float32, (count, 4)) and ``rows`` (int32, (count,)), the number of valid rows;
    further rows are undefined. The next call rewrites the arrays. An episode that reaches the step limit counts as
    terminated: the limit is part of the task, and the observation shows the time.

    Args:
        rows: rows of the tables; by default as many as the largest page needs. Further candidates cannot be chosen.
        in_order: the first episodes after ``reset`` show the designs in order instead.
        step_limit: steps until an episode ends.

    Raises:
        ValueError: there are no designs.
    """

    def __init__(
        self,
        designs: Sequence[WebsiteDesign],
        count: int,
        rows: int | None = None,
        *,
        in_order: bool = False,
        reward: Reward | None = None,
        step_limit: int = STEP_LIMIT,
    ) -> None:
        if not designs:
            raise ValueError("there are no designs")
        self.count, self.step_limit = count, step_limit
        self._reward, self._in_order = reward or Reward(), in_order
        self._pool = _PairPool()
        self._sites = [_PreparedSite(design, self._pool) for design in designs]
        self.rows = self._pool.largest if rows is None else rows
        self._models = [PageModel(Sizes().elements) for _ in range(count)]
        nodes = max(len(one.site.nodes) for one in self._sites)
        self._visited, self._clicked = (np.zeros((count, nodes), np.uint8) for _ in range(2))
        self._values = np.zeros((count, nodes), np.int32)
        keys = 1 + max(len(one.site.fields) for one in self._sites)
        self._choices = np.zeros((count, keys), np.int64)
        self._gold = np.zeros((count, keys), np.int32)
        self._profile: list[list[Value]] = [[] for _ in range(count)]
        self._views: list[PageView | None] = [None] * count
        self._pages, self._steps = (np.zeros(count, np.int64) for _ in range(2))
        self._potential, self._returns = (np.zeros(count) for _ in range(2))
        self._fields = np.ones(count)
        self._shown = np.zeros(count, np.int64)
        self._finished: list[FinishedEpisodes] = []
        self.observations: dict[str, NDArray[Any]] = {
            "features": np.zeros((count, self.rows, len(FEATURES)), np.float32),
            "numbers": np.zeros((count, self.rows, len(NUMBERS)), np.int16),
            "page": np.zeros((count, len(PAGE_FEATURES)), np.float32),
            "rows": np.zeros(count, np.int32),
        }
        self._random = np.random.default_rng(0)
        self._drawn = np.arange(len(self._sites))

    def draw_from(self, designs: Sequence[int]) -> None:
        """Restricts the designs of further episodes to those with these numbers; a curriculum widens them.

        Raises:
            ValueError: there are none, or a number does not exist.
        """
        drawn = np.array(designs, np.int64)
        if not len(drawn) or drawn.min() < 0 or drawn.max() >= len(self._sites):
            raise ValueError(f"designs have the numbers 0 to {len(self._sites) - 1}, and at least one is needed")
        self._drawn = drawn

    def reset(self, seed: int) -> dict[str, NDArray[Any]]:
        """Begins an episode in each place; ``seed`` determines all later episodes, too."""
        self._random = np.random.default_rng(seed)
        self._finished.clear()
        members = range(self.count)
        self._begin(members, [member % len(self._sites) for member in members] if self._in_order else None)
        self._show()
        return self.observations

    def step(self, actions: NDArray[Any]) -> BatchStep:
        """Steps each episode; those that ended begin again.

        Args:
            actions: rows of the tables, shape (count,).

        Returns:
            Observations, rewards, and the episodes that ended.
        """
        pool = self._pool
        chosen = pool.first[self._pages] + np.asarray(actions, np.int64)
        elements, keys = pool.element[chosen].tolist(), pool.key[chosen].tolist()
        profile, views = self._profile, self._views
        changed, matched, ends = [], [], []
        dirty: list[tuple[int, int, int, int, int]] = []
        value_numbers = pool.value_numbers
        for member, (model, element, key) in enumerate(zip(self._models, elements, keys, strict=True)):
            one_changed, one_matched, end = model.act(element, profile[member][key])
            changed.append(one_changed)
            matched.append(one_matched)
            ends.append(end)
            if model.dirty:
                values, visited, clicked = model.values, model.visited, model.tampered
                for node in model.dirty:
                    number = value_numbers[values[node]]
                    dirty.append((member, node, visited[node], clicked[node], number))
            if model.view is not views[member]:
                self._turn(member)
        if dirty:
            places = np.array(dirty, np.int64)
            member_of, node_of = places[:, 0], places[:, 1]
            self._visited[member_of, node_of] = places[:, 2]
            self._clicked[member_of, node_of] = places[:, 3]
            self._values[member_of, node_of] = places[:, 4]
        rewards, ended = self._judge(np.array(changed), np.array(matched), np.array(ends))
        if ended.any():
            self._begin(np.flatnonzero(ended).tolist(), None)
        self._show()
        return BatchStep(self.observations, rewards.astype(np.float32), ended, np.zeros(self.count, np.bool_))

    def finished(self) -> FinishedEpisodes:
        """Returns the episodes that ended since the last call, in the order of their ends, and forgets them."""
        parts, self._finished = self._finished, []
        if not parts:
            none = np.zeros(0, np.int64)
            return FinishedEpisodes(none, none, np.zeros(0), none, np.zeros(0, np.bool_))
        return FinishedEpisodes(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _judge(
        self, changed: NDArray[Any], matched: NDArray[Any], ends: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Returns rewards (see ``Reward``) and which episodes ended."""
        rule = self._reward
        potential = matched / self._fields
        rewards = np.array(RAW)[ends]
        running = ends == 0
        if not rule.exact_wob_reward:
            if rule.use_potential_based_reward:
                rewards = rewards + (potential - self._potential)
            rewards = rewards - running * (rule.timestep_penalty + rule.cyclic_action_penalty * ~changed)
            rewards = rewards + ~running * rule.final_reward_bias
        self._potential = potential
        self._steps += 1
        self._returns += rewards
        ended = ~running | (self._steps >= self.step_limit)
        if ended.any():
            self._finished.append(
                FinishedEpisodes(
                    np.flatnonzero(ended),
                    self._shown[ended],
                    self._returns[ended],
                    self._steps[ended],
                    (ends == _SOLVED)[ended],
                )
            )
        return rewards, ended

    def _begin(self, members: Sequence[int], shown: Sequence[int] | None) -> None:
        """Starts episodes; ``shown`` are numbers of designs, None draws them."""
        count = len(members)
        if shown is None:
            shown = self._drawn[self._random.integers(len(self._drawn), size=count)].tolist()
        draws = self._random.random((count, self._choices.shape[1]))
        for member, number, draw in zip(members, shown, draws, strict=True):
            prepared, model = self._sites[number], self._models[member]
            site = prepared.site
            fields = len(site.fields)
            choices = (draw[:fields] * prepared.golds).astype(np.int64)
            picked = choices.tolist()
            gold = [GOLD[key][choice] for key, choice in zip(site.fields, picked, strict=True)]
            model.reset(site, dict(zip(site.fields, gold, strict=True)), {})
            self._profile[member] = [None, *gold]
            self._choices[member, 1 : fields + 1] = choices
            self._gold[member, 1 : fields + 1] = prepared.gold_numbers[np.arange(fields), choices]
            nodes = len(site.nodes)
            self._visited[member] = 0
            self._clicked[member] = 0
            self._values[member, :nodes] = prepared.initial
            self._shown[member] = number
            self._fields[member] = max(fields, 1)
            self._turn(member)
        chosen = np.asarray(members)
        self._potential[chosen] = self._returns[chosen] = 0.0
        self._steps[chosen] = 0

    def _turn(self, member: int) -> None:
        """Notes which page an episode shows."""
        view = self._models[member].view
        self._views[member] = view
        self._pages[member] = self._sites[self._shown[member]].page(view)

    def _show(self) -> None:
        pool, shown = self._pool, self.observations
        _write_tables(
            self._pages,
            pool.first,
            pool.length,
            pool.node,
            pool.key,
            pool.fixed,
            pool.alike,
            pool.numbers,
            pool.shows_visit,
            self._visited,
            self._clicked,
            self._values,
            self._choices,
            self._gold,
            self._steps / self.step_limit,
            shown["features"],
            shown["numbers"],
            shown["page"],
            shown["rows"],
        )


class _PairPool:
    """The pairs of all pages, one after another: ``first`` and ``length`` find those of a page.

    The arrays are longer than what they hold, because menus that open add pages.
    """

    _PER_PAGE = ("first", "length")
    _PER_PAIR = ("element", "key", "node", "fixed", "alike", "numbers", "shows_visit")

    def __init__(self) -> None:
        self.first, self.length = (np.zeros(64, np.int64) for _ in range(2))
        self.element, self.key, self.node = (np.zeros(4096, np.int64) for _ in range(3))
        self.fixed = np.zeros((4096, FIXED), np.float32)
        self.alike = np.zeros((4096, _CHOICES), np.float32)
        self.numbers = np.zeros((4096, len(NUMBERS)), np.int16)
        self.shows_visit = np.zeros(4096, np.uint8)
        self.largest = 1
        self.value_numbers = _ValueNumbers()
        self._pages = self._pairs = 0

    def add(self, parts: tuple[NDArray[Any], ...]) -> int:
        """Appends the pairs of a page, in the order of ``_PER_PAIR``; returns the number of the page."""
        page, start, count = self._pages, self._pairs, len(parts[0])
        self._grow(self._PER_PAGE, page + 1)
        self._grow(self._PER_PAIR, start + count)
        self.first[page], self.length[page] = start, count
        for name, part in zip(self._PER_PAIR, parts, strict=True):
            getattr(self, name)[start : start + count] = part
        self._pages, self._pairs = page + 1, start + count
        self.largest = max(self.largest, count)
        return page

    def _grow(self, names: Sequence[str], needed: int) -> None:
        for name in names:
            array = getattr(self, name)
            if len(array) < needed:
                grown = np.zeros((2 * needed, *array.shape[1:]), array.dtype)
                grown[: len(array)] = array
                setattr(self, name, grown)


class _ValueNumbers(dict[Any, int]):
    """Numbers of the values that controls show; values with equal tokens share one."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[str, ...], int] = {(): 0}

    def __missing__(self, value: Value) -> int:
        tokens = tuple(tokenize(value))
        number = self[value] = self._known.setdefault(tokens, len(self._known))
        return number


class _PreparedSite:
    """What the batch needs to know of a site."""

    def __init__(self, design: WebsiteDesign, pool: _PairPool) -> None:
        self.site: Site = build_site(design)
        self._pool = pool
        elements = Sizes().elements
        if not isinstance(self.site.tables, SiteTables) or self.site.tables.elements != elements:
            self.site.tables = SiteTables(self.site, elements)
        self._tables = self.site.tables
        self._keys = ["".join(tokenize(key)[: Sizes().words]) for key in (DUMMY_KEY, *self.site.fields)]
        self.golds = np.array([len(GOLD[key]) for key in self.site.fields], np.float64)
        self.gold_numbers = np.zeros((len(self.site.fields), _CHOICES), np.int32)
        for row, key in enumerate(self.site.fields):
            for choice, value in enumerate(GOLD[key]):
                self.gold_numbers[row, choice] = pool.value_numbers[value]
        self.initial = np.array([pool.value_numbers[value] for value in self._tables.initial], np.int32)
        views = [self._tables.view(page, ()) for page in range(self.site.pages)]
        self._pages = {view.key: pool.add(self._pairs(view)) for view in views}

    def page(self, view: PageView) -> int:
        """Returns the number of a page in the pool."""
        number = self._pages.get(view.key)
        if number is None:  # a menu was opened
            number = self._pages[view.key] = self._pool.add(self._pairs(view))
        return number

    def _pairs(self, view: PageView) -> tuple[NDArray[Any], ...]:
        nodes = np.array(view.nodes[: view.count], np.int64)
        words = Sizes().words
        elements = []
        for index in nodes.tolist():
            node = self.site.nodes[index]
            classes = self._tables.visited_classes[index]
            text = "" if node.children or node.options or node.slot else node.text
            elements.append(
                ElementTexts(
                    _joined(node.listed_tag, words),
                    "".join(word for word in tokenize(classes)[:words] if word != VISITED),
                    _joined(text, words),
                    _joined(node.placeholder, words),
                )
            )
        pairs = PagePairs(self._keys, elements)
        count, controls = len(pairs), len(pairs.controls)
        alike = np.zeros((count, _CHOICES), np.float32)
        pressed = count - controls * (len(self._keys) - 1)
        for row, key in enumerate(self.site.fields):
            for choice, value in enumerate(GOLD[key]):
                for control in range(controls):
                    alike[pressed + row * controls + control, choice] = pairs.resemblance_of_value(
                        control, _joined(value, words)
                    )
        shows = np.array([VISITED in tokenize(self._tables.visited_classes[node])[:words] for node in nodes], np.uint8)
        return (
            pairs.elements,
            pairs.profile_rows,
            nodes[pairs.elements],
            pairs.fixed,
            alike,
            pairs.numbers,
            shows[pairs.elements],
        )


def _joined(text: object, words: int) -> str:
    return "".join(tokenize(text)[:words])


@compiled
def _write_tables(
    pages: Any,
    first: Any,
    length: Any,
    node: Any,
    key: Any,
    fixed: Any,
    alike: Any,
    numbers: Any,
    shows_visit: Any,
    visited: Any,
    clicked: Any,
    values: Any,
    choices: Any,
    gold: Any,
    time: Any,
    features_out: Any,
    numbers_out: Any,
    page_out: Any,
    rows_out: Any,
) -> None:
    """Writes the tables of all episodes; the shapes are those of ``_PairPool`` and ``WebBatch``."""
    limit = features_out.shape[1]
    for member in range(len(pages)):
        start, count = first[pages[member]], length[pages[member]]
        controls = unvisited = keys = 0
        for row in range(count):
            pair = start + row
            one, profile_row = node[pair], key[pair]
            seen = shows_visit[pair] * visited[member, one]
            keys = max(keys, profile_row)
            if profile_row == 1:
                controls += 1
                unvisited += 1 - seen
            if row >= limit:
                continue
            out = features_out[member, row]
            for column in range(fixed.shape[1]):
                out[column] = fixed[pair, column]
            if profile_row > 0:
                out[4] = alike[pair, choices[member, profile_row]]
                out[6] = values[member, one] == gold[member, profile_row]
            else:
                out[4] = 0.0
                out[6] = 0.0
            out[5] = seen
            out[7] = clicked[member, one]
            for column in range(numbers.shape[1]):
                numbers_out[member, row, column] = numbers[pair, column]
        rows_out[member] = min(count, limit)
        page_out[member, 0] = time[member]
        page_out[member, 1] = 0.1 * controls
        page_out[member, 2] = 0.1 * unvisited
        page_out[member, 3] = 0.1 * keys
