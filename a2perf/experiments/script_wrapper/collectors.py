"""Collects data after ``main`` has ended: rewards, weights, test episodes and videos, in this order."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.domains import video
from a2perf.experiments.script_wrapper.acting import (
    Acting,
    NotFound,
    find_acting,
    for_environment,
    names_of_wrappers,
    play,
)
from a2perf.experiments.script_wrapper.episodes import SMOOTHING
from a2perf.experiments.script_wrapper.live_values import LiveValues, as_array

WEIGHTS = ("model", "policy", "agent", "actor", "critic")
_FRAMES_PER_SECOND = 30


@dataclass
class Captured:
    """The state that a script leaves.

    Attributes:
        names: its global variables, overridden by the variables of ``main``.
        complete: whether ``main`` ended without an exception.
    """

    names: dict[str, Any]
    env_name: str
    seed: int
    folder: Path
    values: LiveValues
    episodes: int
    videos: int
    complete: bool


class OutputLost(Exception):
    """A collector found data that it could not save."""


def gather(captured: Captured) -> dict[str, str]:
    """Returns by collector what it saved, or why nothing; one that fails does not affect the others."""
    collectors: dict[str, Callable[[Captured], str]] = {
        "rewards": _rewards,
        "weights": _weights,
        "test_episodes": _test_episodes,
        "rollout_video": _rollout_videos,
    }
    found: dict[str, str] = {}
    for name, collect in collectors.items():
        try:
            found[name] = f"found: {collect(captured)}"
        except OutputLost as error:
            found[name] = f"lost: {error}"
        except (NotFound, ImportError) as error:
            found[name] = f"not found: {error}"
        except Exception as error:
            is_missing = type(error).__name__ == "DependencyNotInstalled"
            found[name] = f"not found: {error}" if is_missing else f"failed: {type(error).__name__}: {error}"
    return found


def _say(line: str) -> None:
    print(f"Benchmarks: {line}", flush=True)


def _rewards(captured: Captured) -> str:
    """Writes every step that a cherry-style logger stores in the environment, and logs the return of every episode."""
    env: Any = captured.names.get("env")
    stored: list[Any] = []
    with contextlib.suppress(AttributeError, KeyError, TypeError):
        stored = list(env.all_rewards)
    if not stored:
        raise NotFound("no env.all_rewards (of a cherry-style Logger)")
    _say("Computing rewards.")
    rewards = np.array([float(np.sum(as_array(reward))) for reward in stored])
    flags = getattr(env, "all_dones", ())
    dones = np.array([bool(np.any(as_array(done))) for done in flags])[: len(rewards)]
    np.savez_compressed(captured.folder / "rewards.npz", all_rewards=rewards, all_dones=dones)
    ends = np.flatnonzero(dones) + 1
    returns = np.diff(np.concatenate([[0.0], np.cumsum(rewards)])[np.concatenate([[0], ends])])
    smoothed = None
    for end, total in zip(ends.tolist(), returns.tolist(), strict=True):
        captured.values.log("episode_rewards", total, end)
        if not captured.values.counts["charts/episodic_return"] or smoothed is not None:
            smoothed = total if smoothed is None else SMOOTHING * smoothed + (1.0 - SMOOTHING) * total
            captured.values.log("charts/episodic_return", total, end)
            captured.values.log("smoothed_returns", smoothed, end)
    return f"{len(rewards)} rewards, {len(ends)} episodes"


def _weights(captured: Captured) -> str:
    """Saves each variable named model, policy, agent, actor or critic if it can be saved."""
    chosen = {name: value for name in WEIGHTS if (value := captured.names.get(name)) is not None}
    if not chosen:
        raise NotFound(f"no variable named {', '.join(WEIGHTS)}")
    _say("Saving weights.")
    done, lost = [], []
    for name, value in chosen.items():
        try:
            done.append(_saved(name, value, captured.folder))
        except Exception as error:  # the other variables must still be saved
            lost.append(f"{name} not saved ({type(error).__name__}: {error})")
    if lost:
        raise OutputLost("; ".join([*lost, *done]))
    return "; ".join(done)


def _test_episodes(captured: Captured) -> str:
    """Runs episodes with the policy that the script leaves, and logs ``test_time_rewards``."""
    acting = _policy(captured, captured.episodes, "test episodes")
    _say("Computing test rewards.")
    returns, where = _test_returns(captured, acting)
    for episode, total in enumerate(returns):
        captured.values.log("test_time_rewards", total, episode)
    return f"{len(returns)} episodes of {acting.name} in {where}: mean {float(np.mean(returns)):.2f}"


def _rollout_videos(captured: Captured) -> str:
    """Films a few episodes, ``rollout_<i>.mp4``."""
    acting = for_environment(_policy(captured, captured.videos, "videos"), ())
    if (missing := video.missing_package()) is not None:
        raise NotFound(f"{missing} is not installed")
    _say("Creating rollout videos.")
    env = _new_environment(captured, render_mode="rgb_array")
    try:
        for index in range(captured.videos):
            frames = _frames(env, acting, captured.seed + index)
            video.write_video(captured.folder / f"rollout_{index}.mp4", frames, _FRAMES_PER_SECOND)
    finally:
        env.close()
    return f"{captured.videos} video{'s' * (captured.videos != 1)}"


def _policy(captured: Captured, count: int, what: str) -> Acting:
    """Returns the policy for ``count`` episodes."""
    if not captured.complete:
        raise NotFound("main did not return")
    if count < 1:
        raise NotFound(f"no {what} were requested")
    return find_acting(captured.names)


def _test_returns(captured: Captured, acting: Acting) -> tuple[list[float], str]:
    """Runs episodes in the script's environment with its wrappers; if that fails, in a new environment."""
    own = captured.names.get("env")
    if callable(getattr(own, "run", None)):
        replays = [own.run(acting.raw, episodes=1) for _ in range(captured.episodes)]  # type: ignore[union-attr]
        return [float(np.sum(as_array(replay.reward()))) for replay in replays], "env.run of the script"
    first: Exception | None = None
    if callable(getattr(own, "step", None)) and getattr(own, "num_envs", None) is None:
        try:
            return _played(captured, own, for_environment(acting, names_of_wrappers(own)), "the script's env")
        except NotFound:
            raise
        except Exception as error:  # for example, main closed it
            first = error
    acting = for_environment(acting, ())
    try:
        env = _new_environment(captured)
    except NotFound:
        raise first or NotFound(f"{captured.env_name} cannot be created again and main leaves no env") from None
    try:
        return _played(captured, env, acting, "a new environment")
    finally:
        env.close()


def _new_environment(captured: Captured, **arguments: Any) -> Any:
    """Creates the environment of the run again."""
    try:
        import gymnasium

        return gymnasium.make(captured.env_name, **arguments)
    except Exception as error:
        raise NotFound(f"{captured.env_name} cannot be created ({type(error).__name__}: {error})") from error


def _played(captured: Captured, env: Any, acting: Acting, where: str) -> tuple[list[float], str]:
    """Runs the episodes; a return is that of the environment itself, not that of the script's wrappers."""
    from a2perf.experiments.script_wrapper.recorder import own_return

    totals, differ = [], False
    for index in range(captured.episodes):
        wrapped = play(env, acting, captured.seed + index)
        total = own_return(env)
        differ |= total is not None and not np.isclose(wrapped, total)
        totals.append(wrapped if total is None else total)
    if differ:
        where += " (rewards of the environment itself; a wrapper of the script changes them)"
    return totals, where


def _frames(env: Any, acting: Acting, seed: int) -> list[Any]:
    frames: list[Any] = []
    play(env, acting, seed, lambda world: frames.append(np.asarray(world.render(), np.uint8)))
    return frames


def _saved(name: str, value: Any, folder: Path) -> str:
    package = type(value).__module__.partition(".")[0]
    if package == "stable_baselines3" and hasattr(value, "save"):
        value.save(folder / f"{name}.zip")
        return f"{name}.zip (Stable-Baselines3)"
    if package == "tf_agents":
        from tf_agents.policies import policy_saver

        policy_saver.PolicySaver(getattr(value, "policy", value), batch_size=None).save(os.fspath(folder / name))
        return f"{name}/ (SavedModel)"
    has_state = callable(getattr(value, "state_dict", None))
    state = value.state_dict() if has_state else value
    arrays = {} if has_state and "torch" in sys.modules else _flattened(state)
    if arrays and all(isinstance(item, int | float | np.generic | np.ndarray) for item in arrays.values()):
        np.savez_compressed(folder / f"{name}.npz", **{key or "value": item for key, item in arrays.items()})
        return f"{name}.npz ({len(arrays)} array{'s' if len(arrays) != 1 else ''})"
    if not has_state:
        return f"{name} not saved: {type(value).__name__} has no state_dict and is not an array"
    try:
        import torch
    except ImportError as error:
        raise OutputLost("its state_dict holds more than arrays and numbers, and PyTorch is not installed") from error
    torch.save(state, folder / f"{name}.pth")
    return f"{name}.pth (state_dict)"


def _flattened(state: Any, prefix: str = "") -> dict[str, Any]:
    """Returns the values of nested mappings and lists by their path, ``layers.0.weight``."""
    if isinstance(state, Mapping):
        items: Iterable[tuple[Any, Any]] = state.items()
    elif isinstance(state, list | tuple):
        items = enumerate(state)
    else:
        return {prefix.rstrip("."): state}
    return {key: value for name, item in items for key, value in _flattened(item, f"{prefix}{name}.").items()}
