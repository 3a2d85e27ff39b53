"""Trains the policy by policy gradients (REINFORCE, Williams 1992); replace it with your own method.

Write everything that inference needs to the folder `A2PERF_ARTIFACTS`, and seed random numbers with `SEED`.
`create_domain` makes the environment of the task, which `A2PERF_ENV_ID` and `A2PERF_ENV_KWARGS` describe.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
from policy import Policy

from a2perf.domains.tfa.suite_gym import create_domain

LOGGED = 20  # episodes per point of the learning curve


def train(episodes: str = "600", steps: str = "200", step_size: str = "0.3", **participant_args: str) -> None:
    """Makes actions more probable if the rewards after them were higher than usual.

    Args:
        episodes: number of episodes. Arguments of `--participant_args` are always strings.
        steps: longest episode.
        step_size: learning rate.
        **participant_args: accepted and ignored.
    """
    artifacts = Path(os.environ["A2PERF_ARTIFACTS"])
    rng = np.random.default_rng(int(os.environ["SEED"]))
    env = create_domain()
    policy = Policy(env)
    save(policy, artifacts)
    usual = np.zeros(int(steps))  # mean of the later rewards, by step
    returns, played = [], 0
    with (artifacts / "progress.csv").open("w", newline="") as file:  # a2perf draws the learning curve from it
        curve = csv.writer(file)
        curve.writerow(["time/total_timesteps", "rollout/ep_rew_mean"])
        for episode in range(1, int(episodes) + 1):
            rewards, gradients = play(env, policy, rng, int(steps))
            later = np.cumsum(rewards[::-1])[::-1]
            count = len(later)
            if episode == 1:
                usual[:] = later[0]
            gains = np.clip(later - usual[:count], -2, 2)
            usual[:count] += 0.05 * (later - usual[:count])
            step = float(step_size) * (1 - (episode - 1) / int(episodes))  # falls to 0: the policy settles
            policy.weights += step * np.tensordot(gains, gradients, 1)
            returns.append(later[0])
            played += count
            if len(returns) == LOGGED or episode == int(episodes):
                mean, returns = float(np.mean(returns)), []
                curve.writerow([played, mean])
                file.flush()
                save(policy, artifacts)
                print(f"episode {episode}: mean return {mean:.2f}", flush=True)
    env.close()


def play(env, policy, rng, steps):
    """Plays one episode and returns its rewards and gradients."""
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    rewards, gradients = [], []
    for _ in range(steps):
        action, gradient = policy.explore(observation, rng)
        observation, reward, terminated, truncated, _ = env.step(action)
        rewards.append(float(reward))
        gradients.append(gradient)
        if terminated or truncated:
            break
    return rewards, gradients


def save(policy, artifacts):
    """Replaces the file as a whole: a time limit may end the training at any moment, and keeps what is there."""
    np.save(artifacts / "next.npy", policy.weights)
    os.replace(artifacts / "next.npy", artifacts / "weights.npy")
