"""Pictures and the final state of an episode, made after the measurement by replaying its actions in a second
environment.

Rendering during the episode would distort the timing. Environments are deterministic, so the replay is the same
episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains import video
from a2perf.domains.tfa.suite_gym import make_environment
from a2perf.submission.evaluator.identity import RunTask

_FRAME_HEIGHT = 180
_VIDEO_FRAMES_PER_SECOND = 30


def can_render(env: Any) -> bool:
    """Returns whether the environment can render pictures."""
    return "rgb_array" in env.metadata.get("render_modes", [])


def write_strip(path: Path, task: RunTask, seed: int, actions: Sequence[Any], frames: int) -> None:
    """Writes a PNG of evenly spaced frames of one episode, side by side.

    An environment with a method ``final_state()`` that returns a suffix and bytes gets a further file beside it.

    Args:
        seed: seed of the episode's reset.
        frames: number of frames, at most one per step.
    """
    from PIL import Image

    wanted = set(np.linspace(0, len(actions) - 1, min(frames, len(actions))).astype(int).tolist())
    path.parent.mkdir(parents=True, exist_ok=True)
    scaled = [
        Image.fromarray(picture).resize((round(picture.shape[1] * _FRAME_HEIGHT / picture.shape[0]), _FRAME_HEIGHT))
        for picture in _replay(task, seed, actions, wanted, state=path)
    ]
    strip = Image.new("RGB", (sum(picture.width for picture in scaled), _FRAME_HEIGHT))
    left = 0
    for picture in scaled:
        strip.paste(picture, (left, 0))
        left += picture.width
    strip.save(path, optimize=False)


def write_video(path: Path, task: RunTask, seed: int, actions: Sequence[Any]) -> None:
    """Writes an MP4 of one episode.

    Raises:
        MissingDependency: the video writer is not installed.
    """
    video.write_video(path, _replay(task, seed, actions, set(range(len(actions)))), _VIDEO_FRAMES_PER_SECOND)


def _replay(
    task: RunTask, seed: int, actions: Sequence[Any], wanted: set[int], *, state: Path | None = None
) -> Iterator[NDArray[np.uint8]]:
    """Yields the wanted frames; ``state`` gets the environment's suffix and its final state."""
    env = make_environment(task.env_id, {**task.env_kwargs, "render_mode": "rgb_array"})
    try:
        env.reset(seed=seed)
        for step, action in enumerate(actions):
            env.step(action)
            if step in wanted:
                yield np.asarray(env.render(), dtype=np.uint8)
        final_state = getattr(env.unwrapped, "final_state", None)
        if state is not None and final_state is not None:
            suffix, content = final_state()
            state.with_suffix(suffix).write_bytes(content)
    finally:
        env.close()
