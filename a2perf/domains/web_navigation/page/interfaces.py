"""What an environment shows of an episode, and how it takes actions: as arrays, or as an installed package does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import gymnasium
from numpy.typing import NDArray

from a2perf.domains.web_navigation.arguments import checked_action
from a2perf.domains.web_navigation.episode import ActionMasks, WebEpisode
from a2perf.domains.web_navigation.observation import Sizes, observation_space
from a2perf.domains.web_navigation.sites.website import Site
from a2perf.domains.web_navigation.solver import solve
from a2perf.errors import MissingDependency
from a2perf.plugins import install_line, load_plugin, plugin_names

GROUP = "a2perf.web_observations"
"""Entry points of further interfaces: a class that takes the episode and ``Sizes``, by the name of the observation."""
OBSERVATIONS = ("arrays", "text", "full_text", "screenshot")


class WebInterface(Protocol):
    """Observations and actions of one environment."""

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]

    def begin(
        self, profiles: Sequence[Mapping[str, str | bool]], *, reversed_order: bool, seed: int, number: int
    ) -> dict[str, Any]:
        """Prepares for a started episode; returns its part of the ``info`` of the reset.

        Args:
            profiles: gold values per website, in the order of the visits.
            reversed_order: whether the last website is named first.
            seed: the last seed of the environment.
            number: of the episode since that seed, from 1.
        """

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Does an action of the action space; returns reward, terminated, truncated."""

    def observation(self) -> dict[str, Any]:
        """Returns the observation; the caller may keep it."""

    def info(self) -> dict[str, Any]:
        """Returns its part of the ``info`` of a step."""

    def solution(self, site: Site) -> list[Any]:
        """Returns the actions that solve a website of the episode."""


class ArrayInterface:
    """Observations are arrays, actions are numbers. See ``WebInterface``.

    Attributes:
        reuses_arrays: whether the next step rewrites the arrays of an observation.
    """

    reuses_arrays = False

    def __init__(self, episode: WebEpisode, sizes: Sizes, conceptual: bool, words: int) -> None:
        self.observation_space: gymnasium.Space[Any] = observation_space(sizes, words, episode.step_limit)
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(sizes.actions)
        self._episode = episode
        self._sizes = sizes
        self._masks = ActionMasks(sizes, conceptual)

    def begin(
        self, profiles: Sequence[Mapping[str, str | bool]], *, reversed_order: bool, seed: int, number: int
    ) -> dict[str, Any]:
        """Returns ``action_mask``."""
        return self.info()

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Does an action of the action space; returns reward, terminated, truncated."""
        return self._episode.step(checked_action(action, self._sizes.actions))

    def observation(self) -> dict[str, NDArray[Any]]:
        """Returns the arrays, by default copies."""
        arrays = self._episode.frame.arrays
        return dict(arrays) if self.reuses_arrays else {key: array.copy() for key, array in arrays.items()}

    def info(self) -> dict[str, Any]:
        """Returns ``action_mask``: 1 for each action with a listed element and an existing profile row, shape (n,)."""
        return {"action_mask": self._masks(self._episode.frame).copy()}

    def solution(self, site: Site) -> list[int]:
        """Returns the numbers of the actions that solve a website of the episode."""
        return solve(site, self._episode.gold, self._sizes, self._episode.profile)


def interface_of(name: str, episode: WebEpisode, sizes: Sizes, conceptual: bool, words: int) -> WebInterface:
    """Returns the interface with a name of ``OBSERVATIONS``.

    Raises:
        MissingDependency: the distribution that brings it is not installed.
        ConfigError: the distribution is broken.
    """
    if name == "arrays":
        return ArrayInterface(episode, sizes, conceptual, words)
    if name not in plugin_names(GROUP):
        raise MissingDependency(
            f"observation={name!r} of web navigation comes with the distribution a2perf-agents",
            hint=install_line("agents"),
        )
    made: WebInterface = load_plugin(GROUP, name, "web observation", gives="an interface")(episode, sizes)
    return made
