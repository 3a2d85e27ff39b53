"""Logs of inspect_ai and lm-evaluation-harness: items are compared in pairs, failures are named."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import pytest
import zstandard

import a2perf
from a2perf.cli import main

ITEMS = 40


def answered(right: int) -> list[bool]:
    return [(7 * item) % ITEMS < right for item in range(ITEMS)]


def write_eval(folder: Path, right: int, *, finished: bool = True, errors: int = 0) -> Path:
    """Writes a log as inspect_ai does: members of Zstandard, in several frames as for large ones."""
    items = [
        {"id": f"q{item}", "epoch": 1, "scores": {"match": {"value": "C" if is_right else "I"}}}
        for item, is_right in enumerate(answered(right))
    ]
    for item in items[:errors]:
        item["scores"] = {}
    head = {"status": "success" if finished else "started", "eval": {"task": "sums", "model": "none/none"}}
    members = {"_journal/start.json": head, "_journal/summaries/1.json": items}
    if finished:
        members |= {"summaries.json": items, "header.json": head}
    folder.mkdir(parents=True)
    file = folder / "2026-11-29T18-02-57-00-00_sums_x.eval"
    packer = zstandard.ZstdCompressor()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            data = json.dumps(content).encode()
            archive.writestr(name, packer.compress(data[:50]) + packer.compress(data[50:]))
    written = bytearray(file.read_bytes())
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # zipfile cannot write this method
        at = written.find(mark)
        while at >= 0:
            struct.pack_into("<H", written, at + place, 93)
            at = written.find(mark, at + 4)
    file.write_bytes(written)
    return folder


def write_samples(folder: Path, right: int) -> Path:
    rows = [
        {"doc_id": item, "doc_hash": f"{item:x}", "filter": kept, "metrics": ["exact_match"], "exact_match": score}
        for item, is_right in enumerate(answered(right))
        for kept, score in (("strict", float(is_right)), ("flexible", 1.0))
    ]
    (folder / folder.name).mkdir(parents=True)
    file = folder / folder.name / "samples_sums_of_two_2026-11-29T18-06-11.811021.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


@pytest.mark.parametrize("write", [write_eval, write_samples])
def test_items_of_two_evaluations_are_compared_in_pairs(
    write: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weak, strong = (write(tmp_path / name, right) for name, right in (("weak", 12), ("strong", 36)))  # type: ignore[operator]
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(weak), str(strong)])
    said = capsys.readouterr()
    assert (ended.value.code, said.err) == (0, "")
    assert said.out.startswith(f"{strong}: better. Baseline: {weak}; 2 runs on 1 environment. Question: these policies")
    assert "40 / 40" in said.out
    ((judged,),) = a2perf.compare([weak, strong]).judgements.values()
    assert judged.difference == pytest.approx(24 / ITEMS)


def test_unfinished_evaluation_and_items_without_a_score_are_named(tmp_path: Path) -> None:
    (run,) = a2perf.read_runs(write_eval(tmp_path / "log", 20, finished=False, errors=3))
    assert len(run.run.returns["inference"]["sums"]) == ITEMS - 3
    assert set(run.conditions) == {
        "3 of 40 items have no score; left out",
        "the evaluation ended with the status started",
    }


def test_damaged_logs_are_named_in_one_line(tmp_path: Path) -> None:
    (file,) = write_eval(tmp_path / "log", 20).iterdir()
    data = file.read_bytes()
    for content in (b"", b"PK", data[: len(data) // 2], data.replace(b"\x28\xb5\x2f\xfd", b"abcd")):
        file.write_bytes(content)
        (run,) = a2perf.read_runs(file)
        assert [text for text in run.conditions if "not a log of inspect_ai" in text]
    (file,) = write_samples(tmp_path / "samples", 20).rglob("*.jsonl")
    file.write_text('{"doc_id": 1}\n')
    (run,) = a2perf.read_runs(file)
    assert [text for text in run.conditions if "not samples of lm-evaluation-harness" in text]
