"""Every start of a run: what it used, how it ended, and what the earlier starts leave to the next one.

A run that was killed or interrupted resumes in its bundle, and its budgets span these attempts. What an attempt has
used is written every ``BEAT_S`` into a file whose room was taken before the participant started, so neither SIGKILL nor
a full disk resets it. Attempts whose bundle lies in the attic used budgets of their own, but they are listed too: a run
that was started four times is one of four.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.errors import UserError
from a2perf.records import Attempt, Manifest
from a2perf.runs.inventory import read_manifest
from a2perf.runs.layout import ATTIC, HEARTBEAT
from a2perf.runs.process_identity import start_ticks, this_boot

BEAT_S = 1.0
"""Period of the heartbeat: an attempt that is killed may have used this much more than was counted."""

REASON_VARIABLE = "A2PERF_ATTEMPT_REASON"
"""Environment variable by which a launcher says why it starts a run again that had ended."""

OUT_OF_REACH = ("bubblewrap", "docker")
"""Levels at which a participant cannot send a signal to the evaluator."""

KILLED = "killed"
"""Outcome of an attempt that did not come to write one."""

_FILE_BYTES = 512  # one sector: it is written in one piece or not at all
_MOST_ARCHIVED = 1000


@dataclass(frozen=True)
class Used:
    """What earlier attempts of a bundle used of its budgets.

    Attributes:
        train_s: wall time of ``train()`` by the evaluator's clock.
        net_kwh: energy above idle.
        gross_kwh: energy, as far as it is known: an attempt that was killed counts with its energy above idle.
        wall_s: wall time of the attempts.
    """

    train_s: float = 0.0
    net_kwh: float = 0.0
    gross_kwh: float = 0.0
    wall_s: float = 0.0


def used(attempts: Sequence[Attempt]) -> Used:
    """Returns what attempts used of the budgets of one bundle; those in the attic had another one."""
    own = [attempt for attempt in attempts if attempt.archived is None]
    return Used(
        train_s=sum(attempt.train_s or 0.0 for attempt in own),
        net_kwh=sum(attempt.net_kwh or 0.0 for attempt in own),
        gross_kwh=sum(attempt.gross_kwh or attempt.net_kwh or 0.0 for attempt in own),
        wall_s=sum(attempt.wall_s or 0.0 for attempt in own),
    )


def new_attempt(before: Sequence[Attempt]) -> Attempt:
    """Returns the attempt that begins now."""
    boot, _, namespace = this_boot().partition("/")
    return Attempt(
        number=len(before) + 1,
        started_at=now(),
        host=socket.gethostname(),
        pid=os.getpid(),
        boot_id=boot,
        start_ticks=start_ticks(os.getpid()),
        pid_namespace=namespace,
        reason=os.environ.get(REASON_VARIABLE, ""),
    )


def resumed(bundle: Path, found: Manifest) -> list[Attempt]:
    """Returns the attempts of a bundle that is resumed; a killed one ends with its last heartbeat."""
    attempts = list(found.attempts)
    if attempts and attempts[-1].finished_at is None:
        _end_by_heartbeat(bundle, attempts[-1])
    return attempts


def archived(bundle: Path, same_run: Callable[[Manifest], bool]) -> list[Attempt]:
    """Returns the attempts of a run whose bundles were put into the attic, oldest first.

    Args:
        bundle: where the next one is made.
        same_run: whether a manifest is one of the same code, configuration, task and seed.
    """
    attempts: list[Attempt] = []
    folders = sorted((bundle.parent / ATTIC).glob(f"{bundle.name}-*"))
    for folder in folders[-_MOST_ARCHIVED:]:
        try:
            manifest = read_manifest(folder)
        except (UserError, OSError):
            continue
        if not same_run(manifest):
            continue
        own = [attempt for attempt in resumed(folder, manifest) if attempt.archived is None]
        for attempt in own:
            attempt.archived = folder.name
            attempt.number = len(attempts) + 1
            attempts.append(attempt)
    return attempts


def killed_from_outside(number: int, level: str | None, *, oom_killed: bool) -> bool:
    """Whether a signal that ended an evaluator can only have come from outside of its run.

    A participant may end the evaluator where both are processes of one user, it may crash it through what it makes the
    environment do, and it may take all memory, which makes the kernel kill somebody.

    Args:
        number: of the signal; SIGTERM for an evaluator that was asked to end.
        level: of the participant's sandbox.
        oom_killed: whether the kernel killed some process of the host for lack of memory meanwhile.
    """
    return number in (signal.SIGKILL, signal.SIGTERM) and level in OUT_OF_REACH and not oom_killed


def now() -> str:
    """Returns the time as ISO 8601 in UTC with milliseconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


class AttemptClock:
    """Counts what the attempt of an open bundle uses, and writes it down while the run lasts.

    Args:
        bundle: the bundle's folder.
        attempt: the record that ``end`` completes.
    """

    def __init__(self, bundle: Path, attempt: Attempt) -> None:
        self.attempt = attempt
        self._path = bundle / HEARTBEAT
        self._started = time.perf_counter()
        self._train_started: float | None = None
        self._train_s: float | None = None
        self._net_kwh: Callable[[], float] | None = None
        self._over = threading.Event()
        self._descriptor: int | None = None

    @contextlib.contextmanager
    def beating(self) -> Iterator[None]:
        """Writes heartbeats while the context lasts.

        Raises:
            OSError: there is no room for the file.
        """
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(self._descriptor, 0, _FILE_BYTES)
            self.beat()
            thread = threading.Thread(target=self._beat_on, name="a2perf-heartbeat", daemon=True)
            thread.start()
            try:
                yield
            finally:
                self._over.set()
                thread.join()
        finally:
            os.close(self._descriptor)
            self._descriptor = None

    def train_begins(self) -> None:
        """Starts the time of ``train()``."""
        self._train_started, self._train_s = time.perf_counter(), None

    def train_ends(self) -> float:
        """Returns the seconds of ``train()``."""
        if self._train_s is None:
            self._train_s = 0.0 if self._train_started is None else time.perf_counter() - self._train_started
        return self._train_s

    def follow_energy(self, net_kwh: Callable[[], float]) -> None:
        """Takes the energy of the participant's tree from a running account."""
        self._net_kwh = net_kwh

    def end(self) -> None:
        """Completes the record of the attempt."""
        values = self._values()
        attempt = self.attempt
        attempt.wall_s, attempt.train_s = values["wall_s"], values["train_s"]
        if attempt.net_kwh is None:
            attempt.net_kwh = values["net_kwh"]

    def forget(self) -> None:
        """Removes the file, once the record is written."""
        self._path.unlink(missing_ok=True)

    def beat(self) -> None:
        """Writes down what was used so far, in place."""
        if self._descriptor is not None:
            line = json.dumps({"number": self.attempt.number, "at": now(), **self._values()}).encode()
            os.pwrite(self._descriptor, line.ljust(_FILE_BYTES), 0)
            os.fdatasync(self._descriptor)

    def _beat_on(self) -> None:
        while not self._over.wait(BEAT_S):
            with contextlib.suppress(OSError):  # the next one may come through; the run itself says what is wrong
                self.beat()

    def _values(self) -> dict[str, float | None]:
        at = time.perf_counter()
        train_s = self._train_s
        if train_s is None and self._train_started is not None:
            train_s = at - self._train_started
        net_kwh = None if self._net_kwh is None else self._net_kwh()
        return {"wall_s": at - self._started, "train_s": train_s, "net_kwh": net_kwh}


def end_killed(bundle: Path, manifest: Manifest, outcome: str) -> None:
    """Completes the last attempt of a manifest whose evaluator did not, and removes what it left for that."""
    if manifest.attempts and manifest.attempts[-1].finished_at is None:
        _end_by_heartbeat(bundle, manifest.attempts[-1])
        manifest.attempts[-1].outcome = outcome
    (bundle / HEARTBEAT).unlink(missing_ok=True)


def with_earlier(report: dict[str, Any], attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Adds the earlier attempts of a bundle to a tracking report: wall time, energy and emissions are sums then.

    Args:
        report: of the last attempt; changed.
        attempts: all of them.
    """
    energy, emissions = report.get("energy"), report.get("emissions")
    count = sum(attempt.archived is None for attempt in attempts)
    if count < 2 or not isinstance(energy, dict):
        return report
    earlier = used(attempts[:-1])
    report["wall_s"] = report.get("wall_s", 0.0) + earlier.wall_s
    energy["gross_kwh"] = energy.get("gross_kwh", 0.0) + earlier.gross_kwh
    energy["net_kwh"] = energy.get("net_kwh", 0.0) + earlier.net_kwh
    energy["method"] = f"{energy.get('method', 'none')}; sum over {count} attempts, parts and powers of the last"
    if isinstance(emissions, dict) and "kg_per_kwh" in emissions:
        emissions["kg_co2eq"] = energy["gross_kwh"] * emissions["kg_per_kwh"]
    return report


def _end_by_heartbeat(bundle: Path, attempt: Attempt) -> None:
    path = bundle / HEARTBEAT
    attempt.outcome = KILLED
    try:
        seen = datetime.datetime.fromtimestamp(path.lstat().st_mtime, datetime.UTC)
        with open(path, "rb") as stream:
            content = stream.read(_FILE_BYTES)
    except OSError:
        return
    attempt.finished_at = seen.isoformat(timespec="milliseconds")
    try:
        values = json.loads(content)
        if values["number"] != attempt.number:
            return
        attempt.finished_at = str(values["at"])
        for name in ("wall_s", "train_s", "net_kwh"):
            if values[name] is not None:
                setattr(attempt, name, max(0.0, float(values[name])))
    except (ValueError, KeyError, TypeError):  # a power cut tore it: its time stamp is left, and counts as training
        began = datetime.datetime.fromisoformat(attempt.started_at)
        attempt.wall_s = attempt.train_s = max(0.0, (seen - began).total_seconds())
