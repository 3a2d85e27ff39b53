"""Packing and unpacking: byte for byte, the same file on every machine, finished runs only."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import filelock
import pytest
from click.testing import CliRunner

from a2perf.cli import cli
from a2perf.errors import ConfigError, UserError
from a2perf.records import RunState
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.runs.bundles.inventory import read_manifest, record_files
from a2perf.runs.pack import pack
from a2perf.runs.packed.packed_archive import is_packed, unpack
from tests.launch.test_signing import finished


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run root with two bundles that hold links, empty folders and a program, but no name that ZIP cannot carry."""
    root = tmp_path / "runs" / "root"
    for mode in ("train", "inference"):
        bundle = finished(root / mode, mode)
        for odd in bundle.glob("artifacts/na*"):
            odd.unlink()
        (bundle / "artifacts" / "größe.txt").write_text("ä")
        (bundle / "artifacts" / "incompressible").write_bytes(os.urandom(3000))
        (bundle / "artifacts" / "read_only").write_text("x")
        (bundle / "artifacts" / "read_only").chmod(0o444)
        _record_again(bundle)
    return root


def _record_again(bundle: Path, state: RunState = RunState.FINISHED) -> None:
    manifest = read_manifest(bundle)
    manifest.state = state
    record_files(bundle, manifest)
    write_manifest(bundle, manifest)


def content(folder: Path) -> dict[str, object]:
    """Returns everything that packing keeps, by relative path."""
    return {
        path.relative_to(folder).as_posix(): os.readlink(path)
        if path.is_symlink()
        else (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


def test_unpacking_gives_back_every_byte(root: Path, tmp_path: Path) -> None:
    packed = pack([root])
    assert packed == root.with_name("root.zip")
    before = content(root)
    assert unpack(packed, tmp_path / "out") == [tmp_path / "out" / "root"]
    assert content(tmp_path / "out" / "root") == before == content(root)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["root"]
    assert pack([tmp_path / "out" / "root"]).read_bytes() == packed.read_bytes()


def test_the_same_run_gives_the_same_file_under_another_umask_and_time(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "copy" / "root", symlinks=True)
    for path in (tmp_path / "copy").rglob("*"):
        if not path.is_symlink():
            os.utime(path, (0, 0))
            path.chmod(path.stat().st_mode & ~0o024)
    assert pack([tmp_path / "copy" / "root"]).read_bytes() == pack([root]).read_bytes()


def test_unpacking_obeys_the_umask(root: Path, tmp_path: Path) -> None:
    packed = pack([root])
    before = os.umask(0o077)
    try:
        (out,) = unpack(packed, tmp_path / "out")
    finally:
        os.umask(before)
    assert (out / "train" / "operative_config.gin").stat().st_mode & 0o777 == 0o600
    assert (out / "train" / "metrics").stat().st_mode & 0o777 == 0o700
    assert CliRunner().invoke(cli, ["validate", str(out)], standalone_mode=False).return_value == 0


def test_any_program_for_zip_archives_reads_it(root: Path) -> None:
    with zipfile.ZipFile(pack([root])) as archive:
        assert archive.testzip() is None
        assert archive.read("root/inference/operative_config.gin") == b"# config\n"
        assert "root/inference/artifacts/größe.txt" in archive.namelist()
        assert not [info for info in archive.infolist() if info.external_attr >> 28 == 0o12]


def test_several_folders_lie_in_one_file_under_their_names(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "other" / "second", symlinks=True)
    packed = pack([root, tmp_path / "other" / "second"], tmp_path / "both.zip")
    assert [top.name for top in unpack(packed, tmp_path / "out")] == ["root", "second"]
    assert content(tmp_path / "out" / "second") == content(root)


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.INTERRUPTED])
def test_an_unfinished_run_is_refused(root: Path, state: RunState) -> None:
    _record_again(root / "train", state)
    with pytest.raises(UserError, match=f"not finished .state: {state.value}"):
        pack([root])
    assert not root.with_name("root.zip").exists()


def test_a_run_that_is_being_written_is_refused(root: Path) -> None:
    with filelock.FileLock(root / "train" / ".lock"), pytest.raises(UserError, match="another process is writing"):
        pack([root])


def test_a_failed_run_is_packed(root: Path) -> None:
    _record_again(root / "train", RunState.FAILED)
    assert is_packed(pack([root]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: os.mkfifo(folder / "x"), "fifo"),
        (lambda folder: (folder / "x").symlink_to("/etc/passwd"), "lead out"),
        (lambda folder: (folder / "x").symlink_to("../../../.."), "lead out"),
        (lambda folder: (folder / "a\\b").touch(), "backslash"),
        (lambda folder: (folder / "a\nb").touch(), "cannot be printed"),
        (lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch(), "UTF-8"),
        (lambda folder: [(folder / name).touch() for name in ("Model", "model")], "same name"),
        (lambda folder: ((folder / "x").touch(), (folder / "x").chmod(0o4755)), "set-id"),
    ],
)
def test_what_a_packed_file_cannot_hold_is_named(root: Path, make: object, words: str) -> None:
    make(root / "train" / "artifacts")  # type: ignore[operator]
    with pytest.raises(UserError, match=words) as caught:
        pack([root])
    assert all(line.isprintable() for line in str(caught.value).splitlines())
    assert sorted(path.name for path in root.parent.iterdir()) == ["root"]


def test_long_runs_of_zeros_are_stored_so_that_no_packed_run_looks_like_a_bomb(root: Path, tmp_path: Path) -> None:
    (root / "train" / "artifacts" / "zeros").write_bytes(bytes(3 << 20))
    _record_again(root / "train")
    packed = pack([root])
    assert packed.stat().st_size > 3 << 20
    unpack(packed, tmp_path / "out")
    assert content(tmp_path / "out" / "root") == content(root)


def test_a_file_or_runs_beyond_two_gib_are_refused_and_leave_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = pack([root])
    size = packed.stat().st_size
    packed.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(zipfile, "ZIP64_LIMIT", size // 2)
        with pytest.raises(UserError, match="the packed file would be larger than 2 GiB"):
            pack([root])
    huge = root / "train" / "artifacts" / "huge"
    huge.touch()
    os.truncate(huge, 2 << 30)
    with pytest.raises(UserError, match="huge is larger than 2 GiB"):
        pack([root])
    assert sorted(path.name for path in root.parent.iterdir()) == ["root"]


def test_nothing_is_replaced_unless_asked(root: Path, tmp_path: Path) -> None:
    packed = pack([root])
    with pytest.raises(ConfigError, match="exists already"):
        pack([root])
    pack([root], force=True)
    with pytest.raises(ConfigError, match="exists already"):
        unpack(packed, root.parent)
    with pytest.raises(ConfigError, match="does not end in"):
        pack([root], tmp_path / "packed")


def test_folders_without_runs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="nothing recorded"):
        pack([tmp_path / "empty"])
    with pytest.raises(ConfigError, match="not a folder"):
        pack([tmp_path / "absent"])


def test_other_archives_are_no_packed_runs(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("weights", b"1")
    assert not is_packed(tmp_path / "model.zip")
    with pytest.raises(UserError, match="not a packed run"):
        unpack(tmp_path / "model.zip", tmp_path / "out")


def test_a_folder_of_training_logs_is_packed_too(tmp_path: Path) -> None:
    logs = tmp_path / "PPO_1"
    logs.mkdir()
    (logs / "progress.csv").write_text("rollout/ep_rew_mean,time/total_timesteps\n1.0,10\n2.0,20\n")
    out = CliRunner().invoke(cli, ["pack", str(logs)], standalone_mode=False)
    assert out.return_value == 0, out.output
    assert "1 file(s)" in out.output
    assert CliRunner().invoke(cli, ["unpack", str(tmp_path / "PPO_1.zip"), "-o", str(tmp_path / "out")]).exit_code == 0
    assert (tmp_path / "out" / "PPO_1" / "progress.csv").read_bytes() == (logs / "progress.csv").read_bytes()


def test_an_interrupted_call_leaves_nothing(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack([root])
    monkeypatch.setattr(shutil, "copyfileobj", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        unpack(packed, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
