"""The cheapest real runs of ``a2perf.evaluate``, and submission folders for them."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import a2perf
from tests.commands import bindings, flags, run_a2perf

TASK = "difficulty_level_1_num_websites_1"
"""Runs without a browser or physics, in about two seconds."""

BINDINGS = ("Submission.num_inference_steps = 3", "Submission.num_warmup_steps = 1", "Submission.record_frames = 0")

INFERENCE = """
def load_policy(env, **kwargs):
    return int(kwargs.get("action", 0))

def preprocess_observation(observation):
    return observation

def infer_once(policy, observation):
    return policy
"""

TRAIN = """
def train(steps="1"):
    import os, pathlib
    pathlib.Path(os.environ["A2PERF_ARTIFACTS"], "weights.txt").write_text(steps)
"""


def evaluate(policy: Any, root: Path | None, **given: Any) -> a2perf.Result:
    """Evaluates a policy on two episodes of ``TASK`` without a display."""
    known = {"episodes": 2, "bindings": BINDINGS, "progress": False, "sandbox": "process", "root_dir": root}
    return a2perf.evaluate(policy, TASK, **{**known, **given})


def participant_has_started(runs: Path) -> bool:
    """Returns whether the code of a participant runs, or ran, in one of these bundles."""
    manifests = [json.loads(path.read_text()) for path in runs.rglob("manifest.json")]
    return any(manifest["attempts"][-1]["participant_started_at"] for manifest in manifests)


def write_submission(folder: Path, inference: str = INFERENCE, train: str = TRAIN) -> Path:
    """Writes a submission's folder."""
    folder.mkdir(parents=True)
    for name, text in {"inference": inference, "train": train, "__init__": ""}.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    (folder / "requirements.txt").write_text("")
    return folder


def command(folder: Path, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ``a2perf run`` with the settings of ``evaluate``."""
    given = flags(submission=folder, gin_config="inference.gin", root_dir=root, task=TASK, sandbox="process")
    return run_a2perf("run", *given, *bindings(*BINDINGS), *arguments)
