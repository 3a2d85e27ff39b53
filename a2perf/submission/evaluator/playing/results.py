"""The classic result files under ``R/metrics/``, in the schemas of the earlier public platform.

The bundle's files are the record; the classic files are derived from them for existing notebooks. Times in
``inference_metrics_results.json`` are in seconds, as its field ``unit`` states.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.records import Record
from a2perf.runs.bundles.layout import (
    GENERALIZATION_RESULTS_FILE,
    INFERENCE_RESULTS_FILE,
    LATENCY_VALUES_FILE,
    METRICS,
    ROLLOUTS_FILE,
    emissions_file,
)
from a2perf.storage import read_record, write_json


class _Played(Record):
    episode_return: float


class _Returns(Record):
    """The part of ``rollouts.json`` that the classic files repeat, without the memory of the rest."""

    task: str
    episodes: list[_Played]


def publish_from(bundle: Path, mode: str, folder: Path, *, emissions: bool) -> None:
    """Writes the classic files of a mode from a bundle into a folder; ``emissions``: also the emissions file."""
    folder.mkdir(parents=True, exist_ok=True)
    table = bundle / METRICS / emissions_file(mode)
    if emissions and table.exists():
        shutil.copyfile(table, folder / table.name)
    if mode == "inference":
        found: dict[str, Any] = {}
        latency = bundle / METRICS / LATENCY_VALUES_FILE
        if latency.exists():
            with np.load(latency, allow_pickle=False) as arrays:
                found["inference_time"] = {**_summary((arrays["infer_ns"] * 1e-9).tolist()), "unit": "s"}
        rollouts = bundle / METRICS / ROLLOUTS_FILE
        if rollouts.exists():
            episodes = read_record(rollouts, _Returns).episodes
            found["rollout_returns"] = {**_summary([episode.episode_return for episode in episodes]), "unit": "1"}
        write_json(folder / INFERENCE_RESULTS_FILE, found)
    if mode == "generalization":
        write_json(folder / GENERALIZATION_RESULTS_FILE, generalization_rollouts(bundle))


def generalization_rollouts(path: Path) -> dict[str, list[float]]:
    """Returns the content of ``generalization_rollouts.json`` of a bundle: the returns by task."""
    found: dict[str, list[float]] = {}
    for rollouts in sorted((path / METRICS / "tasks").glob(f"*/{ROLLOUTS_FILE}")):
        record = read_record(rollouts, _Returns)
        found[record.task] = [episode.episode_return for episode in record.episodes]
    return found


def _summary(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"values": [], "mean": None, "std": None, "max": None, "median": None, "min": None}
    array = np.asarray(values)
    return {
        "values": list(values),
        "mean": float(array.mean()),
        "std": float(array.std()),
        "max": float(array.max()),
        "median": float(np.median(array)),
        "min": float(array.min()),
    }
