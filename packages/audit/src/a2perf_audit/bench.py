"""What the checks of an audit share: the environment, the policies that played it, and the record of a verdict."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import a2perf
from a2perf_audit import policies
from a2perf_audit.episodes import ExpertError, Mean, Played, Policy, play

HOLDS, FAILS, NOT_APPLICABLE, COULD_NOT_RUN = "holds", "fails", "not applicable", "could not run"


@dataclass(frozen=True)
class Finding:
    """The verdict of one check.

    Attributes:
        check: its name.
        question: what it asks.
        verdict: ``"holds"``, ``"fails"``, ``"not applicable"``, or ``"could not run"`` if the check raised.
        evidence: one sentence with the numbers.
        seed: of the episode that shows it; None for evidence of many episodes.
    """

    check: str
    question: str
    verdict: str
    evidence: str
    seed: int | None = None


@dataclass(frozen=True)
class Subject:
    """What is audited, and what its author declares about it.

    Attributes:
        name: a task of a2perf or the id of an environment.
        expert: a policy that solves it; called with an observation.
        reward_range: least and greatest reward of a step.
        maximum: greatest return of an episode, which the expert reaches.
        episodes: per policy.
        search_steps: budget of each search, in steps of the environment.
        cap: most steps of an episode.
    """

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    expert: Callable[[Any], Any] | None = None
    reward_range: tuple[float, float] | None = None
    maximum: float | None = None
    episodes: int = 20
    search_steps: int = 30_000
    cap: int = 1000

    def make(self) -> Any:
        """Makes the environment."""
        return a2perf.make(self.name, disable_env_checker=True, **self.kwargs)

    @property
    def command(self) -> str:
        """The command line that repeats the audit, without an expert that was given in Python."""
        words = ["a2perf", "audit", self.name]
        words += ["--env-kwargs", json.dumps(dict(self.kwargs))] if self.kwargs else []
        words += ["--reward-range", *map(str, self.reward_range)] if self.reward_range else []
        return shlex.join(words)


class Bench:
    """The environment under audit with the episodes that several checks look at, each played once."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.env = subject.make()

    def episodes(self, made: Callable[[int], Policy], *, first: int = 0, keep: bool = False) -> list[Played]:
        """Plays the episodes of one policy, each with another seed."""
        seeds = range(first, first + self.subject.episodes)
        return [play(self.env, made(seed), seed, self.subject.cap, keep=keep) for seed in seeds]

    def mean(self, name: str, made: Callable[[int], Policy], first: int = 100) -> Mean:
        """Returns the mean return of a policy."""
        return Mean.of(name, self.episodes(made, first=first))

    @cached_property
    def random(self) -> list[Played]:
        """Episodes with random actions."""
        return self.episodes(policies.random_policy(self.env), keep=True)

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether every seed gives the same episode: then one list of actions says all."""
        actions = self.random[0].actions
        first, second = (play(self.env, actions, seed, self.subject.cap) for seed in (1, 2))
        return first.steps == second.steps

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
        return self._searched("search that sees only time", *policies.time_features(self.subject.cap))

    def _searched(self, name: str, features: Callable[[Any, int], Any], size: int) -> Mean | None:
        policy = policies.searched(self.env, self.subject.cap, self.subject.search_steps, features, size)
        return None if policy is None else self.mean(name, lambda seed: policy)

    def share(self, mean: Mean) -> float:
        """Returns the part of the way from random actions to the expert that a policy certainly goes."""
        assert self.expert is not None
        if self.expert.value <= self.floor.value:
            return math.inf if mean.value - mean.half >= self.expert.value else 0.0
        return (mean.value - mean.half - self.floor.value) / (self.expert.value - self.floor.value)

    def means(self) -> Iterator[Mean]:
        """Yields every mean that was measured."""
        yield from self.trivial
        yield from (mean for mean in (self.floor, self.expert, self.learned, self.timed) if mean is not None)
