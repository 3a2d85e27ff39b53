"""Interfaces of the web environments for language models; the core finds them by the name of the observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium

from a2perf.domains.web_navigation.episode import WebEpisode
from a2perf.domains.web_navigation.observation import Sizes
from a2perf.domains.web_navigation.page.drawing import WINDOW
from a2perf.domains.web_navigation.sites.website import Site
from a2perf.errors import ConfigError
from a2perf_agents.websites.actions import ActionText, TextActionError, screenshot_space, text_space
from a2perf_agents.websites.instruction import phrasing_of, write_composed_instruction, write_instruction
from a2perf_agents.websites.solution import text_solution
from a2perf_agents.websites.view import TextView

_NO_ROW = -1


class TextInterface:
    """Observations are ``instruction`` and ``page`` as texts; actions are texts. See ``WebInterface``."""

    full = False

    def __init__(self, episode: WebEpisode, sizes: Sizes) -> None:
        self.observation_space: gymnasium.Space[Any] = text_space()
        self.action_space: gymnasium.Space[Any] = ActionText(sizes.elements)
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
        return text_solution(site, self._episode.gold, self._sizes, self._episode.profile)


class FullTextInterface(TextInterface):
    """The page lists every element."""

    full = True


class ScreenshotInterface(TextInterface):
    """Observations have a ``screenshot`` beside the texts."""

    def __init__(self, episode: WebEpisode, sizes: Sizes) -> None:
        super().__init__(episode, sizes)
        self.observation_space = screenshot_space((WINDOW[1], WINDOW[0], 3))

    def observation(self) -> dict[str, Any]:
        """Returns the texts and the picture."""
        return {**super().observation(), "screenshot": self._episode.backend.picture()}
