"""The files of a hosted competition: its settings, one record per entry, and the check of a new entry.

``python -m a2perf_competition.hosted ENTRY`` unpacks and checks one entry; ``host`` runs it from its queue.

==================  ====================================================================================
``host.toml``       the settings, see ``Settings``; optional
``cup``             the competition
``bundle``          instead of it: an unpacked bundle of Codabench or EvalAI
``inbox``           the mailbox: ``inbox/ENTRANT/NAME`` is a folder or an archive, moved there when complete
``orders``          what the organizer ordered: a rerun or the withdrawal of an entry
``entries``         one folder per entry: ``entry.json``, the upload, the unpacked folder
``runs``            the queue, and the bundles of the public task
``remote.git``      what was pulled
``site``            pages for any web server; nothing else is served
==================  ====================================================================================
"""

from __future__ import annotations

import datetime
import itertools
import os
import shutil
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from a2perf.errors import ConfigError, InfrastructureError, UserError
from a2perf.records import Record
from a2perf.sandbox import Limits, SandboxSpec, get_sandbox
from a2perf.storage import read_record, write_record
from a2perf.stranger_files import printable
from a2perf_competition import unpack
from a2perf_competition.folder_check import FolderCheck, examine

ENTRY, CHECK, UPLOAD, UNPACKED = "entry.json", "check.json", "upload", "unpacked"
CUP, BUNDLE = "cup", "bundle"
KINDS = ("development", "blind", "final")
_UNPACK_S = 300.0
_UNPACK_MEMORY = 1 << 30
_MOST_LINE = 300


class Phase(Record, kw_only=True, forbid_unknown_fields=True):
    """A span of time.

    Attributes:
        kind: ``"development"``: entries play the public task, and their scores are shown. ``"blind"``: the same, but
            only whether an entry works is shown. ``"final"``: no further entries; the last working entry of each
            entrant plays the secret tasks.
        starts, ends: with a time zone; a missing end is open.
    """

    name: str
    kind: str
    starts: datetime.datetime = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    ends: datetime.datetime = datetime.datetime.max.replace(tzinfo=datetime.UTC)


class Settings(Record, kw_only=True, forbid_unknown_fields=True):
    """``host.toml``.

    Attributes:
        quota: entries per entrant and day (UTC) that are run; further ones wait for the next day.
        waiting: entries of an entrant that may wait; further ones stay in the mailbox.
        workers: runs at the same time.
        sandbox: replaces the level of the terms.
        upload_bytes: size of an unpacked entry.
        free_bytes: free disk space below which nothing new starts.
        phases: of a competition; a bundle has its own.
        python: interpreter that stands for the container image of a bundle.
        git: address of a repository that is pulled as a second mailbox.
    """

    quota: int = 5
    waiting: int = 20
    workers: int = 1
    sandbox: str = ""
    allow_weaker: bool = False
    upload_bytes: int = 1 << 30
    free_bytes: int = 2 << 30
    python: str = ""
    git: str = ""
    phases: list[Phase] = msgspec.field(default_factory=lambda: [Phase(name="Development", kind="development")])


def phase_at(phases: Sequence[Phase], now: datetime.datetime) -> Phase | None:
    """Returns the phase at a time, if there is one: of several the first."""
    return next((one for one in phases if one.starts <= now < one.ends), None)


def minute_text(moment: datetime.datetime) -> str:
    """Returns a time as the pages show it."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


class Event(Record, kw_only=True):
    """A change of an entry: ISO 8601 time in UTC, and a sentence."""

    at: str
    text: str


class HostedEntry(Record, kw_only=True):
    """``entry.json``.

    Attributes:
        id: ``ENTRANT-NUMBER``.
        number: place in the order of arrival.
        state: ``received``, ``checking``, ``running``, and at the end ``finished``, ``failed``, ``refused``,
            ``withdrawn`` or ``fault``: the host failed.
        day: the day that it counts for in the quota; empty if it does not count.
        attempt: increases with every rerun; only the last one counts.
        kind: of a failure.
        reason: of a failure or refusal, for the entrant.
        score: mean episode return on the public task.
        wall_s, kwh: what the runs took.
    """

    id: str
    number: int
    entrant: str
    name: str
    received_at: str
    state: str = "received"
    phase: str = ""
    blind: bool = False
    day: str = ""
    attempt: int = 1
    kind: str = ""
    reason: str = ""
    score: float | None = None
    wall_s: float = 0.0
    kwh: float | None = None
    events: list[Event] = msgspec.field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether something is still to be done."""
        return self.state in ("received", "checking", "running")


class Order(Record, kw_only=True):
    """``orders/ENTRY.json``: ``what`` is ``"rerun"`` or ``"withdraw"``."""

    what: str
    reason: str


def read_settings(folder: Path) -> Settings:
    """Reads ``host.toml``.

    Raises:
        ConfigError: it is not valid, or the phases overlap or are in another order than their kinds.
    """
    file = folder / "host.toml"
    if not file.exists():
        return Settings()
    try:
        found = msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Settings)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}", hint="see docs/how_to/hosting_a_competition.md") from error
    phases = found.phases
    for one in phases:
        if one.kind not in KINDS:
            raise ConfigError(f"{file}: the phase {one.name!r} has the kind {one.kind!r}", hint=f"use {KINDS}")
        if one.starts.tzinfo is None or one.ends.tzinfo is None:
            raise ConfigError(
                f"{file}: the phase {one.name!r} has a date without a time zone", hint="write 2026-12-01T00:00:00Z"
            )
        if one.starts >= one.ends:
            raise ConfigError(f"{file}: the phase {one.name!r} ends before it starts", hint="exchange the dates")
    for one, after in itertools.pairwise(phases):
        if after.starts < one.ends or KINDS.index(after.kind) < KINDS.index(one.kind):
            raise ConfigError(
                f"{file}: the phase {after.name!r} starts before {one.name!r} ends, or may not follow it",
                hint=f"list phases by date, and their kinds in the order {', '.join(KINDS)}",
            )
    if [one.kind for one in phases].count("final") > 1 or min(found.quota, found.workers, found.waiting) < 1:
        raise ConfigError(
            f"{file}: two final phases, or a number below 1", hint="quota, waiting and workers are at least 1"
        )
    return found


def unpacked_folder(entry: Path, entrant: str) -> Path:
    """Returns the submission of an entry; its name is the entrant's, as the final list of entrants shows it."""
    return entry / UNPACKED / entrant


def check_entry(entry: Path, settings: Settings, level: str) -> None:
    """Unpacks and checks the upload of an entry, and writes ``check.json``; doing it again changes nothing.

    Raises:
        InfrastructureError: the host could not do it.
    """
    if (entry / CHECK).exists():
        return
    record = read_record(entry / ENTRY, HostedEntry)
    work, log = entry / "work", entry / "unpack.log"
    for old in (work, entry / UNPACKED):
        shutil.rmtree(old, ignore_errors=True)
    log.unlink(missing_ok=True)
    (work / record.entrant).mkdir(parents=True)
    (upload,) = (entry / UPLOAD).iterdir()
    try:
        refused = _unpack(upload, work / record.entrant, log, settings, level)
        inner = [] if refused else list((work / record.entrant).iterdir())
        if len(inner) == 1 and inner[0].is_dir():  # the archive of a folder, not of its files
            os.rename(inner[0], work / ".inner")
            (work / record.entrant).rmdir()
            os.rename(work / ".inner", work / record.entrant)
        check = FolderCheck(refused=refused) if refused else examine(work / record.entrant)
        if check.killed:
            raise InfrastructureError(f"{record.id}: {check.refused}")
        os.rename(work, entry / UNPACKED)
        write_record(entry / CHECK, check)
    except OSError as error:
        raise InfrastructureError(f"{record.id} cannot be unpacked: {error}", hint="free some space") from error


def _unpack(upload: Path, folder: Path, log: Path, settings: Settings, level: str) -> str:
    limits = Limits(
        wall_s=_UNPACK_S,
        memory_bytes=_UNPACK_MEMORY,
        processes=8,
        artifact_bytes=settings.upload_bytes + (64 << 20),
        artifact_entries=2 * unpack.ENTRIES,
    )
    words = (upload, folder, settings.upload_bytes)
    spec = SandboxSpec(
        argv=[sys.executable, "-I", "-S", unpack.__file__, *map(str, words)],
        cwd=folder,
        env={"LANG": "C.UTF-8"},
        readable=[Path(unpack.__file__), upload.parent],
        writable=[folder],
        limits=limits,
        stdout=log,
        stderr=log.with_suffix(".err"),
    )
    ending = get_sandbox(level).start(spec).wait()
    assert ending is not None
    if ending.limit is not None:
        return f"unpacking it exceeds the limit of {ending.limit_value or 0:,.0f} ({ending.limit})"
    if ending.exit_code != 0:
        errors = log.with_suffix(".err").read_text(errors="replace").strip().splitlines()[-1:] or ["no reason"]
        how = f"status {ending.exit_code}" if ending.signal is None else f"signal {ending.signal}"
        raise InfrastructureError(f"unpacking ended with {how}: {printable(errors[0])}")
    return printable(log.read_text(encoding="utf-8", errors="replace").strip().replace("\n", " "))[:_MOST_LINE]


def _main(entry: Path, level: str) -> int:
    try:
        check_entry(entry, read_settings(entry.parent.parent), level)
    except UserError as error:
        print(f"a2perf: {error.message}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1]), sys.argv[2]))
