"""``python -m docs.building.strips``: makes the moving pictures of the README, one per domain, in ``docs/pictures``.

They are committed, so they are small (at most 250 kB) and show what the repository itself contains: a generated gait, a
generated website and a generated chip.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click
import numpy as np

from a2perf.domains.registry import find_environment, register_environments
from docs.building.pictures import SCENES, Frame, Recording, record, write_animation

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
SIZE = (320, 240)  # px
MAX_BYTES = 250_000
STRIPS = {
    "quadruped": "QuadrupedLocomotion-SyntheticTrot-v0",
    "web": "WebNavigation-Difficulty-02-v0",
    "circuit": "CircuitTraining-ArianeTwin-v0",
}
"""Name of the strip -> environment."""


def write(name: str, folder: Path) -> Path:
    """Writes ``strip_<name>.webp``.

    Raises:
        ValueError: the file is larger than ``MAX_BYTES``.
    """
    domain, environment = find_environment(STRIPS[name])
    size = SIZE if SCENES[domain.name].size else None
    scene = dataclasses.replace(SCENES[domain.name], size=size)
    if name == "quadruped":
        scene = dataclasses.replace(scene, fps=12)
    recording = record(scene, environment)
    frames = [_fitted(frame) for frame in recording.frames]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"strip_{name}.webp"
    write_animation(Recording(frames, recording.caption, recording.ended), path, scene)
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size} bytes; at most {MAX_BYTES} are allowed")
    return path


def _fitted(frame: Frame) -> Frame:
    """Returns a frame of ``SIZE``: scaled to its width, cut off or filled with white at the bottom."""
    from PIL import Image

    width, height = SIZE
    if frame.shape[:2] == (height, width):
        return frame
    image = Image.fromarray(frame)
    scaled = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    canvas = Image.new("RGB", SIZE, "white")
    canvas.paste(scaled, (0, 0))
    return np.asarray(canvas)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(tuple(STRIPS)))
def main(names: tuple[str, ...]) -> None:
    """Makes the strips; all of them by default."""
    register_environments()
    for name in names or STRIPS:
        path = write(name, FOLDER)
        click.echo(f"{path.relative_to(FOLDER.parents[1])}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
