"""Solves websites that no training saw, and prints the share of solved episodes.

python evaluate.py --level 1 --designs 50 --episodes 200
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gymnasium
import numpy as np
from network import WEIGHTS, Network
from prompt import decoded, prompt_of, question_of
from scipy.stats import binomtest

from a2perf.domains.web_navigation.sites.generator import generate, training_designs
from a2perf.domains.web_navigation.sites.website import WebsiteDesign

FIRST_SEED = 990_001
TRAINED_ON = ("1:600", "2:600", "3:600", "11:3000")
"""Seed and number of designs of each stage of training of the shipped weights."""


def unseen_designs(level: int, count: int, trained_on: set[WebsiteDesign]) -> list[WebsiteDesign]:
    """Returns designs of a level, drawn and measured like the shipped ones, that the training did not draw."""
    drawn = (measured.design for measured in generate(level, FIRST_SEED, count + len(trained_on)))
    fresh = (design for design in drawn if design not in trained_on)
    return [next(fresh) for _ in range(count)]


def play(network: Network, designs: list[WebsiteDesign], episodes: int) -> tuple[int, list[float], list[float]]:
    """Returns the number of solved episodes, the returns, and the seconds per action."""
    env = gymnasium.make("WebNavigation-v0", designs=designs, num_websites=len(designs), observation="text")
    solved, returns, seconds = 0, [], []
    for episode in range(episodes):
        observation, _ = env.reset(seed=FIRST_SEED + episode)
        total, over, info = 0.0, False, {}
        while not over:
            question = question_of(observation["instruction"], observation["page"])
            began = time.perf_counter()
            action = decoded(network.answer(prompt_of([{"role": "user", "content": question}])))
            seconds.append(time.perf_counter() - began)
            observation, reward, terminated, truncated, info = env.step(action)
            total += float(reward)
            over = terminated or truncated
        solved += bool(info["is_success"])
        returns.append(total)
    env.close()
    return solved, returns, seconds


def main() -> None:
    """Evaluates and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--level", type=int, default=1, choices=(1, 2, 3))
    parser.add_argument("--designs", type=int, default=50)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument(
        "--trained-on", nargs="*", default=TRAINED_ON, metavar="SEED:DESIGNS", help="of each stage; left out"
    )
    given = parser.parse_args()
    stages = [map(int, stage.split(":")) for stage in given.trained_on]
    trained_on = {design for seed, count in stages for design in training_designs(given.level, seed, count)}
    designs = unseen_designs(given.level, given.designs, trained_on)
    solved, returns, seconds = play(Network.load(given.weights), designs, given.episodes)
    low, high = binomtest(solved, given.episodes).proportion_ci(method="wilson")
    print(
        f"level {given.level}: {solved / given.episodes:.3f} [{low:.3f}, {high:.3f}] of {given.episodes} episodes "
        f"solved, mean return {np.mean(returns):.3f}, {1000 * np.median(seconds):.0f} ms per action"
    )


if __name__ == "__main__":
    main()
