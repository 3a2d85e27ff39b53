"""Tags of runs in an append-only journal that keeps the history of tags such as ``latest``.

``tags.jsonl`` of a store has one line per change, for any number of runs: a change is written completely or not at all.
Writers hold a lock that the system releases if they die.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import filelock
import msgspec

from a2perf.errors import UserError
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.run_record import user_name
from a2perf.runs.packed.packed_archive import packed_place
from a2perf.storage import Journal, journal_entries

_LOCK_TIMEOUT_S = 30.0
_NAME = re.compile(r"[^\s;!?,&=]+")
Action = Literal["add", "remove"]


@dataclasses.dataclass(frozen=True)
class TagChange:
    """One line of the journal."""

    time: datetime.datetime
    action: Action
    tag: str
    runs: tuple[str, ...]
    user: str = ""
    reason: str = ""
    source_tag: str | None = None


class TagJournal:
    """The tags of one store."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def change(
        self,
        tag: str,
        run_ids: Iterable[str],
        *,
        action: Action,
        reason: str = "",
        source_tag: str | None = None,
    ) -> TagChange:
        """Adds a tag to runs or removes it; on disk, as a whole, when the call returns.

        Raises:
            UserError: the name is none, no run is given, or the store cannot be written.
        """
        check_tag(tag)
        runs = tuple(dict.fromkeys(run_ids))
        if not runs:
            raise UserError(f"no run to {action} the tag {tag!r} {'to' if action == 'add' else 'from'}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # a hidden file: searches of the store skip it; the journal needs the lock to repair a torn line, too
            with (
                filelock.FileLock(self.path.with_name(".tags.lock"), timeout=_LOCK_TIMEOUT_S),
                Journal(self.path) as journal,
            ):
                # read under the lock, which keeps the lines in the order of their times
                now = datetime.datetime.now(datetime.UTC)
                change = TagChange(now, action, tag, runs, user_name(), reason, source_tag)
                journal.append({**dataclasses.asdict(change), "time": now.isoformat(timespec="microseconds")})
        except filelock.Timeout as error:
            raise UserError(f"another process has been changing {self.path} for {_LOCK_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise UserError(f"{self.path} cannot be written: {error.strerror}") from error
        return change

    def changes(self) -> list[TagChange]:
        """Returns the changes, oldest first."""
        known = [entry for entry in self._entries() if isinstance(entry, dict)]
        return [msgspec.convert(entry, TagChange) for entry in known if entry.get("action") in ("add", "remove")]

    def _entries(self) -> Iterator[dict[str, Any]]:
        if packed_place(self.path) is None:
            yield from Journal(self.path).entries()
            return
        files = files_of(self.path.parent)
        if files.status(self.path.name) is not None:
            with files.open(self.path.name) as stream:
                yield from journal_entries(stream)

    def history(self, tag: str) -> list[TagChange]:
        """Returns the changes of one tag, oldest first."""
        return [change for change in self.changes() if change.tag == tag]

    def applied(self, own: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
        """Returns the tags of runs, sorted: those that they were born with, then the journal's changes in order."""
        tags = {run: set(given) for run, given in own.items()}
        for change in self.changes():
            for run in change.runs:
                if run in tags:
                    (tags[run].add if change.action == "add" else tags[run].discard)(change.tag)
        return {run: sorted(found) for run, found in tags.items()}


def check_tag(tag: str) -> None:
    """Refuses what the filter languages could not name.

    Raises:
        UserError: the tag is empty or holds a sign of a filter language.
    """
    if not _NAME.fullmatch(tag):
        raise UserError(f"{tag!r} cannot be a tag", hint="use no space and none of ; ! ? , & =")
