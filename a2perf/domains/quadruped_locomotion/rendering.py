"""Pictures and the window: a separate client with visual shapes, which shows poses of the simulation.

The simulation has no visual shapes because they take over 300 MB; the first picture loads them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.display import require_display
from a2perf.domains.quadruped_locomotion import PICTURES_HINT
from a2perf.domains.quadruped_locomotion.physics import robot
from a2perf.domains.quadruped_locomotion.physics.bullet_backend import import_pybullet, place
from a2perf.domains.quadruped_locomotion.physics.robot import FloatArray
from a2perf.errors import MissingDependency

WIDTH = 480  # px
HEIGHT = 360  # px
_DISTANCE = 1.0  # m
_PITCH = -30.0  # degrees
_FIELD_OF_VIEW = 60.0  # degrees
_NEAR, _FAR = 0.1, 100.0  # m
_FARTHEST = 1e3  # m from the origin
_REFERENCE_COLOUR = (0.35, 0.6, 0.95, 0.6)


def pictures_of(states: NDArray[Any]) -> Iterator[NDArray[np.uint8]]:
    """Yields pictures of poses of the robot, shape (n, 19).

    Raises:
        ValueError: the array is not one of poses, or of poses too far away.
        MissingDependency: PyBullet is not installed.
    """
    if states.dtype != np.float64 or states.shape[1:] != (19,) or not (np.abs(states) < _FARTHEST).all():
        raise ValueError(f"{states.dtype} of shape {states.shape} are not poses of the robot")
    with contextlib.closing(Camera()) as camera:
        for pose in states:
            camera.show(pose)
            yield camera.picture(pose[:3])


class Camera:
    """A scene with the robot and, on demand, the reference beside it.

    Raises:
        ConfigError: a window is requested on a machine without a display.
        MissingDependency: PyBullet is not installed.
    """

    def __init__(self, *, window: bool = False) -> None:
        if window:
            require_display(x11=True)
        try:
            self._bullet = bullet = import_pybullet()
        except MissingDependency as error:  # also of a task that MuJoCo simulates
            raise MissingDependency(
                "pictures of the robot need PyBullet, which is not installed", hint=PICTURES_HINT
            ) from error
        self._client: int = bullet.connect(bullet.GUI if window else bullet.DIRECT)
        bullet.loadURDF(str(robot.urdf_path("plane.urdf")), physicsClientId=self._client)
        self._robot = self._load()
        self._reference: int | None = None
        self._shown_at = 0.0

    def _load(self) -> int:
        body: int = self._bullet.loadURDF(str(robot.urdf_path()), useFixedBase=True, physicsClientId=self._client)
        return body

    def show(self, pose: FloatArray, reference: FloatArray | None = None) -> None:
        """Puts the robot (and the reference, if given) into poses of shape (19,)."""
        place(self._bullet, self._robot, self._client, pose)
        if reference is None:
            return
        if self._reference is None:
            self._reference = self._load()
            for link in range(-1, robot.LINK_COUNT):
                self._bullet.changeVisualShape(
                    self._reference, link, rgbaColor=_REFERENCE_COLOUR, physicsClientId=self._client
                )
        place(self._bullet, self._reference, self._client, reference)

    def follow(self, target: FloatArray) -> None:
        """Turns the window's camera to a point (m, shape (3,))."""
        self._bullet.resetDebugVisualizerCamera(_DISTANCE, 0.0, _PITCH, target.tolist(), physicsClientId=self._client)

    def wait(self, period: float) -> None:
        """Waits until ``period`` (s) has passed since the last call: a window shows real time."""
        now = time.monotonic()
        time.sleep(max(0.0, self._shown_at + period - now))
        self._shown_at = time.monotonic()

    def picture(
        self,
        target: FloatArray,
        *,
        width: int = WIDTH,
        height: int = HEIGHT,
        distance: float = _DISTANCE,
        yaw: float = 0.0,
        pitch: float = _PITCH,
    ) -> NDArray[np.uint8]:
        """Returns a picture, RGB, shape (height, width, 3).

        Args:
            target: point in the middle of the picture, m, shape (3,).
        """
        bullet, client = self._bullet, self._client
        view = bullet.computeViewMatrixFromYawPitchRoll(
            target.tolist(), distance, yaw, pitch, 0.0, 2, physicsClientId=client
        )
        projection = bullet.computeProjectionMatrixFOV(
            _FIELD_OF_VIEW, width / height, _NEAR, _FAR, physicsClientId=client
        )
        _, _, pixels, _, _ = bullet.getCameraImage(
            width,
            height,
            view,
            projection,
            renderer=bullet.ER_TINY_RENDERER,
            flags=bullet.ER_NO_SEGMENTATION_MASK,
            physicsClientId=client,
        )
        # The copy is contiguous and lets go of the picture with four channels.
        return np.asarray(pixels, dtype=np.uint8).reshape(height, width, 4)[:, :, :3].copy()

    def close(self) -> None:
        """Frees the scene; calling it again changes nothing."""
        if self._client >= 0:
            if self._bullet.isConnected(physicsClientId=self._client):
                self._bullet.disconnect(physicsClientId=self._client)
            self._client = -1
