"""Finds the files that a command wrote while other commands write into the same folders.

A plain script chooses where it logs, usually ``runs/<name>`` below the working directory, and several scripts run at
the same time. A file that is new or changed since the start belongs to a run by the first of these rules that applies:

1. A process of the run had it open for writing (the run's descriptors are inspected while it executes).
2. Its name contains this host and the process id of one of them, like the names of TensorBoard event files.
3. The path contains this run's environment and seed as whole words, ``CartPole-v1__ppo__1__1700000000/progress.csv``.
4. Its folder holds an event file of the run, by rule 1 or 2, and none of another run.
5. No other run was executing, and the file may hold a curve.

Other files are not collected. Files in ``A2PERF_RUN_DIR`` need no rule: they all belong to the run.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from a2perf.runs.bundles.layout import ATTIC
from a2perf.runs.bundles.run_record import RUN_FILE, TAGS_FILE
from a2perf.system import LINUX

_KINDS = (".csv", ".json", ".jsonl", ".yaml", ".yml", ".wandb", ".txt", ".toml", ".gin", ".mp4")
_CURVES = (".csv", ".jsonl", ".wandb")
_SKIPPED = {"node_modules", "site-packages", "__pycache__", ATTIC}
_DEEPEST = 8
_MOST_ENTRIES = 200_000
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR
_EVENT_PID = re.compile(r"tfevents\.\d+\.(?P<host>.+?)\.(?P<pid>\d+)\.\d+")


@dataclass
class WrittenFiles:
    """The files below a folder before a run, and the observed processes and open files of the run.

    Args:
        alone: whether no other run executed at the same time.
    """

    folder: Path
    env_id: str
    seed: int
    alone: bool = False
    pids: set[int] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._before = dict(self._listed())

    def look(self, pids: Iterable[int]) -> None:
        """Records which files the run's processes have open for writing; cheap enough to be called in a loop."""
        for pid in pids:
            self.pids.add(pid)
            self.opened.update(_open_for_writing(pid))

    def found(self) -> dict[Path, str]:
        """Returns the run's files, each with the rule that applied."""
        changed = [Path(name) for name, state in self._listed() if self._before.get(name) != state]
        owned: dict[Path, str] = {}
        for path in changed:
            if str(path) in self.opened:
                owned[path] = "open file"
            elif _event_pid(path.name) in self.pids:
                owned[path] = "process id"
        others = {path.parent for path in changed if path not in owned and "tfevents" in path.name}
        folders = {path.parent for path in owned if "tfevents" in path.name} - others
        has_events = any(_event_pid(path.name) is not None for path in owned)
        for path in changed:
            if path in owned:
                continue
            # the process of an event file may have ended before it was observed, or belong to another run
            foreign = _event_pid(path.name) is not None and has_events
            if self._named(path) and not foreign:
                owned[path] = "name of environment and seed"
            elif path.parent in folders:
                owned[path] = "same folder"
            elif self.alone and _may_hold_curve(path.name):
                owned[path] = "ran alone"
        owned.update(dict.fromkeys(self._elsewhere(), "open file elsewhere"))
        return dict(sorted(owned.items()))

    def _elsewhere(self) -> Iterator[Path]:
        """Yields curves that the run wrote outside the folder, or in it behind a symbolic link."""
        listed = {name for name, _ in self._listed()}
        for name in self.opened - listed:
            path = Path(name)
            if not _may_hold_curve(path.name) or not path.is_file() or path.is_relative_to(self.folder):
                continue
            if not any(
                (parent / RUN_FILE).exists() for parent in path.parents
            ):  # files of a store belong to other runs
                yield path

    def _named(self, path: Path) -> bool:
        text = path.relative_to(self.folder).as_posix()
        env = re.escape(self.env_id).replace("/", "[/_-]")
        if not re.search(rf"(?<![A-Za-z0-9]){env}(?![A-Za-z0-9])", text):
            return False
        # Gymnasium numbers its videos, rl-video-episode-1.mp4
        rest = re.sub(rf"(?<![A-Za-z0-9]){env}(?![A-Za-z0-9])|(?:episode|step)-\d+", " ", text)
        # a number after the seed is something else: a time, a version
        return re.search(rf"(?<![A-Za-z0-9.])(?:s|seed)?[_\-=]?{self.seed}(?![A-Za-z0-9])", rest) is not None

    def _listed(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        pending = [(str(self.folder), 0)]
        entries_left = _MOST_ENTRIES
        while pending and entries_left > 0:
            folder, depth = pending.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError:
                continue
            entries_left -= len(entries)
            if any(entry.name == "pyvenv.cfg" for entry in entries):
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if (
                        depth < _DEEPEST
                        and not entry.name.startswith(".")
                        and entry.name not in _SKIPPED
                        and not os.path.exists(os.path.join(entry.path, RUN_FILE))  # a run of the store
                    ):
                        pending.append((entry.path, depth + 1))
                elif _is_record(entry.name) and entry.name != TAGS_FILE:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if stat.S_ISREG(status.st_mode):
                        yield entry.path, (status.st_size, status.st_mtime_ns, status.st_ino)


def descendants(pid: int) -> list[int]:
    """Returns the descendants of a process; skips processes that end during the search."""
    if not LINUX:
        import psutil

        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    found: list[int] = []
    pending = [pid]
    while pending:
        parent = pending.pop()
        try:
            threads = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        # The kernel lists a child only with the thread that started it.
        for thread in threads:
            try:
                with open(f"/proc/{parent}/task/{thread}/children") as stream:
                    children = [int(word) for word in stream.read().split()]
            except (OSError, ValueError):
                continue
            found += children
            pending += children
    return found


def _may_hold_curve(name: str) -> bool:
    return "tfevents" in name or name.endswith(_CURVES)


def _is_record(name: str) -> bool:
    return "tfevents" in name or name.endswith(_KINDS)


def _open_for_writing(pid: int) -> Iterator[str]:
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for descriptor in descriptors:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            if not target.startswith("/") or not _is_record(target.rsplit("/", 1)[1]):
                continue
            with open(f"/proc/{pid}/fdinfo/{descriptor}") as stream:
                flags = next((int(line.split()[1], 8) for line in stream if line.startswith("flags:")), 0)
        except (OSError, ValueError):
            continue
        if flags & _WRITE_FLAGS:
            yield target


def _event_pid(name: str) -> int | None:
    """Returns the process id from an event file's name if the file was written on this host; otherwise None."""
    found = _EVENT_PID.search(name)
    if found is None or found["host"] != socket.gethostname():
        return None
    return int(found["pid"])
