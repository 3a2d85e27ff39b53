"""The SQLite file of a queue: its tables, transactions, and what a full or broken disk becomes.

The file is in write-ahead-log mode, which needs a local file system: the launcher runs on one machine, also when what
it launches does not. A power cut may take the last moments with it; running the same command again finds them again in
the bundles.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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

    Args:
        path: the file; made when missing.

    Raises:
        UserError: the file cannot be opened, is not a queue, or is one of a newer version.
        InfrastructureError: the disk is full or broken; every method raises it then, and leaves the entries as they
            were before the call.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
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
        """Closes the file; the last one to do so removes its companions."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _SCHEMA:
            raise UserError(
                f"the queue {self.path} has schema {version}; this a2perf knows up to {_SCHEMA}",
                hint="use the a2perf version that made it",
            )
        if version < _SCHEMA:
            with self._transaction():  # of two processes that open it, one finds the work done
                version = self._connection.execute("PRAGMA user_version").fetchone()[0]
                steps = [*(_TABLES.split(";") if version < 1 else ()), *([_SINCE_2] if version < 2 else ())]
                for step in steps:
                    self._connection.execute(step)
                self._connection.execute(f"PRAGMA user_version = {_SCHEMA}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):  # SQLite itself has ended the transaction when the disk was full
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


def _of_the_disk(error: BaseException) -> bool:
    """Whether SQLite or the operating system had no room, or could not read or write."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _disk_error(path: Path, error: BaseException) -> InfrastructureError:
    return InfrastructureError(
        f"the queue {path} cannot be written: {error}", hint="free some space, then give the same command again"
    )
