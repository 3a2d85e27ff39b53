"""Rollouts: the evaluator steps the environment, the participant only maps observations to actions.

Rewards, terminations and times are recorded here, in the evaluator. Nothing here depends on the domain.
"""

from __future__ import annotations

import functools
import hashlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from a2perf.errors import IllegalAnswer, SubmissionError
from a2perf.records import Episode, FailureKind
from a2perf.submission.evaluator.playing.actions import ActionChecker
from a2perf.submission.evaluator.process.failures import EnvironmentFailure, ParticipantFailure
from a2perf.submission.participant.shared_region import Layout, PackedArrays

_MAX_INFO_ITEMS = 16


class Policy(Protocol):
    """Maps an observation to an action; a participant process is one."""

    def infer(self, observation: Any) -> Any:
        """Returns a record with the attribute ``action``."""


class StepTrace:
    """Records the steps of one episode, small enough to keep: the reward, and hashes of observation and action.

    Two runs with the same seeds can then be compared step by step (``a2perf reproduce``): the first difference shows
    whether the environment or the policy acted differently first.
    """

    def __init__(self, packed: Callable[[], PackedArrays | None] = lambda: None) -> None:
        self._packed = packed
        self._observations: list[int] = []
        self._actions: list[int] = []
        self._rewards: list[float] = []

    def see(self, observation: Any) -> None:
        """Adds an observation, at the latest before the step, which may reuse its memory."""
        self._observations.append(value_hash(observation, self._packed()))

    def act(self, action: Any) -> None:
        """Adds the action."""
        self._actions.append(value_hash(action))

    def reward(self, reward: float) -> None:
        """Adds the reward of the step."""
        self._rewards.append(reward)

    def record(self) -> dict[str, list[int] | list[float]]:
        """Returns one list per name: ``observation_digest`` and ``action_digest``, and ``reward``."""
        return {"observation_digest": self._observations, "action_digest": self._actions, "reward": self._rewards}


def rollout(
    env: Any,
    policy: Policy,
    *,
    index: int,
    seed: int,
    on_step: Callable[[Any, Any], None] | None = None,
    trace: StepTrace | None = None,
) -> Episode:
    """Plays one episode.

    Args:
        on_step: called with observation and checked action before each step of the environment.
        trace: gets actions and rewards; its ``see`` gets the observations from the policy, while that computes.

    Raises:
        ParticipantFailure: the participant failed, or its action is not valid in the action space or in this state.
        EnvironmentFailure: the environment raised an exception, or a reward is not finite.
    """
    started = time.perf_counter()
    try:
        observation, info = env.reset(seed=seed)
        checked = ActionChecker(env.action_space)
    except BaseException as error:
        raise EnvironmentFailure.of("reset", seed, error)  # noqa: B904 -- it has its cause
    total, length, terminated, truncated = 0.0, 0, False, False
    terms: dict[str, float] = {}
    while not (terminated or truncated):
        action = checked(policy.infer(observation).action)
        if on_step is not None:
            on_step(observation, action)
        if trace is not None:
            trace.act(action)
        try:
            observation, reward, terminated, truncated, info = env.step(action)
            if not isinstance(info, Mapping):
                raise TypeError(f"info is {info!r}, not a dict")
            total += float(reward)
            for name, value in info.get("reward_terms", {}).items():
                terms[name] = terms.get(name, 0.0) + float(value)
        except SubmissionError as error:  # the action is in the space, but not allowed in this state
            kind = FailureKind.ILLEGAL if isinstance(error, IllegalAnswer) else FailureKind.BAD_OUTPUT
            raise ParticipantFailure.of(kind, "infer_once", error.message) from error
        except BaseException as error:
            raise EnvironmentFailure.of(f"step {length + 1}", seed, error)  # noqa: B904 -- it has its cause
        if trace is not None:
            trace.reward(float(reward))
        length += 1
    if not math.isfinite(total):
        raise EnvironmentFailure.of(f"step {length}", seed, ValueError(f"the sum of the rewards is {total}"))
    success = info.get("is_success", info.get("success"))
    termination = info.get("termination")
    return Episode(
        index=index, seed=seed, episode_return=total, length=length, terminated=bool(terminated),
        truncated=bool(truncated), termination=None if termination is None else str(termination),
        clipped_actions=checked.clipped, wall_s=time.perf_counter() - started,
        reward_terms={name: value / length for name, value in terms.items()},
        success=None if success is None else bool(success), final_info=_small_items(info),
    )  # fmt: skip


def _small_items(info: dict[str, Any]) -> dict[str, Any]:
    """Returns the scalars and short vectors of an ``info``; a record does not need the rest."""
    kept: dict[str, Any] = {}
    for name, value in info.items():
        if isinstance(value, np.generic):  # first: numpy.float64 is a float too
            kept[name] = value.item()
        elif isinstance(value, bool | int | float | str) or value is None:
            kept[name] = value
        elif isinstance(value, np.ndarray | list | tuple):
            array = np.asarray(value)
            if array.size <= _MAX_INFO_ITEMS and array.dtype.kind in "biuf":
                kept[name] = array.tolist()
    return kept


_MOST_INTEGERS, _MOST_STRUCTURES = 1 << 12, 64


def value_hash(value: Any, packed: PackedArrays | None = None) -> int:
    """Returns a hash in [0, 2^32) of an element of a space: a number, an array, or mappings and sequences of these.

    It is BLAKE2b: a sum of the words that was multiplied, which is faster for pictures, is the same for two changed
    signs.
    """
    if type(value) is int and abs(value) < 1 << 63:
        return _integer_hash(value)
    if packed is None:
        packed = _packed(value)
    digest = hashlib.blake2b(packed.words.data, digest_size=4, person=_structure_hash(packed.structure))
    return int.from_bytes(digest.digest(), "little")


@functools.lru_cache(_MOST_INTEGERS)
def _integer_hash(value: int) -> int:
    return value_hash(np.int64(value))


@functools.lru_cache(_MOST_STRUCTURES)
def _structure_hash(structure: tuple[tuple[Any, ...], ...]) -> bytes:
    return hashlib.blake2b(repr(structure).encode(), digest_size=hashlib.blake2b.PERSON_SIZE).digest()


def _packed(value: Any) -> PackedArrays:
    """Packs a value as it would be sent; one that does not consist of arrays becomes one array of bytes."""
    request = ("", np.asarray(value) if isinstance(value, np.generic | float) else value)
    layout = Layout.of(request)
    if layout is None:
        parts: list[bytes] = []
        _collect(value, parts)
        request = ("", {"bytes": np.frombuffer(b"".join(parts) or b"\0", np.uint8)})
        layout = Layout.of(request)
    assert layout is not None
    layout.open(bytearray(layout.size))
    layout.write(request)
    assert layout.packed is not None
    return layout.packed


def _collect(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, Mapping):
        for name, item in value.items():
            parts.append(f"{name}\0".encode())
            _collect(item, parts)
    elif isinstance(value, list | tuple):
        parts.append(f"{len(value)}\0".encode())
        for item in value:
            _collect(item, parts)
    elif isinstance(value, str):
        parts.append(value.encode())
    else:
        array = np.ascontiguousarray(value)
        parts.append(f"{array.dtype.str}{array.shape}\0".encode())
        parts.append(repr(value).encode() if array.dtype.hasobject else array.tobytes())
