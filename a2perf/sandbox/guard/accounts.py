"""Joins, reads and removes a control group through plain files, the same for both versions."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REMOVE_S = 1.0


class Accounts:
    """One control group; without one every method does nothing.

    Args:
        document: ``join``: files that take a process id; ``remove``: folders to delete at the end; ``counters``: by
            name, a file and the key of its line (empty: the file is one number).
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self._join: list[str] = document.get("join", [])
        self._remove: list[str] = document.get("remove", [])
        self._counters: dict[str, tuple[str, str]] = document.get("counters", {})

    @property
    def joins(self) -> bool:
        """Whether the tree joins the group; else this process is in it from the start."""
        return bool(self._join)

    def join(self) -> None:
        """Moves this process, and all that it will start, into the group.

        Raises:
            OSError: the group is gone or refuses it.
        """
        for path in self._join:
            descriptor = os.open(path, os.O_WRONLY)
            os.write(descriptor, b"0")  # 0 stands for the writing process
            os.close(descriptor)

    def read(self, name: str, missing: int = 0) -> int:
        """Returns a counter, or ``missing`` if this host does not keep it."""
        path, key = self._counters.get(name, ("", ""))
        try:
            with open(path, "rb") as stream:
                text = stream.read()
            if not key:
                return int(text)
            for line in text.splitlines():
                word, _, value = line.partition(b" ")
                if word == key.encode():
                    return int(value)
        except (OSError, ValueError):
            pass
        return missing

    def remove(self) -> None:
        """Deletes the group. Its last process may take a moment to leave, so this is retried for a second."""
        deadline = time.monotonic() + REMOVE_S
        for path in self._remove:
            while True:
                try:
                    os.rmdir(path)
                except FileNotFoundError:
                    pass
                except OSError:
                    if time.monotonic() < deadline:
                        time.sleep(0.002)
                        continue
                break
