"""Episodes of an environment: played with a policy or a list of actions, and compared bit for bit."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from a2perf.domains.any_environment import add_value
from a2perf.errors import ConfigError

Policy = Callable[[Any, int], Any]
"""Maps an observation and the number of the step to an action."""


class ExpertError(ConfigError):
    """The expert that the caller gave cannot play."""


@dataclass
class Played:
    """One episode.

    Attributes:
        seed: of its reset.
        steps: one hash per step of observation, reward and end; the first is that of the reset.
        ended: whether it terminated or was truncated before the cap.
        truncated: whether it was truncated.
        success: what its last ``info`` says in ``is_success`` or ``success``, if it does.
        problem: an exception of the environment, or "".
    """

    seed: int
    steps: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    actions: list[Any] = field(default_factory=list)
    observations: list[Any] = field(default_factory=list)
    ended: bool = False
    truncated: bool = False
    success: bool | None = None
    problem: str = ""

    @property
    def total(self) -> float:
        """The return."""
        return float(sum(self.rewards))


def play(
    env: Any,
    policy: Policy | Sequence[Any],
    seed: int,
    cap: int,
    *,
    keep: bool = False,
    between: Callable[[], None] | None = None,
) -> Played:
    """Plays an episode.

    Args:
        policy: a policy, or the actions of an episode that was played before; each becomes ``legal``.
        cap: most steps.
        keep: keep copies of the observations.
        between: called before each step.

    Raises:
        ExpertError: the policy is an expert that raised an exception.
    """
    played = Played(seed)
    try:
        observation, info = env.reset(seed=seed)
        played.steps.append(value_hash(observation))
        for step in range(cap if callable(policy) else min(cap, len(policy))):
            if keep:
                played.observations.append(copy.deepcopy(observation))
            if between is not None:
                between()
            chosen = policy(observation, step) if callable(policy) else policy[step]
            action = legal(chosen, observation, env.action_space)
            played.actions.append(copy.deepcopy(action))
            observation, reward, terminated, truncated, info = env.step(action)
            played.rewards.append(float(reward))
            played.steps.append(value_hash((observation, float(reward), bool(terminated), bool(truncated))))
            if terminated or truncated:
                played.ended, played.truncated = True, bool(truncated)
                break
        if keep:
            played.observations.append(copy.deepcopy(observation))
        success = info.get("is_success", info.get("success"))
        played.success = None if success is None else bool(success)
    except ExpertError:
        raise
    except (Exception, SystemExit) as error:  # of the environment under audit
        played.problem = f"{type(error).__name__}: {error}"
    return played


def legal(action: Any, observation: Any, space: Any) -> Any:
    """Returns the next action that the mask in an observation allows, the action itself if there is no mask."""
    mask = mask_of(observation, space)
    if mask is None or mask[int(action) - int(space.start)]:
        return action
    allowed = np.flatnonzero(mask) + int(space.start)
    return int(allowed[np.searchsorted(allowed, int(action)) % len(allowed)])


def mask_of(observation: Any, space: Any) -> Any:
    """Returns which actions of a finite space an observation allows, as numbers of 0 and 1; None without a mask."""
    for name in ("action_mask", "mask", "legal_actions") if isinstance(observation, dict) else ():
        mask = np.asarray(observation.get(name, ()))
        if mask.shape == (getattr(space, "n", None),) and mask.any():
            return mask.astype(np.int8)
    return None


def value_hash(value: Any) -> str:
    """Returns a hash of numbers, arrays, texts, and mappings and sequences of these."""
    digest = hashlib.sha256()
    add_value(digest, value)
    return digest.hexdigest()[:16]


def first_difference(one: Played, other: Played) -> str:
    """Returns where two episodes of the same seed differ, or "" if they are equal bit for bit."""
    if one.problem != other.problem:
        return f"one of them raised {one.problem or other.problem}"
    for step, (a, b) in enumerate(zip(one.steps, other.steps, strict=False)):
        if a != b:
            return f"they differ in {f'step {step}' if step else 'the reset'}"
    if len(one.steps) != len(other.steps):
        return f"one has {len(one.steps) - 1} steps, the other {len(other.steps) - 1}"
    return ""


@dataclass(frozen=True)
class Mean:
    """The mean return of episodes with the half width of its 95 % interval (normal)."""

    name: str
    value: float
    half: float
    sd: float
    successes: float | None = None

    @classmethod
    def of(cls, name: str, episodes: Sequence[Played]) -> Mean:
        """Returns the mean over episodes."""
        totals = np.array([one.total for one in episodes])
        sd = float(totals.std(ddof=1)) if len(totals) > 1 else 0.0
        known = [one.success for one in episodes if one.success is not None]
        share = sum(known) / len(known) if known else None
        return cls(name, float(totals.mean()), 1.96 * sd / math.sqrt(len(totals)), sd, share)

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.half:.2g}"
