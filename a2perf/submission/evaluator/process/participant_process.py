"""The evaluator's handle of the participant process: starts it, sends requests, detects failures, ends its tree.

Every wait ends with an answer, a timeout or the death of the process. Every failure becomes a ``ParticipantFailure``
with a record that names the cause, and leaves no process behind.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from a2perf.errors import ConfigError, InfrastructureError, install_hint
from a2perf.records import Failure, FailureKind
from a2perf.sandbox import Confined, Ending
from a2perf.submission.evaluator.process import answers, failure_diagnosis, participant_home
from a2perf.submission.evaluator.process.answers import Answer
from a2perf.submission.evaluator.process.call_limit import CallLimit
from a2perf.submission.evaluator.process.confinement import ProvidedConfinement
from a2perf.submission.evaluator.process.failures import ParticipantFailure, unreadable
from a2perf.submission.evaluator.process.loopback import Loopback
from a2perf.submission.evaluator.process.participant_spec import ParticipantSpec
from a2perf.submission.evaluator.process.rows import actions_of
from a2perf.submission.evaluator.process.service_channel import ServiceChannel
from a2perf.submission.evaluator.submitted.artifacts import DiskSpace
from a2perf.submission.participant.shared_region import SharedRegion
from a2perf.submission.participant.wire import (
    PROTOCOL_VERSION,
    Connection,
    ConnectionClosed,
    Unsendable,
    WireError,
    WireTimeout,
)
from a2perf.system import POSIX

START_TIMEOUT_S = 60.0
LOAD_TIMEOUT_S = 300.0
CLOSE_GRACE_S = 5.0
ENDING_GRACE_S = 5.0
_SEEN_IN_WAIT_BYTES = 1 << 20  # a hash takes less time than the copy of the participant process
_proven: set[tuple[str, str]] = set()
T = TypeVar("T")


class ParticipantProcess:
    """A submission that runs in a separate process.

    Args:
        before_code: called before the participant's code can run for the first time: before the first request, and
            before the start of an interpreter with packages of the participant.
        on_full_disk: called if the participant failed because the disk is full, before the failure is recorded.

    Attributes:
        first_inference: the first answer of this process, which is slower than later ones; ``None`` before it.
        reached_time_limit: whether a limit on its time ended it.
        exceeded_run_limit: whether the limit on the whole run ended it.
        on_observation: called by ``infer`` with an observation, while the participant computes if it consists of arrays
            that are too small to delay the answer.
    """

    on_observation: Callable[[Any], None] | None = None

    def __init__(
        self,
        spec: ParticipantSpec,
        confinement: ProvidedConfinement,
        *,
        before_code: Callable[[], None] = lambda: None,
        on_full_disk: Callable[[], None] = lambda: None,
    ) -> None:
        self.confinement = confinement
        self.first_inference: Answer | None = None
        self.warnings: list[str] = []
        self.ending: Ending | None = None
        self.reached_time_limit = self.exceeded_run_limit = False
        self.reports_confidence = False
        self._spec = spec
        self._on_full_disk = on_full_disk
        self._before_code = before_code
        self._confined: Confined | None = None
        self._connection: Connection | None = None
        self._calls = 0
        self._cancelled = False
        self._started_at: float | None = None
        self._time_limit_s: float | None = None
        self._disk: DiskSpace | None = None

    @property
    def tree(self) -> Confined:
        """The process tree of the participant, also after its end."""
        if self._confined is None:
            raise RuntimeError("the participant process was not started")
        return self._confined

    @property
    def wall_s(self) -> float:
        """Wall time from the first instruction of the process to the end of the last one of its tree, or until now."""
        if self._started_at is None:
            return 0.0
        if self.ending is not None and self.ending.wall_s is not None:
            return self.ending.wall_s
        return time.monotonic() - self._started_at

    def start(self, *, time_limit_s: float | None = None, on_started: Callable[[], None] = lambda: None) -> None:
        """Starts the process and waits until it answers; nothing of the submission is imported yet.

        Args:
            time_limit_s: limit on the wall time of the process tree, from its start to its end; ``None`` for no limit.
            on_started: called as soon as the process runs, before its first answer.

        Raises:
            ConfigError: the artifacts folder is a link.
            InfrastructureError: the interpreter could not be started, or a package of the worker is missing.
            ParticipantFailure: the limits are too low to start an interpreter, or a package that the submission chose
                ended it.
        """
        spec = self._spec
        if not spec.submission.is_dir():
            kind = "is not a folder" if spec.submission.exists() else "does not exist"
            raise self._failed(Failure(kind=FailureKind.CONTRACT, where="start", message=f"{spec.submission} {kind}"))
        if spec.artifacts is not None and spec.artifacts.is_symlink():
            raise ConfigError(
                f"the artifacts folder {spec.artifacts} is a link", hint="replace the link by the folder itself"
            )
        spec.logs.mkdir(parents=True, exist_ok=True)
        if spec.has_own_packages:
            self._prove_interpreter()
        if spec.interpreter != sys.executable or spec.python_files:
            self._before_code()
        if spec.artifacts is not None and spec.artifacts.is_dir():
            self._disk = DiskSpace.before(spec.artifacts)
        home = participant_home.make_home(spec.assets)
        channels, loopback = [ServiceChannel() for _ in spec.services], None if POSIX else Loopback()
        try:
            if loopback is None:
                self._start_with_sockets(home, channels)
            else:
                started = spec.confined(self.confinement, home, (), str(loopback.port), loopback.token)
                self._confined = self.confinement.sandbox.start(started)
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
        self._started_at, self._time_limit_s = time.monotonic(), time_limit_s
        limit_s = START_TIMEOUT_S if time_limit_s is None else min(START_TIMEOUT_S, time_limit_s)
        try:
            on_started()
            if loopback is not None:
                ours = loopback.accept(lambda: self._cancelled or self.tree.poll() is not None, self._deadline(limit_s))
                self._connection = Connection(ours, self.tree)
            assert self._connection is not None
            if self._cancelled:
                self._connection.shut_down()
            greeting = self._connection.receive(deadline=self._deadline(limit_s))
        except WireError as error:
            self._raise_start_failure(error, limit_s)
        except BaseException:
            self.kill()
            raise
        version = greeting[1] if answers.word_of(greeting) == "ready" and len(greeting) > 1 else None
        if type(version) is not int or version != PROTOCOL_VERSION:
            if spec.has_own_packages:
                self._refuse("start", "its first message is not that of the worker")
            self.kill()
            raise InfrastructureError(
                f"the a2perf of {spec.interpreter} has another protocol version than the evaluator",
                hint="install the same version of a2perf for both interpreters",
            )
        for channel, session in zip(channels, spec.services, strict=True):
            self._read("start", functools.partial(channel.connect, session.listen))

    def _start_with_sockets(self, home: Path, channels: Sequence[ServiceChannel]) -> None:
        """Starts the process with its ends of a pair of sockets, of the shared memory and of the services."""
        ours, theirs = socket.socketpair()
        region = SharedRegion()
        # Closed after the start: a copy of the participant's end here would keep the connection open after its death.
        with theirs, open(region.descriptor, closefd=True), contextlib.ExitStack() as of_services:
            for_services = [of_services.enter_context(channel.theirs).fileno() for channel in channels]
            fds = (theirs.fileno(), region.descriptor, *for_services)
            try:
                self._confined = self.confinement.sandbox.start(self._spec.confined(self.confinement, home, fds))
            except BaseException:
                ours.close()
                region.close()
                raise
        self._connection = Connection(ours, self._confined, outgoing=region)

    def train(self, args: Mapping[str, str]) -> None:
        """Runs ``train`` to its end, at most until the time limit of ``start``.

        Raises:
            ParticipantFailure: it failed, or did not return in time.
        """
        self._ask("train", self._time_limit_s, dict(args), since_start=True)

    def load_policy(
        self, args: Mapping[str, str], timeout_s: float = LOAD_TIMEOUT_S, *, spaces: Mapping[str, Any] | None = None
    ) -> None:
        """Imports inference.py and loads the policy; the limit counts from the start of the process.

        Raises:
            ParticipantFailure: it failed, or did not return in time.
        """
        reply = self._ask("load_policy", timeout_s, dict(args), dict(spaces or {}), since_start=True)
        self.reports_confidence = len(reply) > 2 and reply[2] is True

    def confidence(self) -> float | None:
        """Returns the policy's confidence, in [0, 1], in the episode that has just ended; ``None`` if it reports none.

        Raises:
            ParticipantFailure: it failed, did not answer in time, or its answer is not a number from 0 to 1.
        """
        if not self.reports_confidence:
            return None
        reply = self._ask("report_confidence", self._spec.call_timeout_s)
        return self._read("report_confidence", lambda: answers.confidence(reply))

    def infer(self, observation: Any, timeout_s: float | None = None) -> Answer:
        """Requests the action for one observation, by default within the limit of the spec.

        Raises:
            ParticipantFailure: it failed, did not answer in time, or the answer is not a valid message.
        """
        self._calls += 1
        where = f"infer_once (call {self._calls})"
        limit_s = timeout_s or self._spec.call_timeout_s
        reply, elapsed = self._exchange(("infer", observation), where, limit_s, on_observation=self.on_observation)
        answer = self._read(where, lambda: answers.single(self._accepted(reply, where), elapsed))
        if self.first_inference is None:
            self.first_inference = answer
        return answer

    @property
    def batch_memory(self) -> Any:
        """Where the last observations of ``infer_batch`` were sent from; the next ones may be stacked there."""
        return None if self._connection is None else self._connection.places("infer_batch")

    def infer_batch(self, observations: Any, rows: int, on_sent: Callable[[], None] = lambda: None) -> Answer:
        """Requests the actions for stacked observations of several episodes; they are in ``action``, a list.

        Args:
            rows: number of observations.
            on_sent: called while the answer is awaited.

        Raises:
            ParticipantFailure: as for ``infer``.
        """
        self._calls += 1
        where = f"infer_batch (call {self._calls})"
        request = ("infer_batch", observations)
        reply, elapsed = self._exchange(request, where, self._spec.call_timeout_s, on_observation=lambda _: on_sent())
        answer = self._read(where, lambda: answers.single(self._accepted(reply, where), elapsed))
        actions = self._read(where, lambda: actions_of(answer.action, rows))
        answer = dataclasses.replace(answer, action=actions)
        if self.first_inference is None:
            self.first_inference = answer
        return answer

    def set_empty_answer(self, action: Any) -> None:
        """Sets the action that ``empty`` is answered with."""
        self._ask("empty_answer", self._spec.call_timeout_s, action)

    def empty(self, observation: Any) -> Answer:
        """Makes a call like ``infer`` that reaches none of the submission's code.

        Raises:
            ParticipantFailure: as for ``infer``.
        """
        where = "empty call"
        reply, elapsed = self._exchange(("empty", observation), where, self._spec.call_timeout_s)
        return self._read(where, lambda: answers.single(self._accepted(reply, where), elapsed))

    def cancel(self) -> None:
        """Makes the present or next request fail, from another thread; the thread of the request ends the process."""
        self._cancelled = True
        if self._connection is not None:
            self._connection.shut_down()

    def close(self) -> None:
        """Asks the process to end, which lets it run its exit handlers; kills it after ``CLOSE_GRACE_S``.

        The time limit of ``start`` includes this time.

        Raises:
            ParticipantFailure: after the end the artifacts folder exceeds a limit.
        """
        if self._confined is None or self.ending is not None:
            return
        if self._connection is not None:
            rest_s = CLOSE_GRACE_S
            if self._time_limit_s is not None:
                rest_s = max(0.0, min(rest_s, self._time_limit_s - self.wall_s))
            with contextlib.suppress(WireError):
                self._connection.send(("close",), deadline=time.monotonic() + rest_s)
            self._confined.wait(rest_s)
        self.kill()
        self.reached_time_limit = self._time_limit_s is not None and self.wall_s >= self._time_limit_s
        message = None if self.ending is None else failure_diagnosis.overfull(self.ending, self.confinement.limits)
        if message is not None:
            raise self._failed(Failure(kind=FailureKind.OUTPUT_LIMIT, where="end", message=message))

    def kill(self) -> None:
        """Kills the whole tree; a second call has no effect."""
        if self._confined is not None and self.ending is None:
            self.ending = self._confined.kill_tree()
            for name, count in self.ending.dropped_bytes.items():
                if count:
                    self.warnings.append(f"{count:,} bytes of the participant's {name} beyond the cap were dropped")
            removed, changed, failed = self.ending.collected
            if removed or changed or failed:
                self.warnings.append(
                    f"artifacts were turned into plain files: {removed:,} devices, pipes, sockets or too deep folders"
                    f" removed, {changed:,} modes and access lists changed, {failed:,} names could not be changed"
                )
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> ParticipantProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is None:
            self.close()
        else:
            self.kill()

    def _prove_interpreter(self) -> None:
        """Starts the interpreter once without any package: an end before the greeting is then not the host's fault.

        Raises:
            InfrastructureError: it does not start.
        """
        python = self._spec.interpreter
        key = python, self.confinement.sandbox.level
        if key in _proven:
            return
        spec = self._spec.confined(self.confinement, self._spec.logs, ())
        bare = dataclasses.replace(
            spec,
            argv=(python, "-I", "-S", "-c", ""),
            writable=(),
            temporary=(),
            stdout=None,
            stderr=None,
        )
        confined = self.confinement.sandbox.start(bare)
        confined.wait(START_TIMEOUT_S)
        ending = confined.kill_tree()
        if ending.exit_code != 0:
            raise InfrastructureError(
                f"the interpreter {python} does not start in the sandbox {self.confinement.sandbox.level!r},"
                " even without packages",
                hint="choose another base interpreter with --participant-python; `a2perf doctor` checks this host",
            )
        _proven.add(key)

    def _deadline(self, timeout_s: float | None, began: float | None = None) -> float | None:
        """Returns the end of a wait that began then, by default at the start of the process, within the run's limit."""
        ends = None if self._spec.run_limit is None else self._spec.run_limit.ends_at
        if timeout_s is None:
            return ends
        own = (self._started_at or 0.0 if began is None else began) + timeout_s
        return own if ends is None else min(own, ends)

    def _ask(self, operation: str, timeout_s: float | None, *values: Any, since_start: bool = False) -> tuple[Any, ...]:
        """Sends one request and returns the reply, which begins with ``"ok"``."""
        self._before_code()
        reply, _ = self._exchange((operation, *values), operation, timeout_s, since_start=since_start)
        return self._read(operation, lambda: self._accepted(reply, operation))

    def _exchange(
        self,
        request: tuple[Any, ...],
        where: str,
        timeout_s: float | None,
        *,
        since_start: bool = False,
        on_observation: Callable[[Any], None] | None = None,
    ) -> tuple[Any, int]:
        """Sends one request and returns the unchecked reply with the round trip in nanoseconds."""
        connection = self._connection
        if connection is None:
            raise RuntimeError("the participant process is not running")
        if connection.has_unread():  # an answer prepared in advance would make the round trip look short
            self._refuse(where, "it sent an answer before the request")
        started = time.perf_counter_ns()
        began = self._started_at if since_start else None
        limit = self._limit(timeout_s, time.monotonic() if began is None else began, fixed=request[0] == "train")
        try:
            connection.send(request, deadline=limit)
            # the latency of a batch is not ranked
            during_wait = request[0] == "infer_batch" or connection.shared_bytes <= _SEEN_IN_WAIT_BYTES
            if on_observation is not None and during_wait:
                on_observation(request[1])
            reply, elapsed = connection.receive(deadline=limit), time.perf_counter_ns() - started
            if on_observation is not None and not during_wait:
                on_observation(request[1])
            return reply, elapsed
        except WireError as error:
            if isinstance(error, Unsendable):
                self.kill()
                raise InfrastructureError(f"{where}: the request cannot be sent: {error}") from error
            failure = self._diagnosed(error, where, timeout_s)
            if isinstance(limit, CallLimit) and limit.given_back_s and failure.kind is FailureKind.TIMEOUT:
                failure.message += f"; {limit.given_back_s:.1f} s in which it waited for a processor were added"
            raise self._failed(failure) from error
        except BaseException:
            self.kill()
            raise

    def _limit(self, timeout_s: float | None, began: float, *, fixed: bool) -> CallLimit | float | None:
        """Returns the limit of one request; the limit on training is wall time, and the guard ends it too."""
        if timeout_s is None or fixed:
            return self._deadline(timeout_s, began)
        ends = None if self._spec.run_limit is None else self._spec.run_limit.ends_at
        return CallLimit(self.tree.tree_root, began, timeout_s, ends)

    def _read(self, where: str, read: Callable[[], T]) -> T:
        """Calls ``read`` on a reply; any exception in it becomes a failure of the participant."""
        try:
            return read()
        except ParticipantFailure:
            raise
        except answers.BadAnswer as error:
            self._refuse(where, str(error))
        except Exception as error:
            raise self._failed(unreadable(where, error).failure) from error

    def _accepted(self, reply: Any, where: str) -> tuple[Any, ...]:
        """Returns a reply that begins with ``"ok"``; any other reply is a reported failure or invalid."""
        if answers.word_of(reply) == "ok":
            accepted: tuple[Any, ...] = reply
            return accepted
        failure = failure_diagnosis.reported(reply, where)
        if failure is None:
            self._refuse(where, "its answer is not a valid message")
        raise self._failed(failure)

    def _raise_start_failure(self, error: WireError, limit_s: float) -> NoReturn:
        failure = self._diagnosed(error, "start", limit_s)
        by_limit = failure.kind is FailureKind.TIMEOUT and (limit_s < START_TIMEOUT_S or self.exceeded_run_limit)
        if by_limit or failure.kind in (FailureKind.MEMORY, FailureKind.FORBIDDEN):
            raise ParticipantFailure(failure) from error
        if self._spec.has_own_packages:
            failure.message += "; code of its packages runs while the interpreter starts"
            raise self._failed(failure) from error
        python, tail = self._spec.interpreter, failure_diagnosis.tail(self._spec.logs / "stderr.log")
        raise InfrastructureError(
            f"the participant process could not be started with {python}: {failure.message}"
            + (f"\n{tail}" if tail else ""),
            hint=f"{python} -m {install_hint()}",
        ) from error

    def _refuse(self, where: str, message: str) -> NoReturn:
        raise self._failed(Failure(kind=FailureKind.BAD_OUTPUT, where=where, message=message))

    def _diagnosed(self, error: WireError, where: str, timeout_s: float | None) -> Failure:
        if isinstance(error, WireTimeout):
            of_run = self._spec.run_limit
            self.exceeded_run_limit = of_run is not None and time.monotonic() >= of_run.ends_at
            self.reached_time_limit = not self.exceeded_run_limit
            self.kill()
            message = f"it did not return within the limit of {timeout_s or 0.0:g} s and was killed"
            if of_run is not None and self.exceeded_run_limit:
                message = f"the run reached its limit of {of_run.seconds:g} s (Submission.run_time_limit_s)"
            return Failure(kind=FailureKind.TIMEOUT, where=where, message=message)
        if not isinstance(error, ConnectionClosed):
            self.kill()
            return Failure(kind=FailureKind.BAD_OUTPUT, where=where, message=f"it sent an invalid message: {error}")
        # A dying process closes its socket before its exit status is known; killed now, it would not show why it ended.
        if not self._cancelled:
            self.tree.wait(ENDING_GRACE_S)
        self.kill()
        assert self.ending is not None
        if self.ending.killed and self.ending.limit is None:
            return Failure(
                kind=FailureKind.BAD_OUTPUT, where=where, message="it closed its connection to the evaluator"
            )
        text = failure_diagnosis.tail(self._spec.logs / "stderr.log")
        return failure_diagnosis.ended(self.ending, where, self.confinement.limits, text)

    def _failed(self, failure: Failure) -> ParticipantFailure:
        """Kills the tree and adds the cause and the path of the log to the record."""
        self.kill()
        if self.ending is not None:
            failure = failure_diagnosis.revised(failure, self.ending, self.confinement.limits)
        if failure.kind is FailureKind.DISK and self._disk is not None:
            failure = self._disk.judge(failure)
            self._on_full_disk()
        log = self._spec.logs / "stderr.log"
        if failure.log is None and log.exists():
            failure.log = os.path.relpath(log, self._spec.log_base or self._spec.logs.parent)
        return ParticipantFailure(failure)
