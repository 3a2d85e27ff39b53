"""Audits the tasks of the protocols with their experts, and writes ``audits.json``, as ``a2perf audit --json`` prints.

    python results/audits.py [TASK...]

A task that is not named keeps its audit. The site has a page per task; ``audits.toml`` explains each check that fails.
The environment runs in the mode of the evaluation. Experts are those of the protocol, but the placements of circuits
are annealed for some seconds only. Needs packages/audit and ``a2perf data fetch``; about half an hour of one processor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocol_v2 import FOLLOWER_GAIN, follower
from references import Tools

from a2perf.metrics import protocol as protocols
from a2perf.metrics.protocol import ProtocolTask
from a2perf.storage import write_atomic

if TYPE_CHECKING:
    from a2perf_audit import Audit

os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # data files, for new processes with another home
FILE = Path(__file__).with_name("audits.json")
EXAMPLES = {
    "quadruped_locomotion": ("motion_imitation", {}),
    "web_navigation": ("web_solver", {}),
    "circuit_training": ("annealing_placer", {"time_budget_s": "10"}),
}
PACE = {"circuit_training": 5}
"""Episodes per policy; the environment is deterministic."""


def main() -> None:
    """Audits the named tasks, or all of them."""
    tasks = {name: task for version in ("v1", "v2") for name, task in protocols.load(version).tasks.items()}
    known: dict[str, Any] = {}
    if FILE.is_file():
        known = {one["subject"]: one for one in json.loads(FILE.read_text())}
    for name in sys.argv[1:] or tasks:
        found = audited(tasks[name])
        known[name] = found.as_json()
        ordered = [known[task] for task in tasks if task in known]
        write_atomic(FILE, json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
        print(f"{name}: {', '.join(f'{one.check} fails, {one.evidence}' for one in found.failed) or 'no check fails'}")


def audited(task: ProtocolTask) -> Audit:
    """Audits one task."""
    from a2perf_audit import Subject, audit

    kwargs = {**task.env_kwargs}
    with contextlib.closing(Tools.environment(task)) as env:
        if task.name.startswith("synthetic"):
            expert = follower(FOLLOWER_GAIN)
        else:
            example, arguments = EXAMPLES[task.domain]
            expert = Tools.example(example, task, **arguments)(env)
        subject = Subject(
            task.name,
            kwargs,
            expert=expert,
            episodes=PACE.get(task.domain, 10),
            search_steps=3000,
        )
        return dataclasses.replace(audit(subject), command=f"python results/audits.py {task.name}")


if __name__ == "__main__":
    main()
