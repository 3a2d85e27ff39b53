"""Fixtures of the quadruped tests: recorded traces, clips, environments that are closed again."""

import os
from pathlib import Path

import numpy as np
import pytest

from a2perf import assets
from a2perf.domains.quadruped_locomotion import ASSETS

pytest.importorskip("pybullet", reason="needs the extra quadruped-locomotion")

DATA_DIR = os.environ.get("A2PERF_DATA_DIR")


@pytest.fixture(scope="session")
def golden():
    """Traces recorded from the earlier implementation (clip: dog_pace)."""
    path = Path(DATA_DIR or "", "golden", "quadruped_pace.npz")
    if DATA_DIR is None or not path.exists():
        pytest.skip("A2PERF_DATA_DIR has no golden/quadruped_pace.npz")
    return np.load(path)


@pytest.fixture(scope="session")
def dog_clip():
    """Paths of the dog's clips by gait, where they are on this host."""

    def locate(gait):
        path = assets.locate(ASSETS[f"motions/dog_{gait}.txt"])
        if path is None:
            pytest.skip(f"the clip dog_{gait} is not on this host (a2perf data fetch)")
        return path

    return locate


@pytest.fixture
def make():
    """Makes environments and closes them after the test."""
    from a2perf.domains.quadruped_locomotion.environment import QuadrupedLocomotionEnv

    made = []

    def build(**kwargs):
        kwargs = {"clip": "synthetic_trot", "mode": "test", **kwargs}
        made.append(QuadrupedLocomotionEnv(**kwargs))
        return made[-1]

    yield build
    for env in made:
        env.close()
