"""Counts the episodes of every environment that a script steps, in all its processes.

It patches classes and not instances: subclasses of ``gymnasium.Env`` and ``gym.Env`` when they are defined, and classes
of the script with ``step`` and ``reset``. One step of the script calls several wrappers; only the innermost environment
counts, so rewards are the original ones. A patched method never changes a result or an exception.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from a2perf.experiments.script_wrapper.episode_journal import REPORTED, EpisodeJournal, StepCounter
from a2perf.experiments.script_wrapper.import_hooks import after_import
from a2perf.experiments.script_wrapper.places import Place, place_here
from a2perf.system import POSIX

_LISTENED = "__a2perf_environment__"
_MOST_NOTES = 5
_NUMBERS = (float, int, np.floating, np.integer)


@dataclass
class _Group:
    """Environments that count as one: the members of a vector environment, or a single one."""

    ident: str = ""
    steps: StepCounter = field(default_factory=StepCounter)


@dataclass
class _Counted:
    """The running episode of one environment, or those of a vectorized environment."""

    place: Place
    born: int
    group: _Group = field(default_factory=_Group)
    total: Any = 0.0
    length: Any = 0
    outer_done: bool = False
    name: str = ""
    resetting: Any = None


@dataclass
class Watch:
    """Original rewards of the environment during test episodes."""

    total: float = 0.0
    steps: int = 0


class ScriptEpisodes:
    """Observes the steps of environments and writes their episodes to the journal.

    Args:
        folder: folder of the script; stack frames in it give the place where an environment was created.
        worker: whether this is a process that the script started.
    """

    def __init__(self, folder: str, journal: EpisodeJournal, *, worker: bool = False) -> None:
        self._folder, self._journal, self._worker = folder, journal, worker
        self._local = threading.local()
        self._counted: dict[int, tuple[Any, _Counted]] = {}
        self._serial = 0
        self._names = 0
        self._watch: Watch | None = None
        self.training = True
        self.notes: list[str] = []
        if POSIX:
            os.register_at_fork(after_in_child=self._forked)

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watch]:
        """Sums the original rewards of environments in this process."""
        self._watch = watch = Watch()
        try:
            yield watch
        finally:
            self._watch = None

    def finish(self) -> None:
        """Ends the training: episodes that a wrapper had ended count as complete without a reset."""
        for _, counted in list(self._counted.values()):
            if counted.outer_done:
                self._end(counted, counted.name, counted.total, counted.length)
        self.training = False

    def made(self, env: Any) -> _Counted:
        """Returns the record of an environment; a new record contains the place of its creation in the script."""
        known = self._counted.get(id(env))
        if known is not None:
            return known[1]
        counted = _Counted(place_here(self._folder), self._serial)
        try:
            holder: Any = weakref.ref(env, functools.partial(self._counted.pop, id(env)))
        except TypeError:  # no weak reference possible: keep the object alive, or its id could be reused
            holder = env
        self._counted[id(env)] = (holder, counted)
        return counted

    def one(self, envs: Iterable[Any]) -> None:
        """Counts the members of a vector environment as one."""
        members = [self.made(_innermost(env)) for env in envs]
        for member in members[1:]:
            member.group = members[0].group

    def call(self, env: Any, step: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Runs one ``step`` of an environment or a wrapper, and counts it if it is the innermost one.

        The stack holds one list per running step: the object, the record that was counted below it, and whether steps
        below it count.
        """
        stack: list[list[Any]] = self._local.__dict__.setdefault("stack", [])
        if stack and (stack[-1][0] is env or not stack[-1][2]):  # super().step(), or a part of a counted environment
            return step(env, *args, **kwargs)
        is_wrapper = _inner(env) is not None or "envs" in getattr(env, "__dict__", ())
        frame = [env, None, is_wrapper]
        stack.append(frame)
        try:
            result = step(env, *args, **kwargs)
        finally:
            stack.pop()
        try:
            counted = frame[1]
            if counted is None:
                counted = self._count(env, result)
            elif is_wrapper and type(counted.length) is int and counted.length and _is_result(result):
                counted.outer_done |= _has_ended(result)
            if stack:
                stack[-1][1] = counted
        except Exception as error:  # a script may return anything from step
            note = f"steps of {type(env).__name__} cannot be counted: {type(error).__name__}: {error}"
            if note not in self.notes and len(self.notes) < _MOST_NOTES:
                self.notes.append(note)
        return result

    def reset(self, env: Any) -> None:
        """Records the start of an episode; an earlier one that a wrapper had ended (time limit) is complete."""
        counted = self._counted.get(id(env), (None, None))[1]
        if counted is None:
            return
        if counted.outer_done:
            self._end(counted, counted.name, counted.total, counted.length)
        counted.total, counted.length, counted.outer_done, counted.resetting = 0.0, 0, False, None

    def statistics(self, source: str, total: float, length: int) -> None:
        """Records an episode that a wrapper of the script reports, for environments that cannot be patched."""
        counted = self._counted.setdefault(id(source), (source, _Counted(Place("", source, REPORTED), 0)))[1]
        counted.group.steps.add(length)
        self._end(counted, source, total, length)

    def _count(self, env: Any, result: Any) -> _Counted | None:
        held = getattr(env, "__dict__", {})
        if not _is_result(result) or "processes" in held or "env_fns" in held:
            return None  # the processes of its environments report their episodes
        counted = self.made(env)
        if isinstance(result[1], _NUMBERS):  # the common case, without arrays
            self._count_one(env, counted, float(result[1]), _has_ended(result))
            return counted
        reward = np.asarray(result[1], dtype=np.float64)
        ended = functools.reduce(np.logical_or, [np.asarray(flag, dtype=bool) for flag in result[2:-1]])
        if reward.ndim == 1 and ended.shape == reward.shape and getattr(env, "num_envs", None) == len(reward):
            self._count_many(env, counted, reward, ended)
        else:
            self._count_one(env, counted, float(reward.sum()), bool(ended.any()))
        return counted

    def _count_one(self, env: Any, counted: _Counted, reward: float, ended: bool) -> None:
        if self._watch is not None:
            self._watch.total += reward
            self._watch.steps += 1
        if not self.training:
            return
        counted.name = counted.name or _name(env)
        self._serial += 1
        self._steps(counted).add(1)
        counted.total += reward
        counted.length += 1
        if ended:
            self._end(counted, counted.name, counted.total, counted.length)

    def _count_many(self, env: Any, counted: _Counted, reward: Any, ended: Any) -> None:
        """Counts a step of a vectorized environment; in Gymnasium's next-step mode the step after an end is a reset."""
        if not self.training:
            return
        counted.name = counted.name or _name(env)
        if counted.resetting is None:
            counted.total, counted.length = np.zeros(len(reward)), np.zeros(len(reward), int)
            counted.resetting = np.zeros(len(reward), bool)
        moved = ~counted.resetting
        counted.total += np.where(moved, reward, 0.0)
        counted.length += moved
        self._serial += int(moved.sum())
        self._steps(counted).add(int(moved.sum()))
        totals, lengths = counted.total, counted.length
        for index in np.flatnonzero(ended & moved):
            self._end(counted, counted.name, float(totals[index]), int(lengths[index]))
        counted.total, counted.length = np.where(ended, 0.0, totals), np.where(ended, 0, lengths)
        mode = getattr(getattr(env, "metadata", {}).get("autoreset_mode"), "name", "SAME_STEP")
        counted.resetting = ended & moved if mode == "NEXT_STEP" else np.zeros(len(reward), bool)

    def _steps(self, counted: _Counted) -> StepCounter:
        group = counted.group
        if self._worker and not group.steps.is_shared:
            group.steps = self._journal.shared_steps(counted.place.key or "other")
        return group.steps

    def _end(self, counted: _Counted, name: str, total: float, length: int) -> None:
        if np.ndim(counted.length) == 0:
            counted.total, counted.length, counted.outer_done = 0.0, 0, False
        if not self.training:
            return
        group = counted.group
        if not group.ident:
            self._names += 1
            group.ident = f"{os.getpid()}-{self._names}"
            place = counted.place
            self._journal.append({
                "env": group.ident, "name": name, "key": place.key, "line": place.line, "role": place.role,
                "worker": self._worker, "born": counted.born,
            })  # fmt: skip
        self._journal.append([group.ident, total, int(length), group.steps.total(), self._serial])

    def _forked(self) -> None:
        self._worker = True
        self._local = threading.local()
        for _, counted in self._counted.values():
            counted.group = _Group()


def listen(episodes: ScriptEpisodes) -> None:
    """Patches every class of environments that is defined from now on, in either gym."""
    for name in ("gymnasium.core", "gymnasium.vector.vector_env", "gym.core", "gym.vector.vector_env"):
        after_import(name, functools.partial(_listen_to_bases, episodes))
    for name, kind in (
        ("gymnasium.vector.sync_vector_env", "SyncVectorEnv"),
        ("gym.vector.sync_vector_env", "SyncVectorEnv"),
        ("stable_baselines3.common.vec_env.dummy_vec_env", "DummyVecEnv"),
    ):
        after_import(name, functools.partial(_listen_to_members, episodes, kind))
    after_import("gymnasium.wrappers.vector.common", functools.partial(_listen_to_statistics, episodes))


def listen_to(kind: type, episodes: ScriptEpisodes) -> type:
    """Patches a class if it defines ``step``, ``reset`` or ``__init__``, and returns it."""
    with contextlib.suppress(Exception):  # a metaclass may refuse
        own = vars(kind)
        if _LISTENED in own:
            return kind
        for name, listening in (
            ("__init__", functools.partial(_before, episodes.made)),
            ("reset", functools.partial(_before, episodes.reset)),
            ("step", functools.partial(_on_step, episodes)),
        ):
            function = own.get(name)
            if inspect.isfunction(function):
                setattr(kind, name, functools.wraps(function)(listening(function)))
        setattr(kind, _LISTENED, True)
    return kind


def is_environment(kind: Any) -> bool:
    """Returns whether a class has the methods of an environment."""
    return isinstance(kind, type) and all(inspect.isfunction(getattr(kind, name, None)) for name in ("step", "reset"))


def _before(note: Callable[[Any], object], function: Any) -> Any:
    def listening(self: Any, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            note(self)
        return function(self, *args, **kwargs)

    return listening


def _on_step(episodes: ScriptEpisodes, function: Any) -> Any:
    def listening(self: Any, *args: Any, **kwargs: Any) -> Any:
        return episodes.call(self, function, args, kwargs)

    return listening


def _listen_to_bases(episodes: ScriptEpisodes, module: ModuleType) -> None:
    bases = [vars(module)[name] for name in ("Env", "VectorEnv") if name in vars(module)]
    for base in bases:
        base.__init_subclass__ = _on_subclass(base, vars(base).get("__init_subclass__"), episodes)
    for kind in list(vars(module).values()):  # wrappers that the module defines
        if isinstance(kind, type) and any(base in kind.__mro__ for base in bases) and kind not in bases:
            listen_to(kind, episodes)


def _on_subclass(base: Any, inherited: Any, episodes: ScriptEpisodes) -> Any:
    def defined(kind: Any, /, **given: Any) -> None:
        if inherited is not None:
            inherited.__func__(kind, **given)
        else:
            super(base, kind).__init_subclass__(**given)
        listen_to(kind, episodes)

    return classmethod(defined)


def _listen_to_members(episodes: ScriptEpisodes, name: str, module: ModuleType) -> None:
    kind = vars(module).get(name)
    if kind is None:
        return
    construct = kind.__init__

    @functools.wraps(construct)
    def listening(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            episodes.one(self.envs)

    kind.__init__ = listening


def _listen_to_statistics(episodes: ScriptEpisodes, module: ModuleType) -> None:
    """Uses the reports of the vector wrapper for environments in other languages or processes."""
    kind = vars(module).get("RecordEpisodeStatistics")
    if kind is None:
        return
    step = kind.step

    @functools.wraps(step)
    def listening(self: Any, actions: Any) -> Any:
        result = step(self, actions)
        with contextlib.suppress(Exception):
            report = result[-1].get("episode") if isinstance(result[-1], dict) else None
            if report is not None:
                returns, lengths = np.atleast_1d(report["r"]), np.atleast_1d(report["l"])
                ended = np.atleast_1d(result[-1].get("_episode", np.ones(len(returns), bool)))
                for total, length in zip(returns[ended], lengths[ended], strict=True):
                    episodes.statistics("RecordEpisodeStatistics", float(total), int(length))
        return result

    kind.step = listening


def _is_result(result: Any) -> bool:
    """Returns whether a result is that of ``step``: four or five parts, and the last one is the info."""
    return (
        isinstance(result, (tuple, list))  # faster than a union
        and 4 <= len(result) <= 5
        and isinstance(result[-1], (dict, list, tuple))
        and not hasattr(result, "step_type")  # dm_env has another order
    )


def _has_ended(result: Any) -> bool:
    """Returns whether a flag of a single environment's result is set."""
    return any(flag is True or (flag is not False and np.ndim(flag) == 0 and bool(flag)) for flag in result[2:-1])


def _inner(env: Any) -> Any:
    held = getattr(env, "__dict__", None) or {}
    for name in ("env", "_env", "venv"):
        found = held.get(name)
        if found is not None and callable(getattr(type(found), "step", None)):
            return found
    return None


def _innermost(env: Any) -> Any:
    while (inner := _inner(env)) is not None:
        env = inner
    return env


def _name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", None) or type(env).__name__)
