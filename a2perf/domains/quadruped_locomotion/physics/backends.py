"""The interface between the environment and a physics engine, and the choice of the engine for PyBullet."""

from __future__ import annotations

import ctypes
import functools
import logging
from typing import Protocol

from a2perf.domains.quadruped_locomotion.physics.physics_loop import Actuation
from a2perf.domains.quadruped_locomotion.physics.robot import FloatArray, urdf_path
from a2perf.domains.quadruped_locomotion.task import ImitationTask
from a2perf.errors import MissingDependency
from a2perf.system import LINUX

_log = logging.getLogger(__name__)


class PhysicsBackend(Protocol):
    """The physics of one robot on a plane; the environment knows nothing else of the engine.

    Poses of the base are those of its centre of mass. ``state`` vectors have the layout given in ``robot``.
    """

    def reset_robot(self, actuation: Actuation) -> None:
        """Puts the robot into its default pose at rest with passive joints and adds the first measurement."""

    def place_robot(self, pose: FloatArray, velocity: FloatArray, actuation: Actuation) -> None:
        """Puts the robot into exactly this pose (19) and velocity (18) and adds a measurement."""

    def run(self, task: ImitationTask, latency: float, steps: int, warm_up: bool) -> None:
        """Runs a control step of the task: ``before_physics``, 33 sub-steps, ``after_physics``, contacts."""

    def read_state(self, state: FloatArray, feet: FloatArray) -> None:
        """Writes the robot's true state, shape (37,), and the centres of mass of its foot links, m, shape (8, 3).

        Positions of foot links are one sub-step old, as in the earlier implementation.
        """

    def set_dynamics(self, link: int, mass: float | None, inertia: FloatArray | None, friction: float | None) -> None:
        """Changes mass (kg), principal inertia (kg m^2, shape (3,)) and lateral friction of a link (-1: the
        chassis).
        """

    def get_dynamics(self, link: int) -> tuple[float, FloatArray, float]:
        """Returns mass (kg), principal inertia (kg m^2, shape (3,)) and lateral friction of a link (-1: the
        chassis).
        """

    def set_joint_friction(self, link: int, torque: float) -> None:
        """Sets the dry friction (N m) of the joint above a link."""

    def close(self) -> None:
        """Frees the physics; calling it again changes nothing."""


def make_physics(physics_loop: str) -> PhysicsBackend:
    """Returns the physics of one robot.

    Raises:
        MissingDependency: the native loop is asked for and this host cannot run it, or PyBullet is not installed.
    """
    urdf_path()
    if physics_loop != "python":
        from a2perf.domains.quadruped_locomotion.physics import c_api

        problem = c_api.unavailable_reason()
        if problem is None:
            from a2perf.domains.quadruped_locomotion.physics.native_backend import NativeBackend, native_loop_problem

            problem = native_loop_problem()
            if problem is None:
                return NativeBackend()
        if physics_loop == "native":
            raise MissingDependency(
                f"the native physics loop cannot be used: {problem}", hint="use physics_loop='python'"
            )
        _notice(problem)
    from a2perf.domains.quadruped_locomotion.physics.bullet_backend import BulletBackend

    return BulletBackend()


@functools.cache
def _notice(problem: str) -> None:
    """Logs once per process that the slower loop is used."""
    _log.warning("the Python physics loop is used, about half as fast: %s", problem)


def return_memory() -> None:
    """Returns unused memory to the system; the C library would otherwise keep it.

    Loading a backend leaves 5 MB unused, closing one 45 MB.
    """
    if LINUX:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # the GNU C library has it, musl does not
        if trim is not None:
            trim(0)
