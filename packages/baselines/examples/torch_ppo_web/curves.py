"""Table, CSV file and picture of several training runs.

    python examples/torch_ppo_web/curves.py RUNS --out DIR

RUNS holds a root_dir of ``a2perf-launch`` per run, called ``<group>_seed_<n>`` (``level_1_seed_1``), and the output of
``examples/tf_agents_bc/evaluate_held_out.py`` beside it in ``<group>_seed_<n>.held_out``.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

GOALS = {1: 0.98, 2: 0.95, 3: 0.70}
"""Success on held-out designs by level."""
_HELD_OUT = re.compile(r"^\s*(\d)\s+(\d+)\s+(\d+)\s+(\S+) \[(\S+), (\S+)\]\s+(\S+)", re.MULTILINE)
_J_PER_KWH = 3.6e6
_COLORS = {1: "#1b7f79", 2: "#c8702a", 3: "#5b4b9a"}


def read_run(folder: Path) -> dict[str, Any]:
    """Returns what a training run left.

    Args:
        folder: root_dir of the run.

    Returns:
        ``group``, ``seed``, ``level``, ``curve`` (rows of ``progress.csv``), and the columns of the table.
    """
    group, _, seed = folder.name.rpartition("_seed_")
    with (folder / "train" / "artifacts" / "progress.csv").open(newline="") as stream:
        curve = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(stream)]
    tracked = json.loads((folder / "train" / "metrics" / "tracking.json").read_text())
    found = _HELD_OUT.search(folder.with_suffix(".held_out").read_text())
    if found is None:
        raise SystemExit(f"{folder.name}.held_out has no row of a level. Hint: run evaluate_held_out.py again")
    level = int(found[1])
    reached = next((row for row in curve if row["validation_solved"] >= GOALS[level]), None)
    return {
        "group": group,
        "seed": int(seed),
        "level": level,
        "curve": curve,
        "episodes": int(found[3]),
        "success": float(found[4]),
        "low": float(found[5]),
        "high": float(found[6]),
        "return": float(found[7]),
        "steps": int(curve[-1]["env_steps"]),
        "wall_s": json.loads((folder / "train" / "metrics" / "train.json").read_text())["wall_s"],
        "processor_s": tracked["cpu_seconds"],
        "joules": tracked["energy"]["net_kwh"] * _J_PER_KWH,
        "goal_steps": "" if reached is None else int(reached["env_steps"]),
        "goal_processor_s": "" if reached is None else reached["processor_s"],
    }


def table(runs: list[dict[str, Any]]) -> str:
    """Returns a row per run in Markdown."""
    lines = [
        "| run | seed | held-out success | return | steps | wall s | processor s | J (estimated) | goal: steps, s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        name = run["group"].replace("_", " ")
        goal = f"{run['goal_steps']:,}, {run['goal_processor_s']:.0f}" if run["goal_steps"] else "not reached"
        lines.append(
            f"| {name} | {run['seed']} | {run['success']:.3f} [{run['low']:.3f}, {run['high']:.3f}] |"
            f" {run['return']:.3f} | {run['steps']:,} | {run['wall_s']:.0f} | {run['processor_s']:.0f} |"
            f" {run['joules']:.0f} | {goal} |"
        )
    return "\n".join(lines)


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """Draws success on validation designs against steps and processor seconds, a line per run."""
    groups = list(dict.fromkeys(run["group"] for run in runs))
    styles = dict(zip([group for group in groups if not group.startswith("level")], ("--", ":", "-."), strict=False))
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
    for axis, column, label in zip(
        axes, ("env_steps", "processor_s"), ("environment steps", "processor time in s"), strict=True
    ):
        named = set()
        for run in runs:
            group = run["group"]
            axis.plot(
                [row[column] for row in run["curve"]],
                [row["validation_solved"] for row in run["curve"]],
                styles.get(group, "-"),
                color=_COLORS[run["level"]],
                alpha=0.8,
                label=None if group in named else group.replace("_", " "),
            )
            named.add(group)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("validation designs solved")
    axes[0].set_ylim(-0.02, 1.02)
    axes[1].legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Writes ``curves.csv``, ``runs.csv`` and ``curves.png``, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    runs = [read_run(path.with_suffix("")) for path in sorted(given.runs.glob("*_seed_*.held_out"))]
    if not runs:
        raise SystemExit(f"{given.runs} has no *_seed_*.held_out. Hint: see --help")
    given.out.mkdir(parents=True, exist_ok=True)
    with (given.out / "curves.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["run", "seed", *runs[0]["curve"][0]])
        for run in runs:
            writer.writerows(
                [run["group"], run["seed"], *(f"{value:g}" for value in row.values())] for row in run["curve"]
            )
    with (given.out / "runs.csv").open("w", newline="", encoding="utf-8") as stream:
        rows = [{name: value for name, value in run.items() if name != "curve"} for run in runs]
        table_writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
        table_writer.writeheader()
        table_writer.writerows(rows)
    draw(runs, given.out / "curves.png")
    print(table(runs))


if __name__ == "__main__":
    main()
