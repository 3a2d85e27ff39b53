"""Which physics loop an environment gets: the native one where this host can run it, else the Python one."""

from __future__ import annotations

import ctypes
import functools
import logging
import sys

from a2perf.domains.quadruped_locomotion.physics_loop import World
from a2perf.domains.quadruped_locomotion.robot import urdf_path
from a2perf.errors import MissingDependency

_log = logging.getLogger(__name__)


def make_world(physics_loop: str) -> World:
    """Returns the physics of one robot.

    Raises:
        MissingDependency: the native loop is asked for and this host cannot run it, or PyBullet is not installed.
    """
    urdf_path()
    if physics_loop != "python":
        from a2perf.domains.quadruped_locomotion import c_api

        problem = c_api.unavailable_reason()
        if problem is None:
            from a2perf.domains.quadruped_locomotion.native_world import NativeWorld, native_loop_problem

            problem = native_loop_problem()
            if problem is None:
                return NativeWorld()
        if physics_loop == "native":
            raise MissingDependency(
                f"the native physics loop cannot be used: {problem}",
                mend="pip install 'a2perf[quadruped-locomotion]', or use physics_loop='python'",
            )
        _notice(problem)
    from a2perf.domains.quadruped_locomotion.bullet_world import BulletWorld

    return BulletWorld()


@functools.cache
def _notice(problem: str) -> None:
    """Says once per process that the slower loop is used."""
    _log.warning("the Python physics loop is used, about half as fast: %s", problem)


def return_memory() -> None:
    """Gives the memory of a closed world back to the system, where the C library keeps it for later otherwise."""
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # the GNU C library has it, musl does not
        if trim is not None:
            trim(0)
