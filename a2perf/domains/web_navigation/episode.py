"""One episode on one site: actions in, rewards and rewritten arrays out. The same for one environment and for many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.web_navigation.browsers.backend import ActionOutcome, Backend, End, Value
from a2perf.domains.web_navigation.observation import NEW, Encoder, Frame, Sizes, encode, profile_rows
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.domains.web_navigation.reward import RAW, REASON, Reward, WebRules, potential
from a2perf.domains.web_navigation.sites.website import Site

_RUNNING = End.RUNNING


class WebEpisode:
    """An episode and the arrays that show it.

    Attributes:
        has_new: the arrays may mark elements as new.
    """

    def __init__(
        self,
        backend: Backend,
        frame: Frame,
        encoder: Encoder,
        sizes: Sizes,
        reward: Reward,
        rules: WebRules,
        step_limit: int,
        conceptual: bool = False,
    ) -> None:
        self.backend = backend
        self.frame = frame
        self.end = End.RUNNING
        self.steps = 0
        self.running = False
        self.site: Site | None = None
        self.gold: Mapping[str, str | bool] = {}
        self.profile: list[tuple[str, Value]] = []
        self._model = backend if isinstance(backend, PageModel) else None
        self._encoder = encoder
        self._elements = sizes.elements
        self._reward = reward
        self._rules = rules
        self.step_limit = step_limit
        self._conceptual = conceptual
        self._clock = frame.arrays["time_step"]
        self._known: frozenset[int] = frozenset()
        self.has_new = False
        self._idle, self._moved = (reward(_RUNNING, 0.0, changed) for changed in (False, True))

    @property
    def place(self) -> tuple[int, int]:
        """Number of the website, from 0, and how many websites the episode has."""
        return 0, 1

    def outcome(self) -> dict[str, Any]:
        """Returns what ``info`` says of the episode's end: ``reason``, ``is_success``, and ``progress``."""
        reason = REASON[self.end]
        return {"reason": reason, "is_success": reason == "solved", **self.progress()}

    def progress(self) -> dict[str, Any]:
        """Returns what ``info`` says of an episode on several websites."""
        return {}

    def use_encoder(self, encoder: Encoder) -> None:
        """Takes another table of words; an episode must be started afterwards."""
        self._encoder = encoder
        self.running = False
        self.frame.clear(encoder.padding)

    @property
    def raw(self) -> float:
        """The page's own reward of the last step."""
        return RAW[self.end]

    def start(
        self,
        site: Site,
        profile: Mapping[str, str | bool],
        texts: Mapping[str, str],
        rows: list[tuple[str, Value]] | None = None,
    ) -> None:
        """Begins an episode and writes its first observation."""
        # Stays so if the browser is lost in the reset.
        self.running = False
        self.gold = profile
        self._open(site, texts)
        self.profile = profile_rows(profile) if rows is None else rows
        self.steps = 0
        self._clock[0] = 0.0
        self.frame.set_profile(self.profile, self._encoder)
        self.running = True

    def _open(self, site: Site, texts: Mapping[str, str], *, follows: bool = False) -> None:
        """Shows a site with untouched controls; all its elements are new if it follows another one."""
        self.site = site
        self.backend.reset(site, {key: self.gold[key] for key in site.fields}, texts)
        self.end = End.RUNNING
        self._fields = len(site.fields)
        self._potential = 0.0
        self._matched = 0
        self._last = 0.0
        self.has_new = follows
        if self._model is not None:
            self._model.write_page(self.frame, self._encoder, None)
            if follows:
                self.frame.features[: self.frame.listed, NEW] = 1.0
        else:
            self._write_rows(frozenset() if follows else None)

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Does an action that lies in the space.

        Returns:
            Reward, terminated, truncated.
        """
        if self._conceptual:
            row, value = action, None
        else:
            field, row = divmod(action, self._elements)
            value = self.profile[field][1] if field < len(self.profile) else None
        return self.act(row, value)

    def act(self, row: int, value: Value) -> tuple[float, bool, bool]:
        """Acts on a row of the page; a row that is not listed costs a step without effect.

        Args:
            row: of an element; any other number stands for an invalid action.

        Returns:
            Reward, terminated, truncated.
        """
        self.steps += 1
        self._clock[0] = self.steps / self.step_limit
        frame = self.frame
        if not 0 <= row < frame.listed:
            self._last = reward = self._rules.invalid_reward(self._last, self._idle)
            if self.has_new:
                self._clear_new()
        else:
            changed, matched, end = self._act(row, value)
            if end is _RUNNING and matched == self._matched:
                self._last = reward = self._moved if changed else self._idle
            else:
                now = potential(matched, self._fields)
                self._last = reward = self._reward(end, now - self._potential, changed)
                self._potential, self._matched, self.end = now, matched, end
        if self.end is _RUNNING and self.steps < self.step_limit:
            return reward, False, False
        terminated, truncated = self._rules.end_flags(self.end is not _RUNNING, self.steps >= self.step_limit)
        self.running = not (terminated or truncated)
        return reward, terminated, truncated

    def _act(self, row: int, value: Value) -> ActionOutcome:
        """Acts and writes the observation."""
        model = self._model
        if model is None:
            outcome = self.backend.act(row, value)
            if outcome.end is _RUNNING or not self._rules.stale_last_observation:
                self._write_rows(self._known)
            return outcome
        before = model.view
        outcome = model.act(row, value)
        if outcome.end is not _RUNNING and self._rules.stale_last_observation:
            return outcome
        if model.view is not before:
            model.write_page(self.frame, self._encoder, before)
            self.has_new = True
            return outcome
        if self.has_new:
            self._clear_new()
        if model.dirty:
            model.write_rows(self.frame, self._encoder, model.dirty)
        return outcome

    def _clear_new(self) -> None:
        self.frame.features[: self.frame.listed, NEW] = 0.0
        self.has_new = False

    def _write_rows(self, previous: frozenset[int] | None) -> None:
        rows = self.backend.rows()
        encode(self.frame, rows, previous, self._encoder)
        self._known = frozenset(row.node for row in rows)
        self.has_new = previous is not None


class ActionMasks:
    """Masks of valid actions, each made once."""

    def __init__(self, sizes: Sizes, conceptual: bool) -> None:
        self._sizes = sizes
        self._conceptual = conceptual
        self._known: dict[tuple[int, int], NDArray[np.int8]] = {}

    def __call__(self, frame: Frame) -> NDArray[np.int8]:
        """Returns 1 for each action with a listed element and an existing profile row, shape (actions,); shared."""
        key = (frame.profile_rows, frame.listed)
        mask = self._known.get(key)
        if mask is None:
            sizes = self._sizes
            table = np.zeros((sizes.action_types * sizes.fields, sizes.elements), np.int8)
            table[: 1 if self._conceptual else key[0], : key[1]] = 1
            mask = self._known[key] = table.reshape(-1)
        return mask
