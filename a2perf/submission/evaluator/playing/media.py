"""Pictures and the final state of an episode, made after the measurement in a second environment.

Rendering during the episode would distort the timing. The states of an environment with ``picture_state`` are recorded,
and a report draws them; ``picture_of`` draws those of a video. In any other one the actions are replayed: environments
are deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains import video
from a2perf.domains.tfa.suite_gym import make_environment
from a2perf.runs.bundles.layout import STATES
from a2perf.storage import write_json
from a2perf.submission.evaluator.submitted.identity import RunTask

_VIDEO_FRAMES_PER_SECOND = 30


def can_render(env: Any) -> bool:
    """Returns whether the environment can render pictures."""
    return "rgb_array" in env.metadata.get("render_modes", [])


@dataclass
class Kept:
    """What pictures of an episode are made from: its actions, or the states before each of them and after the last."""

    actions: list[Any] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)

    def __call__(self, env: Any, observation: Any, action: Any) -> None:
        """Adds an action and the state before it; called like ``on_step`` of a rollout."""
        self.actions.append(action)
        self.state(env)

    def state(self, env: Any) -> None:
        """Adds the state of an environment, if it has one to keep."""
        if (state := getattr(env.unwrapped, "picture_state", None)) is not None:
            self.states.append(state)


def write_strip(path: Path, task: RunTask, seed: int, kept: Kept, frames: int) -> None:
    """Writes a PNG of evenly spaced frames of one episode, side by side, or the states to draw them from.

    An environment with a method ``final_state()`` that returns a suffix and bytes gets a further file beside it.
    """
    steps = len(kept.actions)
    wanted = set(np.linspace(0, steps - 1, min(frames, steps)).astype(int).tolist())
    path.parent.mkdir(parents=True, exist_ok=True)
    if kept.states:
        write_json(path.with_suffix(STATES), [kept.states[step + 1].tolist() for step in sorted(wanted)])
    else:
        path.write_bytes(video.strip(_pictures(task, seed, kept, wanted, state=path)))


def write_video(path: Path, task: RunTask, seed: int, kept: Kept) -> None:
    """Writes an MP4 of one episode.

    Raises:
        MissingDependency: the video writer is not installed.
    """
    video.write_video(path, _pictures(task, seed, kept, set(range(len(kept.actions)))), _VIDEO_FRAMES_PER_SECOND)


def _pictures(
    task: RunTask, seed: int, kept: Kept, wanted: set[int], *, state: Path | None = None
) -> Iterator[NDArray[np.uint8]]:
    """Yields the wanted frames; ``state`` gets the environment's suffix and its final state."""
    env: Any = make_environment(task.env_id, {**task.env_kwargs, "render_mode": "rgb_array"})
    try:
        if kept.states:
            yield from (env.unwrapped.picture_of(kept.states[step + 1]) for step in sorted(wanted))
            return
        env.reset(seed=seed)
        for step, action in enumerate(kept.actions):
            env.step(action)
            if step in wanted:
                yield np.asarray(env.render(), dtype=np.uint8)
        final_state = getattr(env.unwrapped, "final_state", None)
        if state is not None and final_state is not None:
            suffix, content = final_state()
            state.with_suffix(suffix).write_bytes(content)
    finally:
        env.close()
