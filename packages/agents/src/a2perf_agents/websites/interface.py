"""Interfaces of the web environments for language models; the core finds them by the name of the observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from a2perf.domains.web_navigation.browsers.backend import Value
from a2perf.domains.web_navigation.episode import WebEpisode
from a2perf.domains.web_navigation.observation import Sizes
from a2perf.domains.web_navigation.page.drawing import WINDOW
from a2perf.domains.web_navigation.page.nodes import NodeRole
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.domains.web_navigation.sites.website import Site
from a2perf.domains.web_navigation.solver import solve
from a2perf.errors import ConfigError
from a2perf_agents.websites.actions import ActionText, ShownText, TextAction, TextActionError
from a2perf_agents.websites.instruction import phrasing_of, write_composed_instruction, write_instruction
from a2perf_agents.websites.view import TextView, is_primary

_NO_ROW = -1


class TextInterface:
    """Observations are ``instruction`` and ``page`` as texts; actions are texts. See ``WebInterface``."""

    full = False

    def __init__(self, episode: WebEpisode, sizes: Sizes) -> None:
        self.observation_space: spaces.Space[Any] = spaces.Dict({"instruction": ShownText(), "page": ShownText()})
        self.action_space: spaces.Space[Any] = ActionText(sizes.elements)
        self.view = TextView(episode, full=self.full)
        self.error: str | None = None
        self.instruction = ""
        self._episode = episode
        self._sizes = sizes

    def begin(
        self, profiles: Sequence[Mapping[str, str | bool]], *, reversed_order: bool, seed: int, number: int
    ) -> dict[str, Any]:
        """Returns ``instruction`` and ``error``."""
        phrasing = phrasing_of(seed, number)
        self.error = None
        if len(profiles) == 1:
            self.instruction = write_instruction(profiles[0], phrasing)
        else:
            self.instruction = write_composed_instruction(profiles, phrasing, reversed_order=reversed_order)
        return {"instruction": self.instruction, "error": None}

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Does an action; an invalid text costs a step.

        Raises:
            ConfigError: the action is not a text.
        """
        if not isinstance(action, str):
            raise ConfigError(f"{action!r:.100} is not a text action", hint="give a text, for example 'submit'")
        self.error = None
        try:
            row, value = self.view.resolve(action)
        except TextActionError as error:
            self.error = str(error)
            row, value = _NO_ROW, None
        return self._episode.act(row, value)

    def observation(self) -> dict[str, Any]:
        """Returns the texts."""
        return {"instruction": self.instruction, "page": self.view.page(self.error)}

    def info(self) -> dict[str, Any]:
        """Returns ``error``: the message about the action, None if it was valid."""
        return {"error": self.error}

    def solution(self, site: Site) -> list[str]:
        """Returns the text actions that solve a website of the episode."""
        return _text_solution(site, self._episode.gold, self._sizes, self._episode.profile)


class FullTextInterface(TextInterface):
    """The page lists every element."""

    full = True


class ScreenshotInterface(TextInterface):
    """Observations have a ``screenshot`` beside the texts."""

    def __init__(self, episode: WebEpisode, sizes: Sizes) -> None:
        super().__init__(episode, sizes)
        picture = spaces.Box(0, 255, (WINDOW[1], WINDOW[0], 3), np.uint8)
        self.observation_space = spaces.Dict({"instruction": ShownText(), "page": ShownText(), "screenshot": picture})

    def observation(self) -> dict[str, Any]:
        """Returns the texts and the picture."""
        return {**super().observation(), "screenshot": self._episode.backend.picture()}


def _text_solution(
    site: Site, profile: Mapping[str, str | bool], sizes: Sizes, rows: Sequence[tuple[str, Value]]
) -> list[str]:
    """Returns the text actions of a perfect episode on one website.

    Args:
        rows: the profile as observed, with keys of other sites perhaps.

    Raises:
        ConfigError: the site has no solution.
    """
    model, texts = PageModel(sizes.elements), []
    model.reset(site, profile, {})
    for action in solve(site, profile, sizes, rows):
        field, row = divmod(action, sizes.elements)
        texts.append(str(_text_of(model, row, rows[field][1])))
        model.act(row, rows[field][1])
    return texts


def _text_of(model: PageModel, row: int, value: Value) -> TextAction:
    """Returns the text action with the effect of giving a value to a row, for an action of a solution."""
    nodes = model.site.nodes
    number = model.view.nodes[row]
    role = nodes[number].role
    if role is NodeRole.TEXT:
        return TextAction("fill", number, value if isinstance(value, str) else "")
    if role is NodeRole.SELECT:
        return TextAction("select", number, str(value))
    if role is NodeRole.CHECK:
        return TextAction("check" if value is True else "uncheck", number)
    if role is NodeRole.RADIO:
        group = next(group for groups in model.site.controls for group in groups if number in group)
        return TextAction("click", next(button for button in group if nodes[button].choice == value))
    first = next((other for other in model.view.nodes[: model.view.count] if is_primary(nodes[other])), -1)
    return TextAction("submit") if first == number else TextAction("click", number)
