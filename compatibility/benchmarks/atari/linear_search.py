"""Random search of a linear policy on coarse grey pictures of an Atari game: a simple baseline."""

import argparse

import ale_py
import gymnasium as gym
import numpy as np

gym.register_envs(ale_py)
SEED = 42


def main(env="ALE/Pong-v5"):
    """Searches for the number of iterations given on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--steps", type=int, default=5000, help="of one episode, at most")
    parser.add_argument("--noise", type=float, default=0.1)
    given = parser.parse_args()
    rng = np.random.default_rng(SEED)
    env = gym.make(env, obs_type="grayscale", max_episode_steps=given.steps)

    def features(picture):
        return picture[::15, ::16].ravel() / 255.0

    size = features(np.zeros(env.observation_space.shape, np.uint8)).size
    policy, best = np.zeros((size, env.action_space.n)), -np.inf

    def act(weights, picture):
        return int((features(picture) @ weights).argmax())

    for iteration in range(given.iterations):
        candidate = policy + given.noise * rng.standard_normal(policy.shape)
        picture, _ = env.reset(seed=SEED + iteration)
        total, ended = 0.0, False
        while not ended:
            picture, reward, terminated, truncated, _ = env.step(act(candidate, picture))
            total += float(reward)
            ended = terminated or truncated
        if total >= best:
            policy, best = candidate, total

    def get_action(picture):
        return act(policy, picture)

    return get_action


if __name__ == "__main__":
    main()
