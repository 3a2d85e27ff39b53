"""Moving pictures of the environments, made by every build of the site.

The policies of ``examples`` act, and the environments draw themselves; of a generated gait the reference motion is
shown. Each environment gets an animated WebP, which needs no player and loops, and a still PNG for readers who prefer
no motion. If a data file or a package is missing, the page gives the reason.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.domains.registry import Domain, Environment, load_attribute
from a2perf.errors import UserError
from a2perf.submission.participant.forms import form_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CYCLES = 4  # of a generated gait
HOLD_S = 1.5  # the last picture stays before the loop starts again, if the episode ended
Frame = NDArray[np.uint8]
Act = Callable[[Any], Any]


@dataclass(frozen=True)
class Scene:
    """The policy that acts in the environments of a domain, and how it is filmed.

    Attributes:
        example: folder of the submission.
        text: the policy in a few words, for the caption.
        arguments: participant arguments of the submission.
        fps: frames per second.
        steps: maximum number of steps.
        stride: steps per frame.
        size: width and height of the pictures, px; None keeps those of the environment and cuts off its empty end.
        lossless: compress without loss: smaller for flat colours, larger for rendered scenes.
    """

    example: str
    text: str
    arguments: tuple[tuple[str, str], ...] = ()
    fps: float = 10.0
    steps: int = 200
    stride: int = 1
    size: tuple[int, int] | None = (480, 360)
    lossless: bool = True


@dataclass(frozen=True)
class Recording:
    """Pictures of an episode.

    Attributes:
        frames: RGB, all of one shape.
        caption: policy, number of steps and return.
        ended: whether the episode ended within the recorded steps.
    """

    frames: list[Frame]
    caption: str
    ended: bool


@dataclass(frozen=True)
class Filmed:
    """The files that show an environment.

    Attributes:
        moving: file name of the animated WebP, None if there is none.
        still: file name of the PNG.
        size: width and height, px.
        caption: policy, number of steps and return.
        missing: why there is no picture.
    """

    moving: str | None = None
    still: str | None = None
    size: tuple[int, int] = (0, 0)
    caption: str = ""
    missing: str = ""


SCENES = {
    "quadruped_locomotion": Scene(
        "motion_imitation", "The published policy", fps=15, steps=80, stride=2, lossless=False
    ),
    "web_navigation": Scene("web_solver", "The scripted solver", fps=1.5, steps=200, size=None),
    "circuit_training": Scene(
        "annealing_placer", "A placement found by simulated annealing", (("time_budget_s", "2"),), fps=15, steps=400
    ),
}
"""By domain, or by id where the policy of the domain cannot act."""

_ANYBODY = Scene("minimal", "Random actions", steps=50)
_MAX_FRAMES = 60
_WEBSITES = 300  # of a level, to choose one from


def film(domain: Domain, environment: Environment, folder: Path) -> Filmed:
    """Records one episode and writes ``<id>.webp`` and ``<id>.png``.

    Args:
        domain: of the environment.
        environment: what to show.
        folder: gets the files.
    """
    scene = SCENES.get(environment.id, SCENES.get(domain.name, _ANYBODY))
    try:
        recording = record(scene, environment)
    except (UserError, ImportError) as error:
        return Filmed(missing=str(error).splitlines()[0])
    folder.mkdir(parents=True, exist_ok=True)
    moving, still = f"{environment.id}.webp", f"{environment.id}.png"
    write_animation(recording, folder / moving, scene)
    _write_still(recording.frames[-1], folder / still)
    height, width = recording.frames[0].shape[:2]
    return Filmed(moving, still, (width, height), recording.caption)


def record(scene: Scene, environment: Environment) -> Recording:
    """Returns the pictures of an episode, or of the reference motion of a generated gait."""
    clip = str(environment.kwargs.get("clip", ""))
    if clip.startswith(("synthetic_", "varied_")):
        return _reference_motion(scene, environment)
    env = gymnasium.make(
        environment.id,
        render_mode="rgb_array",
        disable_env_checker=True,
        **({"mode": "test"} if clip else {}),
        **environment.example,
    )
    try:
        act = _policy(scene, environment, env)
        observation, _ = env.reset(seed=1, options=_options(environment))
        frames, total, ended, step = [_picture(env)], 0.0, False, 0
        while not ended and step < scene.steps:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            total, ended, step = total + float(reward), bool(terminated or truncated), step + 1
            if step % scene.stride == 0 or ended:
                frames.append(_picture(env))
    finally:
        env.close()
    caption = f"{scene.text}: return {total:.2f} after {step} steps"
    return Recording(_sized(_thinned(frames), scene.size), caption, ended)


def _reference_motion(scene: Scene, environment: Environment) -> Recording:
    """Returns pictures of the generated gait that the robot is rewarded for following; no physics is involved."""
    from a2perf.domains.quadruped_locomotion.motion.reference import reference_pose
    from a2perf.domains.quadruped_locomotion.rendering import HEIGHT, WIDTH, Camera

    env = gymnasium.make(environment.id, mode="test", disable_env_checker=True)
    camera = Camera()
    frames = []
    try:
        env.reset(seed=1, options={"phase": 0.0})
        motion = env.unwrapped.reference  # type: ignore[attr-defined]
        pose, count = np.zeros(19), round(CYCLES * motion.clip.duration * scene.fps)
        for time in np.arange(count) * CYCLES * motion.clip.duration / count:  # whole cycles, so the legs loop smoothly
            reference_pose(motion.clip.data, motion.placement, False, time, pose)
            camera.show(pose)
            width, height = scene.size or (WIDTH, HEIGHT)
            frames.append(camera.picture(np.array([*pose[:2], 0.35]), width=width, height=height, yaw=20.0))
    finally:
        camera.close()
        env.close()
    return Recording(frames, "The reference motion, which the robot is rewarded for following", ended=False)


def _options(environment: Environment) -> dict[str, Any] | None:
    """Returns the options of a reset that choose the website with the longest solution: most of level 1 are empty."""
    if not environment.id.startswith("WebNavigation"):
        return None
    from a2perf.domains.web_navigation.sites.designs import shipped_designs, shipped_record

    level = environment.kwargs.get("difficulty", environment.example.get("difficulty", 1))
    if not isinstance(level, int):
        return None  # a composition of several websites
    lengths = shipped_record(level)["length"][:_WEBSITES]
    candidates = zip(lengths, shipped_designs(level), strict=False)
    return {"design": max(candidates, key=lambda one: (one[0], len(one[1].fields)))[1]}


def _picture(env: gymnasium.Env[Any, Any]) -> Frame:
    return np.asarray(env.render())


def _thinned(frames: list[Frame]) -> list[Frame]:
    """Returns at most ``_MAX_FRAMES`` of the frames, the last one included."""
    if len(frames) <= _MAX_FRAMES:
        return frames
    chosen = np.linspace(0, len(frames) - 1, _MAX_FRAMES).round().astype(int)
    return [frames[index] for index in chosen]


def _sized(frames: list[Frame], size: tuple[int, int] | None) -> list[Frame]:
    if size is not None:
        from PIL import Image

        return [np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.LANCZOS)) for frame in frames]
    used = max(int(np.flatnonzero((frame != frame[-1, -1]).any(axis=(1, 2))).max(initial=0)) for frame in frames)
    return [frame[: min(used + 16, len(frame))] for frame in frames]


def _policy(scene: Scene, environment: Environment, env: gymnasium.Env[Any, Any]) -> Act:
    folder = EXAMPLES / scene.example
    form = form_of(folder)
    with _as_submission(folder, environment):
        functions = _load(folder / ("inference.py" if form is None else form.file))
        if form is not None:
            functions = load_attribute(form.adapter)(getattr(functions, form.function))
        policy = functions.load_policy(env, **dict(scene.arguments))
    return lambda observation: functions.infer_once(policy, functions.preprocess_observation(observation))


@contextmanager
def _as_submission(folder: Path, environment: Environment) -> Iterator[None]:
    """Gives the policy's code what the evaluator would: its folder on the path, the id and a seed."""
    before = {name: os.environ.get(name) for name in ("A2PERF_ENV_ID", "SEED")}
    os.environ.update({"A2PERF_ENV_ID": environment.id, "SEED": "0"})
    sys.path.insert(0, str(folder))
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # byte code would change the hash of the submission
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
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


def write_animation(recording: Recording, path: Path, scene: Scene, *, quality: int = 45) -> None:
    """Writes an animated WebP that loops for ever; its last picture stays for ``HOLD_S`` if the episode ended."""
    from PIL import Image

    first, *others = [Image.fromarray(frame) for frame in recording.frames]
    durations: Sequence[int] = [round(1000 / scene.fps)] * len(recording.frames)
    if recording.ended:
        durations = [*durations[:-1], round(1000 * HOLD_S)]
    first.save(
        path,
        save_all=True,
        append_images=others,
        duration=durations,
        loop=0,
        lossless=scene.lossless,
        quality=quality,
        method=4,
    )
