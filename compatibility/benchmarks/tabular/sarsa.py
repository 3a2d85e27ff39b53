"""SARSA (Rummery and Niranjan 1994) with a table of action values."""

import argparse

import gymnasium as gym
import numpy as np
from tables import Logger, choose

SEED = 42


def main(env="CliffWalking-v1"):
    """Learns for the number of episodes given on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--learning-rate", type=float, default=0.2)
    parser.add_argument("--discount", type=float, default=0.99)
    given = parser.parse_args()
    rng = np.random.default_rng(SEED)
    env = Logger(gym.make(env, max_episode_steps=500))
    model = np.zeros((env.observation_space.n, env.action_space.n))
    for episode in range(given.episodes):
        epsilon = max(0.02, 0.3 * (1.0 - episode / given.episodes))
        state, _ = env.reset(seed=SEED + episode)
        action, ended = choose(model[state], epsilon, rng), False
        while not ended:
            following, reward, terminated, truncated, _ = env.step(action)
            next_action = choose(model[following], epsilon, rng)
            value = 0.0 if terminated else model[following, next_action]
            model[state, action] += given.learning_rate * (reward + given.discount * value - model[state, action])
            state, action, ended = following, next_action, terminated or truncated
        if episode % 10 == 0:
            env.log("epsilon", epsilon)

    def get_action(state):
        return int(model[state].argmax())

    return get_action


if __name__ == "__main__":
    main()
