"""What the checks of an audit share: the environment, the policies that played it, and the record of a verdict."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import shlex
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from gymnasium import spaces

import a2perf
from a2perf.api.environments import find_task
from a2perf.constants import LONGEST_EPISODE
from a2perf.domains.any_environment import inspect
from a2perf.domains.package_code import environment_package
from a2perf.domains.registry import ANY, stored_fingerprint
from a2perf.errors import ConfigError
from a2perf_audit import policies
from a2perf_audit.episodes import ExpertError, Mean, Played, Policy, legal, play

HOLDS, FAILS, NOT_APPLICABLE, COULD_NOT_RUN = "holds", "fails", "not applicable", "could not run"
NOT_FINISHED = "not finished"
_OPTIONS = ("reward_range", "maximum", "episodes", "search_steps", "cap", "time_limit_s")


def _make(name: str, kwargs: Mapping[str, Any], render_mode: str | None) -> Any:
    return a2perf.make(name, render_mode=render_mode, disable_env_checker=True, **kwargs)


def _drawn_fails(name: str, kwargs: Mapping[str, Any]) -> str:
    try:
        with contextlib.closing(_make(name, kwargs, "rgb_array")) as env:
            env.reset(seed=0)
            env.render()
    except (Exception, SystemExit) as error:  # of the environment, its arguments or its drawing library
        return f"{type(error).__name__}: {error}"
    return ""


@dataclass(frozen=True)
class Finding:
    """The verdict of one check.

    Attributes:
        check: its name.
        question: what it asks.
        verdict: ``"holds"``, ``"fails"``, ``"not applicable"``, ``"could not run"`` if the check raised, or ``"not
            finished"`` within the time limit.
        evidence: one sentence with the numbers.
        seed: of the episode that shows it; None for evidence of many episodes.
        seconds: wall time of the check.
    """

    check: str
    question: str
    verdict: str
    evidence: str
    seed: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Subject:
    """What is audited, and what its author declares about it.

    Attributes:
        name: a task of a2perf or the id of an environment.
        expert: a policy that solves it; called with an observation.
        expert_name: how the command line names it.
        reward_range: least and greatest reward of a step.
        maximum: greatest return of an episode, which the expert reaches.
        episodes: per policy.
        search_steps: budget of each search, in steps of the environment.
        cap: most steps of an episode; by default the limit that the environment registers, else that of a2perf.
        time_limit_s: of each check; None for none.
    """

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    expert: Callable[[Any], Any] | None = None
    expert_name: str = ""
    reward_range: tuple[float, float] | None = None
    maximum: float | None = None
    episodes: int = 20
    search_steps: int = 30_000
    cap: int | None = None
    time_limit_s: float | None = None

    def make(self, render_mode: str | None = None) -> Any:
        """Makes the environment."""
        return _make(self.name, self.kwargs, render_mode)

    @cached_property
    def drawn_fails(self) -> str:
        """Why no picture of it can be drawn on this host, or ``""``; tried in a child, which a library may end."""
        context = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
        with ProcessPoolExecutor(1, context) as child:
            try:
                return child.submit(_drawn_fails, self.name, dict(self.kwargs)).result()
            except BrokenProcessPool:
                return "its drawing library ended the process"

    @property
    def command(self) -> str:
        """The command line that repeats the audit, without an expert that was given in Python."""
        words = ["a2perf", "audit", self.name]
        words += ["--env-kwargs", json.dumps(dict(self.kwargs))] if self.kwargs else []
        words += ["--expert", self.expert_name] if self.expert_name else []
        words += ["--reward-range", *map(str, self.reward_range)] if self.reward_range else []
        words += [] if self.maximum is None else ["--maximum", f"{self.maximum:g}"]
        numbers = {"--episodes": self.episodes, "--search-steps": self.search_steps, "--time-limit": self.time_limit_s}
        words += [word for name, value in numbers.items() if value is not None for word in (name, f"{value:g}")]
        return shlex.join(words)

    def identity(self) -> dict[str, Any]:
        """Returns what the findings are of: the environment's package and behaviour, a2perf, and the options."""
        found = find_task(self.name)
        foreign = found.domain == ANY
        package = environment_package(found.env_id) if foreign else None
        fingerprint = None if foreign else stored_fingerprint(found.env_id)
        with contextlib.suppress(ConfigError):  # a check reports it
            fingerprint = inspect(found.env_id, self.kwargs).fingerprint if foreign else fingerprint
        return {
            "a2perf": a2perf.__version__,
            "package": package and {name: getattr(package, name) for name in ("name", "version", "sha256")},
            "fingerprint": fingerprint,
            "expert": self.expert_name or (None if self.expert is None else "given in Python"),
            **{name: getattr(self, name) for name in _OPTIONS},
        }


class Bench:
    """The environment under audit with the episodes that several checks look at, each played once."""

    def __init__(self, subject: Subject) -> None:
        self.env = subject.make()
        limit = getattr(self.env.spec, "max_episode_steps", None) or LONGEST_EPISODE
        self.cap = limit if subject.cap is None else subject.cap
        self.subject = subject
        self.measured: list[Mean] = []

    def episodes(self, made: Callable[[int], Policy], *, first: int = 0, keep: bool = False) -> list[Played]:
        """Plays the episodes of one policy, each with another seed."""
        seeds = range(first, first + self.subject.episodes)
        return [play(self.env, made(seed), seed, self.cap, keep=keep) for seed in seeds]

    def mean(self, name: str, made: Callable[[int], Policy], first: int = 100) -> Mean:
        """Returns the mean return of a policy, which the page shows."""
        found = Mean.of(name, self.episodes(made, first=first))
        self.measured.append(found)
        return found

    @cached_property
    def random(self) -> list[Played]:
        """Episodes with random actions."""
        return self.episodes(policies.random_policy(self.env), keep=True)

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether every seed gives the same episode: then one list of actions says all."""
        actions = self.random[0].actions
        return len({tuple(play(self.env, actions, seed, self.cap).steps) for seed in range(1, 11)}) == 1

    @cached_property
    def trivial(self) -> list[Mean]:
        """Mean returns of the policies that should not win, the best first."""
        found = [self.mean(name, made) for name, made in policies.trivial(self.env)]
        return sorted(found, key=lambda mean: -mean.value)

    @cached_property
    def expert_policy(self) -> Policy | None:
        """The expert as a policy, which raises ``ExpertError`` for whatever the expert raises."""
        expert = self.subject.expert
        if expert is None:
            return None

        def act(observation: Any, step: int) -> Any:
            try:
                return expert(observation)
            except (Exception, SystemExit) as error:
                raise ExpertError(f"the expert raised {error!r} in step {step + 1}", hint="correct --expert") from error

        return act

    @cached_property
    def expert(self) -> Mean | None:
        """The mean return of the expert."""
        policy = self.expert_policy
        return None if policy is None else self.mean("expert", lambda seed: policy)

    @cached_property
    def floor(self) -> Mean:
        """The mean return of random actions."""
        return self.mean("random", policies.random_policy(self.env))

    @cached_property
    def learned(self) -> Mean | None:
        """The mean return of a policy that was searched by the reward alone."""
        features = policies.observation_features(self.env)
        return None if features is None else self._searched("search on the reward alone", *features)

    @cached_property
    def timed(self) -> Mean | None:
        """The mean return of a policy that was searched and sees only the number of the step."""
        return self._searched("search that sees only time", *policies.time_features(self.cap))

    def _searched(self, name: str, features: Callable[[Any, int], Any], size: int) -> Mean | None:
        policy = policies.searched(self.env, self.cap, self.subject.search_steps, features, size)
        return None if policy is None else self.mean(name, lambda seed: policy)

    @cached_property
    def answer_in_info(self) -> str:
        """The name of a number in ``info`` that is the next action of the expert in all of its steps, or ``""``."""
        policy = self.expert_policy
        if policy is None or not isinstance(self.env.action_space, spaces.Discrete):
            return ""
        named: dict[str, list[tuple[Any, int]]] = {}
        count = 0
        for seed in range(200, 205):
            observation, info = self.env.reset(seed=seed)
            for step in range(min(200, self.cap)):
                action = int(legal(policy(observation, step), observation, self.env.action_space))
                count += 1
                for name, value in info.items():
                    named.setdefault(str(name), []).append((value, action))
                observation, _, terminated, truncated, info = self.env.step(action)
                if terminated or truncated:
                    break
        for name, pairs in named.items():
            agrees = all(isinstance(value, int | np.integer) and int(value) == action for value, action in pairs)
            if agrees and len(pairs) == count and len({action for _, action in pairs}) > 1:
                return name
        return ""

    @cached_property
    def stalling(self) -> list[Mean]:
        """Mean returns of the expert that stops some steps before its end, and then does nothing or moves in a loop."""
        policy = self.expert_policy
        if policy is None or self.is_deterministic:
            return []
        first, second = (policies.constants(self.env.action_space) * 2)[:2]
        lengths = {one.seed: len(one.rewards) for one in self.episodes(lambda seed: policy, first=100)}

        def made(seed: int, before: int, actions: tuple[Any, ...]) -> Policy:
            stop = lengths[seed] - before
            return lambda o, t: policy(o, t) if t < stop else actions[t % len(actions)]

        ends = [(before, actions) for before in (1, 5) for actions in ((first,), (first, second))]
        names = {1: "does nothing", 2: "moves in a loop"}
        return [
            self.mean(
                f"expert that {names[len(actions)]} from {before} steps before its end",
                partial(made, before=before, actions=actions),
            )
            for before, actions in ends
        ]

    def share(self, mean: Mean) -> float:
        """Returns the part of the way from random actions to the expert that a policy certainly goes."""
        assert self.expert is not None
        if self.expert.value <= self.floor.value:
            return math.inf if mean.value - mean.half >= self.expert.value else 0.0
        return (mean.value - mean.half - self.floor.value) / (self.expert.value - self.floor.value)
