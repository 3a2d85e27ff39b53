"""``a2perf host``: takes entries from a mailbox, runs them, and writes their pages, for weeks.

The folder is the state. Every step is either a rename, an atomically written record, or an entry of the durable queue,
and each can be repeated: a host that was killed at any instruction continues when it is started again.
"""

from __future__ import annotations

import datetime
import errno
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import filelock

from a2perf.errors import ConfigError, UserError
from a2perf.launch import Conductor, Queue, QueueEntry, RunCommand, RunEvent, RunSpec, State, drive
from a2perf.launch.interface import handled_signals
from a2perf.launch.local import LocalLauncher
from a2perf.launch.queue_entry import INFRASTRUCTURE, PREREQUISITE
from a2perf.records import FailureKind
from a2perf.storage import read_json, read_record, write_json, write_record
from a2perf.stranger_files import printable
from a2perf_competition import git_mailbox, host_pages
from a2perf_competition.contests import Cup, contest_of
from a2perf_competition.draw import DRAW
from a2perf_competition.entrants import PLAIN_NAME, Entrants, close, enter_all
from a2perf_competition.folder_check import FolderCheck
from a2perf_competition.hosted import (
    CHECK,
    ENTRY,
    UPLOAD,
    Event,
    HostedEntry,
    Order,
    Phase,
    minute_text,
    phase_at,
    read_settings,
    unpacked_folder,
)
from a2perf_competition.run_entrants import run
from a2perf_competition.standings import outcome_of
from a2perf_competition.unpack import SUFFIXES
from a2perf_competition.verification import check_runs

ATTEMPTS = 6
"""How often an entry is run in all if it is killed and nothing shows by whom."""

RETRIES, RETRY_DELAY_S = 8, 0.2
TURN_S = 1.0
PAGES_S = 5.0
RESTART_S = 5.0
LOCK_WAIT_S = 60.0
"""How long a host waits for an earlier one that is ending its runs."""
_CLOCK_JUMP_S = 30.0
_UNEXPLAINED = ("was killed by SIGKILL", "were killed before")


class Host(host_pages.HostState):
    """A hosted competition."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = read_settings(folder)
        super().__init__(contest_of(folder, self.settings))
        self._cup = self.contest.competition if isinstance(self.contest, Cup) else None
        for name in ("inbox", "orders", "entries", "runs", "site/entries"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.queue = Queue(folder / "runs/queue.sqlite", max_retries=RETRIES, retry_delay_s=RETRY_DELAY_S)
        self._seen: dict[str, tuple[int, ...]] = {}
        self._pages = host_pages.Pages(folder / "site")
        self._next_turn = self._next_pages = self._next_pull = 0.0
        self._pull_problems: dict[str, str] = {}
        self._clocks = (time.time(), time.monotonic())
        self._read_entries()
        self._changed = set(self.entries)

    # --- the loop -----------------------------------------------------------------------------------------------------

    def serve(self, stop: Callable[[], bool], *, once: bool = False) -> None:
        """Works until ``stop``; with ``once`` until every entry is settled or waits for a later time."""
        launcher = LocalLauncher()
        launcher.expects_many = True
        try:
            while not stop():
                self.turn()
                if self.queue.unsettled():
                    drive(self.queue, launcher, self.contest.workers, on_event=self._on_event, stop=stop)
                elif self._final_is_due():
                    try:
                        self._run_final()
                    except UserError as error:
                        self.final_waits = printable(error.message)
                        self._write_pages()
                        raise
                elif once and not self._seen and not self._changed:
                    break
                else:
                    time.sleep(0.1 if once else TURN_S)
        finally:
            launcher.close()
            self._write_pages()

    def _on_event(self, event: RunEvent) -> None:
        if event.entry is not None:
            self._changed.add(str(event.entry.data["entry"]))
        elif time.monotonic() >= self._next_turn:
            self.turn()

    def turn(self) -> None:
        """Obeys orders, takes entries from the mailbox, and advances every entry; a full disk only delays it."""
        self._next_turn = time.monotonic() + TURN_S
        try:
            self._heed_the_clock()
            self._obey()
            self._take()
            changed, self._changed = self._changed, set()
            for entry in list(self.entries.values()):
                if entry.state == "received" or entry.id in changed:
                    try:
                        self._advance(entry)
                    except OSError:
                        self._changed |= changed
                        raise
                    except UserError as error:
                        self._end(entry, "fault", INFRASTRUCTURE, error.message)
            if time.monotonic() >= self._next_pages:
                self._next_pages = time.monotonic() + PAGES_S
                self._write_pages()
        except OSError as error:
            print(f"a2perf: the host waits: {error}", file=sys.stderr, flush=True)

    def _heed_the_clock(self) -> None:
        """Makes retries due that would wait for a time before which the clock was set back."""
        before, self._clocks = self._clocks, (time.time(), time.monotonic())
        if abs(self._clocks[0] - before[0] - (self._clocks[1] - before[1])) > _CLOCK_JUMP_S:
            waiting = [one.key for one in self.queue.entries() if one.state is State.QUEUED]
            self.queue.reopen(waiting, "the clock of the host jumped")

    # --- arrival ------------------------------------------------------------------------------------------------------

    def _read_entries(self) -> None:
        found = [read_record(file, HostedEntry) for file in self.folder.glob(f"entries/*/{ENTRY}")]
        self.entries = {one.id: one for one in sorted(found, key=lambda one: one.number)}
        for folder in sorted((self.folder / "entries").iterdir()):
            if folder.name in self.entries:
                continue
            if (folder / UPLOAD).is_dir() and any((folder / UPLOAD).iterdir()):
                self._record(folder)  # the host ended between the move and the record
            else:
                shutil.rmtree(folder)

    def _take(self) -> None:
        """Moves uploads out of the mailbox that have not changed since the turn before."""
        if self.settings.git and time.monotonic() >= self._next_pull:
            known = {(one.entrant, one.name) for one in self.entries.values()}
            self._pull_problems = git_mailbox.pull(self.folder, self.settings.git, known)
            self._next_pull = time.monotonic() + git_mailbox.PULL_S
        self.not_taken = {**self._pull_problems}
        seen: dict[str, tuple[int, ...]] = {}
        for above in _listed(self.folder / "inbox"):
            if above.is_symlink() or not above.is_dir() or not PLAIN_NAME.fullmatch(above.name):
                self.not_taken[printable(above.name)] = "not a folder with a plain name of an entrant"
                continue
            try:
                self._take_from(above, seen)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self.not_taken[above.name] = f"cannot be taken: {error.strerror}"
        self._seen = seen

    def _take_from(self, above: Path, seen: dict[str, tuple[int, ...]]) -> None:
        for upload in _listed(above):
            label, status = printable(f"{above.name}/{upload.name}"), upload.lstat()
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            waiting = sum(one.entrant == above.name and one.state == "received" for one in self.entries.values())
            if upload.suffix == ".withdraw":
                self._order_of_entrant(above.name, upload)
            elif waiting >= self.settings.waiting:
                self.not_taken[label] = f"waits in the mailbox: {self.settings.waiting} entries wait already"
            elif self._seen.get(label) == stamp:
                self._take_one(above.name, upload)
            else:
                seen[label] = stamp

    def _take_one(self, entrant: str, upload: Path) -> None:
        numbers = [int(one.id.rpartition("-")[2]) for one in self.entries.values() if one.entrant == entrant]
        folder = self.folder / "entries" / f"{entrant}-{max(numbers, default=0) + 1}"
        (folder / UPLOAD).mkdir(parents=True, exist_ok=True)
        os.rename(upload, folder / UPLOAD / upload.name)
        self._record(folder)

    def _record(self, folder: Path) -> None:
        """Writes the record of an upload that was moved out of the mailbox."""
        (upload,) = (folder / UPLOAD).iterdir()
        entrant, name = folder.name.rpartition("-")[0], upload.name
        for suffix in SUFFIXES:
            name = name.removesuffix(suffix)
        number = max((one.number for one in self.entries.values()), default=0) + 1
        entry = HostedEntry(
            id=folder.name,
            number=number,
            entrant=entrant,
            name=printable(name),
            received_at=_now().isoformat(timespec="seconds"),
        )
        known = [one for one in self.entries.values() if one.state not in ("refused", "withdrawn")]
        same = [one.id for one in known if (one.entrant, one.name) == (entrant, entry.name)]
        if same:
            self._end(entry, "refused", "", f"it has the name of {same[0]}; give each entry another name")
        else:
            self._save(entry, "received")

    def _save(self, entry: HostedEntry, text: str) -> None:
        entry.events.append(Event(at=_now().isoformat(timespec="seconds"), text=text))
        write_record(self.folder / "entries" / entry.id / ENTRY, entry)
        self.entries[entry.id] = entry
        self.waits.pop(entry.id, None)
        print(f"{entry.id}: {text}", flush=True)

    # --- orders -------------------------------------------------------------------------------------------------------

    def _order_of_entrant(self, entrant: str, file: Path) -> None:
        entry = self.entries.get(file.name.removesuffix(".withdraw"))
        if entry is not None and entry.entrant == entrant and entry.state != "withdrawn":
            self._withdraw(entry, "by its entrant")
        file.unlink()

    def _obey(self) -> None:
        for file in _listed(self.folder / "orders"):
            try:
                order, entry = read_record(file, Order), self.entries[file.stem]
            except (UserError, KeyError) as error:
                print(f"a2perf: {file.name} is not an order: {error}", file=sys.stderr, flush=True)
            else:
                if order.what == "withdraw" and entry.state != "withdrawn":
                    self._withdraw(entry, order.reason)
                elif order.what == "rerun" and not entry.is_open:
                    (self.folder / "entries" / entry.id / CHECK).unlink(missing_ok=True)
                    self._again(entry, f"run again by the organizer: {order.reason}")
            file.unlink()

    def _withdraw(self, entry: HostedEntry, why: str) -> None:
        if entry.state == "received":
            entry.day = ""
        specs = [self._check_spec(entry), *self.contest.specs(entry)]
        self.queue.refuse([spec.key for spec in specs], "withdrawn", why)
        entry.state, entry.score = "withdrawn", None
        self._save(entry, f"withdrawn: {why}")

    def _again(self, entry: HostedEntry, text: str) -> None:
        entry.state, entry.attempt, entry.kind, entry.reason, entry.score = "checking", entry.attempt + 1, "", "", None
        self._save(entry, text)
        self._changed.add(entry.id)

    # --- one entry ----------------------------------------------------------------------------------------------------

    def _advance(self, entry: HostedEntry) -> None:
        if entry.state == "received":
            phase, wait = self._admission(entry)
            if phase is None or wait:
                self.waits[entry.id] = wait
                return
            entry.state, entry.phase, entry.blind = "checking", phase.name, phase.kind == "blind"
            entry.day = _now().date().isoformat()
            self._save(entry, f"accepted for {phase.name}")
        if entry.state == "checking":
            row = self._rows([self._check_spec(entry)])[0]
            if row.state is State.FAILED:
                self._fail(entry, row)
            elif row.state is State.FINISHED:
                check = read_record(self.folder / "entries" / entry.id / CHECK, FolderCheck)
                if check.refused:
                    self._end(entry, "refused", FailureKind.CONTRACT.value, check.refused)
                else:
                    entry.state = "running"
                    self._save(entry, "checked")
        if entry.state == "running":
            rows = self._rows(self.contest.specs(entry))
            failed = [row for row in rows if row.state is State.FAILED and row.kind != PREREQUISITE]
            if failed:
                self._fail(entry, failed[0])
            elif all(row.state is State.FINISHED for row in rows):
                self.contest.settle(entry, rows)
                if entry.kind:
                    self._end(entry, "failed", entry.kind, entry.reason)
                else:
                    entry.state = "finished"
                    self._save(entry, "finished")

    def _admission(self, entry: HostedEntry) -> tuple[Phase | None, str]:
        """Returns the phase that accepts an entry, or what it waits for."""
        now = _now()
        phase = phase_at(self.contest.phases, now)
        if phase is None or phase.kind == "final":
            for one in self.contest.phases:
                if one.starts > now and one.kind != "final":
                    return None, f"{one.name}, which starts at {minute_text(one.starts)}"
            return None, "nothing: entries closed"
        today = now.date().isoformat()
        used = sum(one.entrant == entry.entrant and one.day == today for one in self.entries.values())
        if used >= self.settings.quota:
            return phase, f"the next day (UTC): {used} of {self.settings.quota} entries of {today} are used"
        if (free := shutil.disk_usage(self.folder).free) < self.settings.free_bytes:
            return phase, f"disk space on the host: {free:,} bytes are free"
        return phase, ""

    def _rows(self, specs: Sequence[RunSpec]) -> list[QueueEntry]:
        """Returns the runs in the queue; those that it does not have yet are added."""
        rows = self.queue.entries([spec.key for spec in specs])
        if len(rows) < len(specs):
            self.queue.add(specs)
            rows = self.queue.entries([spec.key for spec in specs])
        return rows

    def _fail(self, entry: HostedEntry, row: QueueEntry) -> None:
        kind, reason = row.kind or INFRASTRUCTURE, printable(" ".join(row.reason.split()))
        ours = kind in (INFRASTRUCTURE, "configuration")
        unexplained = kind == FailureKind.SIGNAL.value and any(text in reason for text in _UNEXPLAINED)
        if unexplained and entry.attempt < ATTEMPTS:
            self._again(entry, f"run again, because the host may have killed it: {row.data['mode']}: {reason}")
            return
        if row.data["mode"] != "check":
            self.contest.settle(entry, self._rows(self.contest.specs(entry)))
        entry.score = None
        self._end(entry, "fault" if ours else "failed", kind, f"{row.data['mode']}: {reason}")

    def _end(self, entry: HostedEntry, state: str, kind: str, reason: str) -> None:
        """Records a failure or refusal; a fault of the host does not count in the quota."""
        entry.state, entry.kind, entry.reason = state, kind, reason
        if state == "fault":
            entry.day = ""
        self._save(entry, f"{state}: {reason if state == 'refused' else f'{kind}: {reason}'}")

    def _check_spec(self, entry: HostedEntry) -> RunSpec:
        key, folder = f"{entry.id}/check/{entry.attempt}", self.folder / "entries" / entry.id
        argv = (sys.executable, "-P", "-m", "a2perf_competition.hosted", str(folder), self.contest.level)
        command = RunCommand(argv, name=key, cwd=self.folder, log=self.folder / "runs" / f"{entry.id}.check.log")
        return RunSpec(key, command, {"entry": entry.id, "mode": "check"})

    # --- the final phase ----------------------------------------------------------------------------------------------

    def _final_is_due(self) -> bool:
        phase = phase_at(self.contest.phases, _now())
        done = (self.folder / host_pages.FINAL).exists()
        running = any(one.is_open and one.state != "received" for one in self.entries.values())
        if phase is None or phase.kind != "final" or done or running:
            return False
        if not self._finalists():
            self.final_waits = "a working entry"
            return False
        assert self._cup is not None  # the phases of a bundle have no final one
        needs_nonces = self._cup.terms.nonces_required and not (self._cup.public / DRAW).exists()
        if needs_nonces and not (self.folder / "nonces.txt").exists():
            enter_all(self._cup, self._entrants())
            self.final_waits = f"the nonces of the entrants, in nonces.txt; hash of the list: {close(self._cup).sha256}"
            return False
        self.final_waits = ""
        return True

    def _finalists(self) -> list[HostedEntry]:
        """Returns the last working entry of each entrant."""
        last = {one.entrant: one for one in self.entries.values() if one.state == "finished"}
        return [last[name] for name in sorted(last)]

    def _entrants(self) -> Entrants:
        folders = (unpacked_folder(self.folder / "entries" / one.id, one.entrant) for one in self._finalists())
        return Entrants(tuple(folders), sandbox=self.contest.level, allow_weaker=self.settings.allow_weaker)

    def _run_final(self) -> None:
        assert self._cup is not None
        nonces = self.folder / "nonces.txt"
        given = nonces.read_text().split() if nonces.exists() else []
        with Conductor(LocalLauncher(), self.contest.workers) as conductor:
            result = run(self._cup, self._entrants(), conductor, nonces=given)
        if result.stopped:
            return
        close(self._cup)
        checked = check_runs(self._cup, [outcome_of(entry) for entry in result.entries])
        rows = [[one.rank, one.name, one.mean, one.outcome] for one in checked.standing.entrants]
        write_json(self.folder / host_pages.FINAL, {"rows": rows, "problems": checked.problems})

    def _write_pages(self) -> None:
        final = self.folder / host_pages.FINAL
        self._pages.write(self, read_json(final) if final.exists() else None)


def _listed(folder: Path) -> list[Path]:
    """Returns what lies in a folder; a name that begins with a dot, or ends with .part, is not complete yet."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.suffix != ".part")


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def write_order(folder: Path, entry: str, what: str, reason: str) -> None:
    """Orders a rerun or a withdrawal; the host obeys it in its next turn.

    Raises:
        ConfigError: there is no such entry.
    """
    if not PLAIN_NAME.fullmatch(entry) or not (folder / "entries" / entry / ENTRY).exists():
        raise ConfigError(f"{folder} has no entry {entry!r}", hint="its status page lists the entries")
    (folder / "orders").mkdir(exist_ok=True)
    write_record(folder / "orders" / f"{entry}.json", Order(what=what, reason=reason))


def supervise(folder: Path, *, once: bool) -> int:
    """Runs the host in a child process, and starts it again if it ends without being asked to.

    Returns:
        The exit status: 0 after ``once``, 2 if the folder is not valid, 130 after a signal.
    """
    argv = (sys.executable, "-P", "-m", __name__, str(folder), *(["--once"] if once else []))
    while (code := LocalLauncher().run(RunCommand(argv, name="host"))) not in (0, 2, 130):
        print(f"a2perf: the host ended with status {code}; it starts again", file=sys.stderr, flush=True)
        time.sleep(RESTART_S)
    return code


def _main(folder: Path, once: bool) -> int:
    stopped: list[int] = []
    try:
        lock = filelock.FileLock(folder / "host.lock", timeout=LOCK_WAIT_S)
        with lock, handled_signals(lambda number, frame: stopped.append(number)):
            Host(folder).serve(lambda: bool(stopped), once=once)
    except filelock.Timeout:
        print(f"a2perf: another process hosts {folder}\n  Hint: stop it first", file=sys.stderr)
        return 2
    except ConfigError as error:
        print(f"a2perf: {error}", file=sys.stderr)
        return 2
    except (UserError, OSError) as error:
        print(f"a2perf: {error}", file=sys.stderr)
        return 3
    return 130 if stopped else 0


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1]), "--once" in sys.argv))
