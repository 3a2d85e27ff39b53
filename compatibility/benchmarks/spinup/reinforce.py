"""REINFORCE (Williams 1992) with a linear softmax policy and a running baseline, in NumPy."""

import argparse

import gymnasium as gym
import numpy as np

SEED = 42


def main(env="CartPole-v1"):
    """Learns for the number of episodes given on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument("--discount", type=float, default=0.99)
    given = parser.parse_args()
    rng = np.random.default_rng(SEED)
    env = gym.make(env)
    policy = np.zeros((env.observation_space.shape[0] + 1, env.action_space.n))

    def probabilities(observation):
        scores = np.append(observation, 1.0) @ policy
        weights = np.exp(scores - scores.max())
        return weights / weights.sum()

    for episode in range(given.episodes):
        observation, _ = env.reset(seed=SEED + episode)
        gradients, rewards, ended = [], [], False
        while not ended:
            chances = probabilities(observation)
            action = int(rng.choice(len(chances), p=chances))
            gradients.append(np.outer(np.append(observation, 1.0), np.eye(len(chances))[action] - chances))
            observation, reward, terminated, truncated, _ = env.step(action)
            rewards.append(float(reward))
            ended = terminated or truncated
        returns = np.zeros(len(rewards))
        following = 0.0
        for index in reversed(range(len(rewards))):
            following = returns[index] = rewards[index] + given.discount * following
        advantages = (returns - returns.mean()) / (returns.std() + 1e-8)
        policy += given.learning_rate * np.tensordot(advantages, np.stack(gradients), axes=1) / len(rewards)

    def get_action(observation):
        return int(probabilities(observation).argmax())

    return get_action


if __name__ == "__main__":
    main()
