"""The classic result files under ``R/metrics/``, in the schemas of the earlier public platform.

The bundle's files are the record; the classic files are derived from them for existing notebooks. Times in
``inference_metrics_results.json`` are in seconds, as its field ``unit`` states.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.metrics.trackers.emissions import resolve_settings
from a2perf.records import RolloutResults
from a2perf.runs.bundles.layout import (
    GENERALIZATION_RESULTS_FILE,
    INFERENCE_RESULTS_FILE,
    JOURNAL,
    LATENCY_VALUES_FILE,
    METRICS,
    ROLLOUTS_FILE,
    STEPS_FILE,
    emissions_file,
)
from a2perf.storage import Journal, json_text, read_record, write_atomic, write_json
from a2perf.submission.evaluator.playing.episode_records import recorded_returns
from a2perf.submission.settings import Submission

_CHUNK = 4096


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
        found: dict[str, tuple[NDArray[np.float64], str]] = {}
        timed = (bundle / METRICS / name for name in (LATENCY_VALUES_FILE, STEPS_FILE))
        for file in (file for file in timed if file.exists()):
            with np.load(file, allow_pickle=False) as arrays:
                if "infer_ns" in arrays:  # earlier steps have no such column
                    found["inference_time"] = arrays["infer_ns"] * 1e-9, "s"
                    break
        if (bundle / METRICS / ROLLOUTS_FILE).exists():
            found["rollout_returns"] = recorded_returns(Journal(bundle / JOURNAL)), "1"
        write_atomic(folder / INFERENCE_RESULTS_FILE, _with_values(found))
    if mode == "generalization":
        write_json(folder / GENERALIZATION_RESULTS_FILE, generalization_rollouts(bundle))


def generalization_rollouts(path: Path) -> dict[str, list[float]]:
    """Returns the content of ``generalization_rollouts.json`` of a bundle: the returns by task."""
    found: dict[str, list[float]] = {}
    for rollouts in sorted((path / METRICS / "tasks").glob(f"*/{ROLLOUTS_FILE}")):
        record = read_record(rollouts, RolloutResults)
        found[record.task] = [episode.episode_return for episode in record.episodes]
    return found


def _with_values(found: Mapping[str, tuple[NDArray[np.float64], str]]) -> Iterator[bytes]:
    """Yields the text of summaries, with the values in chunks: they may be millions."""
    rest = json_text({name: {**_summary(values), "unit": unit} for name, (values, unit) in found.items()})
    for name in sorted(found):
        before, empty, rest = rest.partition('"values": []')
        yield (before + empty[:-1]).encode()
        values, _ = found[name]
        for first in range(0, len(values), _CHUNK):
            yield (", " * (first > 0) + json.dumps(values[first : first + _CHUNK].tolist())[1:-1]).encode()
        yield b"]"
    yield rest.encode()


def _summary(values: NDArray[np.float64]) -> dict[str, Any]:
    names = ("mean", "std", "max", "median", "min")
    if not len(values):
        return {"values": [], **dict.fromkeys(names)}
    found = (values.mean(), values.std(), values.max(), np.median(values), values.min())
    return {"values": [], **{name: float(value) for name, value in zip(names, found, strict=True)}}
