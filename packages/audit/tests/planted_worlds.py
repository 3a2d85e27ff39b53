"""A small sound environment, faults that can be planted in it, and experts of sound environments."""

from __future__ import annotations

import os
import random
import socket
import sys
import time
import zlib
from datetime import datetime
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

CODES = (5, 3, 4)
"""Observation for each target; none equals its target modulo 3."""
_shared = {"episodes": 0}


class Signals(gymnasium.Env[Any, Any]):
    """Each step shows a signal; the action that belongs to it is paid with 1. An episode has 20 steps.

    Args:
        fault: what is wrong; "" for nothing.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 1}

    def __init__(self, fault: str = "", render_mode: str | None = None) -> None:
        self.fault, self.render_mode = fault, render_mode
        if fault == "one process" and "a2perf_audit.replay" in sys.orig_argv:
            raise RuntimeError("another process has the lock")
        self.action_space: Any = spaces.Discrete(3)
        if fault == "action changed":
            self.action_space = spaces.Box(-1, 1, (3,))
        if fault == "no bounds":
            self.action_space = spaces.Box(-np.inf, np.inf, (1,))
        if fault == "own limit":
            self.max_steps = 20
        high = 4.0 if fault == "observation outside" else 10.0
        self.observation_space = spaces.Box(0, high, (2,), np.float32)
        self._buffer = np.zeros(2, np.float32)
        self._episodes = self._total = 0
        self.speed = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if self.fault == "few seeds" and seed is not None:
            seed = seed % 5
        if self.fault != "seed ignored":
            super().reset(seed=seed)
        self._episodes += 1
        _shared["episodes"] += 1
        self.steps, self.last = 0, -1
        if self.fault != "state survives truncation":
            self._total = 0
        return self._observed(), self._told()

    def _told(self) -> dict[str, Any]:
        return {"signal": self.target} if self.fault == "answer in info" else {}

    def render(self) -> Any:
        if self.fault == "drawing draws":
            self.np_random.random()
        return np.zeros((8, 8, 3), np.uint8)

    def _observed(self) -> Any:
        self.target = int(self.np_random.integers(3))
        if self.fault in ("blind", "one action"):
            self.target = self.steps % 3 if self.fault == "blind" else 1
        if self.fault == "global generator":
            self.target = int(np.random.randint(3))
        if self.fault == "random module":
            self.target = random.randrange(3)
        if self.fault == "system entropy":
            self.target = os.urandom(1)[0] % 3
        if self.fault == "hash seed":
            self.target = (self.target + hash("signal")) % 3
        if self.fault == "threads":
            self.target = (self.target + (os.environ.get("OMP_NUM_THREADS") == "4")) % 3
        if self.fault == "memory between episodes":
            self.target = (self.target + self._episodes) % 3
        if self.fault == "shared by instances":
            self.target = (self.target + _shared["episodes"]) % 3
        if self.fault == "state survives truncation":
            self.target = (self.target + self._total) % 3
        if self.fault == "clock":
            self.target = (self.target + int(time.time() / 3600)) % 3
        if self.fault == "calendar":
            self.target = (self.target + datetime.now().day + datetime.now().hour) % 3
        if self.fault == "host name":
            self.target = (self.target + zlib.crc32(socket.gethostname().encode())) % 3
        if self.fault == "variable":
            self.target = (self.target + len(os.environ.get("DIFFICULTY", ""))) % 3
        if self.fault == "pause":
            self.target = (self.target + int(time.clock_gettime(time.CLOCK_MONOTONIC))) % 3
        second = float(self.target) if self.fault == "leaked answer" else float(self.np_random.random())
        if self.fault == "process number":
            second = os.getpid() / 1e8
        if self.fault == "user":
            second = zlib.crc32(os.environ.get("USER", "nobody").encode()) / 1e10
        if self.fault == "folder":
            second = zlib.crc32(os.getcwd().encode()) / 1e10
        observation = np.array([CODES[self.target], second], np.float32)
        if self.fault == "wrong dtype" and self.steps == 3:
            return observation.astype(np.float64)
        if self.fault == "shared memory":
            self._buffer[:] = observation
            return self._buffer
        return observation

    def step(self, action: Any) -> Any:
        if self.fault == "action changed":
            chosen = int(np.argmax(action))
            action *= 0.5
        else:
            chosen = int(np.argmax(action)) if self.fault == "no bounds" else int(action)
        if self.fault == "raises on an action" and chosen == 2:
            raise KeyError("no such move")
        self.steps += 1
        self._total += chosen
        reward = float(chosen == self.target)
        match self.fault:
            case "empty answer":
                reward = max(reward, float(chosen == 0))
            case "standing still":
                reward = max(reward, 0.75 * (chosen == 0))
            case "one action" | "observation ignored":
                reward = float(chosen == 1)
            case "loop":
                reward += 2.0 * (chosen == (self.last + 1) % 2 and self.last in (0, 1))
            case "reward out of range" if self.steps == 7:
                reward = 1.5
            case "reward not finite" if self.steps == 7:
                reward = float("nan")
            case "actions ignored":
                reward = 0.5
            case "noise":
                reward += float(self.np_random.normal(0, 300))
            case "slow start":
                reward = 0.0 if chosen == self.target else 1.0
        over = self.steps >= 20
        if self.fault == "end at once" and chosen == 2 and self.steps == 1:
            reward, over = 30.0, True
        if self.fault == "giving up":
            reward, over = (-1.0 + 0.5 * reward), over or chosen == 2
        if self.fault == "never ends":
            over = False
        self.last = chosen
        observation = self._observed()
        info = {"is_success": True} if self.fault == "success for nothing" else self._told()
        if self.fault == "four values":
            return observation, reward, over, info
        if self.fault == "own limit":
            return observation, reward, over, False, info
        return observation, reward, False, over, info


class Masked(Signals):
    """Signals with a mask that forbids one action, which raises an exception after the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(signal=self.observation_space, mask=spaces.MultiBinary(3))

    def _observed(self) -> Any:
        signal = super()._observed()
        self.mask = np.ones(3, np.int8)
        self.mask[(self.target + 1) % 3] = 0
        return {"signal": signal, "mask": self.mask}

    def step(self, action: Any) -> Any:
        if self.steps and not self.mask[int(action)]:  # the checker of Gymnasium steps once with any action
            raise ValueError("the mask forbids it")
        return super().step(action)


class Racer(gymnasium.Env[Any, Any]):
    """Reach the goal at 5 or -5 and stay; one thing in it pays more: turning the wheel against the goal, far away."""

    metadata = {"render_modes": []}
    observation_space = spaces.Box(-100, 100, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, bonus: float = 0.0) -> None:
        self.bonus = bonus

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.uniform(-1, 1)), 0
        self.goal = float(self.np_random.choice([-5, 5]))
        return self._observed(), {}

    def _observed(self) -> Any:
        return np.array([self.place, self.goal - self.place], np.float32)

    def step(self, action: Any) -> Any:
        self.place = float(np.clip(self.place + float(np.clip(action, -1, 1)[0]), -50, 50))
        self.steps += 1
        reward = -abs(self.place - self.goal) / 10 + self.bonus * max(0.0, -self.place - 5.0)
        return self._observed(), reward, False, self.steps >= 40, {}


class Goal(gymnasium.Env[Any, Any]):
    """Walk to the goal, where the episode ends; each step pays the nearness, so it pays to stay beside it."""

    metadata = {"render_modes": []}
    observation_space = spaces.Box(-100, 100, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.way = int(self.np_random.integers(6, 12))
        return np.array([self.way], np.float32), {}

    def step(self, action: Any) -> Any:
        self.way += (0, -1, 1)[int(action)]
        return np.array([self.way], np.float32), 1.0 / (1 + abs(self.way)), self.way == 0, abs(self.way) > 50, {}


class Late(Signals):
    """Its episodes have 1,500 steps; a reward after step 1,200 is infinite."""

    def step(self, action: Any) -> Any:
        observation, reward, *_ = super().step(action)
        return observation, float("inf") if self.steps == 1201 else reward, False, self.steps >= 1500, {}


for _id, _class in (("Signals-v0", Signals), ("Masked-v0", Masked), ("Racer-v0", Racer)):
    gymnasium.register(_id, _class, max_episode_steps=40 if _class is Racer else None)
gymnasium.register("Endless-v0", Signals, kwargs={"fault": "never ends"})
gymnasium.register("Goal-v0", Goal, max_episode_steps=100)
gymnasium.register("Late-v0", Late)
gymnasium.register("Limited-v0", Signals, max_episode_steps=20)


def walks(observation: Any) -> int:
    """The expert of ``Goal``."""
    return 1


def gives_up(observation: Any) -> int:
    raise ValueError("gives up")


def follows(observation: Any) -> int:
    """The expert of ``Signals``."""
    return CODES.index(round(float((observation["signal"] if isinstance(observation, dict) else observation)[0])))


def turns(observation: Any) -> Any:
    """The expert of ``Signals`` with a box of actions."""
    return np.eye(3, dtype=np.float32)[follows(observation)]


def steers(observation: Any) -> Any:
    """The expert of ``Racer``."""
    return np.clip(np.array([observation[1]], np.float32), -1, 1)
