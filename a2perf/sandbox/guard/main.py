"""The guard process: starts one child under limits, watches it, and ends its whole tree.

As child sub-reaper it inherits every orphan of the tree, also those that made a session of their own. When the
evaluator asks, or dies (its end of the control socket closes, or the kernel's parent-death signal arrives), or the
child ends, the guard kills what is left of the tree and only then exits itself.

Wire (control socket): one ``marshal`` document from the evaluator, then the single byte ``K`` to kill. The guard
answers with lines of text: ``started PID``, ``failed ERRNO WHERE``, ``limit NAME VALUE``,
``exited STATUS MAX_RSS_KIB``, ``collecting``, ``collected REMOVED CHANGED FAILED``,
``done STDOUT_DROPPED STDERR_DROPPED CPU_S MAX_RSS_KIB PEAK_BYTES OOM_KILLS REFUSED``.
"""
# ruff: noqa: SIM105

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import select
import time

from .accounts import Accounts
from .collection import Collection
from .entry import bound_resources, enter
from .kernel import set_filter
from .streams import Log
from .tree import descendants, kill_descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signals
    from typing import Any

    from .disk import Disk
    from .memory import Memory
else:
    import _signal as signals

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
SAMPLE_INTERVAL_S = 0.25

_RLIMITS = {
    "cpu_s": resource.RLIMIT_CPU,
    "memory_bytes": resource.RLIMIT_DATA,
    "file_size_bytes": resource.RLIMIT_FSIZE,
}
_NEVER = float("inf")


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


class _Guard:
    def __init__(self, control: int, spec: dict[str, Any]) -> None:
        self.control = control
        self.spec = spec
        self.limits: dict[str, float] = spec["limits"] if spec["confined"] else {}
        self.grouped: list[str] = spec["grouped"]  # the limits that the control group enforces
        self.accounts = Accounts(spec["cgroup"])
        self.logs = [Log(name, spec[name], int(spec["output_bytes"])) for name in ("stdout", "stderr")]
        self.root = 0
        self.peak_tree_bytes = 0
        self.ended = False
        self.next_sample = 0.0
        self.disk: Disk | None = None
        if "artifact_bytes" in self.limits or "artifact_entries" in self.limits:
            from .disk import Disk  # only with a limit: every module costs the start of a run

            most = (self.limits.get(name, _NEVER) for name in ("artifact_bytes", "artifact_entries"))
            self.disk = Disk(spec["written"], *most)
        self.memory: Memory | None = None
        if "memory_bytes" in self.limits and "memory_bytes" not in self.grouped:
            from .memory import Memory

            self.memory = Memory()
        self.over = False
        self.started_at = time.monotonic()

    def tell(self, line: str) -> None:
        try:
            os.write(self.control, line.encode() + b"\n")
        except OSError:
            pass  # the evaluator is gone; the loop sees the same and kills the tree

    def run(self) -> None:
        self._collect()  # what an earlier run left whose guard was killed
        self._start_child()
        if self.root:
            self._watch()
        kill_descendants(os.getpid())
        self._reap_all()
        if self.disk is not None and not self.over:
            self._over_disk(0)  # what was written right before the end counts too
        for log in self.logs:
            log.drain()
            log.finish()
        for path in self.spec["temporary"]:
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        left = self._collect()
        self.tell(f"collected {left.removed} {left.changed} {left.failed}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = max(used.ru_utime + used.ru_stime, self.accounts.read("cpu") * self.spec["cpu_unit_s"])
        peak = self.accounts.read("memory_peak") or self.peak_tree_bytes
        dropped = " ".join(str(log.dropped) for log in self.logs)
        counted = f"{self.accounts.read('oom_kills')} {self.accounts.read('refused_forks')}"
        self.accounts.remove()
        self.tell(f"done {dropped} {cpu_s:.6f} {used.ru_maxrss} {peak} {counted}")

    def _collect(self) -> Collection:
        """Makes what lies in the tree's folders plain files of the evaluator; ``collecting`` is its sign of life."""
        found = Collection(os.geteuid(), os.getegid(), lambda: self.tell("collecting"))
        found.collect(self.spec["collect"])
        return found

    def _start_child(self) -> None:
        report, report_end = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_participant(parent)
            except OSError as error:
                os.write(report_end, f"{error.errno or 1} {error.filename or ''}".encode()[:1024])
            except BaseException as error:
                os.write(report_end, f"1 {error!r}".encode()[:1024])
            os._exit(127)
        os.close(report_end)
        for descriptor in (*self.spec["fds"], *(log.sink for log in self.logs)):
            os.close(descriptor)
        problem = os.read(report, 1024)
        os.close(report)
        if problem:
            self.tell(f"failed {problem.decode(errors='replace')}".replace("\n", " "))
        else:
            self.root = pid
            self.tell(f"started {pid}")

    def _become_participant(self, parent: int) -> None:
        """Runs in the fork: sets everything that ``exec`` keeps, then becomes the participant."""
        for number in range(1, 32):
            if number not in (signals.SIGKILL, signals.SIGSTOP):
                signals.signal(number, signals.SIG_DFL)
        os.setsid()
        os.umask(0o022)
        if self.spec["confined"]:
            self.accounts.join()
            _prctl(PR_SET_NO_NEW_PRIVS, 1)
            self._set_limits()
            bound_resources()
        for path in self.spec["folders"]:
            os.makedirs(path, exist_ok=True)
        for target, path in self.spec["links"]:
            os.symlink(target, path)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        for number, log in enumerate(self.logs, start=1):
            os.dup2(log.sink, number)
        for descriptor in self.spec["fds"]:
            os.set_inheritable(descriptor, True)
        os.chdir(self.spec["cwd"])
        if self.spec["entry"] is not None:
            enter(self.spec["entry"])
        # Last, since a change of the user id clears it; it holds even when the participant kills the guard.
        _prctl(PR_SET_PDEATHSIG, signals.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        if self.spec["filter"]:
            set_filter(self.spec["filter"])
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
                    if not sources[descriptor].pump():
                        poll.unregister(descriptor)
                else:
                    return  # "K", or the end of the stream: the evaluator died
            if self._over_limit():
                return

    def _pause_ms(self) -> int | None:
        if "memory_bytes" in self.limits or "processes" in self.limits or self.disk is not None:
            return int(SAMPLE_INTERVAL_S * 1000)
        if "wall_s" in self.limits:
            return max(0, int((self.started_at + self.limits["wall_s"] - time.monotonic()) * 1000) + 1)
        return None

    def _over_limit(self) -> bool:
        now = time.monotonic()
        if now - self.started_at >= self.limits.get("wall_s", _NEVER):
            self.tell(f"limit wall_s {now - self.started_at:.3f}")
            return True
        if self.disk is not None and self.disk.due(now) and self._over_disk(os.getpid()):
            return True
        if now < self.next_sample or not ("memory_bytes" in self.limits or "processes" in self.limits):
            return False
        over = self._over_processes() or self._over_memory()
        took = time.monotonic() - now
        self.next_sample = now + max(SAMPLE_INTERVAL_S, min(1.0, 25 * took))  # a host of thousands of processes
        return over

    def _over_processes(self) -> bool:
        allowed = self.limits.get("processes", _NEVER)
        if allowed == _NEVER:
            return False
        # The group counts threads as well, and cheaply: the tree is looked through only when it holds enough of them.
        if "processes" in self.grouped and self.accounts.read("tasks") <= allowed + self.spec["own_processes"]:
            return False
        count = len(descendants(os.getpid())) - int(self.spec["own_processes"])
        if count <= allowed:
            return False
        self.tell(f"limit processes {count}")
        return True

    def _over_memory(self) -> bool:
        allowed = self.limits.get("memory_bytes", _NEVER)
        if allowed == _NEVER:
            return False
        if "memory_bytes" in self.grouped:  # the kernel has killed already; the rest of the tree goes with it
            if not self.accounts.read("oom_kills"):
                return False
            used = self.accounts.read("memory_peak")
        else:
            assert self.memory is not None
            used = self.memory.held(descendants(os.getpid()), allowed)
            self.peak_tree_bytes = max(self.peak_tree_bytes, used)
            if used <= allowed:
                return False
        self.tell(f"limit memory_bytes {used}")
        return True

    def _over_disk(self, guard: int) -> bool:
        verdict = self.disk.over(guard) if self.disk is not None else None
        if verdict is None:
            return False
        self.over = True
        self.tell(f"limit {verdict[0]} {verdict[1]}")
        return True

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


def main(control: int) -> None:
    """Reads the specification from the control socket and guards until the tree is gone.

    Args:
        control: descriptor of the socket.
    """
    for number in (signals.SIGINT, signals.SIGHUP, signals.SIGPIPE):
        signals.signal(number, signals.SIG_IGN)
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
    # The participant, of the same user, neither traces the guard nor reads its memory. Not before the evaluator has
    # spoken, which may have to open the kernel's clock of this process.
    _prctl(PR_SET_DUMPABLE, 0)
    _Guard(control, marshal.loads(document[4:])).run()
