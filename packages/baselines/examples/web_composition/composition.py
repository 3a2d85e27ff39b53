"""Success of policies on compositions of websites, by the number of websites: a table, a CSV file and a chart.

    python packages/baselines/examples/web_composition/composition.py --out DIR [--episodes 200]
        [--policies random solver cloned cloned-16 learned] [--learned SUBMISSION[=ARTIFACTS]]

Websites are held out: drawn and measured like the shipped ones, from another seed. They are drawn from level 1, from
levels 1 and 2, and from levels 1 to 3, as in the three composed environments; all policies get the same episodes. Rows
of the CSV file that exist are not measured again. The policies run in this process without confinement.

``cloned`` is the network of ``tf_agents_bc``, trained on levels 1 to 3, in NumPy; it reads all profile keys.
``cloned-16`` reads 16 of them, as the submission itself does. ``learned`` is ``torch_ppo_web``, learned from
scratch on levels 1 to 3: the shipped policy, or that of a training run. ``--export-cloned ARTIFACTS`` takes the weights
of another cloning; this needs TensorFlow.
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib.util
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the networks are so small that threads only wait for each other

import gymnasium
import numpy as np

import a2perf  # noqa: F401  registers the ids
from a2perf.domains.web_navigation.sites import generator
from a2perf_baselines.candidates import candidates_of

HERE = Path(__file__).resolve().parent
SOLVER = HERE.parents[3] / "examples" / "web_solver"
LEVELS = ("1", "1 2", "1 2 3")
"""Levels that the websites come from."""
DEPTHS = (1, 2, 4, 8)
"""Numbers of websites per episode."""
ORDERS = ("given", "reversed")
POLICIES = ("random", "solver", "cloned", "cloned-16", "learned")
ENVIRONMENTS = {"Composed-01": ("1", 2), "Composed-02": ("1 2", 4), "Composed-03": ("1 2 3", 8)}
"""Levels and number of websites of each environment."""
DESIGNS = 20  # of each level
DESIGN_SEED = 887_000
EPISODE_SEED = 886_000
COLUMNS = (
    "policy", "levels", "websites", "order", "episodes", "solved", "success", "low", "high", "websites_solved",
    "return", "wrong", "link", "step_limit", "steps", "cpu_s",
)  # fmt: skip
Act = Callable[[Any, dict[str, Any]], int]


def wilson_interval(share: float, episodes: int, quantile: float = 1.96) -> tuple[float, float]:
    """Returns the 95 % interval of a share (Wilson 1927), which has a width at 1 and 0 too."""
    weight = quantile**2 / episodes
    middle = (share + weight / 2) / (1 + weight)
    half = math.sqrt(share * (1 - share) * weight + weight**2 / 4) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


# --- Policies


def random_policy(env: gymnasium.Env[Any, Any]) -> Act:
    """Draws uniformly from the valid actions."""
    random = np.random.default_rng(0)
    return lambda observation, info: int(random.choice(np.flatnonzero(info["action_mask"])))


def cloned_policy(env: gymnasium.Env[Any, Any], **limits: Any) -> Act:
    """Scores candidates with the network of ``tf_agents_bc`` in NumPy."""
    with np.load(HERE / "cloned.npz") as arrays:
        layers = [(arrays[f"kernel_{number}"], arrays[f"bias_{number}"]) for number in range(len(arrays) // 2)]
    reader = candidates_of(env, **limits)

    def act(observation: Any, info: dict[str, Any]) -> int:
        rows, actions = reader.table(observation)
        valid = np.flatnonzero(rows[:, 0] > 0)
        values = rows[valid, 1:].astype(np.float16).astype(np.float32)  # half precision, as in training
        for kernel, bias in layers[:-1]:
            values = np.maximum(values @ kernel + bias, 0.0)
        kernel, bias = layers[-1]
        return int(actions[valid[(values @ kernel + bias)[:, 0].argmax()]])

    return act


def export_cloned(artifacts: Path) -> Path:
    """Writes ``cloned.npz`` from what a training run of ``tf_agents_bc`` left."""
    import tensorflow as tf

    saved = tf.train.load_checkpoint(str(artifacts / "policies" / "greedy_policy" / "variables" / "variables"))
    names = sorted(name for name in saved.get_variable_to_shape_map() if name.startswith("model_variables/"))
    arrays = {
        f"{'kernel' if number % 2 == 0 else 'bias'}_{number // 2}": saved.get_tensor(name)
        for number, name in enumerate(names)
    }
    np.savez_compressed(HERE / "cloned.npz", **arrays)
    return HERE / "cloned.npz"


def submission_policy(
    folder: Path, artifacts: Path | None = None, **arguments: str
) -> Callable[[gymnasium.Env[Any, Any]], Act]:
    """Returns what loads the ``inference.py`` of a submission for an environment.

    Args:
        folder: the submission.
        artifacts: what its training run left, if it has one.
        **arguments: participant arguments.
    """

    def load(env: gymnasium.Env[Any, Any]) -> Act:
        assert env.spec is not None
        # Its weights are found there; its task is that of the environment.
        os.environ.update(ROOT_DIR=str(artifacts or folder), A2PERF_ENV_ID=env.spec.id, A2PERF_ENV_KWARGS="{}")
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        spec = importlib.util.spec_from_file_location(f"{folder.name}_inference", folder / "inference.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        policy = module.load_policy(env, **arguments)
        return lambda observation, info: int(module.infer_once(policy, module.preprocess_observation(observation)))

    return load


# --- Measurement


def held_out_designs(levels: str) -> list[dict[str, Any]]:
    """Returns the unseen designs of some levels, easiest level first."""
    return [
        one.design.as_record()
        for level in map(int, levels.split())
        for one in generator.generate(level, DESIGN_SEED + level, DESIGNS)
    ]


def measure(
    load: Callable[[gymnasium.Env[Any, Any]], Act], designs: list[dict[str, Any]], websites: int, order: str,
    episodes: int,
) -> dict[str, Any]:  # fmt: skip
    """Plays episodes; returns the columns of the CSV file that were measured."""
    env = gymnasium.make(
        "WebNavigation-Composed-01-v0", subtasks=websites, order=order, designs=designs, difficulty=None,
        num_websites=len(designs), disable_env_checker=True,
    )  # fmt: skip
    act = load(env)
    began, steps, parts, returns = time.process_time(), 0, 0, 0.0
    ends = {"solved": 0, "wrong": 0, "link": 0, None: 0}
    for episode in range(episodes):
        observation, info = env.reset(seed=EPISODE_SEED + episode)
        over = False
        while not over:
            observation, reward, terminated, truncated, info = env.step(act(observation, info))
            returns += float(reward)
            steps += 1
            over = terminated or truncated
        ends[info["reason"]] += 1
        parts += info["subtasks_solved"]
    env.close()
    share = ends["solved"] / episodes
    low, high = wilson_interval(share, episodes)
    return {
        "episodes": episodes, "solved": ends["solved"], "success": round(share, 4), "low": round(low, 4),
        "high": round(high, 4), "websites_solved": round(parts / episodes, 3), "return": round(returns / episodes, 3),
        "wrong": ends["wrong"], "link": ends["link"], "step_limit": ends[None], "steps": round(steps / episodes, 2),
        "cpu_s": round(time.process_time() - began, 1),
    }  # fmt: skip


def read_rows(path: Path) -> dict[tuple[str, str, int, str], dict[str, str]]:
    """Returns the rows of the CSV file by policy, levels, websites and order."""
    if not path.is_file():
        return {}
    with path.open(newline="") as file:
        return {(row["policy"], row["levels"], int(row["websites"]), row["order"]): row for row in csv.DictReader(file)}


def write_rows(path: Path, rows: dict[tuple[str, str, int, str], dict[str, Any]]) -> None:
    """Writes the CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows, key=lambda key: (POLICIES.index(key[0]), *key[1:])))


# --- Results


def summary(rows: dict[tuple[str, str, int, str], dict[str, Any]]) -> str:
    """Returns a table in Markdown: success on single websites of levels 1 to 3, and on the three environments."""
    heads = [f"{name}, {order}" for name in ENVIRONMENTS for order in ORDERS]
    lines = ["| policy | one website, levels 1 to 3 | " + " | ".join(heads) + " |", "| --- " * (2 + len(heads)) + "|"]
    for policy in POLICIES:
        found = [rows.get((policy, *where, order)) for where in ENVIRONMENTS.values() for order in ORDERS]
        if any(found):
            cells = [_cell(rows.get((policy, LEVELS[-1], 1, ORDERS[0]))), *map(_cell, found)]
            lines.append(f"| {policy} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def table(rows: dict[tuple[str, str, int, str], dict[str, Any]]) -> str:
    """Returns the table in Markdown: a row per policy and levels, a column per number of websites."""
    lines = ["| policy | levels | order | " + " | ".join(f"{depth}" for depth in DEPTHS) + " |"]
    lines.append("| --- | --- | --- | " + " | ".join("---" for _ in DEPTHS) + " |")
    for policy in POLICIES:
        for levels in LEVELS:
            for order in ORDERS:
                found = [rows.get((policy, levels, depth, order)) for depth in DEPTHS]
                if any(found):
                    cells = " | ".join(_cell(row) for row in found)
                    lines.append(f"| {policy} | {levels.replace(' ', ', ')} | {order} | {cells} |")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    success, low, high = (100 * float(row[name]) for name in ("success", "low", "high"))
    return f"{success:.1f} [{low:.1f}, {high:.1f}]"


def main() -> None:
    """Measures what is missing, prints the table and draws the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("composition"), help="folder of composition.csv and charts")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--policies", nargs="*", choices=POLICIES, default=POLICIES[:4])
    parser.add_argument("--learned", default=str(HERE.parent / "torch_ppo_web"), metavar="SUBMISSION[=ARTIFACTS]")
    parser.add_argument("--export-cloned", type=Path, metavar="ARTIFACTS", help="only write cloned.npz")
    given = parser.parse_args()
    if given.export_cloned is not None:
        print(export_cloned(given.export_cloned))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "composition.csv"
    folder, _, artifacts = given.learned.partition("=")
    learned = functools.partial(submission_policy, Path(folder).resolve())
    loaders = {
        "random": random_policy,
        "solver": submission_policy(SOLVER),
        "cloned": functools.partial(cloned_policy, fields=None),
        "cloned-16": cloned_policy,
        "learned": learned(Path(artifacts).resolve()) if artifacts else learned(weights="level_3"),
    }
    rows: dict[tuple[str, str, int, str], dict[str, Any]] = dict(read_rows(path))
    designs: dict[str, list[dict[str, Any]]] = {}
    for levels in LEVELS:
        for websites in DEPTHS:
            for order in ORDERS if websites > 1 else ORDERS[:1]:
                for policy in given.policies:
                    key = (policy, levels, websites, order)
                    if key in rows:
                        continue
                    if levels not in designs:
                        designs[levels] = held_out_designs(levels)
                    measured = measure(loaders[policy], designs[levels], websites, order, given.episodes)
                    rows[key] = dict(zip(COLUMNS, key, strict=False)) | measured
                    write_rows(path, rows)
                    print(json.dumps(rows[key]), flush=True)
    print(summary(rows), table(rows), sep="\n\n")
    from composition_chart import draw

    for drawn in draw(rows, ENVIRONMENTS, given.out):
        print(drawn)


if __name__ == "__main__":
    main()
