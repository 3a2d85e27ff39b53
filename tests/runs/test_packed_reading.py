"""Every command reads a packed file where it reads a folder, with the same numbers, labels, hashes and signatures."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import a2perf
from a2perf.cli import cli
from a2perf.errors import UserError
from a2perf.metrics.submitted import submitted_of
from a2perf.runs import find_runs, read_run, signing
from a2perf.runs.bundles.files import files_of, kind_at, names_at
from a2perf.runs.bundles.inventory import find_bundles
from a2perf.runs.pack import pack
from a2perf.runs.packed.packed_archive import on_disk, unpack
from a2perf.stranger_files import Kind
from tests.shipped_runs import SHIPPED, unpacked

RIVALS = ("learning/minimal", "learning/numpy_ars")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two submissions as folders."""
    top = tmp_path_factory.mktemp("folder") / "runs"
    for name in RIVALS:
        unpacked(name, top)
    return top


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, packed one by one."""
    top = tmp_path_factory.mktemp("packed") / "runs"
    top.mkdir()
    for name in RIVALS:
        shutil.copy(SHIPPED / f"{name}.zip", top)
    return top


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    """The same, packed together."""
    return pack([folder], tmp_path_factory.mktemp("one") / "any name.zip")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, one as a folder and one packed."""
    top = tmp_path_factory.mktemp("mixed") / "runs"
    unpacked(RIVALS[0], top)
    shutil.copy(SHIPPED / f"{RIVALS[1]}.zip", top)
    return top


FORMS = ("packed", "one_file", "mixed")


def call(*arguments: object) -> Result:
    found = CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)
    assert found.exception is None, (arguments, found.exception)
    return found


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", FORMS)
def test_runs_are_found_under_the_same_names(form: str, folder: Path, request: pytest.FixtureRequest) -> None:
    expected, found = find_runs([folder]), find_runs([request.getfixturevalue(form)])
    assert [(run.layout, run.label, run.root) for run in found] == [
        (run.layout, run.label, run.root) for run in expected
    ]
    for one, other in zip(found, expected, strict=True):
        assert read_run(one).conditions == read_run(other).conditions


@pytest.mark.parametrize("form", FORMS)
def test_scores_are_the_same_bytes(form: str, folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    given = request.getfixturevalue(form)
    for path, out in ((folder, "a"), (given, "b"), (given, "c")):  # the last from the cache
        call("score", path, "-o", tmp_path / out)
    scores = [(tmp_path / name / "scores.json").read_bytes() for name in "abc"]
    assert scores[0] == scores[1] == scores[2]


def test_leaderboard_and_report_are_the_same_bytes(folder: Path, packed: Path, tmp_path: Path) -> None:
    for path, name in ((folder, "folder"), (packed, "packed")):
        call("leaderboard", path, "-o", tmp_path / name / "site", "--no-reports")
        call("report", path, "-o", tmp_path / name / "report")
    expected = files_below(tmp_path / "folder")
    assert expected == files_below(tmp_path / "packed")
    assert {"site/leaderboard.json", "report/index.html"} <= set(expected)


def test_comparisons_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder, packed = tmp_path / "folder", tmp_path / "packed"
    packed.mkdir()
    for name in ("circuit_training/minimal", "circuit_training/greedy_placer"):
        unpacked(name, folder)
        shutil.copy(SHIPPED / f"{name}.zip", packed)
    documents = []
    for store in (folder, packed):
        found = a2perf.compare(store, baseline="minimal", candidate="greedy_placer", mode="inference")
        found.write("compared", figures=False, page=False)
        documents.append(json.loads((tmp_path / "compared.json").read_text()))
    for document in documents:
        document["provenance"] = document["made_at"] = None
    text = json.dumps(documents[0]).replace(str(folder), "STORE")
    assert text == json.dumps(documents[1]).replace(str(packed), "STORE")
    assert documents[0]["candidates"]


def test_tags_of_a_packed_store_are_read(folder: Path, packed: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(folder, store)
    call("rlops", "tags", "add", "best", "--store", store, "--filters", "numpy_ars", "--yes")
    (file := pack([store])).rename(tmp_path / "elsewhere.zip")
    assert not file.exists()
    shutil.rmtree(store)
    assert "best" in call("rlops", "tags", "list", "--store", tmp_path / "elsewhere.zip").output


def test_validate_names_each_bundle(packed: Path) -> None:
    done = call("validate", packed)
    assert done.return_value == 0
    assert f"{packed / 'minimal.zip' / 'minimal'}" in done.output
    assert done.output.count("SUCCESS") == len(find_bundles(packed))
    inside = find_bundles(packed)[0]
    assert call("validate", inside).output == f"{inside}: SUCCESS\n"


def test_protocol_records_are_found_above_packed_runs(packed: Path, folder: Path) -> None:
    for one, other in zip(find_bundles(packed), find_bundles(folder), strict=True):
        assert submitted_of(one) == submitted_of(other) is not None


def test_signatures_stay_valid_and_a_packed_run_is_never_changed(tmp_path: Path) -> None:
    key = tmp_path / "keys" / "organizer"
    signing.new_key(key)
    root = unpacked("learning/minimal", tmp_path)
    bundle = find_bundles(root)[0]
    signing.sign(bundle, key)
    packed = pack([root])
    inside = find_bundles(packed)[0]
    keys = signing.trusted_keys(key.parent)
    assert signing.verify(inside, keys) == signing.verify(bundle, keys)
    before = packed.read_bytes()
    with pytest.raises(UserError, match="packed files are never changed"):
        signing.sign(inside, key)
    done = CliRunner().invoke(cli, ["sign", str(packed), "--key", str(key)], standalone_mode=False)
    assert done.return_value == 1
    assert packed.read_bytes() == before


def test_damage_is_named_and_nothing_of_the_file_is_read(packed: Path, tmp_path: Path) -> None:
    data = bytearray((packed / "numpy_ars.zip").read_bytes())
    at = data.index(b"numpy_ars/synthetic_trot_v1/seed_1/train/artifacts/progress.csv")
    data[at + 100] ^= 0xFF
    (tmp_path / "damaged.zip").write_bytes(data)
    for command in ("validate", "score"):
        done = CliRunner().invoke(cli, [command, str(tmp_path / "damaged.zip")], standalone_mode=False)
        assert isinstance(done.exception, UserError)
        assert "damaged.zip is damaged" in str(done.exception)
    with pytest.raises(UserError, match="damaged"):
        unpack(tmp_path / "damaged.zip", tmp_path / "out")


def test_a_packed_file_is_unpacked_once(packed: Path) -> None:
    folder = on_disk(packed / "minimal.zip")
    before = folder.stat().st_ino
    assert on_disk(packed / "minimal.zip" / "minimal") == folder / "minimal"
    assert folder.stat().st_ino == before
    week_ago = time.time() - 7 * 86_400
    os.utime(folder, (week_ago, week_ago))
    assert on_disk(packed / "minimal.zip").stat().st_mtime > week_ago + 86_400
    month_ago = time.time() - 40 * 86_400
    os.utime(folder, (month_ago, month_ago))
    shutil.copy(packed / "numpy_ars.zip", copy := packed.with_name("another.zip"))
    on_disk(copy)
    assert not folder.exists()


def test_files_in_a_packed_run_are_opened_by_name(packed: Path) -> None:
    bundle = find_bundles(packed / "numpy_ars.zip")[1]
    files = files_of(bundle)  # as of a folder: tests/runs/test_run_files.py
    manifest = files.read("manifest.json", 1 << 20)
    with files.open("manifest.json") as stream:
        stream.seek(5)
        assert stream.read() == manifest[5:]
    assert names_at(bundle) == sorted(names_at(bundle))
    assert "manifest.json" in names_at(bundle)
    assert kind_at(bundle / "manifest.json") is Kind.FILE
    assert kind_at(bundle / "absent") is None


def test_a_replaced_file_is_read_again(packed: Path, tmp_path: Path) -> None:
    place = tmp_path / "runs.zip"
    shutil.copy(packed / "minimal.zip", place)
    before = {run.label for run in find_runs([place])}
    shutil.copy(packed / "numpy_ars.zip", tmp_path / "new.zip")
    (tmp_path / "new.zip").replace(place)
    assert {run.label for run in find_runs([place])} != before


def test_other_archives_in_a_folder_of_runs_are_passed_over(folder: Path, tmp_path: Path) -> None:
    top = tmp_path / "runs"
    shutil.copytree(folder, top)
    (top / "model.zip").write_bytes(b"PK\x03\x04 something else")
    (top / "broken.zip").symlink_to("nowhere")
    (top / "linked.zip").symlink_to(SHIPPED / "learning" / "minimal.zip")
    assert [run.label for run in find_runs([top])] == [run.label for run in find_runs([folder])]
