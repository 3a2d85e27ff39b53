"""Logs of inspect_ai: read as runs with scores, tokens and errors; damaged and hostile ones become conditions."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from a2perf.metrics import scored_runs
from a2perf.metrics.model_costs import METRICS
from a2perf.metrics.scores import score_runs
from a2perf.runs import inspect_archive, read_runs

NAME = "2026-01-02T03-04-05-00-00_arithmetic_4iJXuxbXMRyLPWDxDDoZSC"


def sample(number: int, epoch: int, value: Any, **changes: Any) -> dict[str, Any]:
    call = {"event": "model", "model": "mock/m", "output": {"model": "mock/m", "time": 0.5 * epoch}}
    used = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 15, "input_tokens_cache_read": 3}
    return {
        "id": f"q{number}", "epoch": epoch, "input": "?", "target": "1", "turn_count": 1, "total_time": 1.5,
        "scores": {"match": {"value": value}, "other": {"value": 7}}, "model_usage": {"mock/m": used},
        "events": [{"event": "sample_init"}, call], **changes,
    }  # fmt: skip


def header(**changes: Any) -> dict[str, Any]:
    return {
        "version": 2, "status": "success",
        "eval": {
            "task": "arithmetic", "task_version": 0, "task_args": {}, "model": "mock/m",
            "dataset": {"samples": 2, "sample_ids": ["q0", "q1"]}, "scorers": [{"name": "match"}],
        },
        "plan": {"steps": [{"solver": "generate"}], "config": {"seed": 7}},
        "results": {"headline": {"scorer": "match", "score": "match"}}, **changes,
    }  # fmt: skip


SAMPLES = [sample(0, 1, "C"), sample(1, 1, "I"), sample(0, 2, "I"), sample(1, 2, "C")]


def zipped(members: dict[str, bytes], *, zstd: bool = False) -> bytes:
    """Returns a zip; with ``zstd`` its members have method 93, as inspect_ai writes them."""
    stream = io.BytesIO()
    if not zstd:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return stream.getvalue()
    directory = b""
    for name, data in members.items():
        packed = pyarrow.Codec("zstd").compress(data, asbytes=True)
        common = struct.pack("<HHHHHIIIHH", 63, 0, 93, 0, 33, zlib.crc32(data), len(packed), len(data), len(name), 0)
        directory += b"PK\x01\x02" + struct.pack("<H", 63) + common
        directory += struct.pack("<HHHII", 0, 0, 0, 0, stream.tell()) + name.encode()
        stream.write(b"PK\x03\x04" + common + name.encode() + packed)
    start = stream.tell()
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), start, 0)
    return stream.getvalue() + directory + b"PK\x05\x06" + end


def members(samples: list[dict[str, Any]] = SAMPLES, **changes: Any) -> dict[str, bytes]:
    held = {f"samples/{one['id']}_epoch_{one['epoch']}.json": json.dumps(one).encode() for one in samples}
    return {"_journal/start.json": b"{}", **held, "header.json": json.dumps(header(**changes)).encode()}


def written(folder: Path, kind: str) -> Path:
    folder.mkdir(exist_ok=True)
    if kind == "json":
        path = folder / f"{NAME}.json"
        path.write_text(json.dumps({**header(), "samples": SAMPLES}))
    else:
        path = folder / f"{NAME}.eval"
        path.write_bytes(zipped(members(), zstd=kind == "zstd"))
    return path


@pytest.mark.parametrize("kind", ["zstd", "deflate", "json"])
def test_a_log_is_a_run_and_a_sample_in_an_epoch_an_episode(tmp_path: Path, kind: str) -> None:
    (run,) = read_runs([written(tmp_path / "logs", kind)])
    assert run.conditions == []
    assert (run.identity.task, run.algorithm, run.identity.seed, run.state, run.mode) == (
        "arithmetic", "mock/m", 7, "finished", "inference",
    )  # fmt: skip
    assert run.returns["inference"]["arithmetic"].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert run.successes["inference"]["arithmetic"].mean() == 0.5
    assert [(one.task_index, one.repeat) for one in run.episodes["arithmetic"]] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert run.models is not None
    total = run.models.usage.total
    assert (total.calls, total.tokens_in, total.tokens_out, total.cost) == (4, 52, 8, None)
    values = {metric.name: metric.score(scored_runs([run], "inference")) for metric in METRICS}
    assert values["model_tokens_in_per_episode"].value == 13
    assert values["model_tokens_in_per_success"].value == 26
    assert values["model_answer_median"].value == 0.75
    assert values["model_cost"].condition == "no price table"
    (group,) = score_runs([tmp_path / "logs"])["groups"]
    assert group["scores"]["outcome_consistency"]["value"] is not None


def test_each_log_of_a_folder_is_one_run(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    written(logs, "zstd")
    written(logs, "json")
    (logs / "notes.json").write_text("{}")
    runs = read_runs([logs])
    assert len(runs) == 2
    assert len({run.root for run in runs}) == 2


def test_samples_without_a_score_and_failed_evaluations_are_conditions(tmp_path: Path) -> None:
    failed = sample(1, 1, None, scores={}, error={"message": "x"})
    path = tmp_path / "a.eval"
    path.write_bytes(zipped(members([sample(0, 1, "P"), failed], status="error", error={"message": "rate limit"})))
    (run,) = read_runs([path])
    assert run.state == "failed"
    assert run.returns["inference"]["arithmetic"].tolist() == [0.5]
    assert run.successes == {}
    assert run.models is not None
    assert run.models.usage.total.errors == {"sample_error": 1}
    assert run.conditions == [
        "1 of 2 samples have no score; left out of returns", "the evaluation failed: rate limit",
    ]  # fmt: skip


def test_names_outside_of_samples_are_not_read_and_nothing_is_written(tmp_path: Path) -> None:
    hostile = {"../../evil.json": b"{}", "/etc/x_epoch_1.json": b"{}", "samples/../../y_epoch_1.json": b"{}"}
    path = tmp_path / "a.eval"
    path.write_bytes(zipped({**hostile, **members()}))
    (run,) = read_runs([path])
    assert len(run.episodes["arithmetic"]) == 4
    assert run.conditions == []
    assert [file.name for file in tmp_path.iterdir()] == ["a.eval"]


@pytest.mark.parametrize("zstd", [False, True])
def test_a_bomb_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zstd: bool
) -> None:
    monkeypatch.setattr(inspect_archive, "MAX_MEMBER_BYTES", 1 << 16)
    path = tmp_path / "a.eval"
    path.write_bytes(zipped({**members(), "samples/b_epoch_1.json": b" " * (4 << 20)}, zstd=zstd))
    (run,) = read_runs([path])
    assert run.conditions == ["samples/b_epoch_1.json unpacks to more than 65536 bytes"]
    assert len(run.episodes["arithmetic"]) == 4


def test_damaged_logs_of_any_kind_become_conditions(tmp_path: Path) -> None:
    rng = random.Random(0)
    whole = [zipped(members()), zipped(members(), zstd=True), json.dumps({**header(), "samples": SAMPLES}).encode()]
    for number in range(120):
        data = bytearray(whole[number % 3])
        if number % 2:
            del data[rng.randrange(len(data)) :]
        else:
            for _ in range(rng.randrange(1, 8)):
                data[rng.randrange(len(data))] = rng.randrange(256)
        ending = "json" if number % 3 == 2 else "eval"
        path = tmp_path / f"{NAME}{number}.{ending}"
        path.write_bytes(data)
        (run,) = read_runs([path])
        assert run.conditions or run.returns or run.models is not None
        if number % 2:
            assert run.conditions


@pytest.mark.parametrize(
    ("change", "words"),
    [({"scores": 3}, "Expected `object | null`, got `int`"), ({"events": "x"}, "Expected `array`, got `str`"),
     ({"epoch": 10**400}, "is not part of a log")],
)  # fmt: skip
def test_wrong_types_cost_only_their_sample(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    held = members()
    held["samples/q0_epoch_1.json"] = json.dumps({**SAMPLES[0], **change}).encode()
    path = tmp_path / "a.eval"
    path.write_bytes(zipped(held))
    (run,) = read_runs([path])
    (condition,) = run.conditions
    assert words in condition
    assert len(run.episodes["arithmetic"]) == 3


def test_a_log_that_zstd_cannot_open_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(inspect_archive.importlib, "import_module", missing)
    (run,) = read_runs([written(tmp_path / "logs", "zstd")])
    assert "install zstandard" in run.conditions[0]
