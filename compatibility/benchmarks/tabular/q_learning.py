"""Q-learning (Watkins 1989) with a table of action values."""

import argparse

import gymnasium as gym
import numpy as np
from tables import Logger, choose

SEED = 42


def main(env="FrozenLake-v1"):
    """Learns for the number of episodes given on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--discount", type=float, default=0.99)
    given = parser.parse_args()
    rng = np.random.default_rng(SEED)
    env = Logger(gym.make(env))
    agent_values = np.zeros((env.observation_space.n, env.action_space.n))
    for episode in range(given.episodes):
        state, _ = env.reset(seed=SEED + episode)
        epsilon = max(0.05, 1.0 - 2.0 * episode / given.episodes)
        ended, errors = False, []
        while not ended:
            action = choose(agent_values[state], epsilon, rng)
            following, reward, terminated, truncated, _ = env.step(action)
            best = 0.0 if terminated else agent_values[following].max()
            error = reward + given.discount * best - agent_values[state, action]
            agent_values[state, action] += given.learning_rate * error
            errors.append(abs(error))
            state, ended = following, terminated or truncated
        if episode % 50 == 0:
            env.log("epsilon", epsilon)
            env.log("td_error", float(np.mean(errors)))
    model = agent_values  # saved by the benchmark

    def get_action(state):
        return int(model[state].argmax())

    return get_action


if __name__ == "__main__":
    main()
