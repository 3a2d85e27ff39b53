"""Collectors of data after ``main`` has ended, in a fixed order.

A package adds a collector through the entry point group ``a2perf.script_collectors``: an object with ``name``,
``matches`` and ``collect``, or a function without arguments that returns one.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
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
from a2perf.plugins import entry_points

GROUP = "a2perf.script_collectors"
WEIGHTS = ("model", "policy", "agent", "actor", "critic")
_FRAMES_PER_SECOND = 30


@dataclass
class Captured:
    """The state that a script leaves.

    Attributes:
        names: its global variables, overridden by the variables of ``main``.
        complete: whether ``main`` ended without an exception.
        watching: sums the environments' original rewards.
        summary: results of collectors for ``wrap.json``.
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
    """Collects one kind of data."""

    name: str

    def matches(self, captured: Captured) -> str | None:
        """Returns why there is nothing to collect; None if there is something."""

    def collect(self, captured: Captured) -> str:
        """Collects the data and returns a description of it."""


class LoggedRewards:
    """Rewards and ends of steps that a cherry-style logger stores in the environment."""

    name = "rewards"

    def matches(self, captured: Captured) -> str | None:
        """Looks for ``env.all_rewards``."""
        with contextlib.suppress(AttributeError, KeyError, TypeError):
            if len(captured.names["env"].all_rewards) > 0:
                return None
        return "no env.all_rewards (of a cherry-style Logger)"

    def collect(self, captured: Captured) -> str:
        """Writes every step to ``rewards.npz`` and logs the return of every episode and a smoothed curve."""
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


class OutputLost(Exception):
    """A collector found data that it could not save."""


class Weights:
    """Parameters of variables named model, policy, agent, actor or critic."""

    name = "weights"

    def matches(self, captured: Captured) -> str | None:
        """Looks for these names."""
        if any(captured.names.get(name) is not None for name in WEIGHTS):
            return None
        return f"no variable named {', '.join(WEIGHTS)}"

    def collect(self, captured: Captured) -> str:
        """Saves each variable if it can be saved, and describes the result."""
        captured.say("Benchmarks: Saving weights.")
        done, lost = [], []
        for name in WEIGHTS:
            value = captured.names.get(name)
            if value is not None:
                try:
                    done.append(_saved(name, value, captured.folder))
                except Exception as error:  # the other variables must still be saved
                    lost.append(f"{name} not saved ({type(error).__name__}: {error})")
        captured.summary["weights"] = [*done, *lost]
        if lost:
            raise OutputLost("; ".join([*lost, *done]))
        return "; ".join(done)


class TestEpisodes:
    """Episodes after the training, with the policy that the script leaves."""

    name = "test_episodes"

    def matches(self, captured: Captured) -> str | None:
        """Looks for a policy and an environment."""
        return _why_no_policy(captured, captured.episodes, "test episodes")

    def collect(self, captured: Captured) -> str:
        """Runs the episodes and logs ``test_time_rewards``."""
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
    """Videos of a few episodes."""

    name = "rollout_video"

    def matches(self, captured: Captured) -> str | None:
        """Looks for a policy and an environment that can render."""
        if reason := _why_no_policy(captured, captured.videos, "videos"):
            return reason
        try:
            import gymnasium

            gymnasium.spec(captured.env_name)
        except ImportError as error:
            return f"{error.name} is not installed"
        except Exception as error:
            return f"{captured.env_name} is not a Gymnasium id ({type(error).__name__})"
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


def gather(captured: Captured) -> dict[str, str]:
    """Runs every collector, those of installed packages last; a failing one does not affect the others.

    Returns:
        The description of each collector's data, or why it has none.
    """
    collectors: list[Collector] = [LoggedRewards(), Weights(), TestEpisodes(), RolloutVideos()]
    for entry in entry_points(GROUP):
        try:
            loaded = entry.load()
            is_made = not isinstance(loaded, type) and hasattr(loaded, "collect")
            collectors.append(loaded if is_made else loaded())
        except Exception as error:  # a broken package must not end the run
            captured.say(f"Benchmarks: collector {entry.name} could not be loaded: {type(error).__name__}: {error}")
    found: dict[str, str] = {}
    for collector in collectors:
        try:
            reason = collector.matches(captured)
            found[collector.name] = f"not found: {reason}" if reason else f"found: {collector.collect(captured)}"
        except OutputLost as error:
            found[collector.name] = f"lost: {error}"
        except Exception as error:
            kinds = ("DependencyNotInstalled", "NotAnAction")
            is_missing = isinstance(error, ImportError) or type(error).__name__ in kinds
            found[collector.name] = f"not found: {error}" if is_missing else f"failed: {type(error).__name__}: {error}"
    return found


def _why_no_policy(captured: Captured, count: int, what: str) -> str | None:
    """Returns why no episodes can be run with the policy of a script; None if they can."""
    if not captured.complete:
        return "main did not return"
    if count < 1:
        return f"no {what} were requested"
    acting = find_acting(captured.names)
    return acting if isinstance(acting, str) else None


def _test_returns(captured: Captured, acting: Acting) -> tuple[list[float], str]:
    """Runs episodes in the script's environment with its wrappers; if that fails, in a new environment."""
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
        except Exception as error:  # for example, main closed it
            first = error
    import gymnasium

    try:
        env = gymnasium.make(captured.env_name)
    except Exception:
        raise first or RuntimeError(f"{captured.env_name} cannot be created again and main leaves no env") from None
    try:
        return _played(captured, env, acting, "a new environment")
    finally:
        env.close()


def _played(captured: Captured, env: Any, acting: Acting, where: str) -> tuple[list[float], str]:
    """Runs the episodes; a return is the sum of the environment's original rewards, not of those of its wrappers."""
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
        return _saved_state(name, value.state_dict(), folder)
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
        values = [np.asarray(item) for item in value.values()]
        same = len({item.shape for item in values}) == 1
        columns: dict[str, Any] = (
            {"values": np.stack(values)} if same else {f"value_{at}": item for at, item in enumerate(values)}
        )
        np.savez_compressed(folder / f"{name}.npz", keys=keys, **columns)
        return f"{name}.npz (table of {len(value)})"
    return f"{name} not saved: {type(value).__name__} has no state_dict and is not an array"


def _saved_state(name: str, state: Any, folder: Path) -> str:
    """Saves a state_dict: arrays and numbers without PyTorch, everything else with it.

    Raises:
        OutputLost: it needs PyTorch, which is not installed.
    """
    if "torch" not in sys.modules:
        flat = _flattened(state)
        if flat and all(isinstance(item, int | float | np.generic | np.ndarray) for item in flat.values()):
            np.savez_compressed(folder / f"{name}.npz", **flat)
            return f"{name}.npz (state_dict of {len(flat)} arrays)"
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
