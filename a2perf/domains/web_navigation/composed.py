"""Compositions: an episode chains several websites under one profile.

Web agents that solve single tasks fail on their compositions, and more often if the instructions come in reverse order
(Furuta et al. 2023, "Exposing Limitations of Language Model Agents in Sequential-Task Compositions on the Web",
arXiv:2311.18751). A sub-task here is one website. A correct submission opens the next one; a wrong submission ends the
episode.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.utils import EzPickle

from a2perf.domains.arguments import argument_names, completed_by_gin, integer_of_at_least, one_of, refuse_unknown
from a2perf.domains.web_navigation.arguments import WITHOUT_EFFECT, checked_options, checked_profile, choose_designs
from a2perf.domains.web_navigation.browsers.backend import End, Value
from a2perf.domains.web_navigation.environment import ARGUMENTS, WebNavigationEnv
from a2perf.domains.web_navigation.episode import WebEpisode
from a2perf.domains.web_navigation.page.vocabulary import DUMMY_KEY
from a2perf.domains.web_navigation.reward import RAW
from a2perf.domains.web_navigation.sites.website import Site, WebsiteDesign, build_site, draw_gold
from a2perf.domains.web_navigation.solver import check_solvable, solution_length
from a2perf.domains.web_navigation.vector import WebVectorEnv, make_vector_env
from a2perf.errors import ConfigError

ORDERS = ("given", "reversed")
STEPS_PER_SUBTASK = 25
_RESET_OPTIONS = ("designs", "profile")


Subtask = tuple[Site, Mapping[str, str]]
"""One website of an episode, and the text of each of its slots."""


class ComposedEpisode(WebEpisode):
    """An episode on several websites, one after the other."""

    subtasks: tuple[Subtask, ...] = ()
    solved = 0
    advanced = False

    @property
    def raw(self) -> float:
        """The page's own reward of the last step."""
        return RAW[End.SOLVED] if self.advanced else super().raw

    @property
    def place(self) -> tuple[int, int]:
        """Number of the website, from 0, and how many websites the episode has."""
        return min(self.solved, len(self.subtasks) - 1), len(self.subtasks)

    def progress(self) -> dict[str, Any]:
        """Returns the number of websites, of the one that is shown, and how many were solved."""
        subtask, subtasks = self.place
        return {"subtasks": subtasks, "subtask": subtask, "subtasks_solved": self.solved}

    def act(self, row: int, value: Value) -> tuple[float, bool, bool]:
        """Acts on a row of the page; a correct submission opens the next website."""
        self.advanced = False
        reward, terminated, truncated = super().act(row, value)
        if self.end is not End.SOLVED:
            return reward, terminated, truncated
        self.solved += 1
        if self.solved == len(self.subtasks):
            return reward, terminated, truncated
        self.advanced = True
        self._open(*self.subtasks[self.solved], follows=True)
        truncated = self.steps >= self.step_limit
        self.running = not truncated
        return reward, False, truncated


class ComposedWebNavigationEnv(WebNavigationEnv):
    """An agent fills the forms of several websites in a row from one profile.

    Every sub-task is rewarded like an episode on its website alone. The profile has the keys of all sub-tasks, each
    with one value.

    Args:
        subtasks: number of websites per episode; all of them differ.
        order: ``"given"``: the profile lists the keys of the first website first. ``"reversed"``: those of the last
            one.
        num_websites: number of websites of each level that episodes are drawn from. None: the environment variable
            ``NUM_WEBSITES``.
        difficulty: level (1 to 3) of the shipped designs, or a list of levels; None if ``designs`` is given.
        designs: list of designs.
        seed: chooses the websites, and seeds the episodes until ``reset`` receives a seed.
        data_dir: folder with designs for the levels, ``01.json`` to ``03.json``, in place of the shipped ones.
        step_limit: number of steps after which an episode is truncated. None: 25 per sub-task.
        **arguments: of ``WebNavigationEnv``, except ``compat``.

    Raises:
        ConfigError: an argument is unknown or out of its range, a design has no solution, or some composition of
            the designs has more profile keys or needs more steps than there are.
        MissingDependency: the browser or its driver is not installed.
    """

    episode_kind = ComposedEpisode

    def __init__(
        self,
        subtasks: int = 2,
        order: str = "given",
        num_websites: int | None = None,
        difficulty: int | Sequence[int] | None = None,
        designs: Any = None,
        seed: int = 0,
        data_dir: str | Path | None = None,
        step_limit: int | None = None,
        **arguments: Any,
    ) -> None:
        refuse_unknown(
            (name for name in arguments if name not in WITHOUT_EFFECT),
            (*_OWN_ARGUMENTS, *(name for name in ARGUMENTS if name not in _OWN_ARGUMENTS)),
            "an argument of the composed web environment",
        )
        one_of("order", order, ORDERS)
        if arguments.get("compat"):
            raise ConfigError("compat is not available here", hint="the earlier implementation had no compositions")
        self.subtasks = integer_of_at_least(1, "subtasks", subtasks)
        self.order = order
        integer_of_at_least(0, "seed", seed)
        pool = _pool(num_websites, difficulty, designs, data_dir, int(seed))
        if len(pool) < self.subtasks:
            raise ConfigError(
                f"subtasks is {self.subtasks}, and there are {len(pool)} websites", hint="raise num_websites"
            )
        super().__init__(
            num_websites=len(pool),
            designs=pool,
            seed=seed,
            step_limit=STEPS_PER_SUBTASK * self.subtasks if step_limit is None else step_limit,
            **arguments,
        )
        EzPickle.__init__(
            self, subtasks, order, num_websites, difficulty, designs, seed, data_dir, step_limit, **arguments
        )
        self._check_limits(self.designs)

    # --- For agents, reports and tools

    @property
    def sites(self) -> tuple[Site, ...]:
        """The websites of the episode in the order of the visits; none before the first reset."""
        return tuple(site for site, _ in self._chain.subtasks)

    def solution(self) -> list[Any]:
        """Returns the actions of a perfect episode, from its first step.

        Raises:
            EpisodeOverError: no episode was started.
        """
        if not self.sites:
            return super().solution()
        return [action for site in self.sites for action in self._interface.solution(site)]

    # --- Parts, also of vector environments

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuses options of a reset.

        Raises:
            ConfigError: one is unknown or wrong, or the composition has no solution.
        """
        chosen, _ = self._chosen(options)
        if chosen is not None:
            for design in chosen:
                if design not in self.designs:
                    check_solvable(design, self.step_limit, self.sizes)
            self._check_limits(chosen)

    def start_episode(
        self, episode: WebEpisode, random: np.random.Generator, options: Mapping[str, Any] | None = None
    ) -> None:
        """Draws an episode and starts it.

        Args:
            options: ``designs`` (a design, or the number of one of the environment's, per sub-task) and ``profile``
                (gold values of some keys).

        Raises:
            ConfigError: a gold value of the options does not fit its website.
        """
        assert isinstance(episode, ComposedEpisode)
        chosen, fixed = self._chosen(options) if options else (None, {})
        if chosen is None:
            numbers = random.choice(len(self.designs), self.subtasks, replace=False).tolist()
            chosen = [self.designs[number] for number in numbers]
        sites = [build_site(design) for design in chosen]
        listed = sites if self.order == "given" else sites[::-1]
        keys = tuple(dict.fromkeys(key for site in listed for key in site.fields))
        profile = draw_gold(sorted(keys), random)
        for key, value in fixed.items():
            # Without a site for the key, any site refuses it.
            site = next((site for site in sites if key in site.fields), sites[0])
            profile |= checked_profile({key: value}, site)
        subtasks = [(self.changed(site), site.draw_texts(random)) for site in sites]
        rows: list[tuple[str, Value]] = [(DUMMY_KEY, None), *((key, profile[key]) for key in keys)]
        episode.subtasks, episode.solved, episode.advanced = tuple(subtasks), 0, False
        (first, texts), *_ = subtasks
        episode.start(first, profile, texts, rows)

    def _profiles(self) -> list[Mapping[str, str | bool]]:
        gold = self._chain.gold
        return [{key: gold[key] for key in site.fields} for site in self.sites]

    @property
    def _chain(self) -> ComposedEpisode:
        assert isinstance(self.episode, ComposedEpisode)
        return self.episode

    def _chosen(self, options: Mapping[str, Any]) -> tuple[list[WebsiteDesign] | None, Mapping[str, Any]]:
        """Returns the designs and the gold values that a reset fixes."""
        refuse_unknown(options, _RESET_OPTIONS, "an option of reset")
        rest = {name: value for name, value in options.items() if name == "profile"}
        _, fixed = checked_options(rest, self.designs)
        given = options.get("designs")
        if given is None:
            return None, fixed
        if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence) or len(given) != self.subtasks:
            raise ConfigError(f"designs is {given!r}", hint=f"give a list of {self.subtasks} designs or their numbers")
        found = [checked_options({"design": one}, self.designs)[0] for one in given]
        return [design for design in found if design is not None], fixed

    def _check_limits(self, designs: Sequence[WebsiteDesign]) -> None:
        """Refuses designs if a composition of them needs more profile rows or more steps than there are."""
        keys = {key for design in designs for key in design.fields}
        if len(keys) + 1 > self.sizes.fields:
            raise ConfigError(
                f"the websites have {len(keys)} profile keys, number_of_fields is {self.sizes.fields}",
                hint=f"raise number_of_fields and keyboard_action_size to {len(keys) + 1}",
            )
        longest = sum(sorted(map(solution_length, designs))[-self.subtasks :])
        if longest > self.step_limit:
            raise ConfigError(
                f"a composition needs {longest} steps, step_limit is {self.step_limit}",
                hint="raise step_limit, or give smaller designs",
            )


_OWN_ARGUMENTS = argument_names(ComposedWebNavigationEnv.__init__)


def _pool(
    num_websites: int | None,
    difficulty: int | Sequence[int] | None,
    designs: Any,
    data_dir: str | Path | None,
    seed: int,
) -> tuple[WebsiteDesign, ...]:
    """Returns the websites that episodes are drawn from."""
    if difficulty is None or designs is not None or not isinstance(difficulty, Sequence) or not difficulty:
        return choose_designs(num_websites, difficulty, designs, data_dir, seed)  # type: ignore[arg-type]
    return tuple(design for level in difficulty for design in choose_designs(num_websites, level, None, data_dir, seed))


_with_gin_bindings = completed_by_gin("ComposedWebNavigationEnv", module="a2perf.web_navigation", home=__name__)


def build_composed_env(**kwargs: Any) -> ComposedWebNavigationEnv:
    """Makes the environment; gin bindings of ``ComposedWebNavigationEnv`` supply arguments that are not given."""
    return ComposedWebNavigationEnv(**_with_gin_bindings(**kwargs))


class ComposedWebVectorEnv(WebVectorEnv):
    """Many composed web environments on the page model; ``info["raw_reward"]`` is 1 for each solved sub-task."""

    build = staticmethod(build_composed_env)


make_composed_vector_env = functools.partial(make_vector_env, kind=ComposedWebVectorEnv)
"""As ``make_vector_env``, of compositions."""
