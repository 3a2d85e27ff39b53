"""The MuJoCo ids: the same robot and task, another physics."""

import sys

import gymnasium
import numpy as np
import pytest

from a2perf import domains
from a2perf.domains.quadruped_locomotion import PICTURES_HINT
from a2perf.domains.quadruped_locomotion.physics.physics_loop import new_actuation
from a2perf.domains.quadruped_locomotion.physics.robot import (
    DEFAULT_JOINT_POSE,
    FOOT_LINKS,
    JOINT_LOWER,
    JOINT_UPPER,
    kinematic_tree,
)
from a2perf.errors import MissingDependency, install_hint

mujoco = pytest.importorskip("mujoco", reason="needs mujoco")

from a2perf.domains.quadruped_locomotion.physics.mujoco_twin import MuJoCoBackend, step_address  # noqa: E402

REST = np.zeros(12)


def test_model_has_the_masses_limits_and_inertias_of_the_robot(make, twin):
    model = MuJoCoBackend().model
    tree = kinematic_tree()
    assert np.allclose(model.body_mass[1:], tree.mass, rtol=1e-12)
    assert model.body_mass.sum() == pytest.approx(25.567, abs=1e-9)
    assert np.allclose(model.jnt_range[1:, 0], JOINT_LOWER)
    assert np.allclose(model.jnt_range[1:, 1], JOINT_UPPER)
    bullet, other = make(), twin()
    for link in range(-1, 16):
        (mass, inertia, friction), (mass2, inertia2, friction2) = bullet.link_dynamics(link), other.link_dynamics(link)
        assert mass == pytest.approx(mass2)
        assert friction == pytest.approx(friction2)
        # left and right upper legs differ in the fifth digit in Bullet, since their meshes do
        assert np.allclose(inertia, inertia2, rtol=1e-4)


def test_kinematics_are_those_of_the_bullet_robot():
    physics = MuJoCoBackend()
    generator = np.random.default_rng(0)
    for _ in range(10):
        quaternion = generator.normal(size=4)
        joints = DEFAULT_JOINT_POSE + generator.uniform(-0.3, 0.3, 12)
        pose = np.concatenate([generator.normal(size=3), quaternion / np.linalg.norm(quaternion), joints])
        velocity = generator.normal(size=18)
        physics.place_robot(pose, velocity, new_actuation())
        mujoco.mj_forward(physics.model, physics.data)
        state, feet = np.zeros(37), np.zeros((8, 3))
        physics.read_state(state, feet)
        assert np.abs(feet - physics.data.xipos[np.array(FOOT_LINKS) + 2]).max() < 1e-9
        assert np.allclose(state[:7], pose[:7])
        assert np.allclose(state[7:13], velocity[:6])
        assert np.allclose(state[13:25], joints)


def test_same_task_at_reset_as_in_bullet(make, twin):
    for seed in range(4):
        first, info = make().reset(seed=seed)
        second, other = twin().reset(seed=seed)
        assert np.allclose(first, second, atol=1e-6)
        assert info["motion_time"] == other["motion_time"]


def test_robot_stands_at_rest(twin):
    env = twin()
    env.reset(seed=0, options={"phase": 0.0})
    for _ in range(100):
        _, _, terminated, _, _ = env.step(REST)
        assert not terminated
    assert 0.4 < env.robot_pose[2] < 0.5


@pytest.mark.parametrize(("gait", "expected"), [("pace", 389.1), ("spin", 384.3)])
def test_policies_trained_in_bullet_walk_here_too(twin, dog_clip, published_actor, gait, expected):
    act = published_actor(gait)
    env = twin(motion_files=[dog_clip(gait)])
    observation, _ = env.reset(seed=0, options={"phase": 0.0})
    total = 0.0
    for _ in range(300):
        observation, reward, terminated, _, _ = env.step(act(observation))
        assert not terminated
        total += reward
    assert 2.0 * total > 0.8 * expected


def test_ids_are_ranked_apart_and_missing_mujoco_says_what_to_install(monkeypatch):
    _, record = domains.find_environment("QuadrupedLocomotionMuJoCo-DogPace-v0")
    _, bullet = domains.find_environment("QuadrupedLocomotion-DogPace-v0")
    assert record.ranking != bullet.ranking
    domains.register_environments()
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MissingDependency, match="which is not installed") as error:
        gymnasium.make("QuadrupedLocomotionMuJoCo-DogPace-v0", clip="synthetic_trot")
    assert install_hint("quadruped-locomotion", "mujoco") in str(error.value)


def test_pictures_of_a_mujoco_task_name_what_draws_them(twin, monkeypatch):
    env = twin(render_mode="rgb_array")
    env.reset(seed=0)
    monkeypatch.setitem(sys.modules, "pybullet", None)
    with pytest.raises(MissingDependency, match=r"^pictures of the robot need PyBullet") as error:
        env.render()
    assert str(error.value.hint) == PICTURES_HINT
    assert "MuJoCo task" not in PICTURES_HINT


def test_a_library_of_another_version_is_an_error_instead_of_a_crash(monkeypatch):
    step_address.cache_clear()
    monkeypatch.setattr(mujoco, "__version__", "3.3.7")
    with pytest.raises(MissingDependency, match=f"module 3.3.7, library {mujoco.mj_versionString()}"):
        MuJoCoBackend()
    monkeypatch.undo()
    assert step_address()


def test_hard_random_actions_end_episodes_and_leave_every_number_finite(twin, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # MuJoCo logs what it warns of into the working folder
    env = twin(mode="train")
    generator = np.random.default_rng(0)
    for seed in range(40):
        env.reset(seed=seed)
        for _ in range(20):
            observation, reward, terminated, _, _ = env.step(generator.uniform(-6.28, 6.28, 12))
            assert np.isfinite(observation).all()
            assert 0.0 <= reward <= 1.0
            if terminated:
                break
