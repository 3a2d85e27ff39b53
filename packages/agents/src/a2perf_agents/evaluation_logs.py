"""Evaluations of language models as runs: ``.eval`` of inspect_ai, ``samples_*.jsonl`` of lm-evaluation-harness.

An item (a sample, a document) takes the place of an episode: its score is the return, and two runs are compared in
pairs on the items that both answered. The epochs of a sample are repeats of one item.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import zstandard

from a2perf.errors import UserError
from a2perf.records import Episode
from a2perf.runs.formats import RunFormat
from a2perf.runs.run import Run, RunFolder, RunIdentity
from a2perf.storage import MAX_VALUES, values_of_json

_ZSTANDARD, _LOCAL_HEAD_BYTES = 93, 30
_MOST_BYTES = 1 << 28
_MOST_LINE_BYTES = 16 << 20
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Values of inspect_ai's scorers: correct, partial, incorrect, no answer."""
_SAMPLES = re.compile(r"samples_(?P<task>.+?)(?:_\d{4}-\d\d-\d\dT[\d.:-]+)?\.jsonl")


@dataclass
class _Item:
    """An answer: which item, and its score; None if it was not scored."""

    name: str
    score: float | None
    repeat: int = 0


def read_inspect(folder: RunFolder) -> Run:
    """Reads the score of each sample by the first scorer of the log.

    Raises:
        UserError: it is not a log of inspect_ai, or too large.
    """
    try:
        with folder.files().open(folder.path.name) as stream, zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
            head = _member(archive, stream, "header.json" if "header.json" in names else "_journal/start.json")
            parts = ["summaries.json"]
            if parts[0] not in names:  # the evaluation did not end
                parts = [name for name in names if name.startswith("_journal/summaries/")]
            summaries = [one for part in parts for one in _member(archive, stream, part)]
        items = [
            _Item(str(one["id"]), _score(one.get("scores") or {}), int(one.get("epoch", 1)) - 1) for one in summaries
        ]
        task, model = str(head["eval"]["task"]), str(head["eval"]["model"])
    except (zipfile.BadZipFile, zstandard.ZstdError, struct.error, KeyError, TypeError, ValueError) as error:
        raise UserError("not a log of inspect_ai", hint="copy the file again") from error
    run = _run(folder, task, model, items)
    if (status := head.get("status", "started")) != "success":
        run.conditions.append(f"the evaluation ended with the status {status}")
    return run


def read_samples(folder: RunFolder) -> Run:
    """Reads the first metric of each document under the first filter of a file of ``--log_samples``.

    Raises:
        UserError: it holds no samples of lm-evaluation-harness, or is too large.
    """
    items: list[_Item] = []
    values, chosen = 0, ""
    try:
        with folder.files().open(folder.path.name) as stream:
            while line := stream.readline(_MOST_LINE_BYTES):
                if (values := values + values_of_json(line)) > MAX_VALUES:
                    raise UserError(f"holds more than {MAX_VALUES} values", hint="give fewer samples")
                row = json.loads(line)
                chosen = chosen or str(row.get("filter", ""))
                if str(row.get("filter", "")) == chosen:
                    score = row.get(row["metrics"][0])
                    items.append(_Item(f"{row['doc_id']} {row.get('doc_hash', '')}", _number(score)))
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise UserError("not samples of lm-evaluation-harness", hint="copy the file again") from error
    named = _SAMPLES.fullmatch(folder.path.name)
    return _run(folder, named["task"] if named else folder.path.stem, folder.path.parent.name, items)


def _run(folder: RunFolder, task: str, model: str, items: Sequence[_Item]) -> Run:
    scored = [item for item in items if item.score is not None]
    run = Run(RunIdentity(task=task, algorithm=model, mode="inference"), folder)
    if lost := len(items) - len(scored):
        run.conditions.append(f"{lost} of {len(items)} items have no score; left out")
    run.returns = {"inference": {task: np.array([item.score for item in scored], np.float64)}}
    run.episodes = {
        task: [
            Episode(
                index=place,
                seed=int.from_bytes(hashlib.blake2b(item.name.encode(), digest_size=6).digest()),
                episode_return=float(item.score or 0.0),
                length=1,
                terminated=True,
                truncated=False,
                repeat=item.repeat,
            )
            for place, item in enumerate(scored)
        ]
    }
    return run


def _score(scores: dict[str, Any]) -> float | None:
    return next((_number(held.get("value")) for held in scores.values()), None)


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return _LETTERS.get(value)
    return float(value) if isinstance(value, int | float) else None


def _member(archive: zipfile.ZipFile, stream: BinaryIO, name: str) -> Any:
    """Returns the JSON of a member; ``zipfile`` of Python 3.13 and before does not know Zstandard."""
    info = archive.getinfo(name)
    if info.compress_type != _ZSTANDARD:
        with archive.open(info) as member:
            data = member.read(_MOST_BYTES + 1)
    else:
        stream.seek(info.header_offset)
        names, extra = struct.unpack_from("<HH", stream.read(_LOCAL_HEAD_BYTES), 26)
        stream.seek(names + extra, 1)
        packed = stream.read(min(info.compress_size, _MOST_BYTES))
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as frames:
            data = frames.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES or values_of_json(data) > MAX_VALUES:
        raise UserError(f"{name} holds more than {MAX_VALUES} values", hint="split the log")
    return json.loads(data)


INSPECT = RunFormat("inspect_ai", lambda names: False, read_inspect, lambda name: name.endswith(".eval"))
SAMPLES = RunFormat(
    "lm-evaluation-harness", lambda names: False, read_samples, lambda name: _SAMPLES.fullmatch(name) is not None
)
