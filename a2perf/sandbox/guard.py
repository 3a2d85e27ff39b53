"""The guard: a small process between the evaluator and the participant, so that nothing outlives the evaluator.

Run as a script (``python -I -S guard.py FD``); it starts one child under resource limits and stays its parent. As
child sub-reaper it inherits every orphan of the tree, also those that made a session of their own. When the evaluator
asks, or dies (its end of the control socket closes, or the kernel's parent-death signal arrives), or the child ends,
the guard kills what is left of the tree and only then exits itself. It also copies the child's stdout and stderr into
capped log files, so that the evaluator needs no thread for it and a full pipe never blocks the participant.

Wire (control socket): one ``marshal`` document from the evaluator, then the single byte ``K`` to kill. The guard
answers with lines of text: ``started PID``, ``failed ERRNO``, ``limit NAME VALUE``, ``output STREAM``,
``exited STATUS MAX_RSS_KIB``, ``done STDOUT_DROPPED STDERR_DROPPED CPU_S MAX_RSS_KIB PEAK_TREE_BYTES``.

Standard library only, and only modules that load in a millisecond: the start of the guard is part of every run. That
is why it says ``_signal`` and ``marshal`` (the evaluator is trusted) where others would say ``signal`` and ``json``,
reads its socket by descriptor, and does without ``typing`` and ``contextlib``.
"""
# ruff: noqa: SIM105

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signals
    from typing import Any
else:
    import _signal as signals

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
CHUNK_BYTES = 1 << 18
PIPE_BYTES = 1 << 20
SAMPLE_INTERVAL_S = 0.25
DRAIN_S = 2.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_RLIMITS = {
    "cpu_s": resource.RLIMIT_CPU,
    "memory_bytes": resource.RLIMIT_DATA,
    "file_size_bytes": resource.RLIMIT_FSIZE,
}


def descendants(root: int) -> list[int]:
    """Returns the process ids of every living or unreaped descendant of ``root``, parents before children."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as stream:
                fields = stream.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended while we looked
        children.setdefault(int(fields[1]), []).append(int(entry))
    found = list(children.get(root, ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def kill_descendants(root: int) -> int:
    """Sends SIGKILL to every descendant of ``root``; returns how many there were.

    The tree is stopped first, until a look finds no new member: a process that forks faster than we kill cannot win.
    """
    stopped: set[int] = set()
    for _ in range(100):
        fresh = [pid for pid in descendants(root) if pid not in stopped]
        if not fresh:
            break
        for pid in fresh:
            stopped.add(pid)
            _send(pid, signals.SIGSTOP)
    for pid in stopped:
        _send(pid, signals.SIGKILL)
    return len(stopped)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


class _Log:
    """One captured stream: a pipe's read end, and the file it is copied to up to a cap."""

    def __init__(self, name: str, path: str | None, cap: int) -> None:
        self.name = name
        self.source, self.sink = os.pipe()
        os.set_blocking(self.source, False)
        try:
            import fcntl

            fcntl.fcntl(self.source, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            pass  # the host's limit on pipe memory is reached; the default size is only slower
        self.target = -1
        if path is not None:
            self.target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self.room = cap
        self.dropped = 0

    def pump(self) -> bool:
        """Copies what is there; returns False at the end of the stream."""
        try:
            data = os.read(self.source, CHUNK_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        kept = data[: self.room]
        written = self._write(kept)
        self.room = self.room - written if written == len(kept) else 0
        self.dropped += len(data) - written
        return True

    def finish(self) -> None:
        if self.dropped:
            self._write(b"\n[a2perf: %d further bytes of output were dropped]\n" % self.dropped)

    def _write(self, data: bytes) -> int:
        if self.target < 0:
            return 0
        done = 0
        try:
            while done < len(data):
                done += os.write(self.target, data[done:])
        except OSError:
            pass  # a full disk must end neither the guard nor the participant; the rest counts as dropped
        return done


class _Guard:
    def __init__(self, control: int, spec: dict[str, Any]) -> None:
        self.control = control
        self.spec = spec
        self.limits: dict[str, float] = spec["limits"]
        self.logs = [_Log(name, spec[name], int(spec["output_bytes"])) for name in ("stdout", "stderr")]
        self.root = 0
        self.peak_tree_bytes = 0
        self.ended = False
        self.next_sample = 0.0
        self.started_at = time.monotonic()

    def tell(self, line: str) -> None:
        try:
            os.write(self.control, line.encode() + b"\n")
        except OSError:
            pass  # the evaluator is gone; the loop sees the same and kills the tree

    def run(self) -> None:
        self._start_child()
        if self.root:
            self._watch()
        kill_descendants(os.getpid())
        self._reap_all()
        self._drain()
        for log in self.logs:
            log.finish()
        for path in self.spec["temporary"]:
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        dropped = " ".join(str(log.dropped) for log in self.logs)
        self.tell(f"done {dropped} {used.ru_utime + used.ru_stime:.6f} {used.ru_maxrss} {self.peak_tree_bytes}")

    def _start_child(self) -> None:
        report, report_end = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_participant(parent)
            except OSError as error:
                os.write(report_end, str(error.errno or 1).encode())
            except BaseException:
                os.write(report_end, b"1")
            os._exit(127)
        os.close(report_end)
        for descriptor in (*self.spec["fds"], *(log.sink for log in self.logs)):
            os.close(descriptor)
        problem = os.read(report, 64)
        os.close(report)
        if problem:
            self.tell(f"failed {problem.decode()}")
        else:
            self.root = pid
            self.tell(f"started {pid}")

    def _become_participant(self, parent: int) -> None:
        """Runs in the fork: sets everything that ``exec`` keeps, then becomes the participant."""
        for number in range(1, 32):
            if number not in (signals.SIGKILL, signals.SIGSTOP):
                signals.signal(number, signals.SIG_DFL)
        os.setsid()
        _prctl(PR_SET_PDEATHSIG, signals.SIGKILL)  # holds even when the participant kills the guard
        if os.getppid() != parent:
            os._exit(127)
        os.umask(0o022)
        if self.spec["confined"]:
            _prctl(PR_SET_NO_NEW_PRIVS, 1)
            self._set_limits()
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        for number, log in enumerate(self.logs, start=1):
            os.dup2(log.sink, number)
        for descriptor in self.spec["fds"]:
            os.set_inheritable(descriptor, True)
        os.chdir(self.spec["cwd"])
        os.execve(self.spec["argv"][0], self.spec["argv"], self.spec["env"])

    def _set_limits(self) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for name, kind in _RLIMITS.items():
            value = self.limits.get(name)
            if value is None:
                continue
            wanted = max(1, int(value))
            hard = resource.getrlimit(kind)[1]
            if hard != resource.RLIM_INFINITY:
                wanted = min(wanted, hard)
            # one second between the soft CPU limit (SIGXCPU) and the hard one (SIGKILL), so that the cause shows
            above = wanted + 1 if kind == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY else wanted
            resource.setrlimit(kind, (wanted, above))

    def _watch(self) -> None:
        """Pumps, reaps and samples until the tree has to end."""
        wake, wake_end = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wake_end, False)
        signals.set_wakeup_fd(wake_end)
        evaluator = os.getppid()
        asked = [False]

        def ask(number: int, frame: object) -> None:
            # the parent-death signal also comes when only the thread that started us ended: then nothing is to do
            if number == signals.SIGTERM or os.getppid() != evaluator:
                asked[0] = True

        signals.signal(signals.SIGTERM, ask)
        signals.signal(signals.SIGUSR1, ask)
        signals.signal(signals.SIGCHLD, lambda number, frame: None)
        _prctl(PR_SET_PDEATHSIG, signals.SIGUSR1)
        if os.getppid() != self.spec["evaluator"]:
            return
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        sources = {log.source: log for log in self.logs}
        for source in sources:
            poll.register(source, select.POLLIN)
        self._reap()  # the child may have ended before the handler was there
        while not (self.ended or asked[0]):
            for descriptor, _ in poll.poll(self._pause_ms()):
                if descriptor == wake:
                    os.read(wake, 4096)
                    self._reap()
                elif descriptor in sources:
                    log = sources[descriptor]
                    before = log.dropped
                    if not log.pump():
                        poll.unregister(descriptor)
                    elif log.dropped and not before:
                        self.tell(f"output {log.name}")
                else:
                    return  # "K", or the end of the stream: the evaluator died
            if self._over_limit():
                return

    def _pause_ms(self) -> int | None:
        if not self.spec["confined"]:
            return None
        if "memory_bytes" in self.limits or "processes" in self.limits:
            return int(SAMPLE_INTERVAL_S * 1000)
        if "wall_s" in self.limits:
            return max(0, int((self.started_at + self.limits["wall_s"] - time.monotonic()) * 1000) + 1)
        return None

    def _over_limit(self) -> bool:
        if not self.spec["confined"]:
            return False
        now = time.monotonic()
        if now - self.started_at >= self.limits.get("wall_s", float("inf")):
            self.tell(f"limit wall_s {now - self.started_at:.3f}")
            return True
        if "memory_bytes" not in self.limits and "processes" not in self.limits:
            return False
        if now < self.next_sample:
            return False
        self.next_sample = now + SAMPLE_INTERVAL_S
        members = descendants(os.getpid())
        if len(members) > self.limits.get("processes", float("inf")):
            self.tell(f"limit processes {len(members)}")
            return True
        allowed = self.limits.get("memory_bytes", float("inf"))
        used = sum(_resident_bytes(pid) for pid in members)
        if used > allowed:  # shared pages count once for the verdict; reading them is too dear for every sample
            used = sum(_proportional_bytes(pid) for pid in members)
        self.peak_tree_bytes = max(self.peak_tree_bytes, used)
        if used > allowed:
            self.tell(f"limit memory_bytes {used}")
            return True
        return False

    def _reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._note(pid, status, used.ru_maxrss)

    def _reap_all(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid:
                self._note(pid, status, used.ru_maxrss)
            else:
                kill_descendants(os.getpid())
                time.sleep(0.002)

    def _note(self, pid: int, status: int, max_rss_kib: int) -> None:
        if pid == self.root:
            self.ended = True
            self.tell(f"exited {status} {max_rss_kib}")

    def _drain(self) -> None:
        """Reads what is still in the pipes; bounded, since a stranger may hold their other end."""
        deadline = time.monotonic() + DRAIN_S
        for log in self.logs:
            while time.monotonic() < deadline and select.select([log.source], [], [], 0)[0]:
                if not log.pump():
                    break


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as stream:
            return int(stream.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as stream:
            for line in stream:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, IndexError):
        pass
    return 0


def main() -> None:
    """Reads the specification from the control socket and guards until the tree is gone."""
    for number in (signals.SIGINT, signals.SIGHUP, signals.SIGPIPE):
        signals.signal(number, signals.SIG_IGN)
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    document = b""
    size = 4
    while len(document) < size:
        data = os.read(control, size - len(document))
        if not data:
            return  # the evaluator ended before it said anything
        document += data
        if size == 4 and len(document) == 4:
            size = 4 + int.from_bytes(document, "little")
    _Guard(control, marshal.loads(document[4:])).run()


if __name__ == "__main__":
    main()
