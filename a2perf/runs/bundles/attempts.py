"""The attempts of a run: what each one used, how it ended, and what remains of the budgets.

A killed or interrupted run resumes in its bundle, and its budgets span all attempts. Every ``BEAT_S`` the usage is
written into a file that was allocated before the participant started, so neither SIGKILL nor a full disk resets it.
Attempts in the attic had separate budgets but are listed too, because a reader must see that a run was started four
times.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.errors import UserError
from a2perf.records import Attempt, FailureKind, Manifest
from a2perf.runs.bundles.inventory import read_manifest
from a2perf.runs.bundles.layout import ATTIC, HEARTBEAT
from a2perf.runs.bundles.process_identity import start_ticks, this_boot
from a2perf.system import KILL, reserve
from a2perf.system import files as os

BEAT_S = 1.0
"""Period of the heartbeat in seconds; a killed attempt may have used this much more than was counted."""

REASON_VARIABLE = "A2PERF_ATTEMPT_REASON"
"""Environment variable in which a launcher gives the option for which a run that had ended starts again.

It is empty if the launcher's queue decided without an option, and not set if nobody did.
"""

RETRY_FAILED, RETRY_INFRASTRUCTURE = "--retry failed", "--retry infrastructure"
"""The options for which a failed run starts again."""

OUT_OF_REACH = ("bubblewrap", "docker")
"""Levels at which a participant cannot send a signal to the evaluator."""

KILLED = "killed"
"""Outcome of an attempt that ended before it could record one."""

_FILE_BYTES = 512  # one disk sector, which is written completely or not at all
_MOST_ARCHIVED = 1000


@dataclass(frozen=True)
class Used:
    """The usage of a bundle's budgets by earlier attempts.

    Attributes:
        train_s: wall time of the process trees of training runs.
        gross_kwh: energy; of a killed attempt only the part above idle, because the rest is unknown.
    """

    train_s: float = 0.0
    net_kwh: float = 0.0
    gross_kwh: float = 0.0
    wall_s: float = 0.0


def used(attempts: Sequence[Attempt]) -> Used:
    """Returns the usage of one bundle's budgets by its attempts; those in the attic belonged to another bundle."""
    own = [attempt for attempt in attempts if attempt.archived is None]
    return Used(
        train_s=sum(attempt.train_s or 0.0 for attempt in own),
        net_kwh=sum(attempt.net_kwh or 0.0 for attempt in own),
        gross_kwh=sum(attempt.gross_kwh or attempt.net_kwh or 0.0 for attempt in own),
        wall_s=sum(attempt.wall_s or 0.0 for attempt in own),
    )


def new_attempt(before: Sequence[Attempt]) -> Attempt:
    """Returns the record of an attempt that starts now."""
    boot, _, namespace = this_boot().partition("/")
    return Attempt(
        number=len(before) + 1,
        started_at=now(),
        host=socket.gethostname(),
        pid=os.getpid(),
        boot_id=boot,
        start_ticks=start_ticks(os.getpid()),
        pid_namespace=namespace,
        reason=os.environ.get(REASON_VARIABLE, "") if before else "",
    )


def resumed(bundle: Path, found: Manifest) -> list[Attempt]:
    """Returns the attempts of a bundle that is resumed; a killed one ended at its last heartbeat."""
    attempts = list(found.attempts)
    if attempts and attempts[-1].finished_at is None:
        _end_by_heartbeat(bundle, attempts[-1])
    return attempts


def archived(bundle: Path, same_run: Callable[[Manifest], bool]) -> list[Attempt]:
    """Returns the attempts of a run from its bundles in the attic, oldest first."""
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
            attempt.archived, attempt.number = folder.name, len(attempts) + 1
            attempts.append(attempt)
    return attempts


def may_restart(failed: Manifest) -> bool:
    """Returns whether a failed run may start again: a participant must not get a second attempt at its seeds.

    It may if its code had not started in the last attempt, and for an option or the queue of its launcher.
    """
    option = os.environ.get(REASON_VARIABLE)
    if option == RETRY_INFRASTRUCTURE:
        return failed.failure is not None and failed.failure.kind is FailureKind.INFRASTRUCTURE
    return option is not None or not failed.attempts or failed.attempts[-1].participant_started_at is None


def killed_from_outside(number: int, level: str | None, *, oom_killed: bool) -> bool:
    """Whether a signal that ended an evaluator can only have come from outside its run.

    A participant can end the evaluator in three ways: by a signal, if both run as the same user; by a crash, through
    the actions that it sends to the environment; by using all memory until the kernel kills a process.
    """
    return number in (KILL, signal.SIGTERM) and level in OUT_OF_REACH and not oom_killed


def now() -> str:
    """Returns the time as ISO 8601 in UTC with milliseconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


class AttemptClock:
    """Counts the usage of an open bundle's attempt and records it during the run."""

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
        """Writes heartbeats until the context ends; raises ``OSError`` if the file cannot be allocated."""
        # O_NOFOLLOW: a link in this place would lead the writes out of the bundle.
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            reserve(self._descriptor, _FILE_BYTES)
            # Before the participant starts: the file may still contain the last beat of a killed attempt.
            self.beat()
            thread = threading.Thread(target=self._beat_on, name="a2perf-heartbeat", daemon=True)
            thread.start()
            try:
                yield
            finally:
                self._over.set()
                # Before the descriptor is closed: its number could then belong to another file.
                thread.join()
        finally:
            os.close(self._descriptor)
            self._descriptor = None

    def train_begins(self) -> None:
        """Starts timing the process tree of a training run."""
        self._train_started, self._train_s = time.perf_counter(), None

    def train_ends(self, wall_s: float | None = None) -> float:
        """Returns the wall time of the training run in seconds; ``wall_s``: as measured elsewhere."""
        if self._train_s is None:
            self._train_s = wall_s
        if self._train_s is None:
            self._train_s = 0.0 if self._train_started is None else time.perf_counter() - self._train_started
        return self._train_s

    def follow_energy(self, net_kwh: Callable[[], float]) -> None:
        """Sets the function that returns the energy of the participant's process tree so far."""
        self._net_kwh = net_kwh

    def end(self) -> None:
        """Completes the record of the attempt."""
        values = self._values()
        attempt = self.attempt
        attempt.wall_s, attempt.train_s = values["wall_s"], values["train_s"]
        if attempt.net_kwh is None:
            attempt.net_kwh = values["net_kwh"]

    def forget(self) -> None:
        """Removes the file after the record has been written."""
        self._path.unlink(missing_ok=True)

    def beat(self) -> None:
        """Records the usage so far, in place: overwriting needs no new disk space."""
        if self._descriptor is not None:
            line = json.dumps({"number": self.attempt.number, "at": now(), **self._values()}).encode()
            # Padded: otherwise the end of a longer line would remain behind a shorter one.
            os.pwrite(self._descriptor, line.ljust(_FILE_BYTES), 0)
            os.fsync(self._descriptor)

    def _beat_on(self) -> None:
        while not self._over.wait(BEAT_S):
            with contextlib.suppress(OSError):  # the next one may succeed; the run itself reports a broken disk
                self.beat()

    def _values(self) -> dict[str, float | None]:
        at = time.perf_counter()
        train_s = self._train_s
        if train_s is None and self._train_started is not None:
            train_s = at - self._train_started
        net_kwh = None if self._net_kwh is None else self._net_kwh()
        return {"wall_s": at - self._started, "train_s": train_s, "net_kwh": net_kwh}


def end_killed(bundle: Path, manifest: Manifest, outcome: str) -> None:
    """Completes the last attempt of a manifest after its evaluator was killed, and removes the heartbeat file."""
    if manifest.attempts and manifest.attempts[-1].finished_at is None:
        _end_by_heartbeat(bundle, manifest.attempts[-1])
        manifest.attempts[-1].outcome = outcome
    (bundle / HEARTBEAT).unlink(missing_ok=True)


def with_earlier(report: dict[str, Any], attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Adds the earlier attempts to the tracking report of the last one: wall time, energy and emissions become sums.

    Earlier attempts have no recorded uncertainty: they get that of the last one, in proportion to their energy.
    """
    energy, emissions = report.get("energy"), report.get("emissions")
    count = sum(attempt.archived is None for attempt in attempts)
    if count < 2 or not isinstance(energy, dict):
        return report
    earlier = used(attempts[:-1])
    report["wall_s"] = report.get("wall_s", 0.0) + earlier.wall_s
    for kind, before in (("gross", earlier.gross_kwh), ("net", earlier.net_kwh)):
        last = energy.get(f"{kind}_kwh", 0.0)
        energy[f"{kind}_kwh"] = last + before
        unsure = energy.get(f"{kind}_uncertainty")
        if isinstance(unsure, dict) and before > 0:
            factor = (last + before) / last if last > 0 else 0.0
            energy[f"{kind}_uncertainty"] = {
                name: value if name == "coverage_factor" else factor * value for name, value in unsure.items() if factor
            }
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
        # The attempt was killed before its first beat, and the file is that of an earlier one.
        if values["number"] != attempt.number:
            return
        attempt.finished_at = str(values["at"])
        for name in ("wall_s", "train_s", "net_kwh"):
            if values[name] is not None:
                setattr(attempt, name, max(0.0, float(values[name])))
    except (ValueError, KeyError, TypeError):  # torn by a power failure: count its whole time as training
        began = datetime.datetime.fromisoformat(attempt.started_at)
        attempt.wall_s = attempt.train_s = max(0.0, (seen - began).total_seconds())
