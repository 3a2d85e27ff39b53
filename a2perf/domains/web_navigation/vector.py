"""Many web environments in one object: arrays allocated once, of which a step rewrites only the rows that change.

Members give the episodes of single environments with the same seeds. What ``reset`` and ``step`` return is rewritten by
the next call; the caller copies what it keeps. With ``workers`` the members are shared out among processes that write
into the same memory.
"""

from __future__ import annotations

import functools
import itertools
import mmap
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from a2perf.domains.arguments import EpisodeOverError, integer_of_at_least
from a2perf.domains.web_navigation.arguments import checked_action
from a2perf.domains.web_navigation.environment import WebNavigationEnv, build_web_env
from a2perf.domains.web_navigation.episode import ActionMasks
from a2perf.domains.web_navigation.observation import Frame, array_specs
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.errors import ConfigError, InfrastructureError
from a2perf.system import POSIX, usable_processors

Arrays = dict[str, NDArray[Any]]
_MEMBERS_PER_WORKER = 64  # fewer make the hand-over dearer than the work
_ALIGNMENT = 64
_BEGUN = (0.0, False, False)


class _Members:
    """Some members, by their position in the shared arrays."""

    def __init__(self, template: WebNavigationEnv, arrays: Arrays, members: range, next_step: bool) -> None:
        self._template = template
        self._arrays = arrays
        self._members = members
        self._next_step = next_step
        self._masks = ActionMasks(template.sizes, template.conceptual)
        self._random: dict[int, np.random.Generator] = {}
        keys = list(array_specs(template.sizes))
        self._episodes = {
            member: template.new_episode(
                PageModel(template.sizes.elements, conceptual=template.conceptual),
                Frame({key: arrays[key][member] for key in keys}, template.encoder.padding),
            )
            for member in members
        }
        self._shown = dict.fromkeys(members, (-1, -1))

    def seed(self, seeds: Sequence[int | None]) -> None:
        """Gives each member a generator; None keeps the current one."""
        for member in self._members:
            seed = seeds[member]
            if seed is not None or member not in self._random:
                self._random[member] = seeding.np_random(seed)[0]

    def reset(self, chosen: NDArray[np.bool_] | None, options: Mapping[str, Any] | None) -> None:
        """Starts new episodes, of the chosen members or of all."""
        arrays = self._arrays
        for member in self._members:
            if chosen is None or chosen[member]:
                self._begin(member, options)
                arrays["reward"][member] = arrays["raw_reward"][member] = 0.0
                arrays["terminated"][member] = arrays["truncated"][member] = False

    def _begin(self, member: int, options: Mapping[str, Any] | None) -> None:
        episode = self._episodes[member]
        self._template.start_episode(episode, self._random[member], options)
        self._show_mask(member, episode.frame)

    def _show_mask(self, member: int, frame: Frame) -> None:
        key = (frame.profile_rows, frame.listed)
        if self._shown[member] != key:
            self._arrays["action_mask"][member] = self._masks(frame)
            self._shown[member] = key

    def step(self) -> list[tuple[int, dict[str, Any]]]:
        """Steps every member with its action; a member with an ended episode is reset instead.

        Returns:
            The members at the end of an episode, with what ``info`` says of it.
        """
        arrays, share = self._arrays, slice(self._members.start, self._members.stop)
        # collected in lists and written at once: single entries of arrays are slow to set
        results: list[tuple[float, bool, bool]] = []
        raw: list[float] = []
        ended: list[tuple[int, dict[str, Any]]] = []
        actions = arrays["action"][share].tolist()
        for member, episode, action in zip(self._members, self._episodes.values(), actions, strict=True):
            if episode.running:
                result = episode.step(action)
                results.append(result)
                raw.append(episode.raw)
                frame = episode.frame
                if (frame.profile_rows, frame.listed) != self._shown[member]:
                    self._show_mask(member, frame)
                if result[1] or result[2]:
                    ended.append((member, episode.outcome()))
            elif self._next_step:
                self._begin(member, None)
                results.append(_BEGUN)
                raw.append(0.0)
            else:
                raise EpisodeOverError(
                    f"step() of member {member} after the end of its episode", hint="reset the member first"
                )
        arrays["reward"][share], arrays["terminated"][share], arrays["truncated"][share] = zip(*results, strict=True)
        arrays["raw_reward"][share] = raw
        return ended


def _serve(members: _Members, pipe: Connection, inherited: Sequence[Connection]) -> None:
    """What a worker process does: one job after another, until the pipe closes, at the latest when its parent dies."""
    for end in inherited:  # a copy of the parent's end here would keep the pipe open
        end.close()
    while True:
        try:
            job, arguments = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            pipe.send(getattr(members, job)(*arguments))
        except Exception as error:  # the parent raises it
            pipe.send(error)


class WebVectorEnv(VectorEnv[Arrays, NDArray[np.int64], Any]):
    """Many web environments on the page model.

    Args:
        workers: processes, this one included; by default one for every 64 members, at most one per processor.
        autoreset_mode: a member with an ended episode is reset at the next step, or by the caller.

    Raises:
        ConfigError: an argument is out of its range.
    """

    metadata = {**WebNavigationEnv.metadata}
    build: Callable[..., WebNavigationEnv] = staticmethod(build_web_env)
    """Makes a single environment."""

    def __init__(
        self,
        num_envs: int = 1,
        workers: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        **kwargs: Any,
    ) -> None:
        self._closed = True
        mode = AutoresetMode(autoreset_mode)
        if mode is AutoresetMode.SAME_STEP:
            raise ConfigError("autoreset_mode is 'SameStep'", hint="use 'NextStep' or 'Disabled'")
        self.num_envs = integer_of_at_least(1, "num_envs", num_envs)
        template = self.build(**kwargs)
        if template.observation != "arrays":
            raise ConfigError(
                f"observation is {template.observation!r}", hint="text is not shared: use gymnasium.make_vec"
            )
        self.template = template
        self.render_mode = None
        self.metadata = {**template.metadata, "autoreset_mode": mode}
        self.autoreset_mode = mode
        self.single_observation_space = template.observation_space
        self.single_action_space: Any = template.action_space
        self.observation_space = batch_space(template.observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        if workers is None:
            workers = max(min(usable_processors(), self.num_envs // _MEMBERS_PER_WORKER), 1)
        self.workers = min(integer_of_at_least(1, "workers", workers), self.num_envs) if POSIX else 1
        self._arrays = _shared_arrays(template, self.num_envs)
        self._observations = {key: self._arrays[key] for key in array_specs(template.sizes)}
        bounds = np.linspace(0, self.num_envs, self.workers + 1).astype(int).tolist()
        shares = [range(low, high) for low, high in itertools.pairwise(bounds)]
        next_step = mode is AutoresetMode.NEXT_STEP
        self._own = _Members(template, self._arrays, shares[0], next_step)
        self._pipes: list[Connection] = []
        self._processes = []
        context: Any = multiprocessing.get_context("fork" if POSIX else "spawn")  # the arrays are inherited, not copied
        for share in shares[1:]:
            near, far = context.Pipe()
            members = _Members(template, self._arrays, share, next_step)
            # Before the fork: the worker must also close the parent's end of this pipe.
            self._pipes.append(near)
            process = context.Process(target=_serve, args=(members, far, tuple(self._pipes)), daemon=True)
            process.start()
            # Before the next fork: a copy in another process would hide the death of this worker.
            far.close()
            self._processes.append(process)
        self._closed = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Arrays, dict[str, Any]]:
        """Starts new episodes of all members, or of those of ``options["reset_mask"]``.

        Args:
            seed: of the first member, the others follow; or one for each.

        Returns:
            Observations and ``info`` (``action_mask``, ``raw_reward``); rewritten by the next call.

        Raises:
            ConfigError: seeds or options are wrong.
        """
        self._require_open()
        rest = dict(options or {})
        chosen = rest.pop("reset_mask", None)
        if chosen is not None:
            chosen = np.asarray(chosen)
            if chosen.dtype != np.bool_ or chosen.shape != (self.num_envs,):
                raise ConfigError("reset_mask is not one bool for each member", hint=f"shape ({self.num_envs},)")
        self.template.check_options(rest)
        if seed is None or isinstance(seed, (int, np.integer)):
            seeds = [None if seed is None else int(seed) + member for member in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ConfigError(f"{len(seeds)} seeds for {self.num_envs} environments")
        self._each("seed", seeds)
        self._each("reset", chosen, rest or None)
        return self._observations, self._info()

    def step(
        self, actions: Any
    ) -> tuple[Arrays, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Steps every member.

        Args:
            actions: shape (num_envs,).

        Returns:
            Observations, rewards, terminated, truncated, ``info``; rewritten by the next call. ``info`` has ``reason``
            and ``is_success`` of members at the end of an episode.

        Raises:
            ConfigError: an action lies outside the space.
            EpisodeOverError: resets are the caller's, and an episode is over.
        """
        self._require_open()
        given = np.asarray(actions)
        if given.shape != (self.num_envs,):
            raise ConfigError(f"actions have the shape {given.shape}", hint=f"shape ({self.num_envs},)")
        count = self.template.sizes.actions
        if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= count:
            for action in given.tolist():
                checked_action(action, count)
        self._arrays["action"][:] = given
        arrays, info = self._arrays, self._info()
        for member, outcome in itertools.chain.from_iterable(self._each("step")):
            info = self._add_info(info, outcome, member)
        return self._observations, arrays["reward"], arrays["terminated"], arrays["truncated"], info

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the worker processes."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=5.0)
            if process.is_alive():
                process.kill()
        self._pipes, self._processes = [], []
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise EpisodeOverError("the environments are closed", hint="make new ones with gymnasium.make_vec")

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._arrays["action_mask"], "raw_reward": self._arrays["raw_reward"]}

    def _each(self, job: str, *arguments: Any) -> list[Any]:
        """Does a job in every process, and waits for all; returns the results."""
        # The others get their job first and work while this process does its own share.
        for pipe in self._pipes:
            pipe.send((job, arguments))
        results: list[Any] = []
        try:
            results.append(getattr(self._own, job)(*arguments))
        except Exception as error:
            results.append(error)
        # All answers are read even after a failure, or the next job would receive an old one.
        for pipe in self._pipes:
            try:
                results.append(pipe.recv())
            except EOFError as error:
                self._closed = True
                raise InfrastructureError("a worker process of the vector environment died") from error
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results


def _shared_arrays(template: WebNavigationEnv, num_envs: int) -> Arrays:
    """Arrays in memory that processes forked from this one share."""
    specs: dict[str, tuple[tuple[int, ...], Any]] = dict(array_specs(template.sizes))
    specs |= {
        "action": ((), np.int64),
        "action_mask": ((template.sizes.actions,), np.int8),
        "reward": ((), np.float64),
        "raw_reward": ((), np.float64),
        "terminated": ((), np.bool_),
        "truncated": ((), np.bool_),
    }
    offsets, size = {}, 0
    for key, (shape, dtype) in specs.items():
        offsets[key] = size
        size += -(-num_envs * int(np.prod(shape)) * np.dtype(dtype).itemsize // _ALIGNMENT) * _ALIGNMENT
    memory = mmap.mmap(-1, size)
    return {key: np.ndarray((num_envs, *shape), dtype, memory, offsets[key]) for key, (shape, dtype) in specs.items()}


def make_vector_env(
    num_envs: int = 1, kind: type[WebVectorEnv] = WebVectorEnv, **kwargs: Any
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Makes a vector environment: shared arrays on the page model with array observations; else one per member."""
    shared = {"backend": "model", "observation": "arrays", "compat": False}  # compat shows an earlier info at the end
    if all(kwargs.get(name, value) == value for name, value in shared.items()):
        return kind(num_envs, **kwargs)
    kwargs.pop("workers", None)
    mode = AutoresetMode(kwargs.pop("autoreset_mode", AutoresetMode.NEXT_STEP))
    return SyncVectorEnv([functools.partial(kind.build, **kwargs)] * num_envs, autoreset_mode=mode)
