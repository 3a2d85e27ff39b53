"""Records in the artifacts of a training run which datasets it used, and how many samples of each.

The data-cost metric reads these notes. Outside of a training run nothing is written. NumPy and the standard library
only, because this runs in the participant's Python.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from a2perf.runs.layout import DATASET_NOTES
from a2perf.storage import write_json

_SCHEMA = 1


def note(record: Mapping[str, Any], dataset_id: str, samples: int, folder: str | Path | None = None) -> Path | None:
    """Records that a training run used a dataset; keeps the largest number of samples.

    Args:
        record: content of the dataset's ``a2perf.json``; empty for a dataset not made by a2perf.
        folder: the artifacts; by default ``A2PERF_ARTIFACTS``, else ``ROOT_DIR``.

    Returns:
        The file, or None outside of a run or if the artifacts are not writable.
    """
    place = folder or os.environ.get("A2PERF_ARTIFACTS") or os.environ.get("ROOT_DIR")
    if not place or not os.access(place, os.W_OK):
        return None
    path = Path(place) / DATASET_NOTES / (re.sub(r"[^-.\w]+", "_", dataset_id) + ".json")
    already = _samples_in(path, str(record.get("content_sha256", "")))
    if samples <= already:
        return path
    cost = record.get("cost") or {}
    write_json(
        path,
        {
            "schema": _SCHEMA,
            "dataset_id": dataset_id,
            "content_sha256": record.get("content_sha256", ""),
            "samples": samples,
            "samples_there": record.get("steps"),
            "skill_level": record.get("skill_level", ""),
            "checkpoint_kwh": cost.get("checkpoint_kwh", []),
            "per_sample_kwh": cost.get("per_sample_kwh"),
            "generation": cost.get("generation", {}),
            "training": cost.get("training", {}),
        },
    )
    return path


def _samples_in(path: Path, content_sha256: str) -> int:
    import json

    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return int(found["samples"]) if found["content_sha256"] == content_sha256 else -1
    except (OSError, ValueError, KeyError, TypeError):
        return -1
