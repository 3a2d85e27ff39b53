"""Anneals the placement of the task's design and keeps the best one found.

Arguments (``--participant_args=time_budget_s=60``): the fields of `Schedule`.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path

import gymnasium
from annealing import Annealing, Schedule

import a2perf  # noqa: F401  registers the ids

PLACEMENT = "placement.json"


def train(**arguments: str) -> None:
    """Writes ``placement.json``, the cell of each macro, and ``progress.csv``."""
    artifacts = Path(os.environ["A2PERF_ARTIFACTS"])
    env = gymnasium.make(os.environ["A2PERF_ENV_ID"], **json.loads(os.environ.get("A2PERF_ENV_KWARGS", "{}")))
    kinds = {field.name: type(field.default) for field in fields(Schedule)}
    schedule = Schedule(**{name: kinds[name](value) for name, value in arguments.items()})
    annealing = Annealing(env, schedule, int(os.environ.get("SEED", "0")))
    with (artifacts / "progress.csv").open("w", encoding="utf-8") as progress:
        progress.write("moves,cost,best\n")

        def report(moves: int, cost: float, best: float) -> None:
            progress.write(f"{moves},{cost:.6g},{best:.6g}\n")
            print(f"{moves:7d} moves  cost {cost:.4f}  best {best:.4f}", flush=True)

        cells = annealing.run(report)
    plc = annealing.plc
    named = {plc.get_node_name(node): cell for node, cell in cells.items()}
    (artifacts / PLACEMENT).write_text(json.dumps(named, indent=1), encoding="utf-8")
    env.close()
