"""The version of the code that is about to run, as a tag: from git, from variables of the CI, or from the files.

The tag is the output of ``git describe --tags``, ``v1.0.0b2-9-g4605546``; without tags, as in a shallow clone,
``no-tag-<number of commits>-g<short sha>``; outside version control ``no-git-<hash of the code>``. Uncommitted changes
and untracked files add ``-dirty-<hash of them>`` to distinguish them from the commit. Folders that runs write into do
not count as changes. git is never run in a submission: its tag consists of its commit and the hash of its files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from a2perf.records import SubmissionIdentity
from a2perf.runs.bundles.run_record import AutotagRecord

TAGS_VARIABLE = "WANDB_TAGS"
API = "https://api.github.com"
_GIT_TIMEOUT_S = 30.0
_SHORT = 8
_OUTPUT_FOLDERS = ("runs", "wandb", "videos", "slurm", "mlruns", "logs", "outputs")
_NOT_CODE = {*_OUTPUT_FOLDERS, "__pycache__", "node_modules", "venv", "site-packages"}
_CODE_SUFFIXES = {
    ".py",
    ".pyx",
    ".ipynb",
    ".gin",
    ".yaml",
    ".yml",
    ".toml",
    ".cfg",
    ".ini",
    ".json",
    ".sh",
    ".txt",
    ".md",
    ".c",
    ".h",
    ".cc",
    ".cpp",
    ".hpp",
    ".cu",
    ".rs",
    ".xml",
    ".urdf",
}
_MOST_FILES = 20_000
_LARGEST_FILE_BYTES = 8 << 20
# variable -> pattern of its value; the number is the first group
_CI_VARIABLES = {
    "GITHUB_REF": r"refs/pull/(\d+)/",
    "CI_MERGE_REQUEST_IID": r"(\d+)$",
    "CHANGE_ID": r"(\d+)$",
    "BITBUCKET_PR_ID": r"(\d+)$",
    "BUILDKITE_PULL_REQUEST": r"(\d+)$",
    "CIRCLE_PULL_REQUEST": r".*/(\d+)$",
}


def autotag(
    folder: Path,
    environment: Mapping[str, str],
    *,
    outputs: Sequence[Path] = (),
    look_up: bool = False,
    api: str = API,
    timeout_s: float = 5.0,
) -> AutotagRecord:
    """Returns the version of the code in a folder. Never fails: unknown parts are left out.

    Args:
        environment: variables in which a CI names the pull request.
        outputs: folders that runs write into, in addition to the usual ones; they do not count as changes.
        look_up: ask the code's host for the pull request of the commit, over the network.
    """
    sha = git(folder, "rev-parse", "HEAD")
    if sha is None:
        described = f"no-git-{content_hash(folder, outputs=outputs)[:12]}"
        return AutotagRecord(tag=described, describe=described)
    described = git(folder, "describe", "--tags") or ""
    if not described:
        count, short = git(folder, "rev-list", "--count", "HEAD"), git(folder, "rev-parse", "--short", "HEAD")
        described = f"no-tag-{count}-g{short}"
    changes = _changes(folder, outputs)
    branch = git(folder, "symbolic-ref", "--short", "-q", "HEAD") or environment.get("GITHUB_HEAD_REF") or None
    pull_request, source = pull_request_of(environment)
    if pull_request is None and look_up:
        pull_request = look_up_pull_request(folder, sha, api=api, timeout_s=timeout_s)
        source = "network" if pull_request is not None else ""
    return AutotagRecord(
        tag=described if changes is None else f"{described}-dirty-{changes[:_SHORT]}",
        describe=described,
        sha=sha,
        dirty=changes is not None,
        diff_sha256=changes,
        branch=branch,
        pull_request=pull_request,
        source=source,
    )


def submission_tag(identity: SubmissionIdentity, environment: Mapping[str, str]) -> AutotagRecord:
    """Returns the version of a submission: the commit that its folder claims, and the hash of its files.

    ``git`` is not run, because the settings of a stranger's repository can make it execute programs.
    """
    commit, content = identity.git_commit, identity.sha256
    tag = f"no-git-{content[:12]}" if commit is None else f"{commit[:_SHORT]}-{content[:_SHORT]}"
    pull_request, source = pull_request_of(environment)
    return AutotagRecord(tag=tag, describe=tag, sha=commit, pull_request=pull_request, source=source)


def joined_tags(existing: str | None, record: AutotagRecord | None) -> str:
    """Returns the value of ``WANDB_TAGS``: its former value, then the version and the pull request."""
    tags = [tag.strip() for tag in (existing or "").split(",") if tag.strip()]
    if record is not None:
        tags += [tag for tag in (record.tag, record.pull_request) if tag]
    return ",".join(dict.fromkeys(tags))


def pull_request_of(environment: Mapping[str, str]) -> tuple[str | None, str]:
    """Returns ``pr-<n>`` and the variable that contains it, or ``(None, "")``."""
    for variable, pattern in _CI_VARIABLES.items():
        found = re.match(pattern, environment.get(variable, ""))
        if found is not None:
            return f"pr-{found[1]}", variable
    return None, ""


def look_up_pull_request(folder: Path, sha: str, *, api: str = API, timeout_s: float = 5.0) -> str | None:
    """Asks the code's host for the pull request that contains a commit; None without an answer in time."""
    remote = git(folder, "remote", "get-url", "origin") or ""
    repository = re.search(r"[:/]([\w.\-]+/[\w.\-]+?)(?:\.git)?/?$", remote)
    if repository is None or (api == API and "github.com" not in remote):
        return None
    request = urllib.request.Request(
        f"{api.rstrip('/')}/repos/{repository[1]}/commits/{sha}/pulls",
        headers={"Accept": "application/vnd.github+json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            answer = json.loads(response.read(1 << 20))
    except (urllib.error.URLError, OSError, ValueError):
        return None
    numbers = [entry.get("number") for entry in answer if isinstance(entry, dict)] if isinstance(answer, list) else []
    return f"pr-{numbers[0]}" if numbers and isinstance(numbers[0], int) else None


def content_hash(folder: Path, *, outputs: Sequence[Path] = ()) -> str:
    """Returns a SHA-256 over the names and bytes of the code below a folder; large files and outputs are left out."""
    digest = hashlib.sha256()
    excluded = {path.resolve() for path in outputs}
    for count, path in enumerate(_code_files(folder, excluded)):
        if count >= _MOST_FILES:
            break
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _code_files(folder: Path, excluded: set[Path]) -> Iterator[Path]:
    for top, names, files in os.walk(folder):
        names[:] = sorted(
            name
            for name in names
            if name not in _NOT_CODE
            and not name.startswith(".")
            and not name.endswith(".egg-info")
            and Path(top, name).resolve() not in excluded
        )
        for name in sorted(files):
            path = Path(top, name)
            if path.suffix in _CODE_SUFFIXES and not path.is_symlink() and path.stat().st_size <= _LARGEST_FILE_BYTES:
                yield path


def _changes(folder: Path, outputs: Sequence[Path]) -> str | None:
    """Returns a hash over the uncommitted changes and the untracked files of the whole repository; None without any."""
    top = git(folder, "rev-parse", "--show-toplevel")
    if top is None:
        return None
    excluded = [f":(exclude,top,glob)**/{name}/**" for name in (*_OUTPUT_FOLDERS, "__pycache__")]
    for output in outputs:
        if output.resolve().is_relative_to(Path(top).resolve()):
            excluded.append(f":(exclude,top){output.resolve().relative_to(Path(top).resolve()).as_posix()}")
    everything = ("--", ":(top)", *excluded)
    difference = _git_bytes(folder, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", *everything) or b""
    listed = _git_bytes(folder, "ls-files", "--others", "--exclude-standard", "--full-name", "-z", *everything) or b""
    untracked = sorted(name for name in listed.split(b"\0") if name)
    if not difference and not untracked:
        return None
    digest = hashlib.sha256(difference)
    for name in untracked:
        path = Path(top, os.fsdecode(name))
        digest.update(b"\0" + name + b"\0")
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def git(folder: Path, *arguments: str) -> str | None:
    """Returns the output of a git command as text; None if it failed or git is not installed."""
    output = _git_bytes(folder, *arguments)
    return None if output is None else output.decode("utf-8", "replace").strip()


def _git_bytes(folder: Path, *arguments: str) -> bytes | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
