"""Evaluates a policy on unseen websites: designs of the generator, drawn and measured like the shipped ones.

    python examples/tf_agents_bc/evaluate_held_out.py ARTIFACTS [--submission FOLDER] [--levels 1 2 3] [--designs 20]
        [--episodes 100] [--seed 990001]

Designs that training used (``designs.json`` in the artifacts) are left out. Any submission for web navigation can be
evaluated. It runs in this process without confinement, so use it for your own submissions only.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
from pathlib import Path

import gymnasium
import numpy as np

import a2perf  # noqa: F401  registers the ids
from a2perf.domains.web_navigation.sites import generator
from a2perf.domains.web_navigation.sites.website import WebsiteDesign, checked_design


def unseen(level: int, seed: int, count: int, seen: set[WebsiteDesign]) -> list[WebsiteDesign]:
    """Returns designs of a level that were not shown in the training."""
    found: list[WebsiteDesign] = []
    for measured in generator.generate(level, seed, count + len(seen)):
        if measured.design not in seen:
            found.append(measured.design)
        if len(found) == count:
            break
    return found


def wilson_interval(share: float, episodes: int, quantile: float = 1.96) -> tuple[float, float]:
    """Returns the 95 % interval of a share (Wilson 1927), which has a width at 1 and 0 too."""
    weight = quantile**2 / episodes
    middle = (share + weight / 2) / (1 + weight)
    half = math.sqrt(share * (1 - share) * weight + weight**2 / 4) / (1 + weight)
    return middle - half, middle + half


def main() -> None:
    """Prints a row for each level."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifacts", type=Path, help="what the training left")
    parser.add_argument("--submission", type=Path, default=Path(__file__).parent)
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3], choices=(1, 2, 3))
    parser.add_argument("--designs", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=990_001)
    given = parser.parse_args()
    shown = given.artifacts / "designs.json"
    seen = {checked_design(record) for record in json.loads(shown.read_text())} if shown.is_file() else set()
    artifacts = given.artifacts.resolve()
    sys.path.insert(0, str(given.submission.resolve()))
    print("level  designs  episodes  solved                    return")
    for level in given.levels:
        designs = [design.as_record() for design in unseen(level, given.seed + level, given.designs, seen)]
        os.environ.update(
            ROOT_DIR=str(artifacts),
            A2PERF_ENV_ID="WebNavigation-v0",
            A2PERF_ENV_KWARGS=json.dumps({"designs": designs, "num_websites": len(designs)}),
        )
        env = gymnasium.make("WebNavigation-v0", designs=designs, num_websites=len(designs))
        inference = importlib.import_module("inference")
        policy = inference.load_policy(env)
        returns, solved = np.zeros(given.episodes), np.zeros(given.episodes)
        for episode in range(given.episodes):
            design = designs[episode % len(designs)]
            observation, info = env.reset(seed=given.seed + episode, options={"design": design})
            over = False
            while not over:
                action = inference.infer_once(policy, inference.preprocess_observation(observation))
                observation, reward, terminated, truncated, info = env.step(int(action))
                returns[episode] += reward
                over = terminated or truncated
            solved[episode] = info["reason"] == "solved"
        share = float(solved.mean())
        low, high = wilson_interval(share, given.episodes)
        print(
            f"{level:5d}  {len(designs):7d}  {given.episodes:8d}  {share:.3f} [{low:.3f}, {high:.3f}]"
            f"  {returns.mean():10.3f}",
            flush=True,
        )
        env.close()


if __name__ == "__main__":
    main()
