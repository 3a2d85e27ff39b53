"""Pictures and videos of the environments, made anew by every build: the examples' policies play, the camera runs.

What a host cannot draw (a data file or a package is missing) is left out, and the page says why.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.domains.registry import Domain, Environment
from a2perf.errors import UserError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Frame = NDArray[np.uint8]
Act = Callable[[Any], Any]


@dataclass(frozen=True)
class Player:
    """Who plays the environments of a domain.

    Attributes:
        example: folder of the submission.
        said: what it is, for the caption.
        arguments: its participant arguments.
        only: the ids that it can play contain this.
        fps: frames per second.
        steps: at most so many steps.
        stride: steps a frame.
    """

    example: str
    said: str
    arguments: tuple[tuple[str, str], ...] = ()
    only: str = ""
    fps: float = 10.0
    steps: int = 200
    stride: int = 1


@dataclass(frozen=True)
class Filmed:
    """What was drawn of one environment.

    Attributes:
        still: file name of the picture, None where ``missing`` says why there is none.
        video: file name of the video, where one was asked for and could be written.
        caption: who plays, and the return.
        missing: why there is no picture, or no video.
    """

    still: str | None = None
    video: str | None = None
    caption: str = ""
    missing: str = ""


PLAYERS = {
    "quadruped_locomotion": Player(
        "motion_imitation", "the published policy", only="-Dog", fps=11, steps=120, stride=3
    ),
    "web_navigation": Player("web_solver", "the scripted solver", fps=2, steps=25),
    "circuit_training": Player(
        "annealing_placer", "a placement found by annealing", (("time_budget_s", "2"),), fps=15, steps=400
    ),
}
VIDEOS = (
    "QuadrupedLocomotion-DogPace-v0",
    "QuadrupedLocomotion-DogTrot-v0",
    "QuadrupedLocomotion-DogSpin-v0",
    "QuadrupedLocomotion-VariedTrot-v0",
    "CircuitTraining-ArianeTwin-v0",
    "WebNavigation-Difficulty-01-v0",
    "WebNavigation-Difficulty-03-v0",
)


def film(domain: Domain, environment: Environment, folder: Path) -> Filmed:
    """Plays one episode and writes ``<id>.png``, and ``<id>.mp4`` where the id is in ``VIDEOS``.

    Args:
        domain: of the environment.
        environment: what to play.
        folder: gets the files.
    """
    player = PLAYERS.get(domain.name, Player("minimal", "random actions", steps=50))
    moving = environment.id in VIDEOS
    try:
        frames, caption = _play(player, environment, everything=moving)
    except (UserError, ImportError) as error:
        return Filmed(missing=str(error).splitlines()[0])
    folder.mkdir(parents=True, exist_ok=True)
    still = f"{environment.id}.png"
    _write_still(frames[len(frames) // 2], folder / still)
    if not moving:
        return Filmed(still=still, caption=caption)
    try:
        _write_video(frames, folder / f"{environment.id}.mp4", player.fps)
    except ImportError as error:
        return Filmed(still=still, caption=caption, missing=f"no video: {error}")
    return Filmed(still=still, video=f"{environment.id}.mp4", caption=caption)


def _play(player: Player, environment: Environment, *, everything: bool) -> tuple[list[Frame], str]:
    """Returns the frames of an episode, or its middle alone, and the caption."""
    env = gymnasium.make(
        environment.id,
        render_mode="rgb_array",
        disable_env_checker=True,
        **_testing(environment),
        **environment.example,
    )
    try:
        act, said = _policy(player, environment, env)
        observation, _ = env.reset(seed=1)
        frames, total, ended, step = [_frame(env)], 0.0, False, 0
        while not ended and step < player.steps:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            total, ended, step = total + float(reward), bool(terminated or truncated), step + 1
            if (step % player.stride == 0 or ended) if everything else (step == player.steps // 2 or ended):
                frames.append(_frame(env))
    finally:
        env.close()
    if not everything:
        frames = frames[-1:]
    return frames, f"{said}; return after {step} steps: {total:.2f}"


def _testing(environment: Environment) -> dict[str, Any]:
    """Returns the arguments that make an environment of two modes the one that is evaluated on."""
    return {"mode": "test"} if "Quadruped" in environment.id else {}


def _frame(env: gymnasium.Env[Any, Any]) -> Frame:
    picture: Frame = np.asarray(env.render())
    height, width = (side - side % 2 for side in picture.shape[:2])  # what the video's colour planes need
    return picture[:height, :width]


def _policy(player: Player, environment: Environment, env: gymnasium.Env[Any, Any]) -> tuple[Act, str]:
    if player.only and player.only not in environment.id:
        from a2perf.domains.quadruped_locomotion.gallery import track_targets

        return track_targets, "a plain controller that steers to the next pose"
    with _as_submission(EXAMPLES / player.example, environment):
        module = _load(EXAMPLES / player.example / "inference.py")
        policy = module.load_policy(env, **dict(player.arguments))
    return lambda observation: module.infer_once(policy, module.preprocess_observation(observation)), player.said


@contextmanager
def _as_submission(folder: Path, environment: Environment) -> Iterator[None]:
    """Gives the policy's code what the evaluator would: its folder on the path, the id and a seed."""
    before = {name: os.environ.get(name) for name in ("A2PERF_ENV_ID", "SEED")}
    os.environ.update({"A2PERF_ENV_ID": environment.id, "SEED": "0"})
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"docs_{path.parent.name}_inference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _write_still(frame: Frame, path: Path) -> None:
    from PIL import Image

    Image.fromarray(frame).quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def _write_video(frames: list[Frame], path: Path, fps: float) -> None:
    import imageio.v2 as imageio

    importlib.import_module("imageio_ffmpeg")  # the plug-in that writes MP4
    shown = [*frames, *[frames[-1]] * round(fps)]  # the end stays for a second
    imageio.mimwrite(path, shown, fps=fps, macro_block_size=2, codec="libx264", quality=7, pixelformat="yuv420p")
