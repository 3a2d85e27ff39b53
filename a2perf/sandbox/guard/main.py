"""The guard process: starts one child under limits, watches it, and ends its whole tree.

As child sub-reaper it inherits every orphan of the tree, even those in a new session. When the evaluator asks for it or
dies (its end of the control socket closes, or the kernel's parent-death signal arrives), or when the child ends, the
guard kills the rest of the tree and then exits.

Wire (control socket): one ``marshal`` document from the evaluator, then the single byte ``K`` to kill. The guard
answers with lines of text: ``started PID``, ``failed ERRNO WHERE``, ``limit NAME VALUE``,
``exited STATUS MAX_RSS_KIB``, ``ended WALL_S``, ``collecting``, ``collected REMOVED CHANGED FAILED``,
``done STDOUT_DROPPED STDERR_DROPPED CPU_S MAX_RSS_KIB PEAK_BYTES OOM_KILLS REFUSED``.
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

from .accounts import Accounts
from .collection import Collection
from .entry import bound_resources, enter
from .kernel import set_filter
from .streams import Log
from .tree import LINUX, descendants, kill_descendants, resident_bytes

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
    # Not RLIMIT_AS: it also counts address space that a runtime reserves without access to it.
    "private_bytes": resource.RLIMIT_DATA,
    "file_size_bytes": resource.RLIMIT_FSIZE,
}
_NEVER = float("inf")
_PER_KIB = 1024 if sys.platform == "darwin" else 1  # ru_maxrss is in bytes there


def _prctl(option: int, value: int) -> None:
    if not LINUX:
        return
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
        if LINUX and "memory_bytes" in self.limits and "memory_bytes" not in self.grouped:
            from .memory import Memory

            self.memory = Memory()
        self.over = False
        self.group_before_s = 0.0
        self.started_at = time.monotonic()

    def report(self, line: str) -> None:
        try:
            os.write(self.control, line.encode() + b"\n")
        except OSError:
            pass  # the evaluator is gone; the main loop notices it too and kills the tree

    def run(self) -> None:
        self._collect()  # leftovers of an earlier run in the same folder, if its guard was killed
        self._start_child()
        if self.root:
            self._watch()
        kill_descendants(os.getpid())
        self._reap_all()
        self.report(f"ended {time.monotonic() - self.started_at:.6f}")
        if self.disk is not None and not self.over:
            self._over_disk(0)  # files written right before the end count too
        for log in self.logs:
            log.drain()
            log.finish()
        for path in self.spec["temporary"]:
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        left = self._collect()
        self.report(f"collected {left.removed} {left.changed} {left.failed}")
        # After _reap_all, because only reaped children are in it.
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = self._group_cpu_s()
        if not cpu_s:  # an estimate: children that no process waited for are missing
            cpu_s = used.ru_utime + used.ru_stime
        peak = self.accounts.read("memory_peak") or self.peak_tree_bytes
        dropped = " ".join(str(log.dropped) for log in self.logs)
        counted = f"{self.accounts.read('oom_kills', -1)} {self.accounts.read('refused_forks')}"
        # After the last read: the counters disappear with the group.
        self.accounts.remove()
        self.report(f"done {dropped} {cpu_s:.6f} {used.ru_maxrss // _PER_KIB} {peak} {counted}")

    def _group_cpu_s(self) -> float:
        """Returns the processor time of the tree by its control group; 0 without one."""
        used: float = self.accounts.read("cpu") * self.spec["cpu_unit_s"]
        # The group of a container holds this process too, and counts what the engine used to start it.
        return used - self.group_before_s - time.process_time() if used and not self.accounts.joins else used

    def _collect(self) -> Collection:
        """Turns the content of the tree's folders into plain files of the evaluator; ``collecting`` is a heartbeat."""
        found = Collection(os.geteuid(), os.getegid(), lambda: self.report("collecting"))
        if LINUX:
            found.collect(self.spec["collect"])
        return found

    def _start_child(self) -> None:
        # Both ends close on exec: an empty read means that the program runs, anything else is why it does not.
        failure, failure_end = os.pipe()
        parent = os.getpid()
        self.started_at = time.monotonic()
        self.group_before_s = self._group_cpu_s()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_participant(parent)
            except OSError as error:
                os.write(failure_end, f"{error.errno or 1} {error.filename or ''}".encode()[:1024])
            except BaseException as error:
                os.write(failure_end, f"1 {error!r}".encode()[:1024])
            # Never return from the fork: it would continue as a second guard and kill the tree of the first one.
            os._exit(127)
        # A writing end that stays open here would keep the read below from ending.
        os.close(failure_end)
        # With copies here neither the logs nor the wire would end when the participant closes them.
        for descriptor in (*self.spec["fds"], *(log.sink for log in self.logs)):
            os.close(descriptor)
        problem = os.read(failure, 1024)
        os.close(failure)
        if problem:
            # The report is one line, and the text of an exception may have several.
            self.report(f"failed {problem.decode(errors='replace')}".replace("\n", " "))
        else:
            self.root = pid
            self.report(f"started {pid}")

    def _become_participant(self, parent: int) -> None:
        """Runs in the fork: sets everything that survives ``exec``, then becomes the participant.

        The order matters: ``join`` needs the evaluator's rights, ``enter`` gives them up, and the filter refuses calls
        that ``enter`` makes.
        """
        for number in range(1, 32):  # ignored signals stay ignored across exec; the guard ignores SIGINT, for example
            if number not in (signals.SIGKILL, signals.SIGSTOP):
                signals.signal(number, signals.SIG_DFL)
        os.setsid()  # a terminal's Ctrl-C must not reach the participant
        os.umask(0o022)
        self._volunteer()
        if self.spec["confined"]:
            self.accounts.join()
            # The kernel demands it for set_filter below from everyone without CAP_SYS_ADMIN.
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
        # After ``enter``, since a change of the user id clears it. It ends the participant even if it kills the guard.
        _prctl(PR_SET_PDEATHSIG, signals.SIGKILL)
        if os.getppid() != parent:  # the guard died before the call above, so no signal will come
            os._exit(127)
        if self.spec["filter"]:
            set_filter(self.spec["filter"])
        os.execve(self.spec["argv"][0], self.spec["argv"], self.spec["env"])

    def _volunteer(self) -> None:
        """Makes the kernel choose this tree, not an evaluator, if the host runs out of memory."""
        _prctl(PR_SET_DUMPABLE, 1)  # the guard is not dumpable, and only root may write the files of such a process
        try:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")
        except OSError:
            pass  # a container may forbid it; its engine sets the value

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
            # One second between the soft CPU limit (SIGXCPU) and the hard one (SIGKILL): only SIGXCPU names the cause.
            above = wanted + 1 if kind == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY else wanted
            resource.setrlimit(kind, (wanted, above))

    def _watch(self) -> None:
        """Copies output, reaps children and samples limits until the tree has to end."""
        # Signals arrive as bytes in a pipe: a signal between checking a flag and poll() would otherwise be missed.
        wake, wake_end = os.pipe()
        os.set_blocking(wake, False)
        # set_wakeup_fd refuses a blocking descriptor: a full pipe would block the signal handler.
        os.set_blocking(wake_end, False)
        signals.set_wakeup_fd(wake_end)
        evaluator = os.getppid()
        asked = [False]

        def ask(number: int, frame: object) -> None:
            # The parent-death signal is also sent if only the thread that started us ends; getppid() tells them apart.
            if number == signals.SIGTERM or os.getppid() != evaluator:
                asked[0] = True

        # Before the prctl below: the default action of SIGUSR1 would end the guard and leave its tree behind.
        signals.signal(signals.SIGTERM, ask)
        signals.signal(signals.SIGUSR1, ask)
        # It does nothing, but without a handler no byte would be written to the pipe.
        signals.signal(signals.SIGCHLD, lambda number, frame: None)
        _prctl(PR_SET_PDEATHSIG, signals.SIGUSR1)
        if os.getppid() != self.spec["evaluator"]:  # it died before the call above, so no signal will come
            return
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        sources = {log.source: log for log in self.logs}
        for source in sources:
            poll.register(source, select.POLLIN)
        self._reap()  # the child may have ended before the handler was installed
        while not (self.ended or asked[0]):
            for descriptor, _ in poll.poll(self._pause_ms()):
                if descriptor == wake:
                    os.read(wake, 4096)
                    self._reap()
                elif descriptor in sources:
                    if not sources[descriptor].pump():
                        poll.unregister(descriptor)
                else:
                    return  # the byte "K", or the end of the stream because the evaluator died
            if self._over_limit():
                return

    def _pause_ms(self) -> int | None:
        if "memory_bytes" in self.limits or "processes" in self.limits or self.disk is not None:
            return int(SAMPLE_INTERVAL_S * 1000)
        if "wall_s" in self.limits:
            # One millisecond more: a pause that is rounded down ends early, and poll() would spin until the limit.
            return max(0, int((self.started_at + self.limits["wall_s"] - time.monotonic()) * 1000) + 1)
        return None

    def _over_limit(self) -> bool:
        now = time.monotonic()
        if now - self.started_at >= self.limits.get("wall_s", _NEVER):
            self.report(f"limit wall_s {now - self.started_at:.3f}")
            return True
        if self.disk is not None and self.disk.due(now) and self._over_disk(os.getpid()):
            return True
        if now < self.next_sample or not ("memory_bytes" in self.limits or "processes" in self.limits):
            return False
        over = self._over_processes() or self._over_memory()
        took = time.monotonic() - now
        # On a host with thousands of processes one sample is slow: spend at most 4 % of the time on samples.
        self.next_sample = now + max(SAMPLE_INTERVAL_S, min(1.0, 25 * took))
        return over

    def _over_processes(self) -> bool:
        allowed = self.limits.get("processes", _NEVER)
        if allowed == _NEVER:
            return False
        # The group's counter is cheap but includes threads: count processes only if it exceeds the limit.
        if "processes" in self.grouped and self.accounts.read("tasks") <= allowed + self.spec["own_processes"]:
            return False
        count = len(descendants(os.getpid())) - int(self.spec["own_processes"])
        if count <= allowed:
            return False
        self.report(f"limit processes {count}")
        return True

    def _over_memory(self) -> bool:
        allowed = self.limits.get("memory_bytes", _NEVER)
        if allowed == _NEVER:
            return False
        if "memory_bytes" in self.grouped:  # the kernel enforces it; after its first kill the rest of the tree must end
            if not self.accounts.read("oom_kills"):
                return False
            used = self.accounts.read("memory_peak")
        else:
            tree = descendants(os.getpid())
            used = self.memory.held(tree, allowed) if self.memory is not None else resident_bytes(tree)
            self.peak_tree_bytes = max(self.peak_tree_bytes, used)
            if used <= allowed:
                return False
        self.report(f"limit memory_bytes {used}")
        return True

    def _over_disk(self, guard: int) -> bool:
        verdict = self.disk.over(guard) if self.disk is not None else None
        if verdict is None:
            return False
        self.over = True
        self.report(f"limit {verdict[0]} {verdict[1]}")
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._note(pid, status, used.ru_maxrss // _PER_KIB)

    def _reap_all(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid:
                self._note(pid, status, used.ru_maxrss // _PER_KIB)
            else:
                # A scan of /proc is not atomic: it can miss the child of a process that ends during the scan. This
                # repeats until none is left.
                kill_descendants(os.getpid())
                time.sleep(0.002)

    def _note(self, pid: int, status: int, max_rss_kib: int) -> None:
        if pid == self.root:
            self.ended = True
            self.report(f"exited {status} {max_rss_kib}")


def main(control: int) -> None:
    """Reads the specification from the control socket and guards until the tree is gone."""
    # Their default actions would end the guard before its tree.
    for number in (signals.SIGINT, signals.SIGHUP, signals.SIGPIPE):
        signals.signal(number, signals.SIG_IGN)
    os.set_inheritable(control, False)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    document = b""
    size = 4
    while len(document) < size:
        # Not a byte more than the document: a K that already waits behind it has to stay for poll().
        data = os.read(control, size - len(document))
        if not data:
            return  # the evaluator ended before it sent anything
        document += data
        if size == 4 and len(document) == 4:
            size = 4 + int.from_bytes(document, "little")
    # Keeps a participant of the same user from tracing the guard or reading its memory. Not earlier: before it sends
    # the document, the evaluator may have to open the task clock of this process, which this would forbid.
    _prctl(PR_SET_DUMPABLE, 0)
    _Guard(control, marshal.loads(document[4:])).run()
