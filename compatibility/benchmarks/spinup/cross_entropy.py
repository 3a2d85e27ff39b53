"""The cross-entropy method (Rubinstein 1999) over linear policies, in NumPy."""

import argparse

import gymnasium as gym
import numpy as np

SEED = 42


def main(env="CartPole-v1"):
    """Searches for the number of iterations given on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--population", type=int, default=20)
    parser.add_argument("--elite", type=int, default=5)
    given = parser.parse_args()
    rng = np.random.default_rng(SEED)
    env = gym.make(env)
    shape = (env.observation_space.shape[0] + 1, env.action_space.n)
    mean, deviation = np.zeros(shape), np.ones(shape)

    def act(weights, observation):
        return int((np.append(observation, 1.0) @ weights).argmax())

    episode = 0
    for _ in range(given.iterations):
        candidates = mean + deviation * rng.standard_normal((given.population, *shape))
        returns = []
        for weights in candidates:
            observation, _ = env.reset(seed=SEED + episode)
            episode += 1
            total, ended = 0.0, False
            while not ended:
                observation, reward, terminated, truncated, _ = env.step(act(weights, observation))
                total += float(reward)
                ended = terminated or truncated
            returns.append(total)
        elite = candidates[np.argsort(returns)[-given.elite :]]
        mean, deviation = elite.mean(axis=0), elite.std(axis=0) + 0.05
    policy = mean

    def get_action(observation):
        return act(policy, observation)

    return get_action


if __name__ == "__main__":
    main()
