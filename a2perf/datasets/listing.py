"""The datasets in a folder, without opening their episodes."""

from __future__ import annotations

import os
from typing import Any

from a2perf.datasets import naming
from a2perf.datasets.reader import open_dataset
from a2perf.errors import UserError


def list_datasets(datasets_path: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Lists the datasets in a folder.

    Args:
        datasets_path: the folder of all datasets; by default that of ``open_dataset``.

    Returns:
        One record per dataset, sorted by name: ``dataset_id``, ``total_episodes`` and ``total_steps``; ``problem``
        instead of the numbers if its description cannot be read.
    """
    root = naming.root_folder(datasets_path)
    found: list[dict[str, Any]] = []
    for name in naming.all_ids(root):
        try:
            metadata = open_dataset(root / name).metadata
        except UserError as error:
            found.append({"dataset_id": name, "problem": error.message})
            continue
        found.append({"dataset_id": name, **{key: metadata.get(key) for key in ("total_episodes", "total_steps")}})
    return found
