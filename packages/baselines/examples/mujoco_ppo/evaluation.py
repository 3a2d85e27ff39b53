"""Test episodes of an actor in PyBullet and in the MuJoCo twin; needs no PyTorch."""

from __future__ import annotations

import numpy as np
from actor import Actor
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from a2perf.domains.quadruped_locomotion.physics.mujoco_model import TwinPhysics
from a2perf.domains.quadruped_locomotion.vector import ThreadedVectorEnv
from a2perf_baselines import learning
from a2perf_baselines.quadruped_locomotion.mujoco_batch import MuJoCoBatch


def twin_physics(substeps: int) -> TwinPhysics:
    """The twin for training: contacts and first step as in PyBullet; damping by the integrator in long sub-steps."""
    return TwinPhysics(
        substeps,
        implicit_damping=substeps < 33,
        exact_start=True,
        fused=True,
        elliptic=True,
        contact="0.006 0.7",
    )


def evaluate_in_pybullet(actor: Actor, clip: str, seeds: list[int], threads: int) -> NDArray[np.float64]:
    """Returns the returns of test episodes in PyBullet, one per seed."""
    envs = ThreadedVectorEnv(
        min(len(seeds), 10), threads, autoreset_mode=AutoresetMode.DISABLED, clip=clip, mode="test"
    )
    try:
        return learning.evaluate_vector(actor, envs, seeds)
    finally:
        envs.close()


def evaluate_in_twin(actor: Actor, clip: str, substeps: int, seed: int, count: int) -> NDArray[np.float64]:
    """Returns the returns of test episodes in the twin with the nominal robot."""
    robots = MuJoCoBatch(count, clip, control=actor.control, physics=twin_physics(substeps), autoreset=False)
    observations = robots.reset(seed)
    returns, over = np.zeros(count), np.zeros(count, dtype=np.bool_)
    while not over.all():
        result = robots.step(actor.mean_action(observations["policy"]))
        returns += np.where(over, 0.0, result.rewards)
        over |= result.terminated | result.truncated
        observations = result.observations
    return returns


def mean_with_interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Returns the mean and its 95 % interval by the bootstrap over episodes."""
    random = np.random.default_rng(0)
    means = random.choice(values, (2000, len(values))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(values.mean()), float(low), float(high)
