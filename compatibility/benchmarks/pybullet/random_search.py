"""Augmented random search (Mania, Guy and Recht 2018) of a linear gait controller, in NumPy."""

import argparse

import gymnasium as gym
import numpy as np

SEED = 42


def main(env="QuadrupedLocomotion-SyntheticTrot-v0"):
    """Searches for the number of iterations given on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--directions", type=int, default=4)
    parser.add_argument("--step", type=float, default=0.02)
    parser.add_argument("--noise", type=float, default=0.03)
    given = parser.parse_args()
    rng = np.random.default_rng(SEED)
    env = gym.make(env)
    policy = np.zeros((env.observation_space.shape[0], env.action_space.shape[0]))
    low, high = env.action_space.low, env.action_space.high

    def act(weights, observation):
        return np.clip(np.tanh(observation @ weights), low, high).astype(env.action_space.dtype)

    def episode(weights, seed):
        observation, _ = env.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(act(weights, observation))
            total += float(reward)
            ended = terminated or truncated
        return total

    for iteration in range(given.iterations):
        noises = rng.standard_normal((given.directions, *policy.shape))
        seeds = [SEED + iteration * given.directions + index for index in range(given.directions)]
        plus = np.array(
            [episode(policy + given.noise * noise, seed) for noise, seed in zip(noises, seeds, strict=True)]
        )
        minus = np.array(
            [episode(policy - given.noise * noise, seed) for noise, seed in zip(noises, seeds, strict=True)]
        )
        spread = np.concatenate([plus, minus]).std() + 1e-8
        policy += given.step / (given.directions * spread) * np.tensordot(plus - minus, noises, axes=1)

    def get_action(observation):
        return act(policy, observation)

    return get_action


if __name__ == "__main__":
    main()
