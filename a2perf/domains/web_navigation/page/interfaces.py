"""What an environment shows of an episode, and how it takes actions: as arrays, as text, or as text with a picture."""

from __future__ import annotations

from typing import Any

import gymnasium
from numpy.typing import NDArray

from a2perf.domains.web_navigation.arguments import checked_action
from a2perf.domains.web_navigation.episode import ActionMasks, WebEpisode
from a2perf.domains.web_navigation.observation import Sizes, observation_space
from a2perf.domains.web_navigation.page.drawing import WINDOW
from a2perf.domains.web_navigation.text.actions import ActionText, TextActionError, screenshot_space, text_space
from a2perf.domains.web_navigation.text.view import TextView
from a2perf.errors import ConfigError

OBSERVATIONS = ("arrays", "text", "full_text", "screenshot")
_NO_ROW = -1


class ArrayInterface:
    """Observations are arrays, actions are numbers."""

    def __init__(self, episode: WebEpisode, sizes: Sizes, conceptual: bool, words: int) -> None:
        self.observation_space: gymnasium.Space[Any] = observation_space(sizes, words, episode.step_limit)
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(sizes.actions)
        self._episode = episode
        self._actions = sizes.actions
        self._masks = ActionMasks(sizes, conceptual)

    def begin(self, instruction: str) -> dict[str, Any]:
        """Prepares for a started episode; returns its part of the ``info`` of the reset."""
        return self.info()

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Does an action of the action space; returns reward, terminated, truncated."""
        return self._episode.step(checked_action(action, self._actions))

    def observation(self) -> dict[str, NDArray[Any]]:
        """Returns copies of the arrays."""
        return {key: array.copy() for key, array in self._episode.frame.arrays.items()}

    def info(self) -> dict[str, Any]:
        """Returns ``action_mask``: 1 for each action with a listed element and an existing profile row, shape (n,)."""
        return {"action_mask": self._masks(self._episode.frame).copy()}


class TextInterface:
    """Observations are ``instruction`` and ``page`` as texts, perhaps with a ``screenshot``; actions are texts."""

    def __init__(self, episode: WebEpisode, sizes: Sizes, *, full: bool = False, picture: bool = False) -> None:
        shape = (WINDOW[1], WINDOW[0], 3)
        self.observation_space: gymnasium.Space[Any] = screenshot_space(shape) if picture else text_space()
        self.action_space: gymnasium.Space[Any] = ActionText(sizes.elements)
        self.view = TextView(episode, full=full)
        self.error: str | None = None
        self.instruction = ""
        self._episode = episode
        self._picture = picture

    def begin(self, instruction: str) -> dict[str, Any]:
        """Returns ``instruction`` and ``error``."""
        self.instruction, self.error = instruction, None
        return {"instruction": instruction, "error": None}

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Does an action; an invalid text costs a step."""
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
        """Returns the texts, and the picture if there is one."""
        shown: dict[str, Any] = {"instruction": self.instruction, "page": self.view.page(self.error)}
        if self._picture:
            shown["screenshot"] = self._episode.backend.picture()
        return shown

    def info(self) -> dict[str, Any]:
        """Returns ``error``: the message about the action, None if it was valid."""
        return {"error": self.error}


def interface_of(
    name: str, episode: WebEpisode, sizes: Sizes, conceptual: bool, words: int
) -> ArrayInterface | TextInterface:
    """Returns the interface with a name of ``OBSERVATIONS``."""
    if name == "arrays":
        return ArrayInterface(episode, sizes, conceptual, words)
    return TextInterface(episode, sizes, full=name == "full_text", picture=name == "screenshot")
