"""Forks evaluators from a process that has imported what they need: they start in milliseconds.

``LocalLauncher`` starts it as ``python -P -m a2perf.launch.fork_server SOCKET PID EVALUATOR`` with its second
evaluator, before which it plays an episode. ``a2perf.evaluate`` starts it for the first one, and imports its modules
at the same time. EVALUATOR, a module, says in lists of processes what the forked ones are. Every run is another
process, as without it: only imported modules and compiled kernels are shared, and no submission is imported here. It
ends with the launcher, and its runs with it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from a2perf.constants import EVALUATOR
from a2perf.system import LINUX, end_with_parent

_MOST_BYTES = 200_000
"""Size of the largest request: command line and environment of a run."""


class ForkServer:
    """The launcher's end."""

    def __init__(self, cwd: Path, environment: Mapping[str, str]) -> None:
        self._channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = other.fileno()
        argv = [sys.executable, "-P", "-m", __name__, str(number), str(os.getpid()), EVALUATOR]
        with other:
            self._process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(environment),
                start_new_session=True,
                pass_fds=(number,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def start(self, request: dict[str, Any], output: int) -> tuple[int, int, Callable[[], int]]:
        """Starts a run.

        Args:
            request: ``flags``, ``cwd``, ``env`` and ``cpus`` of the run; ``warm`` asks the server to play an episode
                first, unless it has.
            output: a descriptor for its output.

        Returns:
            Its process id, a pidfd, and a function that waits for its end and returns its status as ``Popen`` does.

        Raises:
            OSError: the server has ended or the request is too large.
        """
        words = json.dumps(request).encode()
        if len(words) > _MOST_BYTES:
            raise OSError("the environment of the run is too large")
        socket.send_fds(self._channel, [words], [output])
        answer, descriptors, _, _ = socket.recv_fds(self._channel, 32, 1)
        if not descriptors:
            raise OSError("the server has ended")
        return int(answer), descriptors[0], lambda: self._end(int(answer))

    def _end(self, pid: int) -> int:
        with contextlib.suppress(OSError):
            self._channel.send(b"%d" % pid)
            if answer := self._channel.recv(32):
                return int(answer)
        return -signal.SIGKILL  # the server was killed, and its runs with it

    def close(self) -> None:
        """Ends the server, also while it imports; the runs have ended. A second call has no effect."""
        self._channel.close()
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def started() -> Iterator[ForkServer | None]:
    """Starts a server that imports while the block does something else; ``None`` if this host cannot."""
    server = None
    if LINUX:
        with contextlib.suppress(OSError):  # the start of the evaluator will fail, with an error
            server = ForkServer(Path.cwd(), os.environ)
    try:
        yield server
    finally:
        if server is not None:
            server.close()


def fork(request: dict[str, Any]) -> tuple[int, int, Callable[[], int]]:
    """Forks a run from this process, which has no other thread; see ``ForkServer.start``. It keeps all descriptors."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        sys.path[:] = filter(None, sys.path)  # the working directory may be a submission
        _run(request, [], parent)
    return pid, os.pidfd_open(pid), lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> None:
    """Serves until the launcher closes the socket."""
    end_with_parent(int(sys.argv[2]))
    channel, server = socket.socket(fileno=int(sys.argv[1])), os.getpid()
    is_warm = False
    gc.disable()  # what is imported stays
    with contextlib.suppress(Exception):  # the run reports what is wrong
        importlib.import_module(EVALUATOR)
    while True:
        words, output, _, _ = socket.recv_fds(channel, _MOST_BYTES, 1)
        if not words:
            return
        if words.isdigit():
            channel.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(int(words), 0)[1]))
            continue
        request = json.loads(words)
        if request["warm"] and not is_warm:
            is_warm = True
            with contextlib.suppress(Exception):  # the run reports what is wrong
                from a2perf.submission.main_submission import main as evaluator
                from a2perf.submission.main_submission import warm_up

                warm_up(**evaluator.make_context(None, list(request["flags"])).params)
            gc.collect()
        gc.freeze()  # a collection in a run would copy the pages that hold these objects
        pid = os.fork()
        if pid == 0:
            channel.close()
            _run(request, output, server)
        os.close(output[0])
        process = os.pidfd_open(pid)
        socket.send_fds(channel, [b"%d" % pid], [process])
        os.close(process)


def _run(request: Mapping[str, Any], output: Sequence[int], server: int) -> None:
    """Becomes the evaluator of a run; does not return."""
    status = 1
    try:
        os.setsid()
        end_with_parent(server)
        for descriptor in output:
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.close(descriptor)
        if request["cpus"]:
            os.sched_setaffinity(0, request["cpus"])
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        from a2perf.submission import main_submission

        sys.argv = [main_submission.__file__, *request["flags"]]
        main_submission.main(args=request["flags"], prog_name=f"python -m {main_submission.__name__}")
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
