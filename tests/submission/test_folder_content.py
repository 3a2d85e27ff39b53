"""Which code a submission is: whatever its participant can read makes another hash, and nothing of it is executed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from a2perf.errors import ConfigError, SubmissionError
from a2perf.records import SubmissionIdentity
from a2perf.runs.bundles.bundle import submission_difference
from a2perf.submission.evaluator.submitted import folder_content
from a2perf.submission.evaluator.submitted.folder_content import bundle_folder, commit_of, identify_submission
from a2perf.submission.given_paths import settled
from tests.commands import run_command


def sha256(folder: Path, root: Path | None = None) -> str:
    return identify_submission(folder, root=root).sha256


PLACES = (
    "inference.py",
    "runs/real.py",
    "venv/lib/x.py",
    ".venv/x.py",
    "node_modules/x/index.js",
    ".git/hooks/x",
    "entry.egg-info/x.py",
    "__pycache__/inference.cpython-311.pyc",
    "inference.pyc",
    ".mypy_cache/x",
    ".hidden",
    "a/b/c/d/e.py",
    "name with spaces\nand lines",
    "attic/x",
    ".lock",
    "manifest.json",
)


@pytest.mark.parametrize("place", PLACES)
def test_other_code_in_any_place_is_another_hash(submission, place: str) -> None:
    folder = submission()
    seen = {sha256(folder)}
    file = folder / place
    file.parent.mkdir(parents=True, exist_ok=True)
    for text in ("code = 1", "code = 2", ""):
        file.write_text(text)
        seen.add(sha256(folder))
    file.chmod(0o755)
    seen.add(sha256(folder))
    file.rename(file.with_name("other"))
    seen.add(sha256(folder))
    assert len(seen) == 6


def test_every_kind_of_entry_counts(submission) -> None:
    folder = submission()
    seen = [sha256(folder)]
    (folder / "x").mkdir()
    seen.append(sha256(folder))
    (folder / "x").rmdir()
    (folder / "x").touch()
    seen.append(sha256(folder))
    for target in ("train.py", "inference.py"):
        (folder / "x").unlink()
        (folder / "x").symlink_to(target)
        seen.append(sha256(folder))
    (folder / os.fsdecode(b"\xff")).touch()
    seen.append(sha256(folder))
    assert len(set(seen)) == len(seen)


def test_moved_bytes_between_names_and_contents_do_not_collide(tmp_path: Path) -> None:
    seen = set()
    for number, files in enumerate(
        ({"a": "b"}, {"ab": ""}, {"a": "", "b": ""}, {"a": "", "b/c": ""}, {"b/a": "", "c": ""})
    ):
        folder = tmp_path / str(number)
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        seen.add(sha256(folder))
    assert len(seen) == 5


def test_copy_has_the_same_hash_whatever_its_times_and_write_permissions(submission, tmp_path: Path) -> None:
    folder = submission()
    shutil.copytree(folder, tmp_path / "copy")
    os.utime(tmp_path / "copy" / "train.py", (1, 1))
    (tmp_path / "copy" / "train.py").chmod(0o600)
    assert sha256(folder) == sha256(tmp_path / "copy")
    (tmp_path / "name").symlink_to(folder)
    assert sha256(folder) == sha256(tmp_path / "name")


def test_only_the_evaluators_own_folder_is_left_out_and_said(submission, tmp_path: Path) -> None:
    folder = submission()
    before = sha256(folder)
    for root in (folder / "runs" / "one", folder / "runs" / "exp" / "entry" / "task" / "seed_0", folder / "runs"):
        (root / "train").mkdir(parents=True, exist_ok=True)
        (root / "train" / "manifest.json").write_text(str(root))
        identity = identify_submission(folder, root=root)
        assert (identity.sha256, identity.not_covered, identity.scheme) == (before, ["runs/"], 2)
    assert sha256(folder) != before
    assert sha256(folder, tmp_path / "elsewhere") != before
    assert bundle_folder(folder, tmp_path / "elsewhere") is None
    with pytest.raises(ConfigError, match="is the submission itself"):
        identify_submission(folder, root=folder)


def test_links_that_lead_out_are_named(submission, tmp_path: Path) -> None:
    folder = submission()
    (folder / "inside").symlink_to("train.py")
    (folder / "program").symlink_to("/usr/bin/env")
    assert identify_submission(folder).not_covered == []
    (tmp_path / "helper.py").touch()
    (folder / "helper.py").symlink_to(tmp_path / "helper.py")
    (folder / "first").symlink_to("second")
    (folder / "second").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    assert identify_submission(folder).not_covered == [
        "first -> second",
        f"helper.py -> {tmp_path / 'helper.py'}",
        "second -> ..",
    ]


UNREADABLE = ["unreadable"] if os.geteuid() != 0 else []  # root reads everything


@pytest.mark.parametrize("odd", ["many", *UNREADABLE])
def test_odd_folder_is_an_error_that_names_the_file(submission, monkeypatch, odd: str) -> None:
    folder = submission()
    if odd == "many":
        monkeypatch.setattr(folder_content, "BOUNDS", folder_content.Bounds(entries=100, bytes=2**30))
        for number in range(100):
            (folder / f"odd{number}").touch()
    else:
        (folder / "odd").touch(mode=0)
    with pytest.raises(SubmissionError, match="odd"):
        identify_submission(folder)


def test_name_that_no_record_can_hold_is_refused(tmp_path: Path) -> None:
    for name in (os.fsdecode(b"entry\xff"), "entry\x1b[31m"):
        (tmp_path / name).mkdir()
        with pytest.raises(SubmissionError, match="rename"):
            identify_submission(tmp_path / name)
        identity = identify_submission(tmp_path)
        assert msgspec.json.decode(msgspec.json.encode(identity), type=SubmissionIdentity) == identity


def test_hash_of_an_earlier_scheme_is_never_taken_for_the_same_code(submission) -> None:
    now = identify_submission(submission())
    earlier = msgspec.convert({"name": "entry", "path": "entry", "sha256": now.sha256}, SubmissionIdentity)
    assert earlier.scheme == 1
    assert "scheme 1, which omits files" in str(submission_difference(earlier, now))
    assert submission_difference(now, now) is None


def git(folder: Path, *words: str) -> str:
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return run_command(["git", *who, *words], folder, check=True, env=own).stdout


@pytest.fixture
def repository(submission) -> Path:
    folder = submission()
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_commit_is_read_from_the_files(repository: Path, packed: bool) -> None:
    commit = git(repository, "rev-parse", "HEAD").strip()
    if packed:
        git(repository, "pack-refs", "--all")
    identity = identify_submission(repository)
    assert (identity.git_commit, identity.git_dirty) == (commit, None)
    (repository / "inner").mkdir()
    assert commit_of(repository / "inner") == commit
    git(repository, "checkout", "-q", "--detach")
    assert commit_of(repository) == commit


def test_no_setting_of_the_repository_runs_anything(repository: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {canary}\n")
    program.chmod(0o755)
    extra = tmp_path / "extra"
    extra.write_text(f'[core]\n\tfsmonitor = {program}\n[filter "x"]\n\tclean = {program}\n\tsmudge = {program}\n')
    for name, value in (
        ("core.fsmonitor", program),
        ("core.hooksPath", tmp_path),
        ("diff.external", program),
        ("include.path", extra),
        ("core.sshCommand", program),
        ("filter.x.clean", program),
        ("core.pager", program),
    ):
        git(repository, "config", name, str(value))
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    (repository / "train.py").write_text("changed = 1\n")
    run_command(["git", "status"], repository)
    assert canary.exists()  # git itself falls for it
    canary.unlink()
    assert identify_submission(repository).git_commit is not None
    assert not canary.exists()


@pytest.mark.parametrize("way", ["gitfile", "linked folder", "linked head", "reference out", "fifo", "nonsense"])
def test_commit_comes_from_nowhere_else(repository: Path, tmp_path: Path, way: str) -> None:
    shutil.copytree(repository / ".git", tmp_path / "other")
    (tmp_path / "secret").write_text("a" * 40)
    inner = repository / ".git"
    head = inner / "HEAD"
    if way in ("gitfile", "linked folder"):
        shutil.rmtree(inner)
        inner.symlink_to(tmp_path / "other") if way == "linked folder" else inner.write_text(
            f"gitdir: {tmp_path}/other\n"
        )
    else:
        head.unlink()
        if way == "linked head":
            head.symlink_to(tmp_path / "secret")
        elif way == "reference out":
            head.write_text("ref: refs/../../../secret\n")
        elif way == "fifo":
            os.mkfifo(head)
        else:
            head.write_bytes(b"\xff" * 100)
    assert commit_of(repository) is None


def test_path_of_the_organizer_may_have_links_and_no_link_of_the_submission(tmp_path: Path) -> None:
    entry = tmp_path / "entry"
    entry.mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "mine").symlink_to("real")
    (tmp_path / "way").symlink_to(entry)
    assert settled(tmp_path / "mine" / "new" / "..", entry, "x") == tmp_path / "real"
    assert settled(entry / "runs", entry, "x") == entry / "runs"
    (entry / "out").symlink_to(tmp_path / "real")
    (entry / "in").symlink_to("runs")
    for given in (
        entry / "out",
        entry / "out" / "x",
        tmp_path / "way" / "out",
        entry / "in",
        entry / "x" / ".." / "out",
    ):
        with pytest.raises(ConfigError, match="a link inside the submission"):
            settled(given, entry, "the root directory")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match="loop"):
        settled(tmp_path / "loop", entry, "x")


def test_declared_weights_are_another_policy_of_the_same_code(submission) -> None:
    folder = submission()
    assert (identify_submission(folder).code_sha256, identify_submission(folder).policy_sha256) == ("", "")
    (folder / "nets").mkdir()
    (folder / "nets" / "actor.bin").write_bytes(b"1")
    (folder / "a2perf.toml").write_text('title = "A"\nweights = ["nets"]\n')
    first = identify_submission(folder)
    (folder / "nets" / "actor.bin").write_bytes(b"2")
    second = identify_submission(folder)
    assert (first.version, first.code_sha256) == (second.version, second.version)
    assert len({first.policy_sha256, second.policy_sha256, first.sha256, second.sha256, first.version}) == 5
    (folder / "nets.py").touch()
    third = identify_submission(folder)
    assert third.version != second.version
    assert third.policy_sha256 == second.policy_sha256


@pytest.mark.parametrize("name", ["net.pt", "", ".", "../net.pt", "/etc"])
def test_weights_outside_of_the_submission_are_refused(submission, name: str) -> None:
    folder = submission()
    (folder / "a2perf.toml").write_text(f'weights = ["{name}"]\n')
    with pytest.raises(SubmissionError, match="names weights that do not exist"):
        identify_submission(folder)
