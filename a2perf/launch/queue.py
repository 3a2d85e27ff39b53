"""The durable queue of runs with their states and holders: one SQLite file for many processes of a host.

Adding a key twice adds it once. A worker leases an entry and gets a token; its later reports count only while the entry
still has that token. A run is therefore finished once, even if a worker that was considered dead comes back. ``reap``
finds the leases of dead processes and makes their entries available again. Only repeatable failures of the
infrastructure are retried, at most ``max_retries`` times; any other failure is a result.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from a2perf.launch.queue_entry import INFRASTRUCTURE, PREREQUISITE, AttemptOutcome, Lease, QueueEntry, State
from a2perf.launch.queue_file import QueueFile
from a2perf.launch.run_spec import RunCommand, RunSpec
from a2perf.runs.bundles.process_identity import ProcessIdentity

MAX_RETRIES = 3
"""How often an entry is tried again after a failure of the infrastructure."""

RETRY_DELAY_S = 2.0
"""Pause before the first retry in seconds; it doubles with every further one."""

STALE_S = 120.0
"""Age of the last heartbeat, in seconds, from which a lease of another host is lost."""


class Queue(QueueFile):
    """An open queue. Each thread and process opens its own; ``QueueFile`` states what opening it raises.

    Args:
        retry_delay_s: pause before the first retry; it doubles with every further one.
    """

    def __init__(self, path: Path, *, max_retries: int = MAX_RETRIES, retry_delay_s: float = RETRY_DELAY_S) -> None:
        super().__init__(path)
        self.worker = str(ProcessIdentity.current())
        self._max_retries = max_retries
        self._retry_delay_s = retry_delay_s
        self._wanted = ""

    def add(self, entries: Sequence[RunSpec]) -> int:
        """Adds runs that the queue does not have; of the others, only command and data change, until they are done.

        Args:
            entries: the runs; the run that an ``after`` names is in the queue or earlier in this list.

        Returns:
            How many were new.

        Raises:
            ValueError: an ``after`` names an unknown run.
        """
        with self._transaction() as connection:
            before = self._count("SELECT COUNT(*) FROM entries")
            for entry in entries:
                connection.execute(
                    "INSERT INTO entries (key, command, data, after, waiting, state) VALUES (?, ?, ?, ?, 0, 'queued')"
                    " ON CONFLICT (key) DO UPDATE SET command = excluded.command, data = excluded.data"
                    " WHERE state IN ('queued', 'lost', 'failed')",
                    (entry.key, json.dumps(entry.command.to_json()), json.dumps(dict(entry.data)), entry.after),
                )
                if entry.after is not None:
                    self._await_prerequisite(entry.key, entry.after)
            return self._count("SELECT COUNT(*) FROM entries") - before

    def restrict(self, keys: Sequence[str] | None) -> None:
        """Restricts this object to leasing and counting the given keys; ``None`` removes the restriction."""
        with self._transaction() as connection:
            # Only this connection sees a temporary table: other processes on the file keep their own restriction.
            connection.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (key TEXT PRIMARY KEY)")
            connection.execute("DELETE FROM wanted")
            connection.executemany("INSERT INTO wanted VALUES (?)", [(key,) for key in keys or ()])
        self._wanted = "" if keys is None else " AND key IN (SELECT key FROM wanted)"

    def lease(self) -> Lease | None:
        """Leases the first entry that may run now; ``None`` if there is none at the moment."""
        token = uuid.uuid4().hex
        now = time.time()
        # The transaction holds SQLite's write lock from its start (BEGIN IMMEDIATE). Without it two workers could read
        # the same row before either marks it as leased.
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT * FROM entries INDEXED BY ready WHERE waiting = 0 AND state IN ('queued', 'lost')"
                f" AND not_before <= ?{self._wanted} ORDER BY number LIMIT 1",
                (now,),
            ).fetchone()
            if row is None:
                return None
            connection.execute(
                "UPDATE entries SET state = 'leased', kind = NULL, reason = '', exit_code = NULL, token = ?,"
                " worker = ?, heartbeat = ?, job = NULL, started = ?, ended = NULL, attempts = attempts + 1"
                " WHERE number = ?",
                (token, self.worker, now, now, row["number"]),
            )
            self._note(row["key"], row["attempts"] + 1, State.LEASED)
        # The row was read before the update: it still has the state and the job that a lost lease left.
        found = _entry(row)
        leased = replace(found, kind=None, reason="", started=now)
        return Lease(leased, token, found if found.state is State.LOST else None)

    def running(self, lease: Lease, job: str) -> bool:
        """Records that a job was started for the lease.

        Returns:
            Whether the lease is still valid; if not, the caller must end the job.
        """
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE entries SET state = 'running', job = ?, heartbeat = ? WHERE key = ? AND token = ?",
                (job, time.time(), lease.entry.key, lease.token),
            ).rowcount
            if changed:
                self._note(lease.entry.key, lease.entry.attempts + 1, State.RUNNING)
        return bool(changed)

    def heartbeat(self) -> set[str]:
        """Records a heartbeat for all leases of this process.

        Returns:
            The tokens of its valid leases.
        """
        held = "worker = ? AND state IN ('leased', 'running')"
        with self._transaction() as connection:
            connection.execute(f"UPDATE entries SET heartbeat = ? WHERE {held}", (time.time(), self.worker))
            rows = connection.execute(f"SELECT token FROM entries WHERE {held}", (self.worker,)).fetchall()
        return {row["token"] for row in rows}

    def finish(self, lease: Lease, outcome: AttemptOutcome) -> State | None:
        """Records how the attempt ended.

        Returns:
            The entry's new state: finished, failed, or queued again after a failure of the infrastructure. ``None``
            if the lease was lost; the outcome then does not count.
        """
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT * FROM entries WHERE key = ? AND token = ? AND state IN ('leased', 'running')",
                (lease.entry.key, lease.token),
            ).fetchone()
            if row is None:
                return None
            if outcome.finished:
                self._end(row, State.FINISHED, None, outcome.reason, outcome.exit_code)
                connection.execute("UPDATE entries SET waiting = 0 WHERE after = ?", (row["key"],))
                return State.FINISHED
            if outcome.kind == INFRASTRUCTURE:
                if outcome.repeatable:
                    return self._retry(row, outcome.reason, outcome.exit_code, delay=True)
                self._fail(row, INFRASTRUCTURE, outcome.reason, outcome.exit_code, final=True)
                return State.FAILED
            self._fail(row, outcome.kind or "exit", outcome.reason, outcome.exit_code)
            return State.FAILED

    def release(self, lease: Lease) -> None:
        """Returns an entry to the queue; an interrupted attempt counts neither as failure nor as retry."""
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE entries SET state = 'queued', reason = 'interrupted', token = NULL, worker = NULL,"
                " heartbeat = NULL, job = NULL, ended = ? WHERE key = ? AND token = ?"
                " AND state IN ('leased', 'running')",
                (time.time(), lease.entry.key, lease.token),
            ).rowcount
            if changed:
                self._note(lease.entry.key, lease.entry.attempts + 1, State.QUEUED, reason="interrupted")

    def reap(self) -> list[str]:
        """Marks entries as lost if the process of their lease is dead, or on another host and silent for too long.

        Returns:
            The keys of these entries; an entry that was lost too often fails instead.
        """
        found: list[str] = []
        with self._transaction() as connection:
            rows = connection.execute("SELECT * FROM entries WHERE state IN ('leased', 'running')").fetchall()
            for row in rows:
                # Only a process of this host can be seen (None: elsewhere); there the heartbeat has to decide. It does
                # not decide for local processes: a suspended laptop would lose all its leases.
                alive = row["worker"] == self.worker or ProcessIdentity.parse(row["worker"]).alive()
                silent = time.time() - row["heartbeat"] > STALE_S
                if alive or (alive is None and not silent):
                    continue
                found.append(row["key"])
                why = "its launcher died" if alive is False else "its launcher on another host went silent"
                self._retry(row, why, None, delay=False)
        return found

    def revive(self, kinds: Sequence[str] | None, *, final: bool = False) -> list[str]:
        """Queues failed entries again and resets their retries; their followers wait again.

        Args:
            kinds: only failures of these kinds; ``None`` is all of them.
        """
        with self._transaction() as connection:
            rows = connection.execute("SELECT * FROM entries WHERE state = 'failed' ORDER BY number").fetchall()
            chosen = [row for row in rows if kinds is None or row["kind"] in (*kinds, PREREQUISITE)]
            chosen = [row for row in chosen if final or not row["final"]]
            # In the order of adding: a run precedes its followers, and requeueing a follower fails it again if that run
            # stays failed.
            for row in chosen:
                self._requeue(row, "to be run again")
            states = dict(connection.execute("SELECT key, state FROM entries").fetchall())
        return [row["key"] for row in chosen if states[row["key"]] == State.QUEUED.value]

    def reopen(self, keys: Sequence[str], reason: str) -> None:
        """Queues entries again in any state, except leased and running ones."""
        with self._transaction() as connection:
            for key in keys:
                row = connection.execute(
                    "SELECT * FROM entries WHERE key = ? AND state NOT IN ('leased', 'running')", (key,)
                ).fetchone()
                if row is not None:
                    self._requeue(row, reason)

    def refuse(self, keys: Sequence[str], kind: str, reason: str) -> None:
        """Fails waiting entries, and their followers, without running them."""
        with self._transaction() as connection:
            for key in keys:
                row = connection.execute(
                    "SELECT * FROM entries WHERE key = ? AND state IN ('queued', 'lost', 'failed')", (key,)
                ).fetchone()
                if row is not None and (row["state"], row["kind"]) != (State.FAILED.value, kind):
                    self._end(row, State.FAILED, kind, reason, None)

    def remove(self, keys: Sequence[str]) -> None:
        """Removes entries, except leased and running ones; keeps their history."""
        with self._transaction() as connection:
            connection.executemany(
                "DELETE FROM entries WHERE key = ? AND state NOT IN ('leased', 'running')", [(key,) for key in keys]
            )

    def entries(self, keys: Sequence[str] | None = None) -> list[QueueEntry]:
        """Returns all entries, or those of the given keys, in the order in which they were added."""
        rows = self._read("SELECT * FROM entries ORDER BY number")
        wanted = None if keys is None else set(keys)
        return [_entry(row) for row in rows if wanted is None or row["key"] in wanted]

    def counts(self) -> dict[State, int]:
        """Returns how many entries are in each state."""
        rows = self._read(f"SELECT state, COUNT(*) AS count FROM entries WHERE TRUE{self._wanted} GROUP BY state")
        found = {State(row["state"]): row["count"] for row in rows}
        return {state: found.get(state, 0) for state in State}

    def failures(self) -> dict[str, int]:
        """Returns how many entries failed, by kind."""
        rows = self._read(
            f"SELECT kind, COUNT(*) AS count FROM entries WHERE state = 'failed'{self._wanted} GROUP BY kind"
        )
        return {row["kind"]: row["count"] for row in rows}

    def unsettled(self) -> int:
        """Returns how many entries are neither finished nor failed, including those of other processes."""
        return self._count(
            f"SELECT COUNT(*) FROM entries WHERE state IN ('queued', 'leased', 'running', 'lost'){self._wanted}"
        )

    def next_try_s(self) -> float | None:
        """Returns the seconds until the first entry that waits for its retry may run; ``None`` if none waits."""
        (row,) = self._read(
            f"SELECT MIN(not_before) FROM entries WHERE waiting = 0 AND state IN ('queued', 'lost'){self._wanted}"
        )
        return None if row[0] is None else max(0.0, row[0] - time.time())

    def history(self, key: str) -> list[dict[str, Any]]:
        """Returns every change of state of an entry, oldest first: ``at``, ``attempt``, ``state``, ``kind``, ..."""
        rows = self._read("SELECT * FROM history WHERE key = ? ORDER BY rowid", (key,))
        return [dict(row) for row in rows]

    def _retry(self, row: sqlite3.Row, reason: str, exit_code: int | None, *, delay: bool) -> State:
        """Queues an entry for another try, or fails it after the last one."""
        if row["retries"] >= self._max_retries:
            tried = f" (tried {row['attempts']} times)" if self._max_retries else ""
            self._fail(row, INFRASTRUCTURE, reason + tried, exit_code)
            return State.FAILED
        state = State.QUEUED if delay else State.LOST
        pause = self._retry_delay_s * 2 ** row["retries"] if delay else 0.0
        # A lost entry keeps its job: the next worker adopts it or waits until nothing of it runs.
        self._connection.execute(
            "UPDATE entries SET state = ?, kind = ?, reason = ?, exit_code = ?, token = NULL, worker = NULL,"
            " heartbeat = NULL, job = ?, ended = ?, retries = retries + 1, not_before = ? WHERE key = ?",
            (
                state.value,
                INFRASTRUCTURE,
                reason,
                exit_code,
                None if delay else row["job"],
                time.time(),
                time.time() + pause,
                row["key"],
            ),
        )
        self._note(row["key"], row["attempts"], state, INFRASTRUCTURE, reason)
        return state

    def _fail(self, row: sqlite3.Row, kind: str, reason: str, exit_code: int | None, *, final: bool = False) -> None:
        self._end(row, State.FAILED, kind, reason, exit_code)
        self._connection.execute("UPDATE entries SET final = ? WHERE key = ?", (int(final), row["key"]))
        followers = self._connection.execute(
            "SELECT * FROM entries WHERE after = ? AND state = 'queued'", (row["key"],)
        ).fetchall()
        for follower in followers:
            self._fail(follower, PREREQUISITE, f"the run before it failed ({kind})", None)

    def _end(self, row: sqlite3.Row, state: State, kind: str | None, reason: str, exit_code: int | None) -> None:
        self._connection.execute(
            "UPDATE entries SET state = ?, kind = ?, reason = ?, exit_code = ?, token = NULL, worker = NULL,"
            " heartbeat = NULL, job = NULL, ended = ? WHERE key = ?",
            (state.value, kind, reason, exit_code, time.time(), row["key"]),
        )
        self._note(row["key"], row["attempts"], state, kind, reason)

    def _requeue(self, row: sqlite3.Row, reason: str) -> None:
        self._connection.execute(
            "UPDATE entries SET state = 'queued', kind = NULL, reason = ?, exit_code = NULL, retries = 0, final = 0,"
            " not_before = 0, waiting = 0 WHERE key = ?",
            (reason, row["key"]),
        )
        self._connection.execute("UPDATE entries SET waiting = 1 WHERE after = ? AND state = 'queued'", (row["key"],))
        self._note(row["key"], row["attempts"], State.QUEUED, reason=reason)
        if row["after"] is not None:
            self._await_prerequisite(row["key"], row["after"])

    def _await_prerequisite(self, key: str, after: str) -> None:
        """Makes a queued entry wait for the entry that it follows, or fails it if that one has failed."""
        first = self._connection.execute("SELECT state, kind FROM entries WHERE key = ?", (after,)).fetchone()
        if first is None:
            raise ValueError(f"{key} comes after {after}, which is not in the queue")
        row = self._connection.execute("SELECT * FROM entries WHERE key = ? AND state = 'queued'", (key,)).fetchone()
        if row is None or first["state"] == State.FINISHED.value:
            return
        if first["state"] == State.FAILED.value:
            self._fail(row, PREREQUISITE, f"the run before it failed ({first['kind']})", None)
        else:
            self._connection.execute("UPDATE entries SET waiting = 1 WHERE key = ?", (key,))

    def _note(self, key: str, attempt: int, state: State, kind: str | None = None, reason: str = "") -> None:
        self._connection.execute(
            "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?)",
            (time.time(), key, attempt, state.value, kind, reason, self.worker),
        )


def _entry(row: sqlite3.Row) -> QueueEntry:
    same = ("key", "after", "kind", "reason", "exit_code", "attempts", "retries", "worker", "heartbeat", "job")
    return QueueEntry(
        command=RunCommand.from_json(json.loads(row["command"])),
        data=json.loads(row["data"]),
        state=State(row["state"]),
        final=bool(row["final"]),
        started=row["started"],
        ended=row["ended"],
        **{name: row[name] for name in same},
    )
