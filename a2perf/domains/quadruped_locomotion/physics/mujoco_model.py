"""The Laikago as a MuJoCo model, built from the geometry of the PyBullet wheel's URDF.

Masses, joints, limits and principal inertias are those that Bullet uses; collision meshes become spheres, capsules and
a box. The frame of a body is that of its URDF link; only the chassis has its origin at the centre of mass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from a2perf.domains.quadruped_locomotion.physics import robot
from a2perf.domains.quadruped_locomotion.physics.robot import CONTROL_STEP, KD, FloatArray, kinematic_tree
from a2perf.errors import ConfigError

SUBSTEPS = 11
# No motor moves a joint this fast (rad/s): the integration has become unstable, which extreme random actions can cause.
UNSTABLE_SPEED = 400.0
GROUND_FRICTION = 0.9  # Bullet multiplies 0.9 of the ground with 1.0 of the foot, MuJoCo takes the larger of two
TOE_RADIUS = 0.03  # m
# Time constant (s) and damping ratio: about the 30000 N/m and 1000 N s/m of the URDF for a quarter of the robot's
# weight.
CONTACT = "0.012 1"

# Principal inertias (kg m^2) that Bullet derives from the collision shapes, by kind of link.
CHASSIS_INERTIA = (0.43514861390085763, 0.5694298725022054, 0.22281566243761453)
_LINK_INERTIA = (
    (0.0017317521897844352, 0.0017006526706556276, 0.0014584852405555536),
    (0.015517682423132704, 0.007409698858482857, 0.010540841743807709),
    (0.0021848313322518653, 0.0001214712635617718, 0.0021125654302545497),
    (3.6e-05, 3.6e-05, 3.6e-05),
)

# Collision shapes in link frames (m): radius, and for capsules the far end; the near end is the joint.
_HIP_RADIUS = 0.045
_UPPER_LEG_RADIUS = 0.035
_LOWER_LEG_RADIUS = 0.015
_LOWER_LEG_END = (0.0, -0.25, -0.015)
_CHASSIS_HALF = (0.12, 0.09, 0.27)
_CAPSULE = 'type="capsule" rgba="0.5 0.5 0.55 1"'
# A body counts as touching the ground a little above it, as Bullet's contact list does.
TOUCH_MARGIN = 0.005  # m


@dataclass(frozen=True)
class TwinPhysics:
    """Numerical and contact parameters of the MuJoCo model; the defaults are those of the registered ids.

    Attributes:
        substeps: of a control step of 0.033 s; with fewer than 11, explicit damping lets the stiff joints swing.
        implicit_damping: leave the derivative gain of the motors to the integrator, which then stays stable with long
            sub-steps. The motors' strength does not scale that part.
        contact: time constant (s) and damping ratio of contacts (``solref``).
        impedance: of contacts (``solimp``); empty: MuJoCo's.
        exact_start: start the action filter of an episode from the default pose, as in PyBullet, where the latency of
            2 ms spans two sub-steps. With longer sub-steps it would start from a blend with the start state.
        fused: merge the toes, which do not move, with the lower legs: fewer bodies, the same dynamics. Contacts differ
            slightly, because their softness depends on the mass of the touching body.
    """

    substeps: int = SUBSTEPS
    implicit_damping: bool = False
    contact: str = CONTACT
    impedance: str = ""
    friction: float = GROUND_FRICTION
    elliptic: bool = False
    iterations: int = 10
    exact_start: bool = False
    fused: bool = False

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ConfigError: ``substeps`` is not positive.
        """
        if self.substeps < 1:
            raise ConfigError(f"substeps is {self.substeps!r}; it must be a positive integer")

    @property
    def time_step(self) -> float:
        """Length of a sub-step, s."""
        return CONTROL_STEP / self.substeps

    @property
    def latency_scale(self) -> float:
        """The shared code's history has an entry per millisecond; it gets latencies divided by this."""
        return self.time_step / robot.TIME_STEP

    @property
    def start_scale(self) -> float:
        """Factor on a scaled latency with which the action filter starts."""
        return self.latency_scale if self.exact_start else 1.0


DEFAULT_PHYSICS = TwinPhysics()


def link_inertia(link: int) -> FloatArray:
    """Principal inertia (kg m^2, shape (3,)) of a link (-1: the chassis)."""
    return np.array(CHASSIS_INERTIA if link < 0 else _LINK_INERTIA[link % 4])


def body_points() -> tuple[FloatArray, FloatArray]:
    """Points that bound the links that must not touch the ground.

    Returns:
        Rows of frame number (0: the chassis, link + 1 else) and position in the URDF frame (m), shape (n, 4), and the
        distance (m) from each to the surface, shape (n,).
    """
    tree = kinematic_tree()
    rows: list[tuple[float, ...]] = []
    radii: list[float] = []
    for x in (-1.0, 1.0):
        for y in (-1.0, 1.0):
            for z in (-1.0, 1.0):
                corner = tree.base_inertial + np.array([x, y, z]) * _CHASSIS_HALF
                rows.append((0.0, *corner.tolist()))
                radii.append(0.0)
    for leg in range(4):
        hip, knee = 4 * leg, 4 * leg + 2
        rows.append((hip + 1.0, 0.0, 0.0, 0.0))
        radii.append(_HIP_RADIUS)
        rows.append((hip + 2.0, 0.0, 0.0, 0.0))
        radii.append(_UPPER_LEG_RADIUS)
        # The knee's end of the capsule is left out: the lower leg, which may touch, begins there.
        rows.append((hip + 2.0, *(0.8 * tree.origin[knee]).tolist()))
        radii.append(_UPPER_LEG_RADIUS)
    return np.array(rows), np.array(radii)


def model_xml(physics: TwinPhysics = DEFAULT_PHYSICS) -> str:
    """Returns the model as MJCF text."""
    tree = kinematic_tree()
    impedance = f' solimp="{physics.impedance}"' if physics.impedance else ""
    motors = "".join(f'<motor joint="joint{link}" ctrllimited="false"/>' for link in robot.MOTOR_LINKS)
    legs = "".join(_link_xml(4 * leg, physics) for leg in range(4))
    # contype and conaffinity let robot parts meet the ground but not each other, as PyBullet loads a robot.
    return f"""<mujoco model="laikago">
  <compiler angle="radian" autolimits="true" balanceinertia="true" fusestatic="{str(physics.fused).lower()}"/>
  <option timestep="{physics.time_step}" gravity="0 0 {robot.GRAVITY}" iterations="{physics.iterations}"
          ls_iterations="10" cone="{"elliptic" if physics.elliptic else "pyramidal"}" jacobian="dense">
    <flag eulerdamp="{"enable" if physics.implicit_damping else "disable"}" filterparent="enable"/>
  </option>
  <default>
    <geom contype="1" conaffinity="0" condim="3" friction="{physics.friction} 0.005 0.0001"
          solref="{physics.contact}"{impedance}/>
  </default>
  <visual><global offwidth="640" offheight="480"/></visual>
  <asset>
    <texture name="squares" type="2d" builtin="checker" rgb1="0.85 0.87 0.9" rgb2="0.7 0.75 0.82" width="256"
             height="256"/>
    <material name="ground" texture="squares" texrepeat="1 1" texuniform="true"/>
  </asset>
  <worldbody>
    <light pos="0 0 4" dir="0 0 -1" directional="true"/>
    <geom name="ground" type="plane" size="0 0 1" contype="0" conaffinity="1" material="ground"/>
    <body name="chassis" pos="{_text(robot.DEFAULT_POSITION)}" quat="0.5 0.5 0.5 0.5">
      <freejoint name="root"/>
      {_inertial_xml(np.zeros(3), tree.mass[0], link_inertia(-1))}
      <geom type="box" size="{_text(_CHASSIS_HALF)}" rgba="0.3 0.3 0.35 1"/>
      {legs}
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
</mujoco>"""


def _link_xml(link: int, physics: TwinPhysics) -> str:
    """Returns a link with those below it; the last of the four links of a leg is the toe."""
    tree, kind = kinematic_tree(), link % 4
    position = tree.origin[link] - (tree.base_inertial if kind == 0 else 0.0)
    end = _text(tree.origin[link + 1] if kind == 1 else _LOWER_LEG_END)
    shape = (
        f'type="sphere" size="{_HIP_RADIUS}" rgba="0.2 0.2 0.25 1"',
        f'{_CAPSULE} size="{_UPPER_LEG_RADIUS}" fromto="0 0 0 {end}"',
        f'{_CAPSULE} size="{_LOWER_LEG_RADIUS}" fromto="0 0 0 {end}"',
        f'type="sphere" size="{TOE_RADIUS}" rgba="0.1 0.1 0.1 1"',
    )[kind]
    joint, motor = "", int(tree.motor[link])
    if motor >= 0:
        limits = _text((robot.JOINT_LOWER[motor], robot.JOINT_UPPER[motor]))
        damping = f' damping="{float(KD[motor])}"' if physics.implicit_damping else ""
        joint = f'<joint name="joint{link}" type="hinge" axis="{_text(tree.axis[link])}" range="{limits}"{damping}/>'
    inertial = _inertial_xml(tree.inertial[link], tree.mass[link + 1], link_inertia(link))
    below = "" if kind == 3 else _link_xml(link + 1, physics)
    return f'<body name="link{link}" pos="{_text(position)}">{joint}{inertial}<geom {shape}/>{below}</body>'


def _inertial_xml(position: FloatArray, mass: float, inertia: FloatArray) -> str:
    return f'<inertial pos="{_text(position)}" mass="{float(mass)}" diaginertia="{_text(inertia)}"/>'


def _text(values: FloatArray | tuple[float, ...]) -> str:
    return " ".join(repr(float(value)) for value in values)
