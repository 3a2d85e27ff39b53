"""What is gathered once ``main`` has ended: an ordered list of collectors, each of which says what it looks for.

A package adds one of its own through the entry point group ``a2perf.script_collectors``: an object with ``name``,
``matches`` and ``collect``, or a function without arguments that returns one.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from a2perf.domains import video
from a2perf.experiments.script_wrapper.acting import Acting, NotAnAction, as_array, find_acting, play
from a2perf.experiments.script_wrapper.episode_journal import SMOOTHING
from a2perf.experiments.script_wrapper.episodes import Watch
from a2perf.experiments.script_wrapper.live_values import LiveValues

GROUP = "a2perf.script_collectors"
WEIGHTS = ("model", "policy", "agent", "actor", "critic")
_FRAMES_PER_SECOND = 30


@dataclass
class Captured:
    """What a script left behind.

    Attributes:
        names: its global variables, and over them the variables of ``main``.
        env_name: the environment's name, as ``main`` got it.
        seed: the seed.
        folder: where collectors write.
        values: takes further scalars.
        episodes: how many test episodes are wanted.
        videos: how many videos.
        complete: whether ``main`` ended without an exception.
        say: prints a line for people.
        watching: adds up the rewards of environments in their own units.
        summary: what collectors found, for ``wrap.json``.
    """

    names: dict[str, Any]
    env_name: str
    seed: int
    folder: Path
    values: LiveValues
    episodes: int
    videos: int
    complete: bool
    say: Callable[[str], None]
    watching: Callable[[], AbstractContextManager[Watch]]
    summary: dict[str, Any] = field(default_factory=dict)


class Collector(Protocol):
    """Gathers one kind of thing."""

    name: str

    def matches(self, captured: Captured) -> str | None:
        """Returns why there is nothing to gather, in words; None when there is something."""

    def collect(self, captured: Captured) -> str:
        """Gathers it and returns what was gathered, in words."""


class LoggedRewards:
    """The rewards and ends of steps that a cherry-style logger keeps on the environment."""

    name = "rewards"

    def matches(self, captured: Captured) -> str | None:
        """Looks for ``env.all_rewards``."""
        env = captured.names.get("env")
        return None if _holds(env, "all_rewards") else "no env.all_rewards (of a cherry-style Logger)"

    def collect(self, captured: Captured) -> str:
        """Keeps every step in ``rewards.npz`` and logs the return of every episode and its smoothed course."""
        captured.say("Benchmarks: Computing rewards.")
        env = captured.names["env"]
        rewards = np.array([float(np.sum(as_array(reward))) for reward in env.all_rewards])
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
        captured.summary["episodes"] = len(ends)
        return f"{len(rewards)} rewards, {len(ends)} episodes"


class Weights:
    """The parameters of whatever is named model, policy, agent, actor or critic."""

    name = "weights"

    def matches(self, captured: Captured) -> str | None:
        """Looks for the names."""
        if any(captured.names.get(name) is not None for name in WEIGHTS):
            return None
        return f"no variable named {', '.join(WEIGHTS)}"

    def collect(self, captured: Captured) -> str:
        """Saves what can be saved and says of each what was done."""
        captured.say("Benchmarks: Saving weights.")
        done = []
        for name in WEIGHTS:
            value = captured.names.get(name)
            if value is not None:
                try:
                    done.append(_saved(name, value, captured.folder))
                except Exception as error:  # one that cannot be saved must not cost the others
                    done.append(f"{name} not saved ({type(error).__name__}: {error})")
        captured.summary["weights"] = done
        return "; ".join(done)


class TestEpisodes:
    """Episodes after the training, with the acting function that the script leaves."""

    name = "test_episodes"

    def matches(self, captured: Captured) -> str | None:
        """Looks for an acting function, and an environment to act in."""
        if not captured.complete:
            return "main did not end by itself"
        if captured.episodes < 1:
            return "no test episodes were asked for"
        acting = find_acting(captured.names)
        return acting if isinstance(acting, str) else None

    def collect(self, captured: Captured) -> str:
        """Plays the episodes and logs ``test_time_rewards``."""
        captured.say("Benchmarks: Computing test rewards.")
        acting = find_acting(captured.names)
        assert isinstance(acting, Acting)
        returns, where = _test_returns(captured, acting)
        for episode, total in enumerate(returns):
            captured.values.log("test_time_rewards", total, episode)
        captured.summary["test_time_rewards"] = returns
        mean = float(np.mean(returns))
        return f"{len(returns)} episodes of {acting.name} in {where}: mean {mean:.2f}"


class RolloutVideos:
    """Pictures of a few episodes."""

    name = "rollout_video"

    def matches(self, captured: Captured) -> str | None:
        """Looks for an acting function and an environment that can draw itself."""
        if not captured.complete or captured.videos < 1:
            return "main did not end by itself" if not captured.complete else "no videos were asked for"
        acting = find_acting(captured.names)
        if isinstance(acting, str):
            return acting
        try:
            import gymnasium

            gymnasium.spec(captured.env_name)
        except ImportError as error:
            return f"{error.name} is not installed"
        except Exception as error:
            return f"{captured.env_name} is not an id of Gymnasium ({type(error).__name__})"
        missing = video.missing_package()
        return None if missing is None else f"{missing} is not installed"

    def collect(self, captured: Captured) -> str:
        """Writes ``rollout_<i>.mp4``."""
        import gymnasium

        captured.say("Benchmarks: Creating rollout videos.")
        acting = find_acting(captured.names)
        assert isinstance(acting, Acting)
        env = gymnasium.make(captured.env_name, render_mode="rgb_array")
        try:
            for index in range(captured.videos):
                frames = _frames(env, acting, captured.seed + index)
                video.write_video(captured.folder / f"rollout_{index}.mp4", frames, _FRAMES_PER_SECOND)
        finally:
            env.close()
        captured.summary["videos"] = captured.videos
        return f"{captured.videos} videos"


def all_collectors(say: Callable[[str], None]) -> list[Collector]:
    """Returns the collectors in the order in which they run; those of installed packages come last."""
    found: list[Collector] = [LoggedRewards(), Weights(), TestEpisodes(), RolloutVideos()]
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            loaded = entry.load()
            collector = loaded() if isinstance(loaded, type) or not hasattr(loaded, "collect") else loaded
            found.append(collector)
        except Exception as error:  # a broken package must not take the run down
            say(f"Benchmarks: collector {entry.name} could not be loaded: {type(error).__name__}: {error}")
    return found


def gather(captured: Captured) -> dict[str, str]:
    """Runs every collector; none can make another fail.

    Returns:
        What each gathered, or why it did not.
    """
    said: dict[str, str] = {}
    for collector in all_collectors(captured.say):
        try:
            reason = collector.matches(captured)
            said[collector.name] = f"not found: {reason}" if reason else f"found: {collector.collect(captured)}"
        except Exception as error:
            kinds = ("DependencyNotInstalled", "NotAnAction")
            is_missing = isinstance(error, ImportError) or type(error).__name__ in kinds
            said[collector.name] = f"not found: {error}" if is_missing else f"failed: {type(error).__name__}: {error}"
    return said


def _test_returns(captured: Captured, acting: Acting) -> tuple[list[float], str]:
    """Plays in the script's own environment, which has its wrappers, and in a new one where that does not work."""
    own = captured.names.get("env")
    if callable(getattr(own, "run", None)):
        totals, raw = [], []
        for _ in range(captured.episodes):
            with captured.watching() as watch:
                replay = own.run(acting.raw, episodes=1)  # type: ignore[union-attr]
            totals.append(float(np.sum(as_array(replay.reward()))))
            raw.append(watch.total if watch.steps else totals[-1])
        changed = "" if np.allclose(totals, raw) else " (in the units of the script's wrappers, which change rewards)"
        return totals, f"env.run of the script{changed}"
    first: Exception | None = None
    if callable(getattr(own, "step", None)) and getattr(own, "num_envs", None) is None:
        try:
            return _played(captured, own, acting, "the script's env")
        except NotAnAction:
            raise
        except Exception as error:  # closed at the end of main, for instance
            first = error
    import gymnasium

    try:
        env = gymnasium.make(captured.env_name)
    except Exception:
        raise first or RuntimeError(f"{captured.env_name} cannot be made again and main leaves no env") from None
    try:
        return _played(captured, env, acting, "a new environment")
    finally:
        env.close()


def _played(captured: Captured, env: Any, acting: Acting, where: str) -> tuple[list[float], str]:
    """Plays the episodes; a return is the sum of the environment's own rewards, whatever wrappers make of them."""
    totals, differ, unseen = [], False, False
    for index in range(captured.episodes):
        with captured.watching() as watch:
            wrapped = play(env, acting, captured.seed + index)
        unseen |= watch.steps == 0
        differ |= watch.steps > 0 and not np.isclose(wrapped, watch.total)
        totals.append(watch.total if watch.steps else wrapped)
    if differ:
        where += " (rewards of the environment itself; a wrapper of the script changes them)"
    return totals, where + (" (rewards as the script's wrappers give them)" if unseen else "")


def _frames(env: Any, acting: Acting, seed: int) -> list[Any]:
    frames: list[Any] = []
    play(env, acting, seed, lambda world: frames.append(np.asarray(world.render(), np.uint8)))
    return frames


def _saved(name: str, value: Any, folder: Path) -> str:
    package = type(value).__module__.partition(".")[0]
    if package == "stable_baselines3" and hasattr(value, "save"):
        value.save(folder / f"{name}.zip")
        return f"{name}.zip (Stable-Baselines3)"
    if callable(getattr(value, "state_dict", None)):
        import torch

        torch.save(value.state_dict(), folder / f"{name}.pth")
        return f"{name}.pth (state_dict)"
    if package == "tf_agents":
        from tf_agents.policies import policy_saver

        policy = getattr(value, "policy", value)
        policy_saver.PolicySaver(policy, batch_size=None).save(os.fspath(folder / name))
        return f"{name}/ (SavedModel)"
    if isinstance(value, np.ndarray):
        np.savez_compressed(folder / f"{name}.npz", value=value)
        return f"{name}.npz (array {value.shape})"
    if isinstance(value, dict) and value and all(isinstance(item, int | float | np.ndarray) for item in value.values()):
        keys = json.dumps([str(key) for key in value])
        np.savez_compressed(folder / f"{name}.npz", keys=keys, **_columns(list(value.values())))
        return f"{name}.npz (table of {len(value)})"
    return f"{name} not saved ({type(value).__name__} has no state_dict and is not an array)"


def _columns(values: list[Any]) -> dict[str, Any]:
    shapes = {np.shape(value) for value in values}
    if len(shapes) == 1:
        return {"values": np.stack([np.asarray(value) for value in values])}
    return {f"value_{index}": np.asarray(value) for index, value in enumerate(values)}


def _holds(value: Any, name: str) -> bool:
    try:
        return value is not None and not isinstance(value, str) and len(getattr(value, name)) > 0
    except (AttributeError, TypeError):
        return False
