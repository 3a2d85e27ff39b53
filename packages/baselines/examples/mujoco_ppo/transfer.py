"""The transfer matrix: actors trained in one physics, evaluated in each: ``python transfer.py TRAINED=FILE ...``.

``TRAINED`` names the physics of the training (``pybullet``, ``twin33``, ``twin6``), ``FILE`` an ``actor.npz``; several
files of the same name are seeds. Prints mean returns of test episodes with 95 % intervals, and writes JSON on demand.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from actor import Actor
from evaluation import evaluate_in_pybullet, evaluate_in_twin, mean_with_interval

WHERE = ("pybullet", "twin33", "twin11", "twin6")
FIRST_SEED = 700_000  # far from the seeds of training and of the protocol


def returns(actor: Actor, where: str, clip: str, episodes: int) -> np.ndarray:
    """Returns the returns of test episodes of an actor in one physics."""
    if where == "pybullet":
        return evaluate_in_pybullet(actor, clip, list(range(FIRST_SEED, FIRST_SEED + episodes)), threads=1)
    return evaluate_in_twin(actor, clip, int(where.removeprefix("twin")), FIRST_SEED, episodes)


def main() -> None:
    """Evaluates and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("actors", nargs="+", metavar="TRAINED=FILE")
    parser.add_argument("--clip", default="dog_pace")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--where", nargs="+", choices=WHERE, default=["pybullet", "twin33", "twin6"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    groups: dict[str, list[Path]] = {}
    for text in given.actors:
        name, _, file = text.partition("=")
        groups.setdefault(name, []).append(Path(file))
    rows = []
    print("| trained in | " + " | ".join(given.where) + " |")
    print("| --- |" + " --- |" * len(given.where))
    for name, files in groups.items():
        cells = []
        for where in given.where:
            values = np.concatenate([returns(Actor.load(file), where, given.clip, given.episodes) for file in files])
            mean, low, high = mean_with_interval(values)
            cells.append(f"{mean:.0f} [{low:.0f}, {high:.0f}]")
            rows.append({"trained": name, "evaluated": where, "returns": values.tolist()})
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    if given.json:
        given.json.write_text(json.dumps({"clip": given.clip, "rows": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
