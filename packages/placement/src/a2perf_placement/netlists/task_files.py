"""The files of a task folder besides netlist and placement: gin files for runs, and the record of the import."""

from __future__ import annotations

from pathlib import Path

import msgspec

from a2perf.records import SCHEMA, Record
from a2perf.storage import write_atomic

RECORD_NAME = "import.json"
_GIN = """\
# {title} on an imported netlist; after moving the folder, correct the path.
import a2perf.submission.submission_util

Submission.mode = %BenchmarkMode.{mode}
Submission.domain = %BenchmarkDomain.CIRCUIT_TRAINING
{limits}
create_domain.env_name = 'CircuitTraining-Generated-v0'
create_domain.is_eval = False
create_domain.netlist_file = '{folder}'
"""
_LIMITS = """\
Submission.num_inference_steps = 100
Submission.num_inference_episodes = 3
"""


class ImportedMacro(Record, kw_only=True):
    """A hard macro of an imported design.

    Attributes:
        master: library cell; empty where the source has no library.
    """

    component: str
    master: str = ""


class ImportRecord(Record, kw_only=True):
    """How a task folder was made from a netlist of another tool.

    Attributes:
        sources: files that were read, with their SHA-256.
        origin_x, origin_y: lower left corner of the canvas in the coordinates of the source, um.
        counts: nodes, nets and groups before and after grouping.
        notes: what was left out or assumed.
    """

    design: str
    sources: dict[str, str]
    origin_x: float
    origin_y: float
    canvas_width: float
    canvas_height: float
    columns: int
    rows: int
    macros: dict[str, ImportedMacro]
    counts: dict[str, float]
    notes: list[str] = msgspec.field(default_factory=list)
    schema: int = SCHEMA


def write_gin_files(folder: Path) -> None:
    """Writes ``train.gin`` and ``inference.gin``, which set the environment to the folder's design."""
    where = str(folder.resolve()).replace("\\", "\\\\").replace("'", "\\'")
    limits = {"train": "", "inference": _LIMITS}
    for mode, limit in limits.items():
        text = _GIN.format(title=mode.capitalize(), mode=mode.upper(), limits=limit, folder=where)
        write_atomic(folder / f"{mode}.gin", text)
