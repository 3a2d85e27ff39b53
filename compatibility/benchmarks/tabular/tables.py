"""What the tabular scripts share: a logger on the environment, and greedy actions with exploration."""

import gymnasium as gym
import numpy as np


class Logger(gym.Wrapper):
    """Records every reward and episode end, and values by name; the benchmark reads them."""

    def __init__(self, env, interval=100):
        super().__init__(env)
        self.interval = interval
        self.num_steps = 0
        self.all_rewards, self.all_dones = [], []
        self.values = {}

    def log(self, key, value):
        """Takes a value of the moment."""
        self.values.setdefault(key, []).append(value)

    def step(self, action):
        """Steps and keeps the reward."""
        result = self.env.step(action)
        self.num_steps += 1
        self.all_rewards.append(float(result[1]))
        self.all_dones.append(bool(result[2] or result[3]))
        return result


def choose(row, epsilon, rng):
    """Returns the best action, ties broken at random, or any action with probability ``epsilon``."""
    if rng.random() < epsilon:
        return int(rng.integers(len(row)))
    return int(rng.choice(np.flatnonzero(row == row.max())))
