"""An archive of results that strangers confirm: packed runs and verdicts in a git repository, in a chain of hashes.

================  ===========================================================================================
``chain.jsonl``   one row per file, each with the hash of the row before
``packs``         packed runs
``submissions``   what they ran; a repetition refuses files with another hash than the recorded one
``verdicts``      signed verdicts of repetitions
================  ===========================================================================================

Anybody can append, so the chain shows later changes, and a reader trusts the verdicts of known keys only.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import a2perf
from a2perf.errors import MissingDependency, UserError
from a2perf.records import Record
from a2perf.runs import signing
from a2perf.runs.bundles.layout import REPRODUCTION_SUFFIX
from a2perf.runs.pack import pack
from a2perf.runs.reproduction import read_reproduction, signer, write_reproduction
from a2perf.storage import sha256_of
from a2perf.stranger_files import printable

if TYPE_CHECKING:
    from a2perf.api.reproducing import Reproduced

CHAIN, PACKS, SUBMISSIONS, VERDICTS = "chain.jsonl", "packs", "submissions", "verdicts"


class Row(Record, kw_only=True, forbid_unknown_fields=True):
    """One line of ``chain.jsonl``.

    Attributes:
        previous: SHA-256 of the line before, without its end; empty in the first one.
        path: file below the archive.
        sha256: of its content.
        at: time in UTC, ISO 8601, as the one who appended it says.
        text: what it is, in words.
    """

    previous: str
    path: str
    sha256: str
    at: str
    text: str


def read_chain(archive: Path) -> tuple[list[Row], dict[str, str]]:
    """Returns the sound rows, and what is wrong by path.

    Raises:
        UserError: the folder is not an archive, or a line of the chain does not follow from the one before.
    """
    if not (archive / CHAIN).is_file():
        raise UserError(f"{archive} has no {CHAIN}", hint="`a2perf host archive ARCHIVE RUN...` begins one")
    rows: list[Row] = []
    problems: dict[str, str] = {}
    head = ""
    for number, line in enumerate((archive / CHAIN).read_bytes().splitlines(), 1):
        try:
            row = msgspec.json.decode(line, type=Row)
        except msgspec.DecodeError as error:
            raise UserError(f"{archive / CHAIN}, line {number}: {printable(str(error))}") from error
        if row.previous != head:
            raise UserError(f"{archive / CHAIN}, line {number}: the line before was changed, added or removed")
        head = hashlib.sha256(line).hexdigest()
        file = archive / row.path
        inside = file.parent in (archive / PACKS, archive / VERDICTS) and not file.is_symlink()
        if not inside or not file.is_file():
            problems[printable(row.path)] = "is missing"
        elif sha256_of(file) != row.sha256:
            problems[row.path] = "was changed after it was archived"
        else:
            rows.append(row)
    return rows, problems


def heads(archive: Path) -> list[str]:
    """Returns the hash of each line of the chain, after ``""`` for none."""
    chain = archive / CHAIN
    lines = chain.read_bytes().splitlines() if chain.exists() else []
    return ["", *(hashlib.sha256(line).hexdigest() for line in lines)]


def add(archive: Path, runs: Sequence[Path], submissions: Sequence[Path]) -> list[Row]:
    """Packs runs into the archive, which is created if needed; returns the new rows.

    Raises:
        UserError: a run has not finished, or the archive is damaged.
    """
    archive.mkdir(parents=True, exist_ok=True)
    if not (archive / ".git").exists():
        git(archive, "init", "--quiet")
    known = {row.sha256 for row in read_chain(archive)[0]} if (archive / CHAIN).exists() else set()
    for folder in submissions:
        shutil.copytree(folder, archive / SUBMISSIONS / folder.resolve().name, dirs_exist_ok=True)
    added = []
    for run in runs:
        with tempfile.TemporaryDirectory(dir=archive / ".git") as work:
            packed = pack([run], Path(work) / "run.zip")
            digest = sha256_of(packed)
            if digest in known:
                continue
            place = archive / PACKS / f"{run.resolve().name}-{digest[:12]}.zip"
            place.parent.mkdir(exist_ok=True)
            os.replace(packed, place)
        added.append(_append(archive, place, f"runs of {run.resolve().name}"))
    _commit(archive, f"Add {len(added)} packed run(s)")
    return added


def confirm(
    archive: Path, share: str, key: Path | None, work: Path, *, head: str = ""
) -> tuple[Reproduced | None, dict[str, str]]:
    """Repeats a drawn share of the archived runs and appends the verdicts; returns them, and damaged files.

    Args:
        share: ``"10%"``, or a number of evaluations.
        key: private key that signs the verdicts; without one nobody else has to believe them.
        work: folder of the repetitions.
        head: hash of the last line that somebody noted earlier.

    Raises:
        UserError: the chain is broken, or ``head`` is not part of it.
    """
    rows, problems = read_chain(archive)
    known = heads(archive)
    if head and head not in known:
        raise UserError(
            f"{archive / CHAIN} does not contain {head}", hint="the history was replaced; ask its keeper why"
        )
    packs = [archive / row.path for row in rows if row.path.startswith(f"{PACKS}/")]
    if not packs:
        return None, problems
    found = a2perf.reproduce(
        packs,
        work,
        submissions=[archive / SUBMISSIONS] if (archive / SUBMISSIONS).is_dir() else [],
        sample=int(share) if share.isdigit() else share,
        sample_seed=secrets.randbits(32),  # nobody can foresee what is drawn
        key=key,
        progress=False,
    )
    (archive / VERDICTS).mkdir(exist_ok=True)
    for number, verdict in enumerate(found.verdicts):
        place = archive / VERDICTS / f"{verdict.manifest_sha256[:12]}-{known[-1][:8]}-{number}{REPRODUCTION_SUFFIX}"
        write_reproduction(place, verdict, key)
        _append(archive, place, f"{verdict.verdict}: {printable(verdict.submission)} on {printable(verdict.task)}")
    _commit(archive, f"Confirm a share of {share}")
    return found, problems


def board(archive: Path, out: Path, trusted: Path) -> str:
    """Writes the leaderboard of the sound rows, with the verdicts of trusted keys; returns it in words.

    Raises:
        UserError: the chain is broken, or the keys cannot be read.
    """
    rows, _ = read_chain(archive)
    keys = {signing.key_id(raw) for _, raw in signing.trusted_keys(trusted)}
    with tempfile.TemporaryDirectory() as work:
        for part in (PACKS, VERDICTS):
            (Path(work) / part).mkdir()
        for row in rows:
            if row.path.startswith(f"{PACKS}/") or _signer(archive / row.path) in keys:
                shutil.copyfile(archive / row.path, Path(work) / row.path)
        written = a2perf.write_leaderboard(
            Path(work) / PACKS, out, trusted_keys=trusted, reproductions=Path(work) / VERDICTS, progress=False
        )
        return str(written)


def _signer(verdict: Path) -> str | None:
    try:
        return signer(read_reproduction(verdict))
    except (UserError, ValueError):
        return None


def _append(archive: Path, file: Path, text: str) -> Row:
    row = Row(
        previous=heads(archive)[-1],
        path=file.relative_to(archive).as_posix(),
        sha256=sha256_of(file),
        at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        text=text,
    )
    with (archive / CHAIN).open("ab") as stream:
        stream.write(msgspec.json.encode(row) + b"\n")
    return row


def git(folder: Path, *words: str, wall_s: float | None = None) -> str:
    """Runs git in a folder and returns what it prints.

    Raises:
        MissingDependency: git is not installed.
        UserError: it failed, or took longer than ``wall_s`` seconds.
    """
    identity = ("-c", "user.name=a2perf", "-c", "user.email=a2perf@localhost")
    try:
        done = subprocess.run(
            ["git", *identity, *words],
            cwd=folder,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=wall_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise MissingDependency("git is not installed", hint="`apt-get install git` on Debian") from error
    except subprocess.TimeoutExpired as error:
        raise UserError(f"git {words[0]} took longer than {wall_s:g} s") from error
    if done.returncode != 0:
        raise UserError(f"git {words[0]} in {folder}: {done.stderr.strip()[-200:]}")
    return done.stdout


def _commit(archive: Path, text: str) -> None:
    git(archive, "add", "--all")
    git(archive, "commit", "--quiet", "--allow-empty", "-m", text)
