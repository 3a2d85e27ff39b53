"""``a2perf data clips``: generates motion clips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.group()
def clips() -> None:
    """Motion clips of quadruped locomotion."""


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

    from a2perf.domains.quadruped_locomotion.motion.gaits import generate_clip, named_gait

    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    clip = generate_clip(replace(named_gait(gait), name=file.stem, **given))
    file.write_text(clip.to_json(), encoding="utf-8")
    click.echo(f"{file}: {clip.duration:.3f} s, {len(clip.data.frames)} frames")
