"""``a2perf data clips``: lists, shows and generates motion clips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a2perf.domains.quadruped_locomotion import ASSETS


@click.group()
def clips() -> None:
    """Motion clips of quadruped locomotion."""


def _dog_names() -> list[str]:
    return [Path(name).stem for name in ASSETS if name.startswith("motions/")]


@clips.command("list")
def list_clips() -> None:
    """Lists the clips by name."""
    from a2perf import assets
    from a2perf.domains.quadruped_locomotion.gaits import GAITS, synthetic_clip

    for name in GAITS:
        click.echo(f"{name:<18} generated    {synthetic_clip(name).duration:.3f} s")
    for name in _dog_names():
        here = assets.locate(ASSETS[f"motions/{name}.txt"]) is not None
        click.echo(f"{name:<18} {'on this host' if here else 'not fetched (a2perf data fetch)'}")


@clips.command()
@click.argument("clip")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("clips"), help="output folder")
@click.option(
    "--policy", help="policy file, 'pretrained' or 'track'; default: pretrained if available, otherwise track"
)
@click.option("--steps", type=click.IntRange(2, 600), default=90, show_default=True, help="control steps to show")
@click.option("--engine", type=click.Choice(["pybullet", "mujoco"]), default="pybullet", show_default=True,
              help="physics engine")  # fmt: skip
@click.option("--video/--no-video", default=True, show_default=True, help="write a video as well")
def show(clip: str, out: Path, policy: str | None, steps: int, engine: str, video: bool) -> None:
    """Shows a clip (a name or a file) beside the robot: picture strip, video, phase and contacts."""
    from PIL import Image

    from a2perf.domains.quadruped_locomotion import gallery
    from a2perf.domains.quadruped_locomotion.robot import CONTROL_STEP
    from a2perf.domains.video import write_video

    env = _environment(clip, engine)
    try:
        recording = gallery.record(env, _controller(clip, policy), steps)
    finally:
        env.close()
    name = Path(clip).stem
    out.mkdir(parents=True, exist_ok=True)
    written = [out / f"{name}_strip.png", out / f"{name}_contacts.png"]
    Image.fromarray(gallery.strip(recording)).save(written[0])
    gallery.write_plot(recording, written[1], f"{name} ({engine})")
    if video:
        written.append(out / f"{name}.mp4")
        rate = 1.0 / (CONTROL_STEP * gallery.VIDEO_STRIDE)
        write_video(written[-1], gallery.frames_of_video(recording), rate, macro_block_size=8)
    ended = f"ended by {recording.termination}" if recording.termination else "not ended"
    click.echo(f"{name}: {len(recording.reward)} steps, mean reward {recording.reward.mean():.3f}, {ended}")
    for path in written:
        click.echo(str(path))


def _environment(clip: str, engine: str) -> Any:
    arguments: dict[str, Any] = {"mode": "test"}
    arguments |= {"motion_files": [clip]} if Path(clip).suffix or Path(clip).exists() else {"clip": clip}
    if engine == "mujoco":
        from a2perf.domains.quadruped_locomotion.mujoco_twin import build_mujoco_env

        return build_mujoco_env(**arguments)
    from a2perf.domains.quadruped_locomotion.environment import build_imitation_env

    return build_imitation_env(**arguments)


def _controller(clip: str, policy: str | None) -> Any:
    from a2perf import assets
    from a2perf.domains.quadruped_locomotion.gallery import track_targets
    from a2perf.domains.quadruped_locomotion.pretrained import load_actor

    asset = ASSETS.get(f"policies/{Path(clip).stem}.zip")
    if policy is None:
        policy = "track" if asset is None or assets.locate(asset) is None else "pretrained"
    if policy == "track":
        return track_targets
    if policy == "pretrained":
        if asset is None:
            raise click.UsageError(f"there is no pre-trained policy for {clip}; use --policy track or a file")
        return load_actor(assets.fetch(asset))
    return load_actor(policy)


@clips.command()
@click.argument("gait")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--speed", type=float, help="m/s")
@click.option("--heading-rate", type=float, help="rad/s, to the left")
@click.option("--duty-factor", type=float, help="fraction of the cycle for which a foot stands")
@click.option("--cycle-time", type=float, help="s")
@click.option("--body-height", type=float, help="m")
@click.option("--swing-height", type=float, help="m")
def generate(gait: str, file: Path, **changes: float | None) -> None:
    """Generates a clip FILE from a named GAIT (synthetic_trot, _pace, _bound, _spin) with some parameters changed."""
    from dataclasses import replace

    from a2perf.domains.quadruped_locomotion.gaits import generate_clip, named_gait

    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    clip = generate_clip(replace(named_gait(gait), name=file.stem, **given))
    file.write_text(clip.to_json(), encoding="utf-8")
    click.echo(f"{file}: {clip.duration:.3f} s, {len(clip.data.frames)} frames")
