"""Compares placers on one design after the other: cost under two conventions, wall and processor seconds.

    python compare.py --tasks ariane_twin,ariane,toy_macro_stdcell --seeds 1,2,3 --seconds 600 --output DIR

Each placement ends in the registered environment. Its reward is the cost of the first convention, negated. Results are
added to ``DIR/results.json``; the same command computes what is missing and prints the table. Pictures of the
placements lie beside it.

Joules are the tracker's power model of the processor times the processor seconds: an estimate, without memory.

Conventions of the cost of wirelength W, congestion C and density D: ``W + 0.5 C + D``, the reward of this domain and
of Circuit Training, and ``W + 0.5 C + 0.5 D``, that of the MacroPlacement studies.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "examples" / "greedy_placer"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import gymnasium
import inference
import numpy as np
from greedy import GreedyPlacer
from PIL import Image, ImageDraw
from scorer import SHIPPED, CellScorer

import a2perf  # noqa: F401  registers the ids
from a2perf.domains.circuit_training import DOMAIN
from a2perf.domains.circuit_training.rendering import PlacementPicture
from a2perf.metrics.trackers.power_model import CpuPower, choose_cpu_power
from a2perf_placement.annealing import Annealing, Schedule
from a2perf_placement.features.batch import PlacementTask

FOLDER = Path(__file__).resolve().parent
METHODS = ("greedy", "annealing", "zero-shot", "best of 32", "fine-tuned", "from scratch")
SEEDLESS = ("greedy", "zero-shot")
TRAINED = ("fine-tuned", "from scratch")
DRAWN = ("greedy", "annealing", "zero-shot", "fine-tuned")


class Comparison:
    """Runs the methods and keeps their results.

    Args:
        output: folder for results, pictures and training runs.
        seconds: processor seconds of a training run.
        schedule: of the annealing.
    """

    def __init__(self, output: Path, seconds: float, schedule: Schedule) -> None:
        self.output, self.seconds, self.schedule = output, seconds, schedule
        self.file = output / "results.json"
        output.mkdir(parents=True, exist_ok=True)
        self.rows: list[dict[str, Any]] = json.loads(self.file.read_text()) if self.file.is_file() else []

    def add(self, task: str, method: str, seed: int) -> None:
        """Computes a result, unless it is there."""
        if any((row["task"], row["method"], row["seed"]) == (task, method, seed) for row in self.rows):
            return
        env_id, kwargs = _environment(task)
        env = gymnasium.make(env_id, disable_env_checker=True, **kwargs)
        env.reset(seed=0)  # compiles outside the measurement
        wall, processor = time.perf_counter(), _processor_s()
        cells = self._place(env, task, method, seed)
        row = {"task": task, "method": method, "seed": seed}
        row["wall_s"], row["processor_s"] = time.perf_counter() - wall, _processor_s() - processor
        row["joules"] = row["processor_s"] * _watts().watts_per_thread
        row.update(_replayed(env, cells))
        self.rows.append(row)
        self.file.write_text(json.dumps(self.rows, indent=1))
        print(_line(row), flush=True)
        if method in DRAWN:
            picture = PlacementPicture(size=(520, 480)).draw(env.unwrapped.plc, env.unwrapped.macro_order)
            Image.fromarray(picture).save(self.output / f"{task}_{_file_name(method)}_{seed}.png")
        env.close()

    def _place(self, env: Any, task: str, method: str, seed: int) -> list[int]:
        """Returns a cell per macro in the order of placing."""
        core = env.unwrapped
        if method == "greedy":
            return _played(env, GreedyPlacer(env).choose)
        if method == "zero-shot":
            return _played(env, inference.Placer(env, CellScorer.load(SHIPPED)).choose)
        if method == "best of 32":
            return inference.best_of(PlacementTask(env), CellScorer.load(SHIPPED), 31, seed)[0]
        if method == "annealing":
            cells = Annealing(env, self.schedule, seed).run()
            return [cells[node] for node in core.macro_order]
        folder = self.output / f"{task}_{_file_name(method)}_{seed}"
        env_id, kwargs = _environment(task)
        config = "from_scratch" if method == "from scratch" else "circuit_training"
        command = [
            sys.executable, str(FOLDER / "train.py"), "--env-id", env_id, "--env-kwargs", json.dumps(kwargs),
            "--output", str(folder), "--seed", str(seed), f"config={config}", f"processor_budget_s={self.seconds}",
            "time_budget_s=100000",
        ]  # fmt: skip
        subprocess.run(command, check=True, cwd=FOLDER, stdout=subprocess.DEVNULL)
        named = json.loads((folder / inference.PLACEMENT).read_text())["cells"]
        return [named[name] for name in core.macro_names]


def _environment(task: str) -> tuple[str, dict[str, Any]]:
    found = next(one for one in DOMAIN.tasks if one.name == task)
    return found.env_id, dict(found.kwargs)


def _processor_s() -> float:
    """Processor seconds of this process and of its children that ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _watts() -> CpuPower:
    """The power model of this processor, as the energy tracker chooses it where nothing counts energy."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    stated = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    family = (int(stated.get("cpu family", 0)), int(stated.get("model", 0)))
    return choose_cpu_power(stated.get("model name", ""), os.cpu_count() or 1, family=family)


def _played(env: Any, choose: Callable[[Any], int]) -> list[int]:
    """Plays an episode and returns the cells."""
    observation, _ = env.reset(seed=0)
    cells, over = [], False
    while not over:
        action = choose(observation)
        cells.append(env.unwrapped.translate_to_original_canvas(action))
        observation, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
    return cells


def _replayed(env: Any, cells: list[int]) -> dict[str, float]:
    """Places the macros in the registered environment; returns its reward and the costs."""
    env.reset(seed=0)
    reward, info = 0.0, {}
    for cell in cells:
        _, reward, _, _, info = env.step(env.unwrapped.translate_to_padded_canvas(cell))
    wirelength, congestion, density = (float(info[name]) for name in ("wirelength", "congestion", "density"))
    return {
        "reward": float(reward),
        "wirelength": wirelength,
        "congestion": congestion,
        "density": density,
        "macro_placement_cost": wirelength + 0.5 * congestion + 0.5 * density,
    }


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['task']:<18} {row['method']:<13} {row['seed']:>4} {-row['reward']:>11.4f} "
        f"{row['macro_placement_cost']:>13.4f} {row['wirelength']:>10.4f} {row['congestion']:>10.4f} "
        f"{row['density']:>8.4f} {row['wall_s']:>8.1f} {row['processor_s']:>8.1f} {row['joules']:>8.0f}"
    )


def _strip(output: Path, task: str, seed: int) -> None:
    """Joins the pictures of a task with the names of the placers."""
    named = [(method, output / f"{task}_{_file_name(method)}_{s}.png") for method in DRAWN for s in (0, seed)]
    named = [(method, path) for method, path in named if path.is_file()]
    if not named:
        return
    images = [Image.open(path) for _, path in named]
    strip = Image.new("RGB", (sum(image.width for image in images), images[0].height + 20), "white")
    draw, left = ImageDraw.Draw(strip), 0
    for (method, _), image in zip(named, images, strict=True):
        strip.paste(image, (left, 20))
        draw.text((left + 40, 6), f"{task}: {method}", fill="black")
        left += image.width
    strip.save(output / f"{task}.png")


def _curves(output: Path, task: str) -> None:
    """Draws the cost of the best policy over processor seconds for the training runs of a task."""
    files = [
        (method, file) for method in TRAINED for file in output.glob(f"{task}_{_file_name(method)}_*/progress.csv")
    ]
    if not files:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for method, file in sorted(files):
        with file.open(encoding="utf-8") as rows:
            points = [(float(row["cpu_seconds"]), float(row["best"])) for row in csv.DictReader(rows)]
        color = "C0" if method == "fine-tuned" else "C1"
        seed = file.parent.name.rpartition("_")[2]
        axes.step(*zip(*points, strict=True), where="post", color=color, label=f"{method}, seed {seed}")
    axes.set_xlabel("processor seconds, start of the process included")
    axes.set_ylabel("cost W + 0.5 C + D of the best policy")
    axes.set_title(task)
    axes.legend()
    figure.tight_layout()
    figure.savefig(output / f"{task}_curves.png", dpi=100)
    pyplot.close(figure)


def _file_name(method: str) -> str:
    return method.replace(" ", "_")


def main() -> None:
    """Runs what is missing and prints everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="ariane_twin,toy_macro_stdcell", help="separated by commas")
    parser.add_argument("--methods", default=",".join(METHODS), help="separated by commas")
    parser.add_argument("--seeds", default="1", help="separated by commas")
    parser.add_argument("--seconds", type=float, default=600.0, help="processor seconds of a training run")
    parser.add_argument("--annealing-seconds", type=float, default=60.0, help="wall-clock seconds of annealing")
    parser.add_argument("--annealing-moves", type=int, default=0, help="its length in moves instead, on a busy machine")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    wall_s = 1e6 if given.annealing_moves else given.annealing_seconds
    schedule = Schedule(time_budget_s=wall_s, max_moves=given.annealing_moves)
    comparison = Comparison(given.output, given.seconds, schedule)
    seeds = [int(seed) for seed in given.seeds.split(",")]
    for seed in seeds:
        for task in given.tasks.split(","):
            for method in given.methods.split(","):
                if method not in METHODS:
                    parser.error(f"unknown method {method!r}; there are {', '.join(METHODS)}")
                comparison.add(task, method, 0 if method in SEEDLESS else seed)
    print(
        f"\n{'task':<18} {'method':<13} {'seed':>4} {'W+0.5C+D':>11} {'W+0.5C+0.5D':>13} {'wirelength':>10} "
        f"{'congestion':>10} {'density':>8} {'wall s':>8} {'cpu s':>8} {'joules':>8}"
    )
    for task in given.tasks.split(","):
        for row in sorted(comparison.rows, key=lambda row: METHODS.index(row["method"])):
            if row["task"] == task:
                print(_line(row))
        for method in METHODS:
            costs = [-row["reward"] for row in comparison.rows if (row["task"], row["method"]) == (task, method)]
            if len(costs) > 1:
                spread = f"{np.mean(costs):.4f} +- {np.std(costs, ddof=1):.4f}"
                print(f"{task:<18} {method:<13} mean of {len(costs)} seeds {spread}")
        _strip(given.output, task, seeds[0])
        _curves(given.output, task)


if __name__ == "__main__":
    main()
