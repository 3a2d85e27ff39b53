"""The compiled loop gives what the Python loop gives, bit for bit, and gives way to it where it cannot run."""

import logging

import numpy as np
import pytest

from a2perf.domains.quadruped_locomotion.physics import backends, c_api, native_backend
from a2perf.domains.quadruped_locomotion.physics.bullet_backend import BulletBackend
from a2perf.domains.quadruped_locomotion.physics.native_backend import KNOWN_STEP, known_step
from a2perf.errors import MissingDependency
from tests.commands import run_python

pytestmark = pytest.mark.group("pybullet")

EVERYTHING_DRAWN = {"randomize": True}


def trace(env, seed, steps, scale):
    """All that an environment returns over seeded random steps, episodes included."""
    generator = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed, options=EVERYTHING_DRAWN)
    rows = [observation]
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(generator.uniform(-scale, scale, 12))
        rows += [observation, env.robot_state, np.array([reward, terminated, truncated, info["phase"]])]
        if terminated or truncated:
            observation, info = env.reset(options=EVERYTHING_DRAWN)
            rows.append(observation)
    return np.concatenate(rows)


DOUBLE = {"observation_dtype": np.float64}


@pytest.mark.parametrize(
    ("engine", "arguments", "steps", "scale"),
    [
        ("make", DOUBLE, 700, 0.3),
        pytest.param("make", DOUBLE, 700, 0.05, marks=pytest.mark.slow),
        pytest.param("make", DOUBLE, 700, 3.0, marks=pytest.mark.slow),
        ("make", {"clip": "dog_trot", "mode": "train"}, 300, 0.2),
        ("twin", {"mode": "train", **DOUBLE}, 60, 0.3),
    ],
)
def test_compiled_and_python_loop_agree_bit_for_bit(request, dog_clip, engine, arguments, steps, scale):
    if arguments.get("clip") == "dog_trot":
        dog_clip("trot")  # skips if it is not here
    build = request.getfixturevalue(engine)
    runs = [trace(build(physics_loop=loop, **arguments), 11, steps, scale) for loop in ("native", "python")]
    assert np.array_equal(*runs)


def test_python_interface_takes_the_known_step():
    physics = BulletBackend()
    assert np.abs(np.array(known_step(physics)) - KNOWN_STEP).max() < 1e-12
    physics.close()


@pytest.fixture
def fresh_checks():
    """Forgets what was found out about this host, before and after."""

    def forget():
        native_backend.native_loop_problem.cache_clear()
        backends._notice.cache_clear()

    forget()
    yield
    forget()


def test_another_pybullet_version_falls_back_with_one_notice_or_is_an_error(make, monkeypatch, fresh_checks, caplog):
    monkeypatch.setattr(c_api, "SUPPORTED", ("pybullet 9.9.9",))
    with caplog.at_level(logging.WARNING):
        env, _ = make(), make()
    notices = [record.getMessage() for record in caplog.records if "Python physics loop" in record.getMessage()]
    assert len(notices) == 1
    assert "was checked with pybullet 9.9.9" in notices[0]
    env.reset(seed=0)
    assert env.step(np.zeros(12))[1] > 0.0

    with pytest.raises(MissingDependency, match=r"9\.9\.9") as error:
        make(physics_loop="native")
    assert "physics_loop='python'" in str(error.value)


def test_a_known_step_that_comes_out_different_falls_back(make, monkeypatch, fresh_checks, caplog):
    monkeypatch.setattr(native_backend, "KNOWN_STEP", tuple(value + 1e-6 for value in KNOWN_STEP))
    with caplog.at_level(logging.WARNING):
        make()
    assert any("known step" in record.getMessage() for record in caplog.records)


def test_a_missing_symbol_is_found_before_any_call(monkeypatch):
    monkeypatch.setitem(c_api._SIGNATURES, "b3NoSuchFunction", (None, ()))
    c_api.library.cache_clear()
    try:
        reason = c_api.unavailable_reason()
        assert reason is not None
        assert "b3NoSuchFunction" in reason
    finally:
        monkeypatch.undo()
        c_api.library.cache_clear()


FIRST_STEPS = """
import hashlib, sys
if sys.argv[1] == "without":
    sys.modules["numba"] = None
if sys.argv[1] == "uncached":
    import numba.core.caching
    numba.core.caching.CacheImpl._locator_classes = []
import numpy as np
from a2perf.domains.quadruped_locomotion.environment import QuadrupedLocomotionEnv
env = QuadrupedLocomotionEnv(clip="synthetic_spin", mode="train", observation_dtype="float64")
rows, _ = env.reset(seed=3)
digest = hashlib.sha256(rows.tobytes())
for step in range(15):
    observation, reward, *_ = env.step(0.1 * np.sin(np.arange(12) + step))
    digest.update(observation.tobytes() + np.float64(reward).tobytes())
print(digest.hexdigest())
"""


def first_steps(how):
    return run_python(FIRST_STEPS, how, check=True)


def test_without_numba_the_numbers_are_the_same():
    plain, compiled = first_steps("without"), first_steps("with")
    assert plain.stdout.splitlines()[-1] == compiled.stdout.splitlines()[-1]
    assert "Numba is not installed" in plain.stderr


@pytest.mark.slow
def test_a_host_that_can_keep_no_compiled_code_still_compiles():
    assert first_steps("uncached").stdout.splitlines()[-1] == first_steps("with").stdout.splitlines()[-1]
