"""The web environment (Gymnasium API): an agent fills the forms of websites, on the page model or in a browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.utils import EzPickle, seeding
from numpy.typing import NDArray

from a2perf.domains.arguments import (
    RENDER_MODES,
    EpisodeOverError,
    argument_names,
    completed_by_gin,
    integer_of_at_least,
    one_of,
    refuse_unknown,
)
from a2perf.domains.display import PictureWindow, require_display
from a2perf.domains.web_navigation.arguments import (
    BACKENDS,
    WITHOUT_EFFECT,
    checked_options,
    checked_profile,
    checked_sizes,
    checked_vocabulary,
    choose_designs,
)
from a2perf.domains.web_navigation.browsers.backend import Backend, End, PageRow
from a2perf.domains.web_navigation.episode import ActionMasks, WebEpisode
from a2perf.domains.web_navigation.observation import Encoder, Frame, Sizes, new_frame
from a2perf.domains.web_navigation.page.interfaces import OBSERVATIONS, ArrayInterface, interface_of
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.domains.web_navigation.page.vocabulary import DistributedVocabulary
from a2perf.domains.web_navigation.reward import CompatWebRules, Reward, WebRules
from a2perf.domains.web_navigation.sites.site_tables import preload
from a2perf.domains.web_navigation.sites.website import Site, WebsiteDesign, build_site
from a2perf.domains.web_navigation.solver import check_solvable
from a2perf.errors import ConfigError

Observation = dict[str, Any]
_PRELOADED = 20  # sites with tables built by the constructor; more would make it slow


class WebNavigationEnv(gymnasium.Env[Observation, Any], EzPickle):
    """An agent fills the forms of websites from a profile and submits them.

    The action ``250 * row + element`` gives an element the value of a row of the profile. With text observations,
    actions are texts.

    Args:
        num_websites: number of websites that episodes are drawn from. None: the environment variable
            ``NUM_WEBSITES``.
        difficulty: level (1 to 3) of the shipped designs; required unless ``designs`` is given.
        designs: list of designs.
        seed: chooses the websites, and seeds the episodes until ``reset`` receives a seed.
        backend: ``"model"``, or ``"chromium"`` for a real browser.
        observation: ``"arrays"``; with a2perf-agents also ``"text"`` for an instruction, a page as text, and actions
            as text; ``"full_text"`` for a page with every element; ``"screenshot"`` for the texts of ``"text"`` and a
            picture.
        render_mode: ``"rgb_array"``, ``"human"`` or None.
        compat: restore the behaviour of the earlier implementation, see "Version history".
        data_dir: folder with designs for the levels, ``01.json`` to ``03.json``, in place of the shipped ones.
        step_limit: number of steps after which an episode is truncated.
        cyclic_action_penalty: cost of a step that changes nothing on the page.
        timestep_penalty: cost of every step that does not end the episode.
        exact_wob_reward: use only the page's reward at the end of the episode.
        final_reward_bias: added to the reward when the page ends the episode.
        use_potential_based_reward: reward progress of the form.
        use_conceptual: actions name an element only, and touching a field fills it correctly.
        global_vocabulary: word table shared between environments.
        vocab_type: ``"threaded"``, ``"unlocked"`` or ``"multiprocessing"``; ignored if a table is given.
        reload_vocab: load the last table from the ``vocabulary`` folder of ``ROOT_DIR``.
        number_of_dom_elements: rows for elements.
        number_of_fields: rows for the profile.
        dom_attribute_sequence_length: tokens per attribute.
        profile_length: tokens per profile key or value; must equal ``dom_attribute_sequence_length``.
        keyboard_action_size: must equal ``number_of_fields``.
        number_of_action_types: multiplies the size of the action space.
        use_legacy_reset: ``reset`` returns the observation only.
        use_legacy_step: ``step`` returns four values.
        browser_args: settings of the browser.
        **unknown: refused with the nearest valid name; obsolete arguments are accepted and ignored.

    Attributes:
        episode: the episode that is played.
        change_site: replaces the sites of the episodes that follow by others with the same fields and slots; None for
            the sites as designed. See ``perturbations``.

    Raises:
        ConfigError: an argument is unknown or out of its range, or a design has no solution.
        MissingDependency: the browser, its driver, or the distribution of the observation is not installed.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(RENDER_MODES), "render_fps": 10}  # type: ignore[misc]
    episode_kind: ClassVar[type[WebEpisode]] = WebEpisode
    order = "given"

    def __init__(
        self,
        num_websites: int | None = None,
        difficulty: int | None = None,
        designs: Any = None,
        seed: int = 0,
        backend: str = "model",
        observation: str = "arrays",
        render_mode: str | None = None,
        compat: bool = False,
        data_dir: str | Path | None = None,
        step_limit: int = 25,
        cyclic_action_penalty: float = 0.5,
        timestep_penalty: float = 0.05,
        exact_wob_reward: bool = False,
        final_reward_bias: float = 0.0,
        use_potential_based_reward: bool = True,
        use_conceptual: bool = False,
        global_vocabulary: DistributedVocabulary | None = None,
        vocab_type: str = "threaded",
        reload_vocab: bool = True,
        number_of_dom_elements: int = 250,
        number_of_fields: int = 25,
        dom_attribute_sequence_length: int = 10,
        profile_length: int = 10,
        keyboard_action_size: int = 25,
        number_of_action_types: int = 2,
        use_legacy_reset: bool = False,
        use_legacy_step: bool = False,
        browser_args: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in ARGUMENTS}
        EzPickle.__init__(self, **given, **unknown)
        self._backend: Backend | None = None
        self._window: PictureWindow | None = None
        refuse_unknown(
            (name for name in unknown if name not in WITHOUT_EFFECT), ARGUMENTS, "an argument of the web environment"
        )
        one_of("backend", backend, BACKENDS)
        one_of("observation", observation, OBSERVATIONS)
        if render_mode is not None:
            one_of("render_mode", render_mode, RENDER_MODES)
        if backend != "model" and (compat or use_conceptual):
            raise ConfigError("compat and use_conceptual need the page model", hint="leave backend out")
        if observation != "arrays" and (compat or use_conceptual):
            raise ConfigError("compat and use_conceptual need array observations", hint="leave observation out")
        integer_of_at_least(0, "seed", seed)
        if render_mode == "human":
            require_display()
        self.render_mode = render_mode
        self.rules: WebRules = CompatWebRules() if compat else WebRules()
        self.sizes: Sizes = checked_sizes(given)
        self.step_limit = integer_of_at_least(1, "step_limit", step_limit)
        self.reward = Reward(
            cyclic_action_penalty, timestep_penalty, exact_wob_reward, final_reward_bias, use_potential_based_reward
        )
        self.designs = choose_designs(num_websites, difficulty, designs, data_dir, int(seed))
        if not compat and (designs is not None or data_dir is not None):  # the shipped ones were solved when made
            for design in self.designs:
                check_solvable(design, self.step_limit, self.sizes)
        self.vocabulary = checked_vocabulary(global_vocabulary, vocab_type, reload_vocab)
        self.encoder = Encoder(self.vocabulary, self.sizes.words)
        self.conceptual = bool(use_conceptual)
        self._legacy_reset, self._legacy_step = bool(use_legacy_reset), bool(use_legacy_step)

        self._np_random, self._np_random_seed = seeding.np_random(int(seed))

        if backend == "model":
            self._backend = PageModel(self.sizes.elements, conceptual=self.conceptual)
        else:
            from a2perf.domains.web_navigation.browsers.chromium import ChromiumBackend

            self._backend = ChromiumBackend(browser_args)
        self._frame = new_frame(self.sizes, self.encoder.padding)
        self.episode = self.new_episode(self._backend, self._frame)
        self.observation = observation
        words = self.vocabulary.max_vocabulary_size
        self._interface = interface_of(observation, self.episode, self.sizes, self.conceptual, words)
        space: Any = self._interface.observation_space
        self.observation_space, self.action_space = space, self._interface.action_space
        self._episodes = 0  # since the last seed
        self._masks = ActionMasks(self.sizes, self.conceptual)
        self.change_site: Callable[[Site], Site] | None = None
        self._last_info: dict[str, Any] = {}
        if backend == "model":
            preload([self._build(design) for design in self.designs[:_PRELOADED]], self.encoder, self.sizes.elements)

    # --- Gymnasium API

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode.

        Args:
            options: ``design`` (a design, or the number of one of the environment's) and ``profile`` (gold values of
                some of the site's keys).

        Returns:
            The observation and ``info``: with arrays, ``action_mask`` (int8: 1 where the element and the profile row
            exist); with text, ``instruction``.

        Raises:
            ConfigError: an option is unknown or wrong, or the design has no solution.
            EpisodeOverError: the environment is closed.
        """
        self._open_backend()
        super().reset(seed=seed)
        if options:
            self.check_options(options)
        self.start_episode(self.episode, self.np_random, options)
        self._episodes = 1 if seed is not None else self._episodes + 1
        begun = self._interface.begin(
            self._profiles(),
            reversed_order=self.order == "reversed",
            seed=self.np_random_seed,
            number=self._episodes,
        )
        self._last_info = info = {**begun, **self.episode.progress()}
        if self.render_mode == "human":
            self._show()
        observation = self._interface.observation()
        return observation if self._legacy_reset else (observation, info)

    def step(self, action: int) -> Any:
        """Acts on an element.

        Args:
            action: ``row * number_of_dom_elements + element``, or a text. An invalid text costs a step.

        Returns:
            The observation, the reward, whether the page ended the episode, whether the step limit did, and ``info``:
            ``raw_reward`` (the page's own), ``reason`` (``"solved"``, ``"wrong"``, ``"link"``, None), ``is_success``;
            ``action_mask`` with arrays, ``error`` (None if the action was valid) with text.

        Raises:
            ConfigError: the action lies outside the space.
            EpisodeOverError: the episode is over, none was started, or the environment is closed.
        """
        episode = self.episode
        if not episode.running:
            self._open_backend()
            raise EpisodeOverError(
                "step() before reset() or after the end of the episode", hint="call env.reset() first"
            )
        reward, terminated, truncated = self._interface.act(action)
        end = episode.end
        info: dict[str, Any]
        if end is not End.RUNNING and self.rules.stale_last_observation:
            info = self._last_info
        else:
            info = {
                **self._interface.info(),
                "raw_reward": episode.raw,
                **episode.outcome(),
            }
            self._last_info = info
        if self.render_mode == "human":
            self._show()
        observation = self._interface.observation()
        if self._legacy_step:
            return observation, reward, terminated or truncated, info
        return observation, reward, terminated, truncated, info

    def reuse_observations(self) -> None:
        """Makes each step rewrite the arrays of the last observation, for callers that have copied what they keep."""
        if isinstance(self._interface, ArrayInterface):
            self._interface.reuses_arrays = True

    def render(self) -> NDArray[np.uint8] | None:
        """Returns a picture of the page, RGB, uint8, shape (height, width, 3), in render mode ``"rgb_array"``.

        Raises:
            EpisodeOverError: the environment is closed or was not reset.
        """
        backend = self._open_backend()
        if self.episode.site is None:
            raise EpisodeOverError("render() before the first reset()", hint="call env.reset(seed=...) first")
        return backend.picture() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Frees the browser, if there is one; calling it again changes nothing."""
        if self._backend is not None:
            self._backend.close()
            self.episode.running = False
        if self._window is not None:
            self._window.close()
        self._backend = self._window = None

    # --- For agents, reports and tools

    @property
    def elements(self) -> list[PageRow]:
        """The listed elements of the page, in the order of the rows of the observation."""
        return list(self._open_backend().rows()) if self.episode.site is not None else []

    @property
    def profile(self) -> dict[str, str | bool]:
        """The gold values of the episode."""
        return dict(self.episode.gold)

    @property
    def site(self) -> Site:
        """The website that is shown.

        Raises:
            EpisodeOverError: no episode was started.
        """
        if self.episode.site is None:
            raise EpisodeOverError("no episode was started", hint="call env.reset(seed=...) first")
        return self.episode.site

    def solution(self) -> list[Any]:
        """Returns the actions of a perfect episode, from its first step.

        Raises:
            EpisodeOverError: no episode was started.
        """
        return self._interface.solution(self.site)

    @property
    def is_task_completed(self) -> bool:
        """Whether the episode ended with every field right."""
        return self.episode.end is End.SOLVED

    @property
    def state(self) -> dict[str, Any]:
        """The argument of ``load``: the table of words."""
        return {"word_to_id": self.vocabulary.save()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over a table of words; a reset must follow.

        Raises:
            ConfigError: it is not one.
        """
        self.vocabulary.restore(state["word_to_id"])
        self.encoder = Encoder(self.vocabulary, self.sizes.words)
        self.episode.use_encoder(self.encoder)

    def action_mask(self) -> NDArray[np.int8]:
        """Returns 1 for each action with a listed element and an existing profile row, shape (n,)."""
        return self._masks(self._frame).copy()

    # --- Parts, also of vector environments

    def new_episode(self, backend: Backend, frame: Frame) -> WebEpisode:
        """Returns an episode with the settings of this environment."""
        return self.episode_kind(
            backend, frame, self.encoder, self.sizes, self.reward, self.rules, self.step_limit, self.conceptual
        )

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuses options of a reset.

        Raises:
            ConfigError: one is unknown or wrong, or the design has no solution.
        """
        chosen, _ = checked_options(options, self.designs)
        if chosen is not None and chosen not in self.designs and not self.rules.compat:
            check_solvable(chosen, self.step_limit, self.sizes)

    def start_episode(
        self, episode: WebEpisode, random: np.random.Generator, options: Mapping[str, Any] | None = None
    ) -> None:
        """Draws an episode and starts it.

        Raises:
            ConfigError: a gold value of the options does not fit the site.
        """
        chosen, fixed = checked_options(options, self.designs) if options else (None, {})
        designs = self.designs
        if chosen is None:
            chosen = designs[0] if len(designs) == 1 else designs[int(random.integers(len(designs)))]
        site = self._build(chosen)
        profile, texts = site.draw_profile(random), site.draw_texts(random)
        if fixed:
            profile.update(checked_profile(fixed, site))
        episode.start(self.changed(site), profile, texts)

    def changed(self, site: Site) -> Site:
        """Returns the site to show in place of one that was drawn: itself, unless ``change_site`` is set."""
        return site if self.change_site is None else self.change_site(site)

    def _profiles(self) -> list[Mapping[str, str | bool]]:
        """Returns the gold values of the episode per website."""
        return [self.episode.gold]

    def _build(self, design: WebsiteDesign) -> Site:
        return build_site(design, self.rules.compat)

    def _open_backend(self) -> Backend:
        if self._backend is None:
            raise EpisodeOverError("the environment is closed", hint="make a new one with gymnasium.make")
        return self._backend

    def _show(self) -> None:
        """Shows the page in a window."""
        if self._window is None:
            self._window = PictureWindow("web navigation", pause_s=0.1, size=(3.75, 6.67))  # a person can follow
        self._window.show(self._open_backend().picture())


ARGUMENTS = argument_names(WebNavigationEnv.__init__)


_with_gin_bindings = completed_by_gin("WebNavigationEnv", module="a2perf.web_navigation", home=__name__)


def build_web_env(**kwargs: Any) -> WebNavigationEnv:
    """Makes the environment; gin bindings of ``WebNavigationEnv`` supply arguments that are not given."""
    return WebNavigationEnv(**_with_gin_bindings(**kwargs))
