"""Fixtures of the quadruped tests: recorded traces, clips, environments that are closed again."""

from pathlib import Path

import pytest

from a2perf import assets
from a2perf.domains.quadruped_locomotion import ASSETS


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent and "make" in item.fixturenames:
            item.add_marker(pytest.mark.group("pybullet"))


@pytest.fixture(scope="session")
def golden(dog_clip):
    """Traces recorded from the earlier implementation; they are masked with the clip dog_pace."""
    from tests.golden import recorded

    return recorded.quadruped(dog_clip("pace"))


@pytest.fixture(scope="session")
def dog_clip():
    """Paths of the dog's clips by gait, if they are on this machine."""

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
