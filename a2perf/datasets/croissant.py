"""Croissant metadata of a dataset: ``croissant.json`` beside its files.

Croissant describes files, fields and origin of a dataset as JSON-LD; its vocabulary for responsible AI is filled in
``croissant_rai.py``. Croissant has no reader for HDF5, so the records can be written as Parquet tables too
(``steps_table.py``). Without these tables the fields are described with the HDF5 file as their source, and no reader of
Croissant loads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from a2perf.datasets import naming
from a2perf.datasets.croissant_rai import responsible_ai
from a2perf.datasets.reader import Dataset
from a2perf.datasets.steps_table import EPISODES_FILE, FINAL, STEPS_FILE, ArrayColumn, columns_of, write_tables
from a2perf.errors import ConfigError, UserError
from a2perf.plain_text import plain_text
from a2perf.report.croissant import (
    BOOLEAN,
    CROISSANT_FILE,
    FLOAT,
    HDF5,
    INTEGER,
    JSON,
    PARQUET,
    TEXT,
    citation,
    croissant,
    field,
    file_object,
    record_set,
)
from a2perf.storage import json_text, sha256_of, write_atomic

_FILES = {
    naming.DATA_FILE: (HDF5, "All episodes, one HDF5 group per episode, in the layout of Minari."),
    naming.METADATA_FILE: (JSON, "Spaces, environment and counts, for Minari."),
    naming.RECORD_FILE: (JSON, "Policies, energy, seeds and hashes, recorded by a2perf."),
    STEPS_FILE: (PARQUET, "All steps, one row per step."),
    EPISODES_FILE: (PARQUET, "All episodes, one row per episode, with the values after the last step."),
}
_NO_TABLES = " Readers of Croissant do not open HDF5; `a2perf export croissant` adds tables that they read."
_MEANING = {
    "observations": "observation before the action",
    "actions": "executed action",
    "rewards": "reward of the step",
    "terminations": "whether the task ended the episode at this step",
    "truncations": "whether a limit ended the episode at this step",
    "infos": "entry of info before the action",
}


def write_croissant(
    data: Dataset, *, records: bool = True, license: str | None = None, url: str | None = None,
    known_sha256: Mapping[str, str] | None = None,
) -> Path:  # fmt: skip
    """Writes ``croissant.json`` into the ``data`` folder of a dataset.

    Args:
        data: the dataset.
        records: also write ``steps.parquet`` and ``episodes.parquet``, from which Croissant reads the records.
        license: identifier of SPDX or URL; by default the entry ``license`` of ``metadata.json``, if any.
        url: web page of the dataset.
        known_sha256: hashes of files that need not be computed again, by name.

    Returns:
        The path of ``croissant.json``.

    Raises:
        UserError: the dataset is damaged or has no episodes, or its folder cannot be written.
        MissingDependency: a package is not installed: h5py, or pyarrow for ``records``.

    Example:
        >>> from a2perf.datasets import open_dataset
        >>> from a2perf.datasets.croissant import write_croissant
        >>> write_croissant(open_dataset("datasets/toys/boxes/made-v0"), license="CC-BY-4.0").name
        'croissant.json'
    """
    path = data.path / CROISSANT_FILE
    try:
        tables: Sequence[Path] = write_tables(data, data.path) if records else ()
        document = croissant_document(data, tables=tables, license=license, url=url, known_sha256=known_sha256)
        write_atomic(path, json_text(document))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or error}", hint="copy the dataset to a writable folder"
        ) from error
    return path


def croissant_document(
    data: Dataset, *, tables: Sequence[Path] = (), license: str | None = None, url: str | None = None,
    known_sha256: Mapping[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Returns the Croissant metadata of a dataset as JSON-LD.

    Args:
        data: the dataset.
        tables: its Parquet tables, as ``write_tables`` returns them; without tables the fields refer to the HDF5 file.
        license: as for ``write_croissant``.
        url: as for ``write_croissant``.
        known_sha256: as for ``write_croissant``.

    Raises:
        UserError: the dataset is damaged or has no episodes.
    """
    columns = columns_of(data)
    if not columns:
        raise UserError(f"{data.id} has no episodes", hint="generate the dataset again")
    terms = license or data.metadata.get("license") or None
    files = [
        path for name in _FILES if (path := data.path / name).is_file() and name not in (STEPS_FILE, EPISODES_FILE)
    ]
    authors = _authors(data)
    made_at = data.record.get("made_at")
    content = data.content_sha256
    known = known_sha256 or {}
    return croissant(
        data.id,
        _description(data),
        files=[_file(path, known.get(path.name)) for path in (*files, *tables)],
        record_sets=[_steps(columns, bool(tables)), _episodes(columns, bool(tables))],
        responsible_ai=responsible_ai(data),
        version=f"{_version(data)}.0.0",
        cite_as=citation(
            data.id, authors=authors, year=str(made_at or "")[:4],
            note=f"SHA-256 of the episodes {content}" if content else "",
        ),
        authors=authors,
        published=made_at,
        license=None if terms is None else str(terms),
        url=url,
        keywords=("offline reinforcement learning", "imitation learning", "minari"),
        more={"a2perf:episodes": data.episode_count, "a2perf:steps": data.step_count},
    )  # fmt: skip


def _description(data: Dataset) -> str:
    given = plain_text(str(data.metadata.get("description") or "")).strip().rstrip(".")
    counts = f"{data.episode_count} episodes with {data.step_count} steps of the environment {plain_text(data.env_id)}"
    return f"{given}. {counts}." if given else f"{counts}."


def _authors(data: Dataset) -> list[str]:
    given = data.metadata.get("author") or []
    return [plain_text(str(name)) for name in ([given] if isinstance(given, str) else given)]


def _version(data: Dataset) -> int:
    found = re.search(r"-v(\d+)$", data.id)
    return int(found[1]) if found else 0


def _file(path: Path, sha256: str | None) -> dict[str, Any]:
    return file_object(path.name, *_FILES[path.name], size=path.stat().st_size, sha256=sha256 or sha256_of(path))


def _steps(columns: Sequence[ArrayColumn], tables: bool) -> dict[str, Any]:
    file = STEPS_FILE if tables else ""
    fields = [
        _field("steps", "episode", INTEGER, "number of the episode, from 0", file, references="episodes/episode"),
        _field("steps", "step", INTEGER, "number of the step in its episode, from 0", file),
        *(_array_field("steps", column.name, column, file) for column in columns),
    ]
    description = "One record per step, in the order of the episodes."
    return record_set("steps", description + ("" if tables else _NO_TABLES), fields, ("episode", "step"))


def _episodes(columns: Sequence[ArrayColumn], tables: bool) -> dict[str, Any]:
    file = EPISODES_FILE if tables else ""
    plain = (
        ("episode", INTEGER, "number of the episode, from 0"),
        ("seed", INTEGER, "seed of env.reset"),
        ("steps", INTEGER, "number of steps"),
        ("return", FLOAT, "undiscounted sum of the rewards, in the unit of the reward"),
        ("policy", INTEGER, "number of the policy in the list policies of a2perf.json"),
        ("success", BOOLEAN, "whether the episode succeeded, if the environment reports it"),
    )
    fields = [_field("episodes", name, kind, meaning, file) for name, kind, meaning in plain]
    fields += [_array_field("episodes", FINAL + column.name, column, file) for column in columns if not column.per_step]
    description = "One record per episode, with the observation after the last step."
    return record_set("episodes", description + ("" if tables else _NO_TABLES), fields, ("episode",))


def _array_field(records: str, name: str, column: ArrayColumn, file: str) -> dict[str, Any]:
    meaning = _MEANING[column.path.partition("/")[0]]
    if name.startswith(FINAL):
        meaning = meaning.replace("before the action", "after the last step")
    shape = f", shape {column.shape} in row-major order" if column.shape else ""
    unit = "; in the unit of the reward" if column.path == "rewards" else ""
    description = f"{meaning}; {'text' if column.is_text else column.dtype}{shape}{unit}; HDF5 path {column.path}"
    return _field(records, name, _data_type(column), description, file, repeated=bool(column.shape))


def _field(
    records: str, name: str, kind: str, description: str, file: str, *, repeated: bool = False, references: str = ""
) -> dict[str, Any]:
    extract = None if file else {"fileProperty": "content"}
    source = file or naming.DATA_FILE
    return field(records, name, kind, description, source, extract=extract, repeated=repeated, references=references)


def _data_type(column: ArrayColumn) -> str:
    if column.is_text:
        return TEXT
    if column.dtype.kind == "b":
        return BOOLEAN
    bits = column.dtype.itemsize * 8
    return {"f": f"cr:Float{bits}", "i": f"cr:Int{bits}", "u": f"cr:UInt{bits}"}.get(column.dtype.kind, TEXT)
