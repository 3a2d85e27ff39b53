"""Every id of Gymnasium that installs here: evaluated, repeated and audited without a line written for it.

Prints a row of Markdown per id: the mean return of a policy that always does the same, whether a second evaluation is
bit-equal, seconds of both and of the audit, and the checks that hold. Needs gymnasium's extras box2d, classic-control,
mujoco and toy-text. Arguments: ids; all by default. `--no-audit` leaves the audits out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import a2perf

GROUPS = ("toy_text", "classic_control", "box2d", "mujoco")
EPISODES = 5


def ids() -> Iterator[tuple[str, str]]:
    """Yields group and id of each registered environment of one episode at a time that can be made here."""
    for group in GROUPS:
        for env_id, spec in sorted(gymnasium.registry.items()):
            if f"gymnasium.envs.{group}" not in str(spec.entry_point):
                continue
            try:
                gymnasium.make(env_id).close()
            except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
                print(f"{env_id}: {error}", file=sys.stderr)
            else:
                yield group, env_id


def constant(env_id: str) -> Any:
    """Returns a policy that acts in the same way at every step: zero, or the first action."""
    space = gymnasium.make(env_id).action_space
    action = 0 if isinstance(space, gymnasium.spaces.Discrete) else np.zeros(space.shape, space.dtype)
    return lambda observation: action


def row(group: str, env_id: str) -> str:
    """Evaluates an id twice, audits it, and returns its row."""
    settings: dict[str, Any] = {
        "episodes": EPISODES,
        "progress": False,
        "allow_weaker": True,
        "public_seeds": True,
        "bindings": ["Submission.num_inference_steps = 5", "Submission.num_warmup_steps = 0"],
    }
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        first, again = (
            a2perf.evaluate(constant(env_id), env_id, root_dir=Path(folder) / name, **settings) for name in "ab"
        )
        records = [json.loads((Path(folder) / name / "inference/manifest.json").read_text()) for name in "ab"]
        hashes = [record["env_fingerprint"] for record in records]
        mean, equal = first.mean_return, list(first.returns) == list(again.returns) and len(set(hashes)) == 1
    played = time.perf_counter()
    cells = f"| {group} | `{env_id}` | {mean:.4g} | {'yes' if equal else 'NO'} | {played - began:.1f} |"
    if "--no-audit" in sys.argv:
        return cells
    command = [sys.executable, "-m", "a2perf", "audit", env_id, "--json", "--episodes", "5", "--search-steps", "500"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode > 1:
        return f"| {group} | `{env_id}` | refused: {ended.stderr.strip()} |"
    found = json.loads(ended.stdout)[0]["findings"]
    holds = sum(finding["verdict"] == "holds" for finding in found)
    fails = ", ".join(finding["check"].replace("_", " ") for finding in found if finding["verdict"] == "fails")
    return f"{cells} {time.perf_counter() - played:.1f} | {holds} of {len(found)} | {fails} |"


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    wanted = {*sys.argv[1:]} - {"--no-audit"}
    titles = [
        "group",
        "id",
        "mean return",
        "repeated: equal",
        "two evaluations, s",
        "audit, s",
        "checks that hold",
        "fail",
    ]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for group, env_id in ids():
        if not wanted or env_id in wanted:
            print(row(group, env_id), flush=True)


if __name__ == "__main__":
    main()
