"""`validate` notices every change of a signed bundle; what a participant leaves in a bundle is never signed."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2perf.cli.bundles import sign as sign_command
from a2perf.cli.bundles import validate as validate_command
from a2perf.cli.results import score as score_command
from a2perf.runs import find_runs, read_run, signing
from a2perf.runs.bundles.bundle import validate, write_manifest
from a2perf.runs.bundles.inventory import find_bundles, read_manifest, record_files
from tests.launch.test_signing import finished, run
from tests.shipped_runs import SHIPPED, unpacked


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, key: Path) -> Path:
    bundle = finished(tmp_path_factory.mktemp("signed") / "root" / "inference", "inference")
    signing.sign(bundle, key)
    return bundle


# --- any single change -----------------------------------------------------------------------------------------------

PLACES = st.integers(0, 10_000)
NAMES = st.one_of(
    st.sampled_from(
        [
            b"extra",
            b".lock",
            b".hidden",
            b"Manifest.json",
            b"SIGNATURE.JSON",
            b"signature.json",
            b"tasks",
            b"attic",
            b"a\nb",
            b"\xff",
            b"\\xff",
            b"\x1b[2J",
            b"rollouts.json",
            b"__pycache__",
            b" ",
            b"...",
        ]
    ),
    st.binary(min_size=1, max_size=20).filter(lambda name: not {0, 47} & set(name) and name not in (b".", b"..")),
)


def _mutate(bundle: Path, kind: str, place: int, name: bytes, number: int) -> bool:
    """Changes one thing; returns False where there is nothing to change in this way."""
    folders = sorted([bundle, *(path for path in bundle.rglob("*") if path.is_dir() and not path.is_symlink())])
    things = sorted(path for path in bundle.rglob("*") if path.name != ".lock" or path.parent != bundle)
    files = [path for path in things if path.is_file() and not path.is_symlink()]
    folder, thing, file = folders[place % len(folders)], things[place % len(things)], files[place % len(files)]
    new = os.fsencode(folder) + b"/" + name
    taken = os.path.lexists(new) or (name == b".lock" and folder == bundle)
    if taken and (kind.startswith("add") or kind == "rename"):
        return False
    if kind == "add file":
        with open(new, "wb") as stream:
            stream.write(b"x" * (number % 3))
    elif kind == "add folder":
        os.mkdir(new)
    elif kind == "add link":
        os.symlink((b"/etc", b"manifest.json", b"nowhere", b".")[number % 4], new)
    elif kind == "add fifo":
        os.mkfifo(new)
    elif kind == "add socket":
        above = os.getcwd()
        os.chdir(folder)
        try:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(name)
        finally:
            os.chdir(above)
    elif kind == "remove":
        shutil.rmtree(thing) if thing.is_dir() and not thing.is_symlink() else thing.unlink()
    elif kind == "rename":
        os.rename(thing, new) if not (folder == thing or thing in folder.parents) else None
        return os.path.lexists(new)
    elif kind == "flip":
        data = bytearray(file.read_bytes())
        if not data:
            return False
        data[number % len(data)] ^= 1 << (number % 8)
        file.write_bytes(data)
    elif kind == "append":
        with file.open("ab") as stream:
            stream.write(b"\n")
    elif kind == "truncate":
        if not file.stat().st_size:
            return False
        os.truncate(file, number % file.stat().st_size)
    elif kind == "mode":
        if thing.is_symlink():
            return False
        changes = (0o4755, 0o2711, 0o777, 0o000, 0o444, 0o1644) if thing.is_file() else (0o4755, 0o1755, 0o777, 0o500)
        before, mode = thing.stat().st_mode & 0o7777, changes[number % len(changes)]
        thing.chmod(mode)
        return mode != before
    elif kind == "file to link":
        shutil.move(file, bundle.parent / "elsewhere")
        file.symlink_to(bundle.parent / "elsewhere")
    elif kind == "folder to link":
        if folder == bundle:
            return False
        shutil.move(folder, bundle.parent / "elsewhere")
        folder.symlink_to(bundle.parent / "elsewhere")
    elif kind == "file to folder":
        file.unlink()
        file.mkdir()
    elif kind == "file to fifo":
        file.unlink()
        os.mkfifo(file)
    elif kind == "link target":
        (link,) = [path for path in things if path.is_symlink()]
        link.unlink()
        link.symlink_to(("/etc/passwd", "weights", "../logs/stdout.log")[number % 3])
    return True


KINDS = (
    "add file",
    "add folder",
    "add link",
    "add fifo",
    "add socket",
    "remove",
    "rename",
    "flip",
    "append",
    "truncate",
    "mode",
    "file to link",
    "folder to link",
    "file to folder",
    "file to fifo",
    "link target",
)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(kind=st.sampled_from(KINDS), place=PLACES, name=NAMES, number=st.integers(0, 2**20))
def test_any_single_mutation_of_a_signed_bundle_is_found(
    tmp_path_factory: pytest.TempPathFactory, signed: Path, key: Path, kind: str, place: int, name: bytes, number: int
) -> None:
    top = tmp_path_factory.mktemp("m")
    bundle = top / "root" / "inference"
    shutil.copytree(signed, bundle, symlinks=True)
    trusted = signing.trusted_keys(key.parent)
    try:
        assert signing.verify(bundle, trusted).problems == []
        if _mutate(bundle, kind, place, name, number):
            problems = signing.verify(bundle, trusted).problems
            assert problems, f"{kind} was not noticed"
            assert all(problem.isprintable() for problem in problems)
    finally:
        os.system(f"chmod -R u+rwx {top}")
        shutil.rmtree(top)


@pytest.mark.parametrize("damaged", [b"{", b"not JSON", b"[]", b'{"statement": {}}', b"\xff\xfe"])
def test_a_damaged_signature_is_one_line_of_the_verdict(signed: Path, tmp_path: Path, damaged: bytes) -> None:
    bundle = tmp_path / "inference"
    shutil.copytree(signed, bundle, symlinks=True)
    (bundle / "signature.json").write_bytes(damaged)
    problems = signing.verify(bundle, None).problems
    assert len(problems) == 1
    assert problems[0].isprintable()
    assert "signature.json" in problems[0]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_change_fails_validate(tmp_path: Path, signed: Path, key: Path, kind: str, noted) -> None:
    bundle = tmp_path / "root" / "inference"
    shutil.copytree(signed, bundle, symlinks=True)
    assert any(_mutate(bundle, kind, place, b"new", 1) for place in range(5, 50))
    status, said = run(validate_command, str(tmp_path / "root"), "--signed-by", str(key.parent))
    assert (status, "INVALID" in said, "SIGNED" in said) == (1, True, False)
    noted("a signed bundle is changed: content, names, modes, types, links, fifos", "verify names it")


# --- bundles from before the inventory -------------------------------------------------------------------------------


def test_every_recorded_bundle_validates_and_any_addition_to_one_does_not(tmp_path: Path) -> None:
    packed = find_bundles(SHIPPED)
    assert len(packed) >= 103
    assert [str(bundle) for bundle in packed if validate(bundle)] == []
    bundles = find_bundles(unpacked("circuit_training/minimal", tmp_path))
    assert [str(bundle) for bundle in bundles if validate(bundle)] == []
    additions: dict[str, Callable[[Path], object]] = {
        "file": lambda path: (path / "metrics" / "x").touch(),
        "lock": lambda path: (path / "metrics" / ".lock").touch(),
        "folder": lambda path: (path / "metrics" / "tasks").mkdir(),
        "top folder": lambda path: (path / "x").mkdir(),
        "link": lambda path: (path / "metrics" / "tasks").symlink_to(tmp_path),
        "top link": lambda path: (path / "artifacts").symlink_to(tmp_path),
        "fifo": lambda path: os.mkfifo(path / "metrics" / "x"),
        "set-id": lambda path: (path / "metrics" / "latency.json").chmod(0o4644),
        "full lock": lambda path: (path / ".lock").write_text("payload"),
    }
    for name, add in additions.items():
        copy = tmp_path / name / bundles[0].name
        shutil.copytree(bundles[0], copy)
        assert validate(copy) == []
        add(copy)
        assert validate(copy), name


def test_a_manifest_that_lost_its_checksum_is_not_valid(signed: Path, tmp_path: Path) -> None:
    for bundle in (signed, find_bundles(unpacked("learning/minimal", tmp_path / "shipped"))[0]):
        copy = tmp_path / bundle.parent.name / bundle.name
        shutil.copytree(bundle, copy, symlinks=True)
        data = json.loads((copy / "manifest.json").read_text())
        (copy / "manifest.json").write_text(json.dumps({**data, "checksum": None, "root_seed": 1}))
        assert validate(copy) == ["manifest.json has no checksum: it was changed after the run"]


# --- what is a bundle ------------------------------------------------------------------------------------------------


def _cup(tmp_path: Path) -> tuple[Path, list[Path]]:
    """Returns the folder of three entrants, and their bundles."""
    runs = tmp_path / "runs"
    real = [finished(runs / name / "t" / "seed_0" / "train", "train") for name in ("eve", "mallory", "zoe")]
    return runs, real


def test_what_a_participant_leaves_is_never_taken_for_a_bundle(tmp_path: Path, key: Path, noted) -> None:
    forged = finished(tmp_path / "forged" / "inference", "inference")
    runs, real = _cup(tmp_path)
    for bundle in real:
        for place in ("artifacts/inference", "artifacts/manifests", "logs/train", "artifacts/a/attic/inference"):
            shutil.copytree(forged, bundle / place, symlinks=True)
        (bundle / "artifacts" / "manifest.json").write_text("{}")
        manifest = read_manifest(bundle)  # as if it had been there when the run ended
        record_files(bundle, manifest)
        write_manifest(bundle, manifest)
    assert find_bundles(runs) == real
    assert [folder.path for folder in find_runs([runs])] == real
    status, said = run(sign_command, str(runs), "--key", str(key))
    assert (status, said.count("signed, manifest")) == (0, 3)
    assert len(list(runs.rglob("signature.json"))) == 3
    assert run(validate_command, str(runs), "--signed-by", str(key.parent))[1].count("SIGNED by organizer") == 3
    shutil.copytree(real[1] / "artifacts" / "inference", tmp_path / "stolen", symlinks=True)
    assert run(validate_command, str(tmp_path / "stolen"), "--signed-by", str(key.parent))[0] == 1
    noted("a forged bundle among the artifacts", "not found, scored or signed")


def test_a_broken_manifest_stops_nobody_else(tmp_path: Path, key: Path, noted) -> None:
    runs, (eve, mallory, zoe) = _cup(tmp_path)
    (eve / "manifest.json").write_text("{}")
    (mallory / "manifest.json").unlink()
    os.mkfifo(mallory / "manifest.json")
    odd = finished(runs / "attic" / "t" / "seed_0" / "train", "train")  # an entrant of this name is not hidden by it
    done = CliRunner().invoke(sign_command, [str(runs), "--key", str(key)], standalone_mode=False)
    assert done.return_value == 1
    assert done.output.count("NOT SIGNED") == 2
    assert (zoe / "signature.json").exists()
    assert (odd / "signature.json").exists()
    assert not (eve / "signature.json").exists()
    status, said = run(validate_command, str(runs), "--signed-by", str(key.parent))
    assert (status, said.count("INVALID"), said.count("SIGNED by organizer")) == (1, 2, 2)
    status, said = run(validate_command, str(runs))
    assert (status, said.count("INVALID"), said.count("SUCCESS")) == (1, 2, 2)
    noted("a broken manifest, a fifo in its place", "named; all others are signed and verified")


def test_names_with_control_characters_are_shown_escaped(tmp_path: Path, key: Path) -> None:
    finished(tmp_path / "\x1b[2Jroot" / "train", "train")
    done = CliRunner().invoke(sign_command, [str(tmp_path), "--key", str(key)], standalone_mode=False)
    assert "\x1b" not in done.output
    assert "\\x1b[2Jroot" in done.output


# --- readers ---------------------------------------------------------------------------------------------------------


def test_readers_mark_a_changed_bundle_and_take_nothing_from_a_link(tmp_path: Path, noted) -> None:
    shipped = unpacked("circuit_training/annealing_placer", tmp_path / "shipped")
    original = next(bundle for bundle in find_bundles(shipped) if bundle.name == "inference")
    bundle = tmp_path / "runs" / "inference"
    shutil.copytree(original, bundle)
    (folder,) = find_runs([bundle])
    before = read_run(folder)
    assert not [condition for condition in before.conditions if "was changed" in condition]
    forged = json.loads((bundle / "metrics" / "rollouts.json").read_text())
    for episode in forged["episodes"]:
        episode["episode_return"] = 590.0
    (tmp_path / "forged" / "zz").mkdir(parents=True)
    (tmp_path / "forged" / "zz" / "rollouts.json").write_text(json.dumps(forged))
    (bundle / "metrics" / "tasks").symlink_to(tmp_path / "forged")
    linked = read_run(folder)
    assert {task: list(values) for task, values in linked.returns["inference"].items()} == {
        task: list(values) for task, values in before.returns["inference"].items()
    }
    assert any("metrics/tasks: a link that is not in the manifest" in condition for condition in linked.conditions)
    (bundle / "metrics" / "tasks").unlink()
    shutil.copytree(tmp_path / "forged", bundle / "metrics" / "tasks")
    added = read_run(folder)
    assert set(added.returns["inference"]) == set(before.returns["inference"])
    assert any("is not in the manifest" in condition for condition in added.conditions)
    shutil.rmtree(bundle / "metrics" / "tasks")
    (bundle / "metrics" / "rollouts.json").write_text(json.dumps(forged))
    assert any(
        "metrics/rollouts.json was changed after the run" in condition for condition in read_run(folder).conditions
    )
    said = run(score_command, str(tmp_path / "runs"), "-o", str(tmp_path / "out"))[1]
    assert "metrics/rollouts.json was changed after the run" in said
    noted("results forged through a link or in place", "not read through the link; the run is marked")
