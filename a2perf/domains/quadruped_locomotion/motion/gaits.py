"""Generated reference motions: gaits of the Laikago from a few parameters, by inverse kinematics.

The body moves at constant speed and heading rate. Each foot stands still for the duty factor of the cycle, centred
where its hip passes, and swings to its next foothold on a smooth arc. The joint angles follow in closed form and are
checked against the joint limits.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from a2perf.domains.arguments import refuse_unknown
from a2perf.domains.quadruped_locomotion.motion.motion_clip import MotionClip, make_clip
from a2perf.domains.quadruped_locomotion.motion.rotations import product, rotate
from a2perf.domains.quadruped_locomotion.physics.robot import (
    DEFAULT_ORIENTATION,
    JOINT_LOWER,
    JOINT_UPPER,
    TOE_LINKS,
    FloatArray,
    kinematic_tree,
)
from a2perf.domains.registry import HeldOutTask
from a2perf.errors import ConfigError

FRAME_RATE = 60.0  # frames per second, about
TOE_HEIGHT = 0.028  # m, centre of a standing toe: its radius minus the penetration of the soft contact


@dataclass(frozen=True)
class Gait:
    """Parameters of a gait; legs in the order FR, FL, RR, RL.

    Attributes:
        phases: fraction of the cycle at which each foot touches down.
        duty_factor: fraction of the cycle for which a foot stands, in (0, 1).
        speed: forward, m/s.
        heading_rate: to the left, rad/s.
        body_height: of the chassis' centre of mass, m.
        swing_height: height of a lifted foot, m.
        stance_width: lateral distance of a standing foot from its hip joint, outwards, m.
        bob: amplitude of the body's up-and-down movement, twice per cycle, m.
    """

    name: str
    phases: tuple[float, float, float, float]
    duty_factor: float
    cycle_time: float
    speed: float = 0.0
    heading_rate: float = 0.0
    body_height: float = 0.43
    swing_height: float = 0.06
    stance_width: float = 0.0
    bob: float = 0.0


# Slow enough for the 4 Hz filter of the action path: a plain linear policy can learn them.
TROT = Gait("synthetic_trot", (0.0, 0.5, 0.5, 0.0), duty_factor=0.6, cycle_time=0.75, speed=0.4, stance_width=0.01)
PACE = Gait("synthetic_pace", (0.0, 0.5, 0.0, 0.5), duty_factor=0.65, cycle_time=0.6, speed=0.35, swing_height=0.05)
SPIN = Gait("synthetic_spin", (0.0, 0.5, 0.5, 0.0), duty_factor=0.6, cycle_time=0.7, heading_rate=0.9)
BOUND = Gait("synthetic_bound", (0.5, 0.5, 0.0, 0.0), duty_factor=0.6, cycle_time=0.6, speed=0.35, swing_height=0.05)
GAITS = {gait.name: gait for gait in (TROT, PACE, SPIN, BOUND)}

# Families of gaits with random parameters: training uses one half of the variants, test mode the other.
FAMILIES = {name.replace("synthetic", "varied"): name for name in GAITS}
VARIANTS = 64


def named_gait(name: str) -> Gait:
    """Returns the parameters of a named gait.

    Raises:
        ConfigError: no such gait.
    """
    refuse_unknown([name], tuple(GAITS), "a generated gait")
    return GAITS[name]


@functools.cache
def synthetic_clip(name: str) -> MotionClip:
    """Returns the clip of a named gait; generated once per process.

    Raises:
        ConfigError: no such gait.
    """
    return generate_clip(named_gait(name))


def generate_clip(gait: Gait) -> MotionClip:
    """Generates one cycle of a gait.

    Raises:
        ConfigError: a parameter is out of its range, or a foot cannot follow within the joint limits.
    """
    _check(gait)
    count = max(round(gait.cycle_time * FRAME_RATE), 8)
    frames = np.array([_pose(gait, gait.cycle_time * number / count) for number in range(count + 1)])
    joints = frames[:, 7:]
    beyond = (joints < JOINT_LOWER) | (joints > JOINT_UPPER) | ~np.isfinite(joints)
    if beyond.any():
        frame, joint = np.argwhere(beyond)[0]
        raise ConfigError(
            f"gait {gait.name!r} leaves the joint limits at frame {frame}, joint {joint}"
            f" ({joints[frame, joint]:.3f} rad)",
            hint="shorten the step (speed, cycle_time, duty_factor, heading_rate) or lower body_height",
        )
    return make_clip(
        frames, gait.cycle_time / count, wrap=True, offset=(True, gait.heading_rate != 0.0), name=gait.name
    )


def _check(gait: Gait) -> None:
    limits = {
        "duty_factor": (0.2, 0.9),
        "cycle_time": (0.2, 2.0),
        "speed": (-2.0, 2.0),
        "heading_rate": (-3.0, 3.0),
        "body_height": (0.3, 0.5),
        "swing_height": (0.0, 0.15),
        "stance_width": (-0.05, 0.15),
        "bob": (0.0, 0.03),
    }
    for name, (low, high) in limits.items():
        value = getattr(gait, name)
        if not low <= value <= high:
            raise ConfigError(f"gait {gait.name!r}: {name} is {value!r}; it must lie in [{low}, {high}]")


def _body(gait: Gait, time: float) -> tuple[float, float, float]:
    """Position in the plane (m) and heading (rad) of the body."""
    turn = gait.heading_rate * time
    # Without a heading rate the path is straight and has no radius.
    if abs(turn) < 1e-9:
        return gait.speed * time, 0.0, turn
    radius = gait.speed / gait.heading_rate
    return radius * math.sin(turn), radius * (1.0 - math.cos(turn)), turn


def _foothold(gait: Gait, leg: int, touchdown: float) -> FloatArray:
    """Point in the plane (m) where a foot stands that touches down at a time (s)."""
    x, y, turn = _body(gait, touchdown + 0.5 * gait.duty_factor * gait.cycle_time)
    side = 1.0 if leg in (1, 3) else -1.0
    tree = kinematic_tree()
    left, _, forward = tree.origin[4 * leg] - tree.base_inertial  # of the abduction joint
    left += _leg_offset(leg) + side * gait.stance_width
    sine, cosine = math.sin(turn), math.cos(turn)
    return np.array([x + cosine * forward - sine * left, y + sine * forward + cosine * left])


def _leg_offset(leg: int) -> float:
    """Distance (m, to the left) from the abduction joint to the plane in which hip and knee move."""
    tree = kinematic_tree()
    return float(tree.origin[4 * leg + 1][0] + tree.origin[4 * leg + 2][0])


def _foot(gait: Gait, leg: int, time: float) -> FloatArray:
    """Position of a toe, m, shape (3,)."""
    cycles = time / gait.cycle_time - gait.phases[leg]
    cycle = math.floor(cycles)
    progress = cycles - cycle
    touchdown = (cycle + gait.phases[leg]) * gait.cycle_time
    here = _foothold(gait, leg, touchdown)
    if progress <= gait.duty_factor:
        return np.array([here[0], here[1], TOE_HEIGHT])
    swing = (progress - gait.duty_factor) / (1.0 - gait.duty_factor)
    there = _foothold(gait, leg, touchdown + gait.cycle_time)
    blend = swing * swing * swing * (10.0 - 15.0 * swing + 6.0 * swing * swing)  # at rest at both ends
    place = here + blend * (there - here)
    return np.array([place[0], place[1], TOE_HEIGHT + gait.swing_height * math.sin(math.pi * swing) ** 2])


def _pose(gait: Gait, time: float) -> FloatArray:
    x, y, turn = _body(gait, time)
    height = gait.body_height + gait.bob * math.cos(4.0 * math.pi * time / gait.cycle_time)
    half = 0.5 * turn  # in its default orientation the robot already faces +x
    orientation = product(0.0, 0.0, math.sin(half), math.cos(half), *DEFAULT_ORIENTATION.tolist())
    qx, qy, qz, qw = orientation
    toes = [
        rotate(-qx, -qy, -qz, qw, *(_foot(gait, leg, time) - np.array([x, y, height])).tolist()) for leg in range(4)
    ]
    joints = [leg_angles(leg, np.array(toe)) for leg, toe in enumerate(toes)]
    return np.concatenate([[x, y, height], orientation, *joints])


def leg_angles(leg: int, toe: FloatArray) -> FloatArray:
    """Closed-form inverse kinematics of a leg.

    Args:
        leg: 0 to 3, FR, FL, RR, RL.
        toe: centre of the toe relative to the chassis' centre of mass in chassis axes (left, up, forward), m, shape
            (3,).

    Returns:
        URDF angles of abduction, hip and knee, rad, shape (3,); NaN where the toe is out of reach.
    """
    tree = kinematic_tree()
    first = 4 * leg
    x, y, z = toe - (tree.origin[first] - tree.base_inertial)
    side = _leg_offset(leg)
    reach = x * x + y * y - side * side
    if reach <= 0.0:
        return np.full(3, math.nan)
    down = -math.sqrt(reach)
    abduction = (math.atan2(y, x) - math.atan2(down, side)) * tree.axis[first][2]
    # A difference of two atan2 can leave [-pi, pi), and the limits of the joints are checked next.
    abduction = (abduction + math.pi) % (2.0 * math.pi) - math.pi
    upper, lower = tree.origin[first + 2][1:], tree.origin[TOE_LINKS[leg]][1:]
    squared = down * down + z * z
    cosine = (squared - upper @ upper - lower @ lower) / (2.0 * math.sqrt(float((upper @ upper) * (lower @ lower))))
    if abs(cosine) > 1.0:
        return np.full(3, math.nan)
    bend = math.atan2(upper[1], upper[0]) - math.atan2(lower[1], lower[0])
    knee = bend - math.acos(cosine)
    tip = upper + np.array(
        [lower[0] * math.cos(knee) - lower[1] * math.sin(knee), lower[0] * math.sin(knee) + lower[1] * math.cos(knee)]
    )
    hip = math.atan2(z, down) - math.atan2(tip[1], tip[0])
    hip = (hip + math.pi) % (2.0 * math.pi) - math.pi
    return np.array([abduction, hip, knee])


def varied(gait: Gait, generator: np.random.Generator, name: str) -> Gait:
    """Draws a gait near another one that stays within the joint limits.

    Raises:
        ConfigError: none of a hundred draws is possible.
    """
    for _ in range(100):
        # The order of the draws is part of every gait: another one gives other gaits for the same seed.
        candidate = replace(
            gait,
            name=name,
            duty_factor=float(np.clip(gait.duty_factor + generator.uniform(-0.08, 0.08), 0.45, 0.75)),
            cycle_time=gait.cycle_time * float(generator.uniform(0.85, 1.2)),
            speed=gait.speed * float(generator.uniform(0.6, 1.3)),
            heading_rate=gait.heading_rate * float(generator.uniform(0.6, 1.3)) + float(generator.uniform(-0.3, 0.3)),
            body_height=gait.body_height + float(generator.uniform(-0.02, 0.02)),
            swing_height=gait.swing_height * float(generator.uniform(0.8, 1.3)),
        )
        try:
            generate_clip(candidate)
        except ConfigError:
            continue
        return candidate
    raise ConfigError(f"no variation of gait {gait.name!r} stays within the joint limits")


@functools.lru_cache(maxsize=4 * VARIANTS)
def varied_clip(family: str, variant: int, held_out: bool, gait_seed: int) -> MotionClip:
    """Returns one clip of a family of gaits with drawn parameters.

    Args:
        held_out: of the half that only test mode shows.
        gait_seed: of the whole family; an organizer keeps it secret to hide the parameters of an evaluation.
    """
    base = GAITS[FAMILIES[family]]
    # The family as a number: a seed sequence takes no text, and hash() of a text differs between processes.
    entropy = (gait_seed, sorted(FAMILIES).index(family), int(held_out), variant)
    # PCG64 by name: NumPy may change the generator behind default_rng, and all gaits with it.
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
    return generate_clip(varied(base, generator, f"{family}_{variant}"))


def held_out_tasks(count: int, seed: int) -> list[HeldOutTask]:
    """Generates tasks, cycling through the gaits; test mode draws other variants than training."""
    random, gaits = np.random.default_rng(seed), itertools.cycle(("trot", "pace", "bound", "spin"))
    return [
        HeldOutTask(
            name=f"held_out_{number}_{gait}",
            env_id=f"QuadrupedLocomotion-Varied{gait.capitalize()}-v1",
            kwargs={"mode": "test", "gait_seed": int(random.integers(2**31 - 1))},
            told={"mode": "train"},
        )
        for number, gait in zip(range(1, count + 1), gaits, strict=False)
    ]
