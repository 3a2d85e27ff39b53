"""Checks of arguments of the environment, options of a reset, actions, and clips by name or file.

Every error has the given value, the nearest valid name, and the fix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from a2perf import assets
from a2perf.domains.arguments import RENDER_MODES, integer_of_at_least, one_of, refuse_unknown
from a2perf.domains.display import require_display
from a2perf.domains.quadruped_locomotion import ASSETS
from a2perf.domains.quadruped_locomotion.motion.gaits import FAMILIES, GAITS, synthetic_clip
from a2perf.domains.quadruped_locomotion.motion.motion_clip import MotionClip, load_clip
from a2perf.domains.quadruped_locomotion.physics import randomization
from a2perf.domains.quadruped_locomotion.physics.robot import FloatArray
from a2perf.errors import ConfigError, did_you_mean

_RESET_OPTIONS = ("clip", "phase", "randomize")
_MODES = ("train", "test")
_PHYSICS_LOOPS = ("auto", "native", "python")


def check_arguments(
    mode: str, render_mode: str | None, num_parallel_envs: int, physics_loop: str, gait_seed: int
) -> None:
    """Checks the simple arguments of an environment.

    Raises:
        ConfigError: one of them is out of its range, or a window is asked for without a display.
    """
    one_of("mode", mode, _MODES)
    if render_mode is not None:
        one_of("render_mode", render_mode, RENDER_MODES)
    one_of("physics_loop", physics_loop, _PHYSICS_LOOPS)
    integer_of_at_least(0, "gait_seed", gait_seed)
    if isinstance(num_parallel_envs, bool) or int(num_parallel_envs) != num_parallel_envs or num_parallel_envs < 1:
        raise ConfigError(f"num_parallel_envs is {num_parallel_envs!r}; it must be a positive integer")
    if render_mode == "human":
        require_display(x11=True)  # PyBullet ends the process if no window can be opened


def checked_dtype(given: Any) -> np.dtype[Any]:
    """Returns the dtype of observations.

    Raises:
        ConfigError: it is neither float32 nor float64.
    """
    try:
        dtype: np.dtype[Any] = np.dtype(given)
        if dtype in (np.dtype(np.float32), np.dtype(np.float64)):
            return dtype
    except TypeError:
        pass
    raise ConfigError(f"observation_dtype is {given!r}", hint="use 'float32' or 'float64'")


def resolve_clips(motion_files: Sequence[str | Path] | str | Path | None, clip: str) -> tuple[MotionClip, ...]:
    """Returns the clips of an environment: the given files, else the named clip.

    Raises:
        ConfigError: no file is given, a file is broken, or there is no clip of that name.
        AssetUnavailable: the clip is not on this host and could not be fetched.
    """
    if motion_files is not None:
        files = [motion_files] if isinstance(motion_files, (str, Path)) else list(motion_files)
        if not files:
            raise ConfigError("motion_files is empty", hint="name at least one clip file")
        return tuple(load_clip(file) for file in files)
    if clip in GAITS:
        return (synthetic_clip(clip),)
    if clip in FAMILIES:
        return (synthetic_clip(FAMILIES[clip]),)
    dogs = {Path(member).stem: asset for member, asset in ASSETS.items() if member.startswith("motions/")}
    refuse_unknown([clip], [*GAITS, *FAMILIES, *dogs], "a clip")
    return (load_clip(assets.fetch(dogs[clip])),)


def checked_options(options: Mapping[str, Any] | None, clips: Sequence[MotionClip]) -> dict[str, Any]:
    """Checks the options of a reset.

    Raises:
        ConfigError: an option is unknown or out of its range.
    """
    chosen: dict[str, Any] = {}
    refuse_unknown(options or (), _RESET_OPTIONS, "an option of reset")
    for name, value in (options or {}).items():
        if name == "clip":
            by_name = {Path(clip.name).stem: clip for clip in clips}
            if value not in by_name:
                raise ConfigError(
                    f"clip {value!r} is not loaded{did_you_mean(str(value), by_name)}",
                    hint=f"choose one of: {', '.join(by_name)}",
                )
            chosen[name] = by_name[value]
        elif name == "phase":
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0.0 <= value < 1.0:
                raise ConfigError(f"phase is {value!r}; it must be a number in [0, 1)")
            chosen[name] = float(value)
        elif isinstance(value, Mapping):
            chosen[name] = randomization.checked(value)
        elif isinstance(value, (bool, np.bool_)):
            chosen[name] = bool(value)
        else:
            raise ConfigError(f"randomize is {value!r}; it must be a bool or a mapping of parameters")
    return chosen


def checked_action(action: Any) -> FloatArray:
    """Returns an action as float64, shape (12,).

    Raises:
        ConfigError: it has another shape, or is not made of finite numbers.
    """
    try:
        array = np.asarray(action, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"an action must be 12 numbers, got {type(action).__name__}") from error
    if array.shape != (12,):
        raise ConfigError(f"an action must have the shape (12,), got {array.shape}")
    if not np.isfinite(array).all():
        raise ConfigError(f"an action must be finite, got {array.tolist()}")
    return array
