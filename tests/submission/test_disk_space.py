"""A full disk: whose failure it is, and that the record of it can be written."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2perf.records import Failure, FailureKind
from a2perf.runs.bundles import disk_reserve
from a2perf.submission.evaluator.submitted.artifacts import DiskSpace
from tests.commands import run_command

FULL = Failure(kind=FailureKind.DISK, where="train", message="OSError: [Errno 28] No space left on device")

FILL_THE_DISK = """
def train():
    import os
    with open(os.environ["A2PERF_ARTIFACTS"] + "/big", "wb") as stream:
        while True:
            stream.write(b"x" * 65536)
            stream.flush()
"""


@contextlib.contextmanager
def small_disk(tmp_path: Path, size: str) -> Iterator[Path]:
    """Mounts a file system of a few bytes, if this host allows that."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = run_command(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder])
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        run_command(["umount", "-l", folder], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, "16m") as folder:
        yield folder


@pytest.mark.group("root")
def test_a_participant_that_fills_the_disk_fails_itself_and_the_record_is_written(
    disk: Path, submission, launch
) -> None:
    outcome = launch(submission(train=FILL_THE_DISK), "training.gin", root=disk / "run")
    assert outcome.status == 1, outcome.output
    manifest = outcome.manifest("train")
    assert manifest["state"] == "failed"
    assert manifest["failure"]["kind"] == "disk"
    assert "bytes and filled the disk" in manifest["failure"]["message"]
    assert json.loads((disk / "run" / "train" / "metrics" / "train.json").read_text())["exit_reason"] == "disk"
    assert not (disk / "run" / "train" / ".reserve").exists()


@pytest.mark.group("root")
def test_a_disk_that_others_filled_is_the_hosts_failure(disk: Path) -> None:
    (disk / "artifacts").mkdir()
    (disk / "artifacts" / "earlier").write_bytes(b"x" * 2**20)
    before = DiskSpace.before(disk / "artifacts")
    with (disk / "others").open("wb") as stream:
        stream.write(b"x" * (14 * 2**20))
    (disk / "artifacts" / "mine").write_bytes(b"x" * 2**16)
    judged = before.judge(FULL)
    assert judged.kind is FailureKind.INFRASTRUCTURE
    assert "wrote 65,536 bytes" in judged.message


def test_a_participant_whose_own_scratch_is_full_fails_itself(tmp_path: Path) -> None:
    if shutil.disk_usage(tmp_path).free < 64 * 2**20:
        pytest.skip("the disk of the tests is itself full")
    judged = DiskSpace.before(tmp_path).judge(FULL)
    assert judged.kind is FailureKind.DISK
    assert "temporary space" in judged.message


def test_reserve_takes_room_and_gives_it_back(tmp_path: Path) -> None:
    disk_reserve.keep_reserve(tmp_path)
    assert sum(path.stat().st_blocks for path in tmp_path.iterdir()) * 512 >= disk_reserve.RESERVE_BYTES
    disk_reserve.use_reserve(tmp_path)
    disk_reserve.use_reserve(tmp_path)
    assert list(tmp_path.iterdir()) == []
