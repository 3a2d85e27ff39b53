"""The classic result files under ``R/metrics/``, in the schemas of the earlier public platform.

The bundle's files are the record; the classic files are derived from them for existing notebooks. Times in
``inference_metrics_results.json`` are in seconds, as its field ``unit`` states.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.metrics.trackers.emissions import resolve_settings
from a2perf.records import Record
from a2perf.runs.bundles.layout import (
    GENERALIZATION_RESULTS_FILE,
    INFERENCE_RESULTS_FILE,
    LATENCY_VALUES_FILE,
    METRICS,
    ROLLOUTS_FILE,
    STEPS_FILE,
    emissions_file,
)
from a2perf.storage import read_record, write_json
from a2perf.submission.settings import Submission


class _Played(Record):
    episode_return: float


class _Returns(Record):
    """The part of ``rollouts.json`` that the classic files repeat, without the memory of the rest."""

    task: str
    episodes: list[_Played]


def publish_from(bundle: Path, mode: str, settings: Submission) -> None:
    """Writes the classic files of a mode from a bundle; the emissions file only if gin's settings ask for it."""
    folder = settings.values
    folder.mkdir(parents=True, exist_ok=True)
    if settings.measure_emissions and resolve_settings().save_to_file is not False:
        tables = [table.read_text() for table in sorted((bundle / METRICS).rglob(emissions_file(mode)))]
        rows = [table.partition("\n")[2] for table in tables[1:]]  # generalization has one table per task
        if tables:
            (folder / emissions_file(mode)).write_text("".join([tables[0], *rows]))
    if mode == "inference":
        found: dict[str, Any] = {}
        timed = (bundle / METRICS / name for name in (LATENCY_VALUES_FILE, STEPS_FILE))
        for file in (file for file in timed if file.exists()):
            with np.load(file, allow_pickle=False) as arrays:
                if "infer_ns" in arrays:  # earlier steps have no such column
                    found["inference_time"] = {**_summary((arrays["infer_ns"] * 1e-9).tolist()), "unit": "s"}
                    break
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
