"""Main of the participant process: answers the evaluator's requests with the submission's code.

Started as ``python -P -m a2perf.submission.participant.worker FD SHARED_FD FOLDER``. It reports that it is ready before
it imports anything heavy; the submission is imported by the first request that needs it. Every way in which the code
can end (an exception, ``sys.exit``, an answer that cannot be sent) becomes an honest reply. What it prints never
reaches the wire, which has a descriptor of its own that no child inherits.

Imports the standard library and msgpack; numpy and gymnasium come with the first array and the first use of ``env``.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from a2perf.errors import UserError
from a2perf.submission.participant.folder import SubmissionCode
from a2perf.submission.participant.lazy_environment import LazyEnvironment
from a2perf.submission.participant.shared_region import SharedView
from a2perf.submission.participant.signatures import ContractError
from a2perf.submission.participant.wire import (
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    PROTOCOL_VERSION,
    Connection,
    ConnectionClosed,
    Unsendable,
)

_MAX_MESSAGE = 4_000
_MAX_TRACEBACK = 32_000
_PLAIN = frozenset((int, float, bool, str, tuple, list, dict, type(None)))
_PLATFORM_FOLDER = str(Path(__file__).parent)


class Worker:
    """Serves one submission.

    Args:
        connection: the wire to the evaluator.
        folder: the submission.
    """

    def __init__(self, connection: Connection, folder: Path) -> None:
        self._connection = connection
        self._folder = folder
        self._participant: SubmissionCode | None = None
        self._preprocess: Callable[[Any], Any] | None = None
        self._infer_once: Callable[[Any], Any] | None = None
        self._where = "start"
        self._calls = 0
        self._handlers: dict[str, Callable[..., tuple[Any, ...]]] = {
            "infer": self.infer,
            "train": self.train,
            "load_policy": self.load_policy,
        }

    def serve(self) -> None:
        """Answers requests until the evaluator asks for the end or goes away."""
        self._connection.send(("ready", PROTOCOL_VERSION, os.getpid()))
        while True:
            try:
                operation, *values = self._connection.receive(max_bytes=MAX_REQUEST_BYTES)
            except ConnectionClosed:
                return
            if operation == "close":
                return
            try:
                reply = self._handlers[operation](*values)
            except BaseException as error:
                reply = self._failure(error)
            if operation != "infer" or reply[0] != "ok":
                _flush()
            self._answer(reply)

    def train(self, args: Mapping[str, str]) -> tuple[Any, ...]:
        """Imports train.py and runs ``train``; answers with its wall time in nanoseconds."""
        self._where = "import train.py"
        call = self._loaded("train.py").train(args)
        self._where = "train"
        started = time.perf_counter_ns()
        call()
        return ("ok", time.perf_counter_ns() - started)

    def load_policy(self, args: Mapping[str, str]) -> tuple[Any, ...]:
        """Imports inference.py and calls ``load_policy``; answers with the wall time of the call in nanoseconds."""
        self._where = "import inference.py"
        inference = self._loaded("inference.py").inference()
        self._where = "load_policy"
        started = time.perf_counter_ns()
        policy = inference.load_policy(LazyEnvironment.from_variables(), args)
        elapsed = time.perf_counter_ns() - started
        self._preprocess, self._infer_once = inference.bind(policy)
        return ("ok", elapsed)

    def infer(self, observation: Any) -> tuple[Any, ...]:
        """Answers with the action and the nanoseconds of ``preprocess_observation`` and of ``infer_once``."""
        if self._preprocess is None or self._infer_once is None:
            raise ContractError("load_policy was not called")
        self._calls += 1
        clock = time.perf_counter_ns
        self._where = "preprocess_observation"
        started = clock()
        prepared = self._preprocess(observation)
        between = clock()
        self._where = "infer_once"
        action = self._infer_once(prepared)
        if type(action) not in _PLAIN and hasattr(action, "__array__"):
            action = _array(action)  # an answer that is still being computed is no answer yet
        return ("ok", action, between - started, clock() - between)

    def _loaded(self, file: str) -> SubmissionCode:
        if self._participant is None:
            self._participant = SubmissionCode(self._folder)
        self._participant.require_files()
        sys.argv[:] = [str(self._folder / file)]  # a submission that parses a command line sees an empty one
        return self._participant

    def _answer(self, reply: tuple[Any, ...]) -> None:
        try:
            self._connection.send(reply, max_bytes=MAX_REPLY_BYTES)
        except Unsendable as error:
            self._connection.send(("error", "bad_output", self._place(), str(error)[:_MAX_MESSAGE], None, None))

    def _place(self) -> str:
        return f"{self._where} (call {self._calls})" if self._calls and self._where != "load_policy" else self._where

    def _failure(self, error: BaseException) -> tuple[Any, ...]:
        kind, text, code = "exception", None, None
        if isinstance(error, ContractError | UserError):  # the participant's to fix: no traceback
            return ("error", "contract", self._place(), _cut(str(error), _MAX_MESSAGE), None, None)
        message = f"{type(error).__name__}: {_text_of(error)}"
        if isinstance(error, MemoryError):
            kind = "memory"
        elif isinstance(error, SyntaxError) and self._where.startswith("import"):
            kind, message = "contract", f"{Path(error.filename or '?').name}:{error.lineno}: {message}"
        elif isinstance(error, SystemExit):
            kind, code = "exit", _exit_code(error)
            message = f"it called sys.exit: the process ended by itself with status {code} before answering"
        try:
            text = "".join(traceback.format_exception(type(error), error, _own_frames(error.__traceback__)))
        except BaseException as second:
            text = f"{type(error).__name__} (its traceback cannot be shown: {type(second).__name__})"
        return ("error", kind, self._place(), _cut(message, _MAX_MESSAGE), _cut(text, _MAX_TRACEBACK), code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the participant may have closed or replaced it
            stream.flush()


def _array(value: Any) -> Any:
    import numpy

    return numpy.asarray(value)


def _exit_code(error: SystemExit) -> int:
    code = error.code
    return code & 0xFF if isinstance(code, int) else 0 if code is None else 1


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return "(its text cannot be shown)"


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Drops the platform's frames at the start: the participant is to see its own code."""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((_PLATFORM_FOLDER, "<frozen importlib")) and "/importlib/" not in file:
            return trace
        trace = trace.tb_next
    return None


def _cut(text: str, limit: int) -> str:
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= limit else f"{clean[: limit // 2]}\n[...]\n{clean[-limit // 2 :]}"


def main() -> None:
    """Connects to the evaluator and serves."""
    descriptor, shared, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    os.set_inheritable(descriptor, False)
    faulthandler.enable()  # a crash in compiled code leaves its traceback in the captured output
    connection = Connection(socket.socket(fileno=descriptor), incoming=SharedView(shared))
    os.register_at_fork(after_in_child=connection.close)
    Worker(connection, folder).serve()


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":
    # A process that the submission spawned: it has to find the submission's modules under the same names. It inherits
    # the search path, but neither the command line nor, for certain, the working directory.
    from a2perf.submission.participant import loader
    from a2perf.submission.participant.signatures import FILES

    for _entry in map(Path, sys.path):
        if all((_entry / name).is_file() for name in FILES):
            loader.install(_entry)
            break
