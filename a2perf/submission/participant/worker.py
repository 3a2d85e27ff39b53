"""Main of the participant process: answers the evaluator's requests with the submission's code.

Started as ``python -P -m a2perf.submission.participant.worker FD SHARED_FD FOLDER [MODEL_FD]``; with ``MODEL_FD`` it
opens the way to a language model. On a host where no descriptors are inherited, ``PORT -`` stands for the first two. It
reports that it is ready before it imports large packages; the first request that needs the submission imports it. Any
failure of the code (an exception, ``sys.exit``, an answer that cannot be sent) becomes a reply. Printed output cannot
reach the wire, which has a separate descriptor that child processes do not inherit.

Imports the standard library and msgpack; numpy is imported with the first array, gymnasium on the first use of ``env``.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from a2perf.errors import UserError, with_hint
from a2perf.submission.participant.folder import SubmissionCode
from a2perf.submission.participant.lazy_environment import LazyEnvironment
from a2perf.submission.participant.shared_region import SharedView
from a2perf.submission.participant.signatures import INFER_BATCH, ContractError, require_done
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
_STEPS = ("infer", "infer_batch", "empty")
_SHOWN_FILES = 12
_REFUSED = re.compile("Read-only file system|Permission denied|Operation not permitted")
_MISSING = re.compile("No such file or directory|FileNotFoundError")
_PLATFORM_FOLDER = str(Path(__file__).parent)


class Worker:
    """Serves one submission."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        self._connection = connection
        self._folder = folder
        self._participant: SubmissionCode | None = None
        self._preprocess: Callable[[Any], Any] | None = None
        self._infer_once: Callable[[Any], Any] | None = None
        self._infer_batch: Callable[[Any], Any] | None = None
        self._report_confidence: Callable[[], Any] | None = None
        self._empty_answer: tuple[Any, ...] = ("ok",)
        self._where = "start"
        self._calls = 0
        self._handlers: dict[str, Callable[..., tuple[Any, ...]]] = {
            "infer": self.infer,
            "infer_batch": self.infer_batch,
            "empty": self.empty,
            "empty_answer": self.set_empty_answer,
            "train": self.train,
            "load_policy": self.load_policy,
            "report_confidence": self.report_confidence,
        }

    def serve(self) -> None:
        """Answers requests until the evaluator sends ``close`` or ends."""
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
            if operation not in _STEPS or reply[0] != "ok":  # flushing each step would distort the timing
                _flush()
            self._answer(reply)

    def train(self, args: Mapping[str, str]) -> tuple[Any, ...]:
        """Imports train.py and runs ``train``, which may end with ``sys.exit(0)``; answers with its wall time, ns."""
        self._where = "import train.py"
        call = self._loaded("train.py").train(args)
        self._where = "train"
        os.chdir(os.environ.get("A2PERF_ARTIFACTS", "."))  # train() saves under relative names
        started = time.perf_counter_ns()
        try:
            result = call()
        except SystemExit as error:  # scripts end like this: sys.exit(main()), app.run(main), a click command
            if _exit_code(error):
                raise
            result = None
        elapsed = time.perf_counter_ns() - started
        require_done("train", result)
        return ("ok", elapsed)

    def load_policy(self, args: Mapping[str, str], spaces: Mapping[str, Any]) -> tuple[Any, ...]:
        """Imports inference.py and calls ``load_policy``; see ``LazyEnvironment`` for ``spaces``.

        Answers with the wall time of the call in nanoseconds, and whether the submission reports a confidence.
        """
        self._where = "import inference.py"
        _show_artifacts(self._folder)
        inference = self._loaded("inference.py").inference()
        self._where = "load_policy"
        started = time.perf_counter_ns()
        policy = inference.load_policy(LazyEnvironment.from_variables(spaces), args)
        elapsed = time.perf_counter_ns() - started
        self._preprocess, self._infer_once, self._infer_batch = inference.bind(policy)
        report = inference.report_confidence
        self._report_confidence = None if report is None else lambda: report(policy)
        return ("ok", elapsed, report is not None)

    def report_confidence(self) -> tuple[Any, ...]:
        """Answers with the policy's confidence in the episode that has just ended."""
        self._where = "report_confidence"
        if self._report_confidence is None:
            raise ContractError("inference.py does not define report_confidence")
        value = self._report_confidence()
        return ("ok", _array(value) if type(value) not in _PLAIN and hasattr(value, "__array__") else value)

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
            action = _array(action)  # frameworks compute lazily: the time until the action exists counts
        return ("ok", action, between - started, clock() - between)

    def infer_batch(self, observations: Any) -> tuple[Any, ...]:
        """Answers with the actions for observations of several episodes, and the nanoseconds of ``infer_batch``."""
        self._calls += 1
        self._where = "infer_batch"
        if self._infer_batch is None:
            raise ContractError(
                "the submission has no function infer_batch",
                f"write `def {INFER_BATCH.expected}:` in inference.py, or leave out --batch",
            )
        started = time.perf_counter_ns()
        actions = self._infer_batch(observations)
        if type(actions) not in _PLAIN and hasattr(actions, "__array__"):
            actions = _array(actions)
        return ("ok", actions, 0, time.perf_counter_ns() - started)

    def set_empty_answer(self, action: Any) -> tuple[Any, ...]:
        """Sets the action that ``empty`` answers with."""
        self._empty_answer = ("ok", action, 0, 0)
        return ("ok",)

    def empty(self, observation: Any) -> tuple[Any, ...]:
        """Answers like ``infer``, without the submission's code: what remains is the cost of the transport."""
        return self._empty_answer

    def _loaded(self, file: str) -> SubmissionCode:
        if self._participant is None:
            self._participant = SubmissionCode(self._folder)
        self._participant.require_files()
        sys.argv[:] = [str(self._folder / file)]  # a submission that parses its command line must not see ours
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
        if isinstance(error, ContractError | UserError):  # the message is enough to fix it: no traceback
            return ("error", "contract", self._place(), _cut(str(error), _MAX_MESSAGE), None, None)
        message = f"{type(error).__name__}: {_text_of(error)}".rstrip(": ")
        if isinstance(error, MemoryError):
            kind, message = "memory", f"it ran out of memory ({message})"
        elif isinstance(error, SyntaxError) and self._where.startswith("import"):
            file = Path(error.filename or "?").name
            kind, message = "contract", f"{type(error).__name__} in {file}, line {error.lineno}: {error.msg}"
        elif isinstance(error, SystemExit):
            kind, code = "exit", _exit_code(error)
            message = f"it called sys.exit with status {code} before it answered"
        else:
            message = with_hint(message, _hint_of_file(message, self._where))
        try:
            text = "".join(traceback.format_exception(type(error), error, _own_frames(error.__traceback__)))
        except BaseException as second:
            text = f"{type(error).__name__} (the traceback cannot be formatted: {type(second).__name__})"
        return ("error", kind, self._place(), _cut(message, _MAX_MESSAGE), _cut(text, _MAX_TRACEBACK), code)


def _show_artifacts(folder: Path) -> None:
    """Changes to a temporary folder that shows the files of ``ROOT_DIR`` and the submission; the former come first.

    Inference then reads what training saved, and what the submission contains, under the same relative names.
    """
    trained, view = os.environ.get("ROOT_DIR", ""), Path.home() / "work"
    with contextlib.suppress(OSError):  # a host without links: the submission remains the working folder
        places = [Path(trained), folder] if trained and os.listdir(trained) else []
        for place in places:
            view.mkdir(exist_ok=True)
            for entry in place.iterdir():
                if not (view / entry.name).is_symlink():
                    (view / entry.name).symlink_to(entry)
        os.chdir(view if places else folder)


def _hint_of_file(message: str, where: str) -> str | None:
    """Returns where files are read and written, if an exception is about a file."""
    if _REFUSED.search(message):
        return "write to the folder A2PERF_ARTIFACTS, which is where train() works"
    if not _MISSING.search(message):
        return None
    if where == "train":
        return "train() works in A2PERF_ARTIFACTS; name a file of the submission by Path(__file__).parent / NAME"
    trained = os.environ.get("ROOT_DIR", "")
    names = sorted(os.listdir(trained))[:_SHOWN_FILES] if os.path.isdir(trained) else []
    return f"relative names are those of the submission and of what training saved ({', '.join(names) or 'nothing'})"


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
        return "(the message cannot be formatted)"


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Drops a2perf's frames from the start of a traceback: they do not help the participant."""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((_PLATFORM_FOLDER, "<frozen importlib")) and "/importlib/" not in file:
            return trace
        trace = trace.tb_next
    return None


def _cut(text: str, limit: int) -> str:
    # msgpack refuses lone surrogates, and the report of a failure must not fail itself.
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= limit else f"{clean[: limit // 2]}\n[...]\n{clean[-limit // 2 :]}"


def _connected(port: int) -> socket.socket:
    """Connects to the evaluator where no socket is inherited, and ends this process with it."""
    from a2perf.system import end_with_input

    descriptor = os.dup(0)  # open as long as this process: a thread waits for its end
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    with open(descriptor, "rb", buffering=0, closefd=False) as source:
        token = source.readline().strip()
    end_with_input(descriptor)
    faulthandler.enable()
    connected = socket.create_connection(("127.0.0.1", port))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.sendall(token)
    return connected


def main() -> None:
    """Connects to the evaluator and serves."""
    folder = Path(sys.argv[3])
    if sys.argv[2] == "-":
        Worker(Connection(_connected(int(sys.argv[1]))), folder).serve()
        return
    descriptor, shared = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(descriptor, False)
    for word in sys.argv[4:]:
        # "5:ECHO_ADDRESS=127.0.0.1:{port}": descriptor of a socket to the evaluator, and a variable with the address
        # of a service. The listener is on the participant's private loopback and goes to the evaluator. There the
        # service accepts its connections: no process here forwards anything.
        channel, _, address = word.partition(":")
        variable, _, value = address.partition("=")
        with (
            socket.socket(fileno=int(channel)) as evaluator,
            # With its protocol number, as an asyncio server sets TCP_NODELAY only then.
            socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener,
        ):
            listener.bind(("127.0.0.1", 0))
            listener.listen(128)
            os.environ[variable] = value.replace("{port}", str(listener.getsockname()[1]))
            socket.send_fds(evaluator, [b"l"], [listener.fileno()])
    faulthandler.enable()  # a crash in compiled code writes its traceback to the captured output
    connection = Connection(socket.socket(fileno=descriptor), incoming=SharedView(shared))
    os.register_at_fork(after_in_child=connection.close)  # a forked child must not keep the wire open
    Worker(connection, folder).serve()


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":
    # A process that the submission spawned with multiprocessing: it has to find the submission's modules under the same
    # names. It inherits the search path, but not the command line and not necessarily the working directory.
    from a2perf.submission.participant import loader
    from a2perf.submission.participant.forms import form_of
    from a2perf.submission.participant.signatures import FILES

    for _entry in map(Path, sys.path):
        if all((_entry / name).is_file() for name in FILES) or (_entry.is_dir() and form_of(_entry) is not None):
            loader.install(_entry)
            break
