"""Access to the files of one run: links are never followed, and every bound holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from a2perf.runs.bundles.files import BundleFiles, configuration_name, files_of
from a2perf.stranger_files import BoundExceeded, Kind, NotRegular, StrangerFileError, Unreadable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "run"
    (top / "metrics" / "tasks" / "a").mkdir(parents=True)
    (top / "metrics" / "train.json").write_bytes(b"{}")
    (top / "metrics" / "tasks" / "a" / "outcome.json").write_bytes(b"[]")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_bytes(b"secret")
    (top / "leads_out").symlink_to(tmp_path / "secret")
    os.mkfifo(top / "pipe")
    return top


def test_names_come_in_order_with_what_they_are(folder: Path) -> None:
    found = [(file.status.path, file.status.kind) for file in files_of(folder).entries()]
    assert found == [
        ("leads_out", Kind.LINK),
        ("metrics", Kind.FOLDER),
        ("metrics/tasks", Kind.FOLDER),
        ("metrics/tasks/a", Kind.FOLDER),
        ("metrics/tasks/a/outcome.json", Kind.FILE),
        ("metrics/train.json", Kind.FILE),
        ("pipe", Kind.FIFO),
    ]


def test_a_part_of_the_files_is_named_from_the_top(folder: Path) -> None:
    assert [file.status.path for file in files_of(folder).entries("metrics/tasks")] == [
        "metrics/tasks/a",
        "metrics/tasks/a/outcome.json",
    ]
    assert list(files_of(folder).entries("leads_out")) == []
    assert list(files_of(folder).entries("missing")) == []


def test_nothing_is_read_through_a_link_or_from_a_pipe(folder: Path) -> None:
    files = files_of(folder)
    status = files.status("leads_out/key")
    assert status is not None
    assert (status.path, status.kind) == ("leads_out", Kind.LINK)
    for name in ("leads_out/key", "leads_out", "pipe", "metrics"):
        with pytest.raises(NotRegular):
            files.read(name, 100)
    for name in ("../secret/key", "/etc/passwd", "missing"):
        assert files.status(name) is None
        with pytest.raises(Unreadable):
            files.read(name, 100)


def test_no_more_than_the_limit_is_read(folder: Path) -> None:
    files = files_of(folder)
    assert files.read("metrics/train.json", 2) == b"{}"
    with pytest.raises(BoundExceeded):
        files.read("metrics/train.json", 1)


def test_a_file_that_was_replaced_since_it_was_listed_is_refused(folder: Path) -> None:
    for file in files_of(folder).entries("metrics"):
        if file.status.name == "train.json":
            (folder / "new").write_bytes(b"other")
            os.replace(folder / "new", folder / "metrics" / "train.json")
            with pytest.raises(StrangerFileError, match="replaced"):
                file.open()


def test_the_fingerprint_changes_with_a_file_and_with_a_folder(folder: Path) -> None:
    before = BundleFiles(folder).fingerprint()
    assert BundleFiles(folder).fingerprint() == before
    (folder / "empty").mkdir()
    with_folder = BundleFiles(folder).fingerprint()
    assert with_folder != before
    (folder / "metrics" / "train.json").write_bytes(b"{} ")
    assert BundleFiles(folder).fingerprint() != with_folder


def test_the_configuration_of_earlier_versions_is_read_under_its_name(folder: Path) -> None:
    (folder / "config.gin").touch()
    assert configuration_name(files_of(folder)) == "config.gin"
    (folder / "operative_config.gin").touch()
    assert configuration_name(files_of(folder)) == "operative_config.gin"
