"""The SQLite file of a queue: its tables, transactions, and the errors of a full or broken disk.

The file uses write-ahead logging, which needs a local file system: all processes of a queue run on one machine, even if
their runs execute elsewhere. A power failure can lose the last transactions; the same command again recovers the
results from the bundles.
"""

from __future__ import annotations

import errno
import functools
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from a2perf.errors import InfrastructureError, UserError

_SCHEMA = 2
_SINCE_2 = "ALTER TABLE entries ADD COLUMN final INTEGER NOT NULL DEFAULT 0;"
_TABLES = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    command TEXT NOT NULL,
    data TEXT NOT NULL,
    after TEXT,
    waiting INTEGER NOT NULL,
    state TEXT NOT NULL,
    kind TEXT,
    reason TEXT NOT NULL DEFAULT '',
    exit_code INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    retries INTEGER NOT NULL DEFAULT 0,
    not_before REAL NOT NULL DEFAULT 0,
    token TEXT,
    worker TEXT,
    heartbeat REAL,
    job TEXT,
    started REAL,
    ended REAL
);
CREATE INDEX IF NOT EXISTS ready ON entries (number) WHERE waiting = 0 AND state IN ('queued', 'lost');
CREATE INDEX IF NOT EXISTS held ON entries (worker) WHERE state IN ('leased', 'running');
CREATE INDEX IF NOT EXISTS followers ON entries (after);
CREATE INDEX IF NOT EXISTS states ON entries (state);
CREATE TABLE IF NOT EXISTS history (
    at REAL NOT NULL,
    key TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL,
    kind TEXT,
    reason TEXT NOT NULL,
    worker TEXT
);
"""


class QueueFile:
    """An open file with the tables of a queue.

    Raises:
        UserError: the file cannot be opened, is not a queue, or has a newer or another schema.
        InfrastructureError: the disk is full or broken. Every method raises it and leaves the entries unchanged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # By default the module opens transactions itself, and without the write lock at their start.
            self._connection = sqlite3.connect(path, timeout=60, isolation_level=None)
            self._connection.row_factory = sqlite3.Row
            self._open()
        except (OSError, sqlite3.Error) as error:
            if _of_the_disk(error):
                raise _disk_error(path, error) from error
            raise UserError(
                f"the queue {path} cannot be opened: {error}", hint="choose a --root_dir on a local, writable disk"
            ) from error

    def close(self) -> None:
        """Closes the file; the last process that closes it removes the ``-wal`` and ``-shm`` files."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> None:
        # The file may come from another person, and a view or a trigger in it is a program.
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.execute("BEGIN")  # both reads see one state, also while another process creates the tables
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        found = _definitions(self._connection)
        self._connection.execute("COMMIT")
        if version > _SCHEMA:
            raise UserError(
                f"the queue {self.path} has schema {version}; this a2perf knows up to {_SCHEMA}",
                hint="use the a2perf version that created it, or another --root_dir",
            )
        if found != _known_definitions(version):
            raise UserError(
                f"{self.path} is not a queue that a2perf made: it defines other tables, views or triggers",
                hint="do not use files of others here; `a2perf score` reads the runs themselves",
            )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")  # no fsync per transaction: the bundles decide anyway
        if version < _SCHEMA:
            with self._transaction():  # another process may have created the tables: read again
                version = self._connection.execute("PRAGMA user_version").fetchone()[0]
                # Statement by statement: executescript would first commit the open transaction and so give up its lock.
                for step in _steps(version, _SCHEMA):
                    self._connection.execute(step)
                self._connection.execute(f"PRAGMA user_version = {_SCHEMA}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException as error:  # KeyboardInterrupt too, or the write lock would stay held
            with suppress(sqlite3.Error):  # on a full disk SQLite has already rolled back
                self._connection.execute("ROLLBACK")
            if _of_the_disk(error):
                raise _disk_error(self.path, error) from error
            raise

    def _count(self, query: str) -> int:
        return int(self._read(query)[0][0])

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            if _of_the_disk(error):
                raise _disk_error(self.path, error) from error
            raise


def _steps(version: int, wanted: int) -> list[str]:
    """Returns the statements that lead from one schema to another."""
    return [*(_TABLES.split(";") if version < 1 <= wanted else ()), *([_SINCE_2] if version < 2 <= wanted else ())]


@functools.cache
def _known_definitions(version: int) -> set[tuple[str, str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as fresh:
        for step in _steps(0, version):
            fresh.execute(step)
        return _definitions(fresh)


def _definitions(connection: sqlite3.Connection) -> set[tuple[str, str, str | None]]:
    """Returns kind, name and text of every definition in a file; reading them executes none."""
    return {tuple(row) for row in connection.execute("SELECT type, name, sql FROM sqlite_master")}


def _of_the_disk(error: BaseException) -> bool:
    """Whether the disk was full or an input/output error occurred, in SQLite or in the operating system."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    code = getattr(error, "sqlite_errorcode", None)
    # SQLite's extended error codes contain the primary code in their low byte.
    return code is not None and code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _disk_error(path: Path, error: BaseException) -> InfrastructureError:
    return InfrastructureError(
        f"the queue {path} cannot be written: {error}", hint="free some space, then run the same command again"
    )
