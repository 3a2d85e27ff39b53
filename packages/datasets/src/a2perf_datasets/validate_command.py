"""``a2perf validate DATASET``. The command also asks for recorded runs, so h5py is imported for datasets only."""

from __future__ import annotations

from a2perf_datasets import naming


def problems(name: str) -> list[str] | None:
    """Returns the problems of a dataset by its name or folder; None if it is not a dataset.

    Raises:
        UserError: there is no such dataset, or its description cannot be read.
    """
    if not naming.is_dataset(name):
        return None
    from a2perf_datasets.reader import open_dataset
    from a2perf_datasets.validation import problems_of

    return problems_of(open_dataset(name))
