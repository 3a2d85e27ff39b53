"""A store of two versions on three environments; the newer one is worse on one of them."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

from tests.rlops.made_runs import METRIC, write_seeds

EXPERIMENT = "ddpg_continuous_action_jax"
OLD, NEW = "rlops-pilot", "v1.0.0b2-9-g4605546"
ENDS = {"Hopper-v2": 2000.0, "Walker2d-v2": 3000.0, "HalfCheetah-v2": 9000.0}
REFERENCES = {"Hopper-v2": [20, 3000], "Walker2d-v2": [2, 4500], "HalfCheetah-v2": {"random": -280, "expert": 12000}}
POINTS = 120


def curve(end: float, seed: int, *, points: int = POINTS) -> list[tuple[int, float]]:
    """A return that rises to about ``end``; a few thousandths of it differ by seed."""
    noise = random.Random(f"{end}/{seed}")
    level = end * (1.0 + 0.004 * noise.gauss(0, 1))
    return [(1000 * (at + 1), level * (1 - math.exp(-at / (points / 12)))) for at in range(points)]


def write_experiment(store: Path, *, seeds: int = 3, lost: float = 4000.0) -> Path:
    """Writes the store and returns its folder; the new version loses ``lost`` on HalfCheetah-v2."""
    for tag, version in ((OLD, "v1.0.0"), (NEW, "v1.0.0b2-9-g4605546")):
        for env, end in ENDS.items():
            loss = lost if tag == NEW and env == "HalfCheetah-v2" else 0.0
            shift, other = 0 if tag == OLD else 100, {"losses/td_loss": [(1, 0.5), (2, 0.25)]}
            of = {seed: {METRIC: curve(end - loss, seed + shift), **other} for seed in range(1, seeds + 1)}
            write_seeds(store, tag, of, experiment=EXPERIMENT, env_id=env, version=version)
    return store


def write_references(path: Path) -> Path:
    path.write_text(json.dumps(REFERENCES))
    return path
