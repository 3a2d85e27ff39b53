"""Fixtures of the quadruped tests: recorded traces, clips, environments that are closed again."""

import functools
from pathlib import Path

import pytest

from a2perf import assets
from a2perf.domains.quadruped_locomotion import ASSETS
from a2perf.domains.quadruped_locomotion.pretrained import load_actor


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent and "make" in item.fixturenames:
            item.add_marker(pytest.mark.group("pybullet"))


@pytest.fixture(scope="session")
def golden(dog_clip):
    """Traces recorded from the earlier implementation; they are masked with the clip dog_pace."""
    from tests.golden import recorded

    return recorded.quadruped(dog_clip("pace"))


def fetched(name):
    """Returns the path of an asset; skips the test if it is not on this machine."""
    path = assets.locate(ASSETS[name])
    if path is None:
        pytest.skip(f"{name} is not on this host (a2perf data fetch)")
    return path


@pytest.fixture(scope="session")
def dog_clip():
    """Paths of the dog's clips by gait, if they are on this machine."""
    return lambda gait: fetched(f"motions/dog_{gait}.txt")


@pytest.fixture(scope="session")
def published_actor():
    """Policies of the dog's gaits by gait, if they are on this machine."""
    return lambda gait: load_actor(fetched(f"policies/dog_{gait}.zip"))


@pytest.fixture
def make_as():
    """Makes environments of a class and closes them after the test."""
    made = []

    def build(kind, **kwargs):
        made.append(kind(**{"clip": "synthetic_trot", "mode": "test", **kwargs}))
        return made[-1]

    yield build
    for env in made:
        env.close()


@pytest.fixture
def make(make_as):
    """Makes environments in PyBullet and closes them after the test."""
    from a2perf.domains.quadruped_locomotion.environment import QuadrupedLocomotionEnv

    return functools.partial(make_as, QuadrupedLocomotionEnv)


@pytest.fixture
def twin(make_as):
    """Makes environments in MuJoCo and closes them after the test."""
    pytest.importorskip("mujoco", reason="needs mujoco")
    from a2perf.domains.quadruped_locomotion.physics.mujoco_twin import MuJoCoQuadrupedEnv

    return functools.partial(make_as, MuJoCoQuadrupedEnv)


@pytest.fixture(params=["make", "twin"])
def either(request):
    """``make``, and then ``twin``."""
    return request.getfixturevalue(request.param)
