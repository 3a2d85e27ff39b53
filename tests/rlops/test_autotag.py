"""Versions of code in real repositories: tags, none, dirty trees, shallow clones, CI variables, no git at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from a2perf.experiments.autotag import autotag, joined_tags
from tests.commands import run_command
from tests.rlops.conftest import Host

IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b.c",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b.c",
}


def git(folder: Path, *words: str) -> str:
    done = run_command(
        ["git", "-C", str(folder), "-c", "protocol.file.allow=always", *words],
        check=True,
        env={**os.environ, **IDENTITY},
    )
    return done.stdout.strip()


@pytest.fixture
def repository_of_two(tmp_path: Path) -> Path:
    """Two commits, the first of which is tagged."""
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "train.py").write_text("print(1)\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "v1.0.0b2")
    (folder / "train.py").write_text("print(2)\n")
    git(folder, "commit", "-qam", "two")
    return folder


def test_tag_is_what_git_describes(repository_of_two: Path) -> None:
    record = autotag(repository_of_two, {})
    short = git(repository_of_two, "rev-parse", "--short", "HEAD")
    assert record.tag == record.describe == f"v1.0.0b2-1-g{short}"
    assert record.sha == git(repository_of_two, "rev-parse", "HEAD")
    assert (record.dirty, record.diff_sha256, record.branch) == (False, None, "main")
    assert (record.pull_request, record.source) == (None, "")


def test_without_tags_the_number_of_commits_is_said(repository_of_two: Path) -> None:
    git(repository_of_two, "tag", "-d", "v1.0.0b2")
    short = git(repository_of_two, "rev-parse", "--short", "HEAD")
    assert autotag(repository_of_two, {}).tag == f"no-tag-2-g{short}"


def test_shallow_clone_has_a_tag_too(repository_of_two: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository_of_two}", "shallow")
    short = git(repository_of_two, "rev-parse", "--short", "HEAD")
    assert autotag(tmp_path / "shallow", {}).tag == f"no-tag-1-g{short}"


def test_uncommitted_code_is_never_tagged_as_its_commit(repository_of_two: Path) -> None:
    clean = autotag(repository_of_two, {}).tag
    (repository_of_two / "train.py").write_text("print(3)\n")
    changed = autotag(repository_of_two, {})
    assert changed.dirty
    assert changed.diff_sha256 is not None
    assert changed.tag == f"{clean}-dirty-{changed.diff_sha256[:8]}"
    assert changed.describe == clean
    assert autotag(repository_of_two, {}).tag == changed.tag
    (repository_of_two / "train.py").write_text("print(4)\n")
    assert autotag(repository_of_two, {}).tag not in (clean, changed.tag)
    git(repository_of_two, "add", "-A")  # staged is uncommitted as well
    assert autotag(repository_of_two, {}).dirty


def test_untracked_files_are_changes_and_outputs_are_none(repository_of_two: Path) -> None:
    clean = autotag(repository_of_two, {}).tag
    for name in ("runs/a/events", "wandb/x", "sub/videos/v.mp4", "store/ppo/rlops.json", "__pycache__/a.pyc"):
        path = repository_of_two / name
        path.parent.mkdir(parents=True)
        path.write_text("x")
    assert autotag(repository_of_two, {}, outputs=[repository_of_two / "store"]).tag == clean
    (repository_of_two / "new.py").write_text("one")
    first = autotag(repository_of_two, {}, outputs=[repository_of_two / "store"])
    assert first.dirty
    (repository_of_two / "new.py").write_text("two")
    assert autotag(repository_of_two, {}, outputs=[repository_of_two / "store"]).tag != first.tag


def test_changes_above_the_folder_count(repository_of_two: Path) -> None:
    inner = repository_of_two / "inner"
    inner.mkdir()
    (inner / "a.py").write_text("a")
    git(repository_of_two, "add", "-A")
    git(repository_of_two, "commit", "-qm", "three")
    assert not autotag(inner, {}).dirty
    (repository_of_two / "train.py").write_text("print(9)\n")
    assert autotag(inner, {}).dirty


def test_outside_version_control_the_content_is_the_version(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "runs").mkdir()
    first = autotag(tmp_path, {})
    assert first.tag.startswith("no-git-")
    assert len(first.tag) == len("no-git-") + 12
    assert first.sha is None
    (tmp_path / "runs" / "log.json").write_text("1")
    assert autotag(tmp_path, {}).tag == first.tag
    (tmp_path / "train.py").write_text("print(2)\n")
    assert autotag(tmp_path, {}).tag != first.tag


def test_repository_without_a_commit_counts_as_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "train.py").write_text("print(1)\n")
    assert autotag(tmp_path, {}).tag.startswith("no-git-")


@pytest.mark.parametrize(
    ("environment", "pull_request"),
    [
        ({"GITHUB_REF": "refs/pull/308/merge"}, "pr-308"),
        ({"GITHUB_REF": "refs/heads/main"}, None),
        ({"CI_MERGE_REQUEST_IID": "12"}, "pr-12"),
        ({"CIRCLE_PULL_REQUEST": "https://example.org/a/b/pull/5"}, "pr-5"),
        ({"BUILDKITE_PULL_REQUEST": "false"}, None),
        ({}, None),
    ],
)
def test_pull_request_comes_from_the_variables_of_the_ci(
    repository_of_two: Path, environment: dict[str, str], pull_request: str | None
) -> None:
    record = autotag(repository_of_two, environment)
    assert record.pull_request == pull_request
    assert record.source == (next(iter(environment)) if pull_request else "")


def test_network_is_asked_only_when_told_to(repository_of_two: Path, host: Host) -> None:
    git(repository_of_two, "remote", "add", "origin", "git@example.org:team/code.git")
    assert autotag(repository_of_two, {}, api=host.address).pull_request is None
    assert host.asked == []
    record = autotag(repository_of_two, {}, look_up=True, api=host.address)
    assert (record.pull_request, record.source) == ("pr-308", "network")
    assert host.asked == [f"/repos/team/code/commits/{record.sha}/pulls"]
    named = autotag(repository_of_two, {"GITHUB_REF": "refs/pull/9/head"}, look_up=True, api=host.address)
    assert named.pull_request == "pr-9"
    assert len(host.asked) == 1


@pytest.mark.parametrize("answer", [[], {"message": "rate limit"}, ["x"], [{"number": None}]])
def test_answer_without_a_pull_request_is_none(repository_of_two: Path, host: Host, answer: object) -> None:
    git(repository_of_two, "remote", "add", "origin", "https://example.org/team/code")
    host.answer = answer
    assert autotag(repository_of_two, {}, look_up=True, api=host.address).pull_request is None
    assert len(host.asked) == 1


def test_host_that_does_not_answer_is_not_waited_for(repository_of_two: Path, host: Host) -> None:
    git(repository_of_two, "remote", "add", "origin", "https://example.org/team/code")
    host.delay_s = 20.0
    assert autotag(repository_of_two, {}, look_up=True, api=host.address, timeout_s=0.2).pull_request is None
    assert autotag(repository_of_two, {}, look_up=True, api="http://127.0.0.1:9", timeout_s=0.2).pull_request is None


def test_tags_join_those_that_were_there(repository_of_two: Path) -> None:
    record = autotag(repository_of_two, {"CI_MERGE_REQUEST_IID": "12"})
    assert joined_tags(None, record) == f"{record.tag},pr-12"
    assert joined_tags("mine, other", record) == f"mine,other,{record.tag},pr-12"
    assert joined_tags(f"{record.tag}", record) == f"{record.tag},pr-12"
    assert joined_tags("mine", None) == "mine"
    assert joined_tags(None, None) == ""
