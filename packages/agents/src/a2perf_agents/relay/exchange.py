"""One call: budget, journal, tries, answer. The order on disk makes it safe to kill the relay at any point.

The request is in the journal before it is sent. The answer is on disk before the participant gets it; of a stream, the
pieces before its end are passed on at once, and the end only after the whole answer is on disk.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
import traceback
from typing import Any

import msgspec

from a2perf.errors import CarriedError
from a2perf.fault_point import fault_point
from a2perf_agents.record import (
    Amounts,
    AnswerEntry,
    CallEntry,
    CallOutcome,
    CallScope,
    RefusedEntry,
    RetryEntry,
    ServedEntry,
)
from a2perf_agents.relay import answers, requests
from a2perf_agents.relay.access import ModelAccess
from a2perf_agents.relay.answers import BadResponse
from a2perf_agents.relay.budget import RunBudget, cost
from a2perf_agents.relay.call_gate import CallGate
from a2perf_agents.relay.call_journal import CallJournal, RecordedAnswers
from a2perf_agents.relay.connections import Lost, ResponseTooLarge, ServerResponse, Unreachable, Untrusted
from a2perf_agents.relay.pending_call import EVENTS, PendingCall, Reply
from a2perf_agents.relay.requests import ModelRequest, RefusedRequest
from a2perf_agents.relay.upstream import MAX_TRIES, Upstream, pause_s

MAX_EVENTS = 100_000
MAX_REFUSALS = 1000
"""Refused requests that are recorded one by one; further ones are only counted in the budgets."""
_WRONG_KEY = "the model server refuses the organizer's key"


class _Failed(CarriedError):
    """A call that ended with an error."""

    def __init__(self, outcome: CallOutcome, message: str, *, status: int = 502, used: bool = True) -> None:
        super().__init__(message)
        self.outcome, self.message, self.status, self.used = outcome, message, status, used


class Exchanges:
    """All calls of one relay.

    Args:
        upstream: client of the server; None in a replay.
        journal: the run's journal.
        replayed: the record of another run that answers the requests; None to use the server.
    """

    def __init__(
        self,
        access: ModelAccess,
        upstream: Upstream | None,
        journal: CallJournal,
        budget: RunBudget,
        *,
        replayed: RecordedAnswers | None,
        attempt: int,
        first: int,
    ) -> None:
        self._access, self._upstream, self._journal, self._budget = access, upstream, journal, budget
        self._replayed, self._attempt, self._next = replayed, attempt, first
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight: dict[int, tuple[CallScope, PendingCall]] = {}
        self._gate = CallGate()
        self._refusals = 0
        self.last_error: dict[CallScope, tuple[CallOutcome, str]] = {}

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that may be used."""
        return self._access.models

    async def answer(self, request: ModelRequest, scope: CallScope) -> Reply:
        """Answers a request from the record or by a call; the call continues if the participant leaves.

        Raises:
            RefusedRequest: a budget is exhausted, the request is not valid, or a replay has no answer to it.
        """
        source = self._replayed or self._journal.recorded
        if (found := source.take(scope, request.sha256)) is not None:
            return await self._served(found, scope)
        if self._replayed is not None:
            raise RefusedRequest(
                CallOutcome.NOT_RECORDED,
                f"the replayed record has no answer to this request (sha256 {request.sha256[:16]}) in {_place(scope)}",
                status=404,
            )
        call = self._admitted(request, scope)
        task = asyncio.create_task(self._perform(call, scope))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(call.reply.started)
        return call.reply

    def refuse(self, error: RefusedRequest, scope: CallScope, sha256: str = "") -> None:
        """Records a refused request."""
        self.last_error[scope] = (error.outcome, error.record)
        self._refusals += 1
        if self._refusals <= MAX_REFUSALS:
            self._write(
                RefusedEntry(
                    scope=scope,
                    outcome=error.outcome.value,
                    message=error.record[:1000],
                    budget=error.budget,
                    sha256=sha256,
                )
            )

    def longest(self, scope: CallScope) -> tuple[float, bool]:
        """Returns how long the oldest call in flight at a place has taken so far, and whether the server delays it.

        Returns:
            Seconds, 0 without a call; and whether the server has refused a try of it, or limits the rate of calls.
        """
        calls = [call for where, call in self._in_flight.values() if where == scope]
        oldest = max(calls, key=lambda call: call.elapsed_s, default=None)
        return (0.0, False) if oldest is None else (oldest.elapsed_s, oldest.tries > 1 or self._gate.is_bounded)

    async def finish(self, grace_s: float) -> None:
        """Waits for the calls in flight; those that do not end in time keep an unknown outcome."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        for task in self._tasks:
            task.cancel()

    def _write(self, entry: CallEntry | AnswerEntry | RetryEntry | ServedEntry | RefusedEntry) -> None:
        self._journal.append(entry)
        self._budget.record_bytes = self._journal.size

    async def _served(self, found: tuple[int, AnswerEntry], scope: CallScope) -> Reply:
        number, answer = found
        self._write(ServedEntry(call=number, attempt=self._attempt, scope=scope, replayed=self._replayed is not None))
        if scope.phase == "latency" and self._replayed is None:
            await asyncio.sleep(answer.total_s)  # the time of this call is being measured
        reply = Reply()
        reply.start(answer.status, answer.content_type)
        for chunk in answer.chunks:
            reply.pieces.put_nowait(chunk.encode())
        reply.pieces.put_nowait(None)
        return reply

    def _admitted(self, request: ModelRequest, scope: CallScope) -> PendingCall:
        """Clamps the answer to the budgets, reserves the largest amounts, and writes the call to the journal."""
        price = None if self._access.prices is None else self._access.prices.models.get(request.model)
        choices, prompt = requests.choices_of(request), requests.prompt_bound(request.document)
        most, bound_by = 0, "max_tokens"
        if choices:
            bound_by, asked = requests.asked_output_tokens(request)
            most = min(self._access.output_tokens, asked or self._access.output_tokens)
            most = max(1, self._budget.output_tokens(prompt, choices, most, price))
        document, changes = requests.outgoing(request, bound_by, most)
        need = Amounts(calls=1, tokens=prompt + choices * most, cost=cost(price, prompt, choices * most))
        if (name := self._budget.exhausted(need)) is not None:
            refused, (used, own) = f"the budget of {name} is exhausted", self._need(name, need)
            raise RefusedRequest(
                CallOutcome.BUDGET, f"{refused}{own}", record=f"{refused}: {used}{own}", status=429, budget=name
            )
        number, self._next = self._next, self._next + 1
        self._budget.reserve(need)
        self._write(
            CallEntry(
                call=number,
                attempt=self._attempt,
                scope=scope,
                path=request.path,
                model=request.model,
                stream=request.stream,
                sha256=request.sha256,
                at=time.time(),
                reserved=need,
                request=request.text,
                changes=changes,
                request_bytes=len(request.text.encode()),
            )
        )
        return PendingCall(number, request, msgspec.json.encode(document), need, Reply())

    def _need(self, name: str, need: Amounts) -> tuple[str, str]:
        """Returns what the run has used of a budget, and what this call can need."""
        use, held = self._budget.use()[name], self._budget.reserved
        wanted = {"tokens": need.tokens, "calls": 1, "cost": need.cost}.get(name)
        text = f"{use.used:.6g} of {use.limit:.6g} used"
        if reserved := {"tokens": held.tokens, "calls": held.calls, "cost": held.cost}.get(name):
            text += f", {reserved:.6g} reserved by calls in flight"
        return text, "" if wanted is None else f", and this call can need up to {wanted:.6g}"

    async def _perform(self, call: PendingCall, scope: CallScope) -> None:
        self._in_flight[call.number] = (scope, call)
        try:
            await self._performed(call, scope)
        except Exception as error:  # a bug or a full disk must not leave the participant waiting
            traceback.print_exc()
            self._unrecorded(call, error)
        finally:
            del self._in_flight[call.number]

    async def _performed(self, call: PendingCall, scope: CallScope) -> None:
        outcome, status, message, used = CallOutcome.OK, 200, "", True
        fault_point("model relay: call recorded")
        limit_s, rest_s = self._access.call_timeout_s, self._budget.rest_s
        try:
            async with asyncio.timeout(min(limit_s, rest_s)):
                await self._tried(call)
        except TimeoutError:
            status = 429
            if rest_s < limit_s:
                self._budget.refuse("seconds")
                outcome, message = CallOutcome.BUDGET, "the budget of seconds was exhausted during the call"
            elif call.is_rate_limited:
                outcome, message = CallOutcome.RATE_LIMITED, f"the model server refused this call for {limit_s:.6g} s"
            else:
                status = 504
                outcome, message = CallOutcome.TIMEOUT, f"the model did not answer within {limit_s:.6g} s"
        except _Failed as error:
            outcome, status, message, used = error.outcome, error.status, error.message, error.used
        fault_point("model relay: answer received")
        content_type = "application/json"
        if outcome is not CallOutcome.OK:
            self.last_error[scope] = (outcome, message)
            self._held_error(call, outcome, message)
        if call.reply.started.done() or (call.request.stream and outcome is CallOutcome.OK):
            content_type, status = EVENTS, 200
        await self._settle(call, outcome, status, message, content_type, used=used)
        fault_point("model relay: answer recorded")
        if not call.reply.started.done():
            call.reply.start(status, content_type)
        for piece in (*call.held, None):
            call.reply.pieces.put_nowait(piece)

    def _held_error(self, call: PendingCall, outcome: CallOutcome, message: str) -> None:
        del call.times[len(call.sent) :]
        call.held.clear()
        call.hold(_error_piece(call, outcome, message))

    def _unrecorded(self, call: PendingCall, error: Exception) -> None:
        message = f"the relay could not record the answer ({type(error).__name__})"
        piece = _error_piece(call, CallOutcome.SERVER_ERROR, message)
        if not call.reply.started.done():
            call.reply.start(500, "application/json")
        call.reply.pieces.put_nowait(piece)
        call.reply.pieces.put_nowait(None)

    async def _settle(
        self, call: PendingCall, outcome: CallOutcome, status: int, message: str, content_type: str, *, used: bool
    ) -> None:
        price = None if self._access.prices is None else self._access.prices.models.get(call.request.model)
        usage, known_cost = call.usage, None
        charged = call.reserved if used else Amounts(calls=1)
        if usage is not None:
            spent = cost(price, usage.tokens_in, usage.tokens_out, usage.cached)
            charged = Amounts(calls=1, tokens=usage.tokens_in + usage.tokens_out, cost=spent)
            known_cost = None if price is None else spent
        self._budget.settle(call.reserved, charged)
        content = b"".join((*call.sent, *call.held))
        self._write(
            AnswerEntry(
                call=call.number,
                outcome=outcome.value,
                status=status,
                usage=usage,
                charged=charged,
                cost=known_cost,
                first_s=call.first_s,
                total_s=call.elapsed_s,
                tries=call.tries,
                chunks=[piece.decode("utf-8", "backslashreplace") for piece in (*call.sent, *call.held)],
                chunks_s=call.times,
                sha256=hashlib.sha256(content).hexdigest(),
                response_bytes=len(content),
                content_type=content_type,
                invalid_tool_calls=call.tools.invalid,
                message=message[:1000],
            )
        )
        await self._journal.committed()

    async def _tried(self, call: PendingCall) -> None:
        """Sends a call until it is answered.

        Raises:
            _Failed: it was not.
        """
        assert self._upstream is not None
        while True:
            call.tries += 1
            most_tries: float = MAX_TRIES
            try:
                async with (
                    self._gate.turn(again=call.tries > 1) as turn,
                    self._upstream.request("POST", call.request.path, call.body) as response,
                ):
                    call.is_rate_limited = response.status == 429
                    if response.status == 200:
                        await (self._read_stream if call.request.stream else self._read_document)(call, response)
                        self._gate.answered()
                        return
                    outcome, message = answers.error_of(response.status, self._upstream.scrubbed(await response.read()))
                    if outcome is CallOutcome.WRONG_KEY:  # the server's text may describe the key
                        message = _WRONG_KEY
                    error = _Failed(outcome, message, status=_passed_on(response.status, outcome), used=False)
                    if not response.is_retried or outcome is CallOutcome.QUOTA:
                        raise error
                    wanted, reason, lost = response.retry_after_s, f"HTTP {response.status}", Amounts()
                    if response.status == 429:  # concurrent episodes share the rate of a server: each gets its turn
                        most_tries = math.inf
                        self._gate.refused(turn)
            except Unreachable as caught:
                error = _Failed(CallOutcome.UNREACHABLE, str(caught), used=False)
                wanted, reason, lost = None, str(caught), Amounts()
            except Untrusted as caught:  # another try would meet the same server
                raise _Failed(CallOutcome.UNTRUSTED, str(caught), used=False) from None
            except Lost as caught:
                error = _Failed(CallOutcome.UNREACHABLE, str(caught))
                wanted, reason, lost = None, str(caught), call.reserved
                if call.sent or call.held:
                    raise _Failed(CallOutcome.BAD_RESPONSE, str(caught)) from None
            except (BadResponse, ResponseTooLarge) as caught:
                large = isinstance(caught, ResponseTooLarge)
                raise _Failed(
                    CallOutcome.RESPONSE_TOO_LARGE if large else CallOutcome.BAD_RESPONSE, str(caught)
                ) from None
            pause = pause_s(call.tries, wanted, most_tries=most_tries)
            if pause is None or call.elapsed_s + pause > self._access.call_timeout_s:
                raise error
            if lost.calls and self._budget.exhausted(call.reserved) is not None:
                raise error
            self._write(RetryEntry(call=call.number, reason=reason[:200], wait_s=round(pause, 3), charged=lost))
            self._budget.charge(lost)
            await asyncio.sleep(pause)

    async def _read_document(self, call: PendingCall, response: ServerResponse) -> None:
        assert self._upstream is not None
        data = self._upstream.scrubbed(await response.read())
        document = answers.parse_document(data)
        if "choices" not in document and "data" not in document:
            raise BadResponse("the answer of the model server has neither choices nor data")
        call.usage = answers.usage_in(document)
        call.tools.add(document)
        call.hold(data)

    async def _read_stream(self, call: PendingCall, response: ServerResponse) -> None:
        assert self._upstream is not None
        if not response.is_stream:
            raise BadResponse("the model server did not answer with a stream of events")
        reader, ended, count = answers.EventReader(), False, 0
        async for data in response.pieces():
            for raw in reader.feed(data):
                event = self._upstream.scrubbed(raw)
                content = answers.data_of(event)
                if content is None:
                    continue
                count += 1
                if count > MAX_EVENTS:
                    raise ResponseTooLarge(f"the answer exceeds {MAX_EVENTS:,} pieces")
                if content == answers.DONE:
                    call.hold(event)
                    return
                ended = self._take_piece(call, event, answers.parse_document(content)) or ended
        if not ended or reader.rest.strip():
            raise BadResponse("the stream of the model server ended before the answer was complete")

    def _take_piece(self, call: PendingCall, event: bytes, document: dict[str, Any]) -> bool:
        """Passes a piece of a stream on, or holds it back; returns whether it ends the answer."""
        if "error" in document:
            raise _Failed(*answers.error_of(500, msgspec.json.encode(document)))
        call.usage = answers.usage_in(document) or call.usage
        call.tools.add(document)
        if answers.is_only_usage(document) and not requests.wants_usage(call.request):
            return False
        if call.first_s is None and answers.has_token(document):
            call.first_s = call.elapsed_s
        ends = answers.is_end(document)
        # Everything from the end on waits until the answer is on disk.
        if ends or call.held:
            call.hold(event)
        else:
            call.send(event)
        return ends


def _error_piece(call: PendingCall, outcome: CallOutcome, message: str) -> bytes:
    body = requests.error_body(outcome, message)
    return b"data: " + body + b"\n\n" if call.reply.started.done() else body


def _passed_on(status: int, outcome: CallOutcome) -> int:
    is_ours = outcome in (CallOutcome.WRONG_KEY, CallOutcome.QUOTA)  # not an error of the participant
    return 502 if is_ours or status < 400 else status


def _place(scope: CallScope) -> str:
    episode = "" if scope.episode is None else f" {scope.episode}"
    return f"{scope.phase}{episode} of {scope.task}" if scope.task else f"{scope.phase}{episode}"
