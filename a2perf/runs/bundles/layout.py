"""File and folder names of recorded runs. No other module contains these names.

Names are POSIX paths relative to a bundle (``R/<mode>``) unless a comment says otherwise. A run root ``R`` holds one
bundle per mode and, in ``attic``, the bundles of archived attempts.
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path

# Modes of a submission; each names its bundle's folder.
MODES = ("train", "inference", "generalization")
# Modes of a program, with one bundle for all of it: `a2perf wrap` and `benchmark --command`; `a2perf rlops import`.
PROGRAM_MODES = ("command", "imported")
TEST_REWARDS = "test_time_rewards"  # series of a wrapped script's test episodes

# At the top of a bundle.
MANIFEST = "manifest.json"
SIGNATURE = "signature.json"
LOCK = ".lock"
HEARTBEAT = ".heartbeat"
RESERVE = ".reserve"
CONFIG = "operative_config.gin"
EARLIER_CONFIG = "config.gin"  # its name in bundles of earlier versions
JOURNAL = "journal.jsonl"
MODEL_CALLS = "model_calls.jsonl"
METRICS = "metrics"
LOGS = "logs"
ARTIFACTS = "artifacts"
MEDIA = "media"
STATES = ".states"
"""Ending of a file in ``MEDIA``: states from which a report draws pictures of an episode, a JSON list each."""
FOLDERS = (METRICS, LOGS, ARTIFACTS, MEDIA)
WRITTEN = (ARTIFACTS, CONFIG, JOURNAL, MODEL_CALLS, LOGS, MANIFEST, MEDIA, METRICS, LOCK)

# Inside ``metrics``, and inside the folder of each task of a generalization run.
TRACKING_FILE = "tracking.json"
ROLLOUTS_FILE = "rollouts.json"
LATENCY_FILE = "latency.json"
LATENCY_VALUES_FILE = "latency.npz"
STEPS_FILE = "rollout_steps.npz"
TRAIN_FILE = "train.json"
TRACE_FILE = "system_trace.csv"
OUTCOME_FILE = "outcome.json"
MODEL_USAGE_FILE = "model_usage.json"

TASKS = f"{METRICS}/tasks"
TRACKING = f"{METRICS}/{TRACKING_FILE}"
ROLLOUTS = f"{METRICS}/{ROLLOUTS_FILE}"
LATENCY = f"{METRICS}/{LATENCY_FILE}"
LATENCY_VALUES = f"{METRICS}/{LATENCY_VALUES_FILE}"
STEPS = f"{METRICS}/{STEPS_FILE}"
TRAIN = f"{METRICS}/{TRAIN_FILE}"
TRACE = f"{METRICS}/{TRACE_FILE}"
MODEL_USAGE = f"{METRICS}/{MODEL_USAGE_FILE}"
BROUGHT_BY = {MODEL_CALLS: "a2perf-agents", MODEL_USAGE: "a2perf-agents"}  # the distribution that reads a file
WRITTEN_ELSEWHERE = f"{ARTIFACTS}/written.json"  # hashes of the logs that a wrapped script wrote outside of its bundle
DATASET_NOTES = "a2perf_datasets"  # below ``artifacts``

# Beside or above bundles.
ATTIC = "attic"
SCORES = "scores.json"
RUN_RECORD = "rlops.json"
TAG_JOURNAL = "tags.jsonl"  # of a store
REPRODUCTION_SUFFIX = ".reproduction.json"  # after the name of the bundle

# The earlier platform's files below ``metrics``.
INFERENCE_RESULTS_FILE = "inference_metrics_results.json"
GENERALIZATION_RESULTS_FILE = "generalization_rollouts.json"

_ARCHIVED = re.compile(rf"({'|'.join((*MODES, *PROGRAM_MODES))})-\d{{8}}T\d{{6}}\.\d+")


def emissions_file(mode: str) -> str:
    """Returns the name of a mode's emissions table inside ``metrics``."""
    return f"{mode}_emissions.csv"


def emissions(mode: str) -> str:
    """Returns the path of a mode's emissions table below the bundle."""
    return f"{METRICS}/{emissions_file(mode)}"


EARLIER_FILES = (
    emissions_file("train"),
    emissions_file("inference"),
    INFERENCE_RESULTS_FILE,
    GENERALIZATION_RESULTS_FILE,
)
"""Any of them below ``metrics`` marks a folder of the earlier platform."""


def manifest_path(bundle: Path) -> Path:
    """Returns the path of a bundle's manifest."""
    return bundle / MANIFEST


def bundle_path(root: Path, mode: str) -> Path:
    """Returns the path of a mode's bundle below a run root."""
    return root / mode


def archive_path(root: Path, name: str) -> Path:
    """Returns an unused path in the attic for ``name``, a bundle or another folder of a run root."""
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")
    return root / ATTIC / f"{name}-{stamp}"


def is_archived(folder: Path) -> bool:
    """Whether a path is that of an archived bundle."""
    return folder.parent.name == ATTIC and _ARCHIVED.fullmatch(folder.name) is not None
