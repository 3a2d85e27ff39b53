"""Pictures of a gait: the robot next to its reference as a strip and a video, and plots of phase and contacts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.quadruped_locomotion.environment import QuadrupedLocomotionEnv
from a2perf.domains.quadruped_locomotion.rendering import Camera
from a2perf.domains.quadruped_locomotion.robot import (
    CONTROL_STEP,
    DEFAULT_MOTOR_POSE,
    MOTOR_DIRECTION,
    MOTOR_OFFSET,
    TOE_LINKS,
    FloatArray,
    kinematic_tree,
    link_frames,
)
from a2perf.domains.quadruped_locomotion.sensors import TARGETS

LEGS = ("FR", "FL", "RR", "RL")
VIDEO_STRIDE = 2  # control steps per picture
CONTACT_HEIGHT = 0.035  # m, of the centre of a toe; its radius is 0.03
Picture = NDArray[np.uint8]
Act = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Recording:
    """Poses and rewards of a rollout, one row per control step.

    Attributes:
        robot: poses of the robot, shape (n, 19).
        reference: poses of the reference, shape (n, 19).
        phase: position in the cycle, shape (n,).
        reward: shape (n,).
        termination: why it ended; None if it was cut off.
    """

    robot: FloatArray
    reference: FloatArray
    phase: FloatArray
    reward: FloatArray
    termination: str | None


def track_targets(observation: NDArray[Any]) -> NDArray[np.float64]:
    """A plain controller: moves the joints to where the reference will be two control steps ahead.

    Args:
        observation: of the environment, shape ``(160,)``.

    Returns:
        The action: joint angles relative to the default pose, rad.
    """
    frame = np.asarray(observation[TARGETS], dtype=np.float64)[19:38]
    return (frame[7:] - MOTOR_OFFSET) * MOTOR_DIRECTION - DEFAULT_MOTOR_POSE


def record(env: QuadrupedLocomotionEnv, act: Act, steps: int, seed: int = 0) -> Recording:
    """Runs an episode from phase 0 and records it.

    Args:
        env: the environment.
        act: from observations to actions.
        steps: maximum number of control steps.
        seed: of the episode.
    """
    observation, _ = env.reset(seed=seed, options={"phase": 0.0})
    robot, reference, phase, reward = [], [], [], []
    termination = None
    for _ in range(steps):
        observation, value, terminated, truncated, info = env.step(act(observation))
        robot.append(env.robot_pose)
        reference.append(env.reference_pose)
        phase.append(info["phase"])
        reward.append(value)
        termination = info["termination"]
        if terminated or truncated:
            break
    return Recording(np.array(robot), np.array(reference), np.array(phase), np.array(reward), termination)


def contacts(poses: FloatArray) -> NDArray[np.bool_]:
    """Which feet stand (their toe is near the ground), shape (n, 4), legs in the order FR, FL, RR, RL."""
    tree, frames = kinematic_tree(), np.zeros((17, 7))
    standing = np.zeros((len(poses), 4), dtype=np.bool_)
    for row, pose in enumerate(poses):
        link_frames(tree, pose[:3], pose[3:7], pose[7:], frames)
        standing[row] = [frames[link + 1, 2] < CONTACT_HEIGHT for link in TOE_LINKS]
    return standing


def strip(recording: Recording, count: int = 8, width: int = 200, height: int = 150) -> Picture:
    """Draws moments of the first cycles, the reference above the robot.

    Args:
        recording: what to draw.
        count: number of moments.
        width: of one picture, px.
        height: of one picture, px.

    Returns:
        RGB, shape (2 * height, count * width, 3).
    """
    moments = np.linspace(0, min(len(recording.robot) - 1, 40), count).round().astype(int)
    with_camera = Camera()
    try:
        rows = [
            np.hstack([_draw(with_camera, poses[moment], width, height) for moment in moments])
            for poses in (recording.reference, recording.robot)
        ]
    finally:
        with_camera.close()
    return np.vstack(rows)


def frames_of_video(recording: Recording, width: int = 320, height: int = 240) -> list[Picture]:
    """Draws every second step, the reference to the left of the robot; RGB, shape (height, 2 * width, 3)."""
    camera = Camera()
    try:
        return [
            np.hstack([_draw(camera, poses[step], width, height) for poses in (recording.reference, recording.robot)])
            for step in range(0, len(recording.robot), VIDEO_STRIDE)
        ]
    finally:
        camera.close()


def _draw(camera: Camera, pose: FloatArray, width: int, height: int) -> Picture:
    camera.show(pose)
    return camera.picture(
        np.array([pose[0], pose[1], 0.3]), width=width, height=height, distance=1.3, yaw=20.0, pitch=-15
    )


def write_plot(recording: Recording, path: Path, title: str) -> None:
    """Plots phase, contacts of reference and robot, and reward over time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    time = np.arange(len(recording.phase)) * CONTROL_STEP
    figure = Figure(figsize=(8, 6), layout="constrained")
    FigureCanvasAgg(figure)
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(1, 2, 1))
    top.plot(time, recording.phase, color="#3465a4")
    top.set_ylabel("phase")
    top.set_title(title)
    for offset, colour, poses in ((0.2, "#729fcf", recording.reference), (-0.2, "#204a87", recording.robot)):
        standing = contacts(poses)
        for leg in range(4):
            spans = [(t, CONTROL_STEP) for t, stands in zip(time, standing[:, leg], strict=True) if stands]
            middle.broken_barh(spans, (3 - leg + offset - 0.15, 0.3), color=colour)
    middle.set_yticks(range(4), LEGS[::-1])
    middle.set_ylabel("feet on the ground\n(light: reference, dark: robot)")
    bottom.plot(time, recording.reward, color="#4e9a06")
    bottom.set_ylim(0.0, 1.0)
    bottom.set_ylabel("reward")
    bottom.set_xlabel("time, s")
    figure.savefig(path, dpi=100)
