"""Pictures of training runs: ``python pictures.py curves RUN ... --out FILE`` and ``strip ACTOR --out FILE``.

``curves`` draws the evaluations of runs against steps, seconds and processor seconds; ``strip`` draws the learned gait
below its reference, in PyBullet.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

CURVES = (
    ("steps", "million environment steps", 1e-6),
    ("seconds", "minutes", 1 / 60),
    ("processor_s", "processor minutes", 1 / 60),
)

MOMENTS, LAST_MOMENT = 8, 40  # pictures of a strip; control steps


def draw_curves(runs: list[Path], labels: list[str], out: Path, expert: float | None) -> None:
    """Draws the curves of the runs' ``curve.csv``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 3, sharey=True)
    for run, label in zip(runs, labels, strict=True):
        path = run if run.is_file() else run / "curve.csv"
        with path.open(encoding="utf-8") as stream:
            rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(stream)]
        for axis, (column, _, unit) in zip(axes, CURVES, strict=True):
            axis.plot(
                [row[column] * unit for row in rows],
                [row["pybullet_return"] for row in rows],
                marker=".",
                label=label,
            )
    for axis, (_, name, _) in zip(axes, CURVES, strict=True):
        axis.set_xlabel(name)
        axis.set_ylim(0, 600)
        if expert is not None:
            axis.axhline(expert, color="0.5", linestyle="--", linewidth=1, label="published policy")
    axes[0].set_ylabel("mean return in PyBullet")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(out, dpi=100)


def draw_strip(actor_file: Path, clip: str, out: Path) -> None:
    """Draws moments of an episode in PyBullet: the reference above, the robot below."""
    from actor import Actor
    from PIL import Image

    from a2perf.domains.quadruped_locomotion.environment import QuadrupedLocomotionEnv
    from a2perf.domains.quadruped_locomotion.rendering import Camera

    actor, poses = Actor.load(actor_file), []
    env = QuadrupedLocomotionEnv(clip=clip, mode="test")
    camera = Camera()
    try:
        observation, _ = env.reset(seed=0, options={"phase": 0.0})
        for _ in range(LAST_MOMENT + 1):
            observation, _, terminated, truncated, _ = env.step(actor(observation))
            poses.append((env.reference_pose, env.robot_pose))
            if terminated or truncated:
                break
        moments = np.linspace(0, len(poses) - 1, MOMENTS).round().astype(int)
        rows = [np.hstack([_drawn(camera, poses[moment][place]) for moment in moments]) for place in (0, 1)]
    finally:
        camera.close()
        env.close()
    picture = Image.fromarray(np.vstack(rows))
    picture.quantize(128, dither=Image.Dither.NONE).save(out, optimize=True)


def _drawn(camera, pose):
    camera.show(pose)
    target = np.array([pose[0], pose[1], 0.3])
    return camera.picture(target, width=200, height=150, distance=1.3, yaw=20.0, pitch=-15)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    curves = commands.add_parser("curves")
    curves.add_argument("runs", nargs="+", type=Path, help="folders of training runs, or their curve.csv")
    curves.add_argument("--labels", nargs="+")
    curves.add_argument("--expert", type=float, help="mean return of the published policy")
    strip = commands.add_parser("strip")
    strip.add_argument("actor", type=Path)
    strip.add_argument("--clip", default="dog_pace")
    for command in (curves, strip):
        command.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "curves":
        draw_curves(given.runs, given.labels or [run.stem for run in given.runs], given.out, given.expert)
    else:
        draw_strip(given.actor, given.clip, given.out)


if __name__ == "__main__":
    main()
