"""Motion clips: reading, checking and sampling a recorded or generated reference motion.

A clip is a JSON file: ``LoopMode`` ("Wrap" or "Clamp"), ``FrameDuration`` (s), the optional booleans
``EnableCycleOffsetPosition`` and ``EnableCycleOffsetRotation``, and ``Frames``, each 19 numbers: root position (3, m),
root quaternion xyzw (4), URDF joint angles (12, rad). Sampling follows Peng et al. 2020.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from a2perf.domains.compilation import compiled
from a2perf.domains.quadruped_locomotion.motion.rotations import (
    Quaternion,
    axis_angle,
    heading,
    product,
    rotate,
    slerp,
    standard,
)
from a2perf.domains.quadruped_locomotion.physics.robot import FloatArray
from a2perf.errors import ConfigError, did_you_mean

POSE_SIZE = 19
VELOCITY_SIZE = 18
# Files carry five decimals; anything further from unit length is a mistake, not round-off.
QUATERNION_TOLERANCE = 0.01
_COLUMNS = (
    *("root position " + axis for axis in "xyz"),
    *("root quaternion " + part for part in "xyzw"),
    *(f"joint {leg} {joint}" for leg in ("FR", "FL", "RR", "RL") for joint in ("abduction", "hip", "knee")),
)
_KEYS = ("LoopMode", "FrameDuration", "Frames")


class ClipData(NamedTuple):
    """What the compiled samplers need of a clip.

    Attributes:
        frames: poses, shape (n, 19).
        velocities: per frame, world axes: linear (3, m/s), angular (3, rad/s), joints (12, rad/s), shape (n, 18).
        wrap: whether the motion repeats (otherwise it is held at its ends).
        offset_position: whether each cycle starts where the last one ended.
        offset_rotation: whether each cycle starts at the heading where the last one ended.
        delta_x, delta_y: displacement per cycle, m.
        delta_heading: heading change per cycle, rad.
    """

    frames: FloatArray
    velocities: FloatArray
    frame_duration: float
    duration: float
    wrap: bool
    offset_position: bool
    offset_rotation: bool
    delta_x: float
    delta_y: float
    delta_heading: float


@dataclass(frozen=True)
class MotionClip:
    """A checked clip: its name for messages and its data for the samplers."""

    name: str
    data: ClipData

    @property
    def duration(self) -> float:
        """Length of one cycle, s."""
        return self.data.duration

    def is_over(self, time: float) -> bool:
        """Whether a motion that does not repeat has ended at this time (s)."""
        return not self.data.wrap and time >= self.data.duration

    def pose(self, time: float) -> FloatArray:
        """Returns the pose at any time (s), shape (19,), in the clip's own axes."""
        out = np.empty(POSE_SIZE)
        sample_pose(self.data, float(time), out)
        return out

    def velocity(self, time: float) -> FloatArray:
        """Returns the velocity at any time (s), shape (18,), in the clip's own axes."""
        out = np.empty(VELOCITY_SIZE)
        sample_velocity(self.data, float(time), out)
        return out

    def to_json(self) -> str:
        """Returns the clip as the text of a clip file, five decimals as is usual for them."""
        lines = ",\n".join(json.dumps([round(float(value), 5) for value in frame]) for frame in self.data.frames)
        return (
            f'{{\n"LoopMode": "{"Wrap" if self.data.wrap else "Clamp"}",\n'
            f'"FrameDuration": {self.data.frame_duration},\n'
            f'"EnableCycleOffsetPosition": {json.dumps(bool(self.data.offset_position))},\n'
            f'"EnableCycleOffsetRotation": {json.dumps(bool(self.data.offset_rotation))},\n'
            f'"Frames":\n[\n{lines}\n]\n}}\n'
        )


def load_clip(path: str | Path) -> MotionClip:
    """Reads and checks a clip file.

    Raises:
        ConfigError: there is no such file, it is not JSON, a key is missing or mistyped, or a frame is broken; the
            message names the file, and frame and field if known.
    """
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"motion clip {path} cannot be read: {error.strerror or error}",
            hint="give the path of a clip file in motion_files",
        ) from error
    except ValueError as error:
        raise ConfigError(f"motion clip {path} is not a JSON text: {error}") from error
    return clip_from_content(content, str(path))


def clip_from_content(content: Any, name: str) -> MotionClip:
    """Builds a clip from the decoded content of a clip file.

    Raises:
        ConfigError: as ``load_clip``.
    """
    if not isinstance(content, dict):
        raise ConfigError(f"motion clip {name}: expected a JSON object, found {type(content).__name__}")
    for key in _KEYS:
        if key not in content:
            raise ConfigError(f"motion clip {name}: key {key!r} is missing{did_you_mean(key, content)}")
    loop_mode = content["LoopMode"]
    if loop_mode not in ("Wrap", "Clamp"):
        raise ConfigError(f"motion clip {name}: LoopMode is {loop_mode!r}; it must be 'Wrap' or 'Clamp'")
    duration = content["FrameDuration"]
    if isinstance(duration, bool) or not isinstance(duration, (int, float)) or not 0.0 < duration < math.inf:
        raise ConfigError(f"motion clip {name}: FrameDuration is {duration!r}; it must be a positive number of seconds")
    flags = []
    for key in ("EnableCycleOffsetPosition", "EnableCycleOffsetRotation"):
        value = content.get(key, False)
        if not isinstance(value, bool):
            raise ConfigError(f"motion clip {name}: {key} is {value!r}; it must be true or false")
        flags.append(value)
    frames = _checked_frames(content["Frames"], name)
    return make_clip(frames, float(duration), wrap=loop_mode == "Wrap", offset=(flags[0], flags[1]), name=name)


def _checked_frames(frames: Any, name: str) -> FloatArray:
    if not isinstance(frames, list) or len(frames) < 2:
        found = f"{len(frames)}" if isinstance(frames, list) else type(frames).__name__
        raise ConfigError(f"motion clip {name}: Frames must be a list of at least two frames, found {found}")
    for number, frame in enumerate(frames):
        where = f"motion clip {name}, frame {number}"
        if not isinstance(frame, list) or len(frame) != POSE_SIZE:
            found = f"{len(frame)} numbers" if isinstance(frame, list) else type(frame).__name__
            raise ConfigError(f"{where}: expected {POSE_SIZE} numbers, found {found}")
        for column, value in zip(_COLUMNS, frame, strict=True):
            # A bool is an int to Python: true in a file would pass as the number 1.
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ConfigError(f"{where}, {column}: {value!r} is not a finite number")
        length = math.sqrt(sum(float(value) ** 2 for value in frame[3:7]))
        if abs(length - 1.0) > QUATERNION_TOLERANCE:
            raise ConfigError(f"{where}, root quaternion: its length is {length:.5g}, it must be 1")
    return np.array(frames, dtype=np.float64)


def make_clip(
    frames: FloatArray, frame_duration: float, *, wrap: bool, offset: tuple[bool, bool], name: str
) -> MotionClip:
    """Prepares checked frames for sampling: first frame to the origin of the plane, unit quaternions, velocities.

    Args:
        frames: shape (n, 19), n >= 2.
        offset: whether position and heading carry over from cycle to cycle.
    """
    frames = np.array(frames, dtype=np.float64)
    frames[:, :2] -= frames[0, :2]
    frames[:, 3:7] /= np.linalg.norm(frames[:, 3:7], axis=1, keepdims=True)
    frames[:, 3:7] *= np.where(frames[:, 6:7] < 0.0, -1.0, 1.0)
    first, last = frames[0], frames[-1]
    data = ClipData(
        frames=frames,
        velocities=_frame_velocities(frames, frame_duration),
        frame_duration=frame_duration,
        duration=frame_duration * (len(frames) - 1),
        wrap=wrap,
        offset_position=offset[0],
        offset_rotation=offset[1],
        delta_x=float(last[0] - first[0]),
        delta_y=float(last[1] - first[1]),
        delta_heading=float(heading(*_difference(last, first))),
    )
    return MotionClip(name=name, data=data)


def _difference(then: FloatArray, now: FloatArray) -> Quaternion:
    """Rotation of the root from one pose to another."""
    tx, ty, tz, tw = (float(part) for part in then[3:7])
    nx, ny, nz, nw = (float(part) for part in now[3:7])
    return product(tx, ty, tz, tw, -nx, -ny, -nz, nw)


def _frame_velocities(frames: FloatArray, frame_duration: float) -> FloatArray:
    """Forward differences per frame; the last frame repeats the one before it. Shape (n, 18)."""
    velocities = np.empty((len(frames), VELOCITY_SIZE))
    for number in range(len(frames) - 1):
        now, then = frames[number], frames[number + 1]
        x, y, z, angle = axis_angle(*_difference(then, now))
        velocities[number, :3] = (then[:3] - now[:3]) / frame_duration
        velocities[number, 3:6] = np.array([x, y, z]) * angle / frame_duration
        velocities[number, 6:] = (then[7:] - now[7:]) / frame_duration
    velocities[-1] = velocities[-2]
    return velocities


@compiled
def clip_phase(clip: ClipData, time: float) -> float:
    """Position in the cycle, in [0, 1); held at 0 and 1 outside a motion that does not repeat."""
    phase = time / clip.duration
    if clip.wrap:
        return phase - math.floor(phase)
    return min(max(phase, 0.0), 1.0)


@compiled
def _blend_point(clip: ClipData, time: float) -> tuple[int, int, float]:
    count = clip.frames.shape[0]
    if not clip.wrap:
        if time <= 0.0:
            return (0, 0, 0.0)
        if time >= clip.duration:
            return (count - 1, count - 1, 0.0)
    phase = clip_phase(clip, time)
    # Just below a whole cycle, the phase can round up to 1; the last pair of frames is then meant.
    low = min(int(phase * (count - 1)), count - 2)
    high = low + 1
    start = low * clip.frame_duration
    blend = (phase * clip.duration - start) / (high * clip.frame_duration - start)
    return (low, high, blend)


@compiled
def _cycle_count(clip: ClipData, time: float) -> int:
    count = int(math.floor(time / clip.duration))  # noqa: RUF046 - compiled, floor gives a float
    if not clip.wrap:
        count = min(max(count, 0), 1)
    return count


@compiled
def sample_pose(clip: ClipData, time: float, out: FloatArray) -> None:
    """Writes the pose at any time (s, of either sign) into ``out``, shape (19,)."""
    low, high, blend = _blend_point(clip, time)
    frames = clip.frames
    for column in range(3):
        out[column] = (1.0 - blend) * frames[low, column] + blend * frames[high, column]
    for column in range(7, 19):
        out[column] = (1.0 - blend) * frames[low, column] + blend * frames[high, column]
    x, y, z, w = slerp(
        frames[low, 3],
        frames[low, 4],
        frames[low, 5],
        frames[low, 6],
        frames[high, 3],
        frames[high, 4],
        frames[high, 5],
        frames[high, 6],
        blend,
    )
    x, y, z, w = standard(x, y, z, w)
    count = _cycle_count(clip, time)
    turn = count * clip.delta_heading if clip.offset_rotation else 0.0
    if turn != 0.0:
        sine, cosine = math.sin(0.5 * turn), math.cos(0.5 * turn)
        out[0], out[1], out[2] = rotate(0.0, 0.0, sine, cosine, out[0], out[1], out[2])
        x, y, z, w = product(0.0, 0.0, sine, cosine, x, y, z, w)
        x, y, z, w = standard(x, y, z, w)
    out[3] = x
    out[4] = y
    out[5] = z
    out[6] = w
    if clip.offset_position:
        if not clip.offset_rotation:
            out[0] += count * clip.delta_x
            out[1] += count * clip.delta_y
        else:
            # The displacement turns from cycle to cycle, so a multiple of the first one would be wrong.
            for cycle in range(count):
                angle = cycle * clip.delta_heading
                dx, dy, _ = rotate(
                    0.0, 0.0, math.sin(0.5 * angle), math.cos(0.5 * angle), clip.delta_x, clip.delta_y, 0.0
                )
                out[0] += dx
                out[1] += dy


@compiled
def sample_velocity(clip: ClipData, time: float, out: FloatArray) -> None:
    """Writes the velocity at any time (s, of either sign) into ``out``, shape (18,)."""
    low, high, blend = _blend_point(clip, time)
    velocities = clip.velocities
    for column in range(18):
        out[column] = (1.0 - blend) * velocities[low, column] + blend * velocities[high, column]
    if clip.offset_rotation:
        turn = _cycle_count(clip, time) * clip.delta_heading
        sine, cosine = math.sin(0.5 * turn), math.cos(0.5 * turn)
        out[0], out[1], out[2] = rotate(0.0, 0.0, sine, cosine, out[0], out[1], out[2])
        out[3], out[4], out[5] = rotate(0.0, 0.0, sine, cosine, out[3], out[4], out[5])
