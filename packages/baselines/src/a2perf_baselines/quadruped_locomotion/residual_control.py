"""Actions and observations relative to the reference motion: learning starts from it, not from standing still.

The observation contains the future poses of the reference. An action can therefore be a deviation from such a pose, and
measurements can be differences to it. The reference alone falls within about a second, but a policy that corrects it
has far less to learn than one that produces every angle.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.domains.quadruped_locomotion.motion.reference import TARGET_COUNT, TARGET_STEPS
from a2perf.domains.quadruped_locomotion.physics.robot import DEFAULT_MOTOR_POSE, MOTOR_DIRECTION, MOTOR_OFFSET
from a2perf.domains.quadruped_locomotion.sensors import (
    IMU,
    LAST_ACTION,
    MOTOR_ANGLES,
    OBSERVATION_SIZE,
    STACKED_STEPS,
    TARGETS,
)
from a2perf.errors import ConfigError

FILE = "control.json"
MOTORS = 12
_BOUND = 6.28  # rad, just within the environment's
_ROOT = 7  # position and orientation, in front of the joint angles of a target frame
DIFFERENCES_SIZE = 3 * IMU.stop // STACKED_STEPS + 5 * MOTORS + TARGET_COUNT * (MOTORS + _ROOT)


@dataclass(frozen=True)
class ResidualControl:
    """Conversion between the numbers of a policy and those of the environment.

    Attributes:
        share: weight of the reference: 1 for all of it, 0 for offsets from standing still.
        ahead: control steps from the motion to the commanded pose, extrapolated from the first two target frames.
            Motors lag behind; 3 compensates best on the dog's clips.
        scale: rad added by an action of 1.
        differences: whether the policy receives velocities and distances to the reference (``observe``) instead of the
            observation itself.
    """

    share: float = 1.0
    ahead: float = 3.0
    scale: float = 0.5
    differences: bool = True

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ConfigError: ``scale`` is not positive.
        """
        if not self.scale > 0.0:
            raise ConfigError(f"scale is {self.scale!r}; it must be positive")

    def write(self, folder: Path) -> None:
        """Writes the values next to a policy, which cannot be used without them."""
        (folder / FILE).write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> ResidualControl:
        """Returns what ``write`` wrote.

        Raises:
            ConfigError: the file is missing or damaged.
        """
        try:
            return cls(**json.loads((folder / FILE).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(
                f"{FILE}, which describes the policy's actions, cannot be read: {error}",
                hint="give the complete folder that the training run wrote",
            ) from error

    def reference(self, observation: NDArray[Any]) -> NDArray[np.float64]:
        """Returns the environment's action that plays ``share`` of the reference.

        Args:
            observation: shape (160,).

        Returns:
            Offsets from the default motor pose, rad, shape (12,).
        """
        frames = np.asarray(observation, dtype=np.float64)[TARGETS].reshape(TARGET_COUNT, -1)[:, _ROOT:]
        (first, at), (second, then) = zip(frames[:2], TARGET_STEPS[:2], strict=True)
        joints = first + (self.ahead - at) / (then - at) * (second - first)
        played: NDArray[np.float64] = self.share * (_motor_angles(joints) - DEFAULT_MOTOR_POSE)
        return played

    def environment_action(self, action: NDArray[Any], reference: NDArray[np.float64]) -> NDArray[np.float32]:
        """Returns the environment's action, rad, for a policy's action, both of shape (12,)."""
        wanted = reference + self.scale * np.asarray(action, dtype=np.float64)
        return np.clip(wanted, -_BOUND, _BOUND).astype(np.float32)

    def observe(self, observation: NDArray[Any]) -> NDArray[np.float32]:
        """Returns what the policy sees.

        With ``differences`` these are roll, pitch and their rates, motor angles, each with its last two changes; how
        far the motors lag behind the last action, and that action's change; the joints of each target relative to the
        motors, and the targets' positions and orientations. Nearly the same numbers as the observation's, but one does
        not have to be subtracted from another to see a speed.

        Args:
            observation: shape (160,).

        Returns:
            Shape (148,) with differences, else the observation.
        """
        if not self.differences:
            return np.asarray(observation, dtype=np.float32)
        seen = np.asarray(observation, dtype=np.float64)
        imu, commands, angles = (seen[block].reshape(STACKED_STEPS, -1) for block in (IMU, LAST_ACTION, MOTOR_ANGLES))
        targets = seen[TARGETS].reshape(TARGET_COUNT, -1)
        parts = [
            imu[0],
            imu[0] - imu[1],
            imu[1] - imu[2],
            angles[0],
            angles[0] - angles[1],
            angles[1] - angles[2],
            commands[0] - angles[0],
            commands[0] - commands[1],
            _motor_angles(targets[:, _ROOT:]) - angles[0],
            targets[:, :_ROOT],
        ]
        return np.concatenate([part.ravel() for part in parts]).astype(np.float32)


def _motor_angles(joints: NDArray[np.float64]) -> NDArray[np.float64]:
    return (joints - MOTOR_OFFSET) * MOTOR_DIRECTION


class ResidualControlWrapper(gymnasium.Wrapper[NDArray[Any], NDArray[np.float32], NDArray[Any], NDArray[Any]]):
    """Makes actions deviations from the reference: 12 numbers in [-1, 1].

    Raises:
        ConfigError: the observations are not those of a quadruped.
    """

    def __init__(self, env: gymnasium.Env[NDArray[Any], NDArray[Any]], control: ResidualControl) -> None:
        super().__init__(env)
        if env.observation_space.shape != (OBSERVATION_SIZE,):
            raise ConfigError(
                f"observations of shape {env.observation_space.shape} show no reference motion",
                hint="use an environment of quadruped_locomotion",
            )
        self.control = control
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (MOTORS,), np.float32)
        if control.differences:
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (DIFFERENCES_SIZE,), np.float32)
        self._reference = np.zeros(MOTORS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Resets the environment."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._reference = self.control.reference(observation)
        return self.control.observe(observation), info

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Runs one control step with a deviation from the reference."""
        wanted = self.control.environment_action(action, self._reference)
        observation, reward, terminated, truncated, info = self.env.step(wanted)
        self._reference = self.control.reference(observation)
        return self.control.observe(observation), float(reward), terminated, truncated, info
