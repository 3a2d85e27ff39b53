"""The evaluator's end of the relay: starts it, tells it where in the run the participant is, and writes the summary."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import msgspec

from a2perf.errors import ConfigError, InfrastructureError
from a2perf.records import Failure, FailureKind
from a2perf.runs.bundles.layout import MODEL_CALLS, MODEL_USAGE
from a2perf.storage import sha256_of, write_record
from a2perf.submission.run_services import ServedRun, ServiceSession
from a2perf_agents.calls import read_entries, usage_of
from a2perf_agents.errors import error_lines
from a2perf_agents.record import BudgetUse, CallOutcome, CallScope, ModelUsage
from a2perf_agents.relay.access import MAX_MESSAGE_BYTES, ModelAccess, RelaySettings

START_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 20.0
ENERGY_PERIOD_S = 0.5
_JOULES_PER_KWH = 3.6e6

_LONGER = "raise Submission.call_timeout_s, or lower call_timeout_s of the model"
_OF_THE_HOST = frozenset(
    (
        CallOutcome.WRONG_KEY,
        CallOutcome.UNREACHABLE,
        CallOutcome.SERVER_ERROR,
        CallOutcome.RATE_LIMITED,
        CallOutcome.BAD_RESPONSE,
        CallOutcome.TIMEOUT,
        CallOutcome.RESPONSE_TOO_LARGE,
        CallOutcome.UNTRUSTED,
        CallOutcome.QUOTA,
    )
)
"""Errors of the model server: a participant that fails because of one has not failed itself."""


class RelayCaller(ServiceSession):
    """One part of a run that calls the model: it tells the relay where in the run it is. Picklable for a child process.

    Args:
        token: the key of the participant's requests.
        model: name of the default model.
        limits_energy: whether the run has a budget of energy.
    """

    address = "OPENAI_BASE_URL=http://127.0.0.1:{port}/v1"

    def __init__(self, control: socket.socket, token: str, model: str, *, limits_energy: bool) -> None:
        self._control, self._token, self._model = control, token, model
        self._limits_energy = limits_energy
        self._task = ""
        self._guard: threading.Lock | None = None
        self.variables = {"OPENAI_API_KEY": token, "A2PERF_MODEL": model}

    def another(self) -> RelayCaller:
        """Returns another part of the run: a task in another process, or an episode beside others."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._request({"op": "caller"}, theirs.fileno())
        return RelayCaller(ours, self._token, self._model, limits_energy=self._limits_energy)

    def listen(self, listener: socket.socket) -> None:
        """Hands the relay the listening socket of a participant process; those of earlier processes are closed.

        Raises:
            InfrastructureError: the relay has ended.
        """
        self._request({"op": "listen"}, listener.fileno())

    def enter(self, phase: str, episode: int | None = None, *, task: str | None = None) -> None:
        """Sets where the run is.

        Args:
            phase: see ``CallScope``.
            task: name of the task; by default the one given before.
        """
        self._task = self._task if task is None else task
        scope = CallScope(task=self._task, phase=phase, episode=episode)
        self._request({"op": "scope", "scope": scope})

    def explained(self, failure: Failure) -> Failure:
        """Returns a failure of the participant with its cause, if a call to the model failed before."""
        if failure.kind not in (FailureKind.EXCEPTION, FailureKind.EXIT, FailureKind.TIMEOUT):
            return failure
        try:
            found = self._request({"op": "error"})
        except InfrastructureError as error:
            return _of_host(failure, f"{error.message}: {failure.message}")
        if failure.kind is FailureKind.TIMEOUT and found["waited_s"]:
            text = f"{failure.message} (a call to the model was in flight for {found['waited_s']:.3g} s; {_LONGER})"
            if found["refused"]:
                return _of_host(failure, f"{text}; the model server refused tries of it, or limits its rate")
            return msgspec.structs.replace(failure, message=text)
        last = found["error"]
        if last is None:
            return failure
        outcome, message = CallOutcome(last[0]), f"{last[0]}: {last[1]}"
        text = f"{failure.message} (last error of the model: {message})"
        if outcome is CallOutcome.BUDGET:
            return msgspec.structs.replace(failure, kind=FailureKind.BUDGET, message=text)
        return _of_host(failure, text) if outcome in _OF_THE_HOST else msgspec.structs.replace(failure, message=text)

    @contextmanager
    def reporting_energy(self, net_kwh: Callable[[], float]) -> Iterator[None]:
        """Reports the energy of the participant's processes while the context is open.

        Args:
            net_kwh: returns the energy above idle so far, in kWh.
        """
        if not self._limits_energy:
            yield
            return
        self._guard, ended = threading.Lock(), threading.Event()

        def report() -> None:
            while not ended.wait(ENERGY_PERIOD_S):
                with suppress(InfrastructureError):
                    self._request({"op": "energy", "joules": net_kwh() * _JOULES_PER_KWH})

        thread = threading.Thread(target=report, name="a2perf-model-energy", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self._guard = None

    def budgets(self) -> dict[str, BudgetUse]:
        """Returns the use of the budgets; an empty dictionary if the relay has ended."""
        try:
            answer = self._request({"op": "usage"})
        except InfrastructureError:
            return {}
        return msgspec.convert(answer["budgets"], dict[str, BudgetUse])

    def close(self) -> None:
        """Closes this end; the relay closes the participant's connections."""
        self._control.close()

    def _request(self, message: dict[str, Any], descriptor: int | None = None) -> dict[str, Any]:
        with self._guard or nullcontext():
            return _ask(self._control, msgspec.json.encode(message), descriptor)


def _of_host(failure: Failure, message: str) -> Failure:
    """Returns a failure that interrupts the run: the model server or the relay may have caused it.

    A participant can provoke errors of a server, so nothing continues the run automatically.
    """
    return msgspec.structs.replace(failure, kind=FailureKind.INFRASTRUCTURE, message=message, resumable=True)


@contextmanager
def open_relay(access: ModelAccess, run: ServedRun) -> Iterator[RelayCaller]:
    """Runs the relay of a run while the context is open; a recorded run gets a summary of the usage at its end.

    Raises:
        ConfigError: the model server refuses the key or does not know a model.
        InfrastructureError: it does not answer.
    """
    caller, process = start_relay(access, run.folder, log=run.logs / "model_relay.log", attempt=run.attempt)
    try:
        yield caller
    finally:
        budgets = caller.budgets()
        end_relay(caller, process)
        if run.is_recorded:
            _summarise(access, run, budgets)


def start_relay(
    access: ModelAccess, folder: Path, *, log: Path, attempt: int = 1
) -> tuple[RelayCaller, subprocess.Popen[bytes]]:
    """Starts a relay process.

    Args:
        log: file that receives the relay's own messages.

    Raises:
        ConfigError: the model server refuses the key or does not know a model.
        InfrastructureError: it does not answer.
    """
    token = f"a2perf-{secrets.token_hex(16)}"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-P", "-m", "a2perf_agents.relay.process", str(theirs.fileno())]
    with theirs, log.open("ab") as output:
        process = subprocess.Popen(
            command,
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C of a terminal is for the evaluator, which then ends the relay
        )
    settings = RelaySettings(access=access, folder=str(folder), token=token, attempt=attempt)
    try:
        answer = _ask(ours, msgspec.json.encode(settings), timeout_s=START_TIMEOUT_S)
        if "kind" in answer:
            kind = ConfigError if answer["kind"] == "ConfigError" else InfrastructureError
            raise kind(answer["message"], hint=answer["hint"])
    except BaseException:
        ours.close()
        process.kill()
        process.wait()
        raise
    model = access.models[0] if access.models else ""
    return RelayCaller(ours, token, model, limits_energy=access.budgets.joules is not None), process


def end_relay(caller: RelayCaller, process: subprocess.Popen[bytes]) -> None:
    """Ends a relay; it records the calls in flight."""
    caller.close()
    try:
        process.wait(CLOSE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _summarise(access: ModelAccess, run: ServedRun, budgets: dict[str, BudgetUse]) -> None:
    """Writes the summary of usage, and warns about failed and refused calls."""
    total, scopes = usage_of(read_entries(run.folder / MODEL_CALLS))
    usage = ModelUsage(
        endpoint=access.shown_endpoint if access.replay is None else "",
        replay_of="" if access.replay is None else sha256_of(Path(access.replay)),
        models=list(access.models),
        currency="" if access.prices is None else access.prices.currency,
        total=total,
        scopes=scopes,
        budgets=budgets,
    )
    write_record(run.folder / MODEL_USAGE, usage)
    if total.calls_without_usage:
        run.warn(
            f"the model server reported no tokens for {total.calls_without_usage} of {total.answered} answers:"
            " tokens and cost of the run are unknown beyond the counted part"
        )
    problems = [f"language model: {line}" for line in error_lines(total)]
    problems += [
        f"the model budget of {name} was exhausted: {use.refused} requests refused at {use.limit:g}"
        for name, use in budgets.items()
        if use.refused
    ]
    for line in problems:
        run.warn(line)
        run.say(line)


def _ask(
    control: socket.socket, message: bytes, descriptor: int | None = None, *, timeout_s: float = ANSWER_TIMEOUT_S
) -> dict[str, Any]:
    control.settimeout(timeout_s)
    try:
        socket.send_fds(control, [message], [] if descriptor is None else [descriptor])
        data = control.recv(MAX_MESSAGE_BYTES)
        if not data:
            raise ConnectionResetError
    except OSError as error:
        raise InfrastructureError(
            "the relay to the language model has ended",
            hint="run the same command again; logs/model_relay.log has details",
        ) from error
    answer: dict[str, Any] = msgspec.json.decode(data)
    return answer
