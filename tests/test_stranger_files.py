"""Folders that a stranger made: nothing is followed, nothing waits, and every bound names the place of its error."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2perf.stranger_files import (
    BoundExceeded,
    Bounds,
    Kind,
    NotRegular,
    StrangerFileError,
    Unreadable,
    open_beneath,
    opened,
    printable,
    read_file,
    read_regular_file,
    walk,
)
from tests.deep_folders import nest

NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda name: b"/" not in name and b"\0" not in name and name.strip(b".")
)
TREES = st.recursive(
    st.one_of(st.binary(max_size=64), st.just("link"), st.just("fifo")),
    lambda inner: st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def grow(folder: bytes, tree: dict) -> dict[bytes, tuple[Kind, object]]:
    """Makes a tree and returns what is in it by path."""
    made: dict[bytes, tuple[Kind, object]] = {}
    for name, content in tree.items():
        path = os.path.join(folder, name)
        if isinstance(content, dict):
            os.mkdir(path)
            made[name] = (Kind.FOLDER, None)
            made |= {name + b"/" + below: what for below, what in grow(path, content).items()}
        elif content == "link":
            os.symlink(b"/etc", path)
            made[name] = (Kind.LINK, "/etc")
        elif content == "fifo":
            os.mkfifo(path)
            made[name] = (Kind.FIFO, None)
        else:
            with open(path, "wb") as stream:
                stream.write(content)
            made[name] = (Kind.FILE, content)
    return made


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(NAMES, TREES, max_size=5))
def test_walk_finds_everything_once_and_follows_nothing(tree: dict) -> None:
    top = tempfile.mkdtemp()
    try:
        made = grow(os.fsencode(top), tree)
        found = {}
        for entry in walk(Path(top)):
            path = os.fsencode(entry.path)
            assert path not in found
            value = entry.target() if entry.kind is Kind.LINK else None
            if entry.kind is Kind.FILE:
                with os.fdopen(entry.open(), "rb") as stream:
                    value = stream.read()
                assert read_regular_file(Path(top), entry.path, max_bytes=64) == value
            else:
                with pytest.raises(StrangerFileError):
                    read_regular_file(Path(top), entry.path, max_bytes=64)
            found[path] = (entry.kind, value)
        assert found == made
        assert all(printable(os.fsdecode(path)).isprintable() for path in made)
    finally:
        shutil.rmtree(os.fsencode(top))


def test_tree_deeper_than_a_path_can_be_is_walked_and_bounded(tmp_path: Path) -> None:
    nest(tmp_path / "top", "d" * 200, 50, b"x")
    found = [entry.path for entry in walk(tmp_path / "top")]
    assert len(found) == 51
    assert len(found[-1]) > 10_000
    assert read_regular_file(tmp_path / "top", found[-1], max_bytes=1) == b"x"
    with pytest.raises(BoundExceeded) as error:
        list(walk(tmp_path / "top", Bounds(depth=10)))
    assert error.value.bound == "depth"
    assert error.value.path.count("/") == 9


def test_no_bound_is_passed_by_more_than_one_entry(tmp_path: Path) -> None:
    for index in range(20):
        (tmp_path / f"{index:02d}").write_bytes(b"12345")
    assert len(list(walk(tmp_path, Bounds(entries=20, bytes=100)))) == 20
    for bounds, name in ((Bounds(entries=19), "entries"), (Bounds(bytes=99), "bytes"), (Bounds(seconds=0), "seconds")):
        with pytest.raises(BoundExceeded) as error:
            list(walk(tmp_path, bounds))
        assert (error.value.bound, pickle.loads(pickle.dumps(error.value)).bound) == (name, name)


def test_sparse_file_counts_in_full_and_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "weights", "wb") as stream:
        os.truncate(stream.fileno(), 2**40)
    with pytest.raises(BoundExceeded, match="weights exceeds the limit"):
        list(walk(tmp_path, Bounds(bytes=2**33)))
    with pytest.raises(BoundExceeded, match="weights exceeds the limit"):
        read_regular_file(tmp_path, "weights", max_bytes=2**20)


def test_what_is_left_out_is_not_entered(tmp_path: Path) -> None:
    nest(tmp_path / "a", "b", 3)
    assert [entry.path for entry in walk(tmp_path, without={"a/b"})] == ["a"]


@pytest.mark.parametrize(
    "way", ["link", "link/file", "folder/up", "up/file", "../secret", "/etc/passwd", "", ".", "a\0b", "\ud800"]
)
def test_no_path_leads_out_of_the_folder(tmp_path: Path, way: str) -> None:
    top = tmp_path / "top"
    (top / "folder").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "file").write_text("secret")
    (top / "link").symlink_to(tmp_path / "secret" if way == "link" else tmp_path)
    (top / "up").symlink_to("..")
    (top / "folder" / "up").symlink_to("../../secret")
    with pytest.raises((NotRegular, Unreadable)):
        read_regular_file(top, way, max_bytes=100)
    with pytest.raises((NotRegular, Unreadable)):
        os.close(open_beneath(top, way))
    with pytest.raises((NotRegular, Unreadable)):
        os.close(open_beneath(top, way, os.O_WRONLY | os.O_CREAT))
    assert (tmp_path / "secret").read_text() == "secret"


def test_loops_devices_fifos_and_linked_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "real").mkdir()
    (tmp_path / "name").symlink_to("real")
    for name in ("loop", "fifo", "zero"):
        with pytest.raises(NotRegular):
            read_regular_file(tmp_path, name, max_bytes=10)
    with pytest.raises(NotRegular):
        read_regular_file(Path("/dev"), "zero", max_bytes=10)
    with pytest.raises(NotRegular, match="a link, which is not followed"):
        list(walk(tmp_path / "name"))
    with pytest.raises(NotRegular), opened(tmp_path, "name"):
        pass
    with pytest.raises(NotRegular, match="fifo"):
        read_file(tmp_path / "fifo", max_bytes=10)
    with pytest.raises(Unreadable):
        read_file(tmp_path / "nothing" / "file", max_bytes=10)


def test_what_cannot_be_listed_is_an_error_or_is_passed_on(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    seen: list[StrangerFileError] = []
    found = []
    for entry in walk(tmp_path, on_error=seen.append):
        if entry.path == "b":
            shutil.rmtree(tmp_path / "b")  # its owner is still at work
        found.append(entry.path)
    assert found == ["a", "a/file", "b", "c", "c/file"]
    assert [error.path for error in seen] == ["b"]
    if os.geteuid() != 0:
        (tmp_path / "c").chmod(0)
        with pytest.raises(Unreadable, match="Permission denied"):
            list(walk(tmp_path))
        (tmp_path / "c").chmod(0o755)


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    nest(tmp_path / "top", "d", 20)
    before = os.listdir("/proc/self/fd")
    for bounds in (Bounds(), Bounds(depth=3), Bounds(entries=7)):
        with contextlib.suppress(BoundExceeded):
            list(walk(tmp_path / "top", bounds))
    next(iter(walk(tmp_path / "top")))
    with pytest.raises(StrangerFileError):
        read_regular_file(tmp_path / "top", "d/d/nothing", max_bytes=1)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_shown_path_has_no_control_characters() -> None:
    shown = printable("a\x1b[31m\n\u202e" + os.fsdecode(b"\xff"))
    assert shown == "a\\x1b[31m\\n\\u202e\\xff"
