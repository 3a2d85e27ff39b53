"""Clips are sampled as the formulas say; generated gaits are physically sensible; policies are read and walk."""

import math
import pickle
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from a2perf.domains.quadruped_locomotion.motion.gaits import (
    BOUND,
    GAITS,
    SPIN,
    TROT,
    Gait,
    generate_clip,
    synthetic_clip,
    varied,
)
from a2perf.domains.quadruped_locomotion.motion.motion_clip import clip_from_content, load_clip
from a2perf.domains.quadruped_locomotion.motion.rotations import euler, heading, inverse_rotate_single, product_single
from a2perf.domains.quadruped_locomotion.physics.bullet_backend import BulletBackend, import_pybullet
from a2perf.domains.quadruped_locomotion.physics.native_backend import NativeBackend
from a2perf.domains.quadruped_locomotion.physics.physics_loop import new_actuation
from a2perf.domains.quadruped_locomotion.physics.robot import (
    JOINT_LOWER,
    JOINT_UPPER,
    TOE_LINKS,
    foot_positions,
    kinematic_tree,
    link_frames,
    urdf_path,
)
from a2perf.errors import ConfigError


def frames_of(pose):
    tree = kinematic_tree()
    frames = np.zeros((17, 7))
    link_frames(tree, pose[:3], pose[3:7], pose[7:], frames)
    return frames


def test_geometry_and_masses_are_those_of_the_file_that_pybullet_loads():
    root = ElementTree.parse(urdf_path()).getroot()

    def numbers(element, path, attribute="xyz"):
        found = element.find(path)
        return [0.0] * 3 if found is None else [float(part) for part in found.get(attribute).split()]

    links = {link.get("name"): link for link in root.findall("link")}
    joints = {joint.find("child").get("link"): joint for joint in root.findall("joint")}
    chassis = next(name for name in links if name not in joints)

    def from_link(above):  # depth first, as Bullet numbers links
        below = (name for name, joint in joints.items() if joint.find("parent").get("link") == above)
        return [above, *(link for name in below for link in from_link(name))]

    order = from_link(chassis)
    assert len(order) == len(links)
    tree = kinematic_tree()
    assert tree.base_inertial.tolist() == numbers(links[chassis], "inertial/origin")
    assert tree.mass.tolist() == [numbers(links[name], "inertial/mass", "value")[0] for name in order]
    for number, name in enumerate(order[1:]):
        joint = joints[name]
        fixed = joint.get("type") == "fixed"
        assert order[tree.parent[number] + 1] == joint.find("parent").get("link")
        assert tree.origin[number].tolist() == numbers(joint, "origin")
        assert tree.axis[number].tolist() == ([0.0] * 3 if fixed else numbers(joint, "axis"))
        assert (tree.motor[number] < 0) == fixed
        assert tree.inertial[number].tolist() == numbers(links[name], "inertial/origin")


def toes(pose):
    return np.array([frames_of(pose)[link + 1, :3] for link in TOE_LINKS])


@pytest.mark.parametrize(
    ("gait", "duration", "displacement", "turn"),
    [
        ("pace", 0.63346, (0.68773, 0.0), -0.0514),
        ("trot", 0.53344, (0.93565, 0.0), -0.0428),
        ("spin", 0.75015, (-0.0625, -0.0343), 1.73940),
    ],
)
def test_dog_clips_have_the_published_numbers(dog_clip, gait, duration, displacement, turn):
    data = load_clip(dog_clip(gait)).data
    assert data.duration == pytest.approx(duration, abs=1e-9)
    assert (data.delta_x, data.delta_y) == pytest.approx(displacement, abs=1e-4)
    assert data.delta_heading == pytest.approx(turn, abs=1e-4)
    assert data.offset_position
    assert data.offset_rotation == (gait == "spin")


def simple_clip(wrap=True, rotation=False):
    def frame(x, turn):
        return [x, 0.0, 0.4, 0.0, 0.0, math.sin(turn / 2), math.cos(turn / 2), *([x] * 12)]

    return clip_from_content(
        {
            "LoopMode": "Wrap" if wrap else "Clamp",
            "FrameDuration": 0.5,
            "EnableCycleOffsetPosition": True,
            "EnableCycleOffsetRotation": rotation,
            "Frames": [frame(5.0, 0.0), frame(5.5, 0.2), frame(6.0, 0.4)],
        },
        "simple",
    )


def test_sampling_interpolates_and_carries_cycles_over():
    clip = simple_clip()
    assert clip.pose(0.0)[0] == 0.0
    assert clip.pose(0.25)[0] == pytest.approx(0.25)
    assert clip.pose(0.25)[7] == pytest.approx(5.25)
    assert heading(*clip.pose(0.25)[3:7]) == pytest.approx(0.1)
    assert clip.pose(2.25)[0] == pytest.approx(2.25)
    assert clip.pose(-0.75)[0] == pytest.approx(-0.75)
    assert heading(*clip.pose(2.25)[3:7]) == pytest.approx(0.1)
    assert clip.velocity(0.7)[:6] == pytest.approx([1.0, 0, 0, 0, 0, 0.4])
    turning = simple_clip(rotation=True)
    assert heading(*turning.pose(2.0)[3:7]) == pytest.approx(0.8)
    assert turning.pose(2.0)[:2] == pytest.approx([1.0 + math.cos(0.4), math.sin(0.4)])
    assert turning.velocity(1.2)[:2] == pytest.approx([math.cos(0.4), math.sin(0.4)])
    once = simple_clip(wrap=False)  # held at its ends
    assert (once.pose(-1.0)[0], once.pose(0.5)[0]) == (0.0, pytest.approx(0.5))
    assert once.is_over(1.0)
    assert not clip.is_over(5.0)


def test_clip_file_round_trips(tmp_path):
    clip = synthetic_clip("synthetic_spin")
    path = tmp_path / "spin.txt"
    path.write_text(clip.to_json())
    again = load_clip(path)
    assert np.abs(again.data.frames - clip.data.frames).max() < 2e-5
    assert again.data.offset_rotation == clip.data.offset_rotation


def test_euler_angles_and_single_precision_transforms_are_those_of_bullet():
    pybullet = import_pybullet()
    generator = np.random.default_rng(1)
    for _ in range(500):
        quaternion = generator.normal(size=4)
        quaternion /= np.linalg.norm(quaternion) * generator.uniform(1.0, 1.02)
        assert np.array_equal(pybullet.getEulerFromQuaternion(quaternion), euler(*quaternion))
        first, second = generator.normal(size=(2, 4))
        first, second = first / np.linalg.norm(first), second / np.linalg.norm(second)
        vector = generator.normal(size=3)
        _, product = pybullet.multiplyTransforms([0, 0, 0], first, [0, 0, 0], second)
        assert np.array_equal(product, product_single(*first, *second))
        _, inverse = pybullet.invertTransform([0, 0, 0], first)
        rotated, _ = pybullet.multiplyTransforms([0, 0, 0], inverse, vector, [0, 0, 0, 1])
        assert np.array_equal(rotated, inverse_rotate_single(*first, *vector))


@pytest.mark.group("pybullet")
@pytest.mark.parametrize("kind", [BulletBackend, NativeBackend])
def test_forward_kinematics_are_those_of_bullet(kind):
    physics = kind()
    generator = np.random.default_rng(2)
    tree = kinematic_tree()
    for _ in range(20):
        quaternion = generator.normal(size=4)
        pose = np.concatenate(
            [generator.normal(size=3), quaternion / np.linalg.norm(quaternion), generator.normal(size=12)]
        )
        feet, expected, state = np.zeros((8, 3)), np.zeros((8, 3)), np.zeros(37)
        physics.place_robot(pose, np.zeros(18), new_actuation())
        physics.read_state(state, expected)
        foot_positions(tree, frames_of(pose), feet)
        assert np.abs(feet - expected).max() < 1e-12
    physics.close()


@pytest.mark.parametrize("name", sorted(GAITS))
def test_gait_keeps_joint_limits_and_its_feet_on_the_ground(name):
    gait, data = GAITS[name], synthetic_clip(name).data
    joints = data.frames[:, 7:]
    assert ((joints >= JOINT_LOWER) & (joints <= JOINT_UPPER)).all()
    assert np.abs(joints[0] - joints[-1]).max() < 1e-9  # repeats seamlessly
    count = len(data.frames) - 1
    places = np.array([toes(pose) for pose in data.frames])
    assert places[:, :, 2].min() == pytest.approx(0.028, abs=1e-9)
    assert places[:, :, 2].max() <= 0.028 + gait.swing_height + 1e-9
    standing = (np.abs(places[:, :, 2] - 0.028) < 1e-9).mean(axis=0)
    assert np.abs(standing - gait.duty_factor).max() < 2.0 / count
    for leg in range(4):
        for now, then in zip(places[:-1, leg], places[1:, leg], strict=True):
            if now[2] == pytest.approx(0.028, abs=1e-9) and then[2] == pytest.approx(0.028, abs=1e-9):
                assert np.abs(now - then).max() < 1e-9  # a standing foot does not slip
    assert data.delta_x == pytest.approx(gait.speed * gait.cycle_time, abs=1e-9)
    assert data.delta_heading == pytest.approx(gait.heading_rate * gait.cycle_time, abs=1e-9)


def test_gaits_differ_in_which_feet_stand_together():
    def pattern(name):
        pose = synthetic_clip(name).pose(0.9 * GAITS[name].cycle_time)
        return tuple(bool(height > 0.03) for height in toes(pose)[:, 2])

    assert len({pattern(name) for name in ("synthetic_trot", "synthetic_pace", "synthetic_bound")}) == 3


@pytest.mark.parametrize(
    ("gait", "message"),
    [
        (Gait("far", (0, 0.5, 0.5, 0), duty_factor=0.8, cycle_time=1.5, speed=1.5), "leaves the joint limits"),
        (Gait("odd", (0, 0.5, 0.5, 0), duty_factor=1.2, cycle_time=0.5), "duty_factor is 1.2"),
        (Gait("low", (0, 0.5, 0.5, 0), duty_factor=0.6, cycle_time=0.5, body_height=0.1), "body_height is 0.1"),
    ],
)
def test_impossible_gait_is_refused(gait, message):
    with pytest.raises(ConfigError, match=message):
        generate_clip(gait)


def test_varied_gaits_are_possible_and_follow_their_generator():
    for base in (TROT, SPIN, BOUND):
        first = varied(base, np.random.default_rng(3), "hidden")
        assert first == varied(base, np.random.default_rng(3), "hidden")
        assert first != varied(base, np.random.default_rng(4), "hidden")
        generate_clip(first)


def test_published_actor_answers_single_and_batched_observations(published_actor):
    act = published_actor("pace")
    batch = np.random.default_rng(0).normal(size=(3, 160)).astype(np.float32)
    together = act(batch)
    assert together.shape == (3, 12)
    assert together.dtype == np.float32
    assert np.allclose(together[1], act(batch[1]), atol=1e-5)
    sent = pickle.loads(pickle.dumps(act))
    np.testing.assert_array_equal(sent(batch), together)


@pytest.mark.parametrize(("gait", "expected"), [("pace", 389.1), ("trot", 361.7), ("spin", 384.3)])
def test_published_policies_walk_as_published(make, dog_clip, published_actor, gait, expected):
    """A hundred steps from phase 0 are worth a sixth of the published return, within 20 %."""
    act = published_actor(gait)
    env = make(motion_files=[dog_clip(gait)])
    observation, _ = env.reset(seed=1, options={"phase": 0.0})
    total = 0.0
    for _ in range(100):
        observation, reward, terminated, _, _ = env.step(act(observation))
        assert not terminated
        total += reward
    assert total * 6 == pytest.approx(expected, rel=0.2)
