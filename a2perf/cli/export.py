"""``a2perf export``: recorded runs and datasets in the formats of other tools; distributions bring the commands."""

from __future__ import annotations

import click

from a2perf.cli.extensible import ExtensibleGroup
from a2perf.submission.options import normalised


class _ExportGroup(ExtensibleGroup):
    prefix = "export."


@click.group(cls=_ExportGroup, context_settings=normalised())
def export() -> None:
    """Export datasets and recorded runs to the formats of other tools.

    Commands for MLflow, Weights & Biases, TensorBoard and Hugging Face come with the distribution a2perf-trackers,
    `croissant` with a2perf-datasets.
    """
