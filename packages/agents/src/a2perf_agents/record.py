"""Typed records of a run's calls to a language model: the entries of the journal, and the summary of usage.

The journal (``layout.MODEL_CALLS``) is written by ``relay``. Every entry is one
JSON object with a ``kind``. ``calls`` reads it.
"""

from __future__ import annotations

import enum

import msgspec

from a2perf.records import SCHEMA, Record


class CallOutcome(enum.Enum):
    """How a call or a refused request ended. Its value is the ``code`` of the error that the participant gets."""

    OK = "ok"
    BUDGET = "budget_exhausted"
    INVALID_REQUEST = "invalid_request"
    CONTEXT_LENGTH = "context_length_exceeded"
    UNKNOWN_MODEL = "model_not_found"
    UNKNOWN_PATH = "unknown_path"
    WRONG_TOKEN = "invalid_api_key"
    REQUEST_TOO_LARGE = "request_too_large"
    REQUEST_TIMEOUT = "request_timeout"
    WRONG_KEY = "wrong_key"
    RATE_LIMITED = "rate_limited"
    QUOTA = "quota_exhausted"
    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted_server"
    SERVER_ERROR = "server_error"
    BAD_RESPONSE = "bad_response"
    TIMEOUT = "timeout"
    RESPONSE_TOO_LARGE = "response_too_large"
    NOT_RECORDED = "not_recorded"
    UNKNOWN = "unknown_outcome"


class CallScope(msgspec.Struct, kw_only=True, frozen=True):
    """The part of a run in which a call was made.

    Attributes:
        phase: ``"train"``, ``"load"``, ``"latency"``, ``"episode"`` or ``"end"``.
        episode: number of the episode, None outside of episodes.
    """

    task: str = ""
    phase: str = ""
    episode: int | None = None


class TokenUsage(msgspec.Struct, kw_only=True, frozen=True):
    """Tokens of one call as the server counted them.

    Attributes:
        cached: tokens of the prompt that the server had cached.
    """

    tokens_in: int
    tokens_out: int = 0
    cached: int = 0


class Amounts(msgspec.Struct, kw_only=True, frozen=True):
    """Amounts that count towards the budgets."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def plus(self, other: Amounts, sign: int = 1) -> Amounts:
        """Returns the sum, or the difference with ``sign=-1``."""
        return Amounts(
            calls=self.calls + sign * other.calls,
            tokens=self.tokens + sign * other.tokens,
            cost=self.cost + sign * other.cost,
        )


class CallEntry(Record, kw_only=True, tag="call", tag_field="kind"):
    """A call that is about to be sent.

    Attributes:
        call: number of the call in the run, from 1.
        scope: where in the run it was made.
        path: path below the endpoint, ``"chat/completions"``.
        stream: whether the answer is streamed.
        sha256: hash of path and request; equal requests have equal hashes.
        at: start in seconds since the epoch.
        request: the participant's request; None if it was redacted.
    """

    call: int
    attempt: int
    scope: CallScope
    path: str
    model: str
    stream: bool
    sha256: str
    at: float
    reserved: Amounts
    request: str | None
    changes: dict[str, object] = msgspec.field(default_factory=dict)
    request_bytes: int = 0


class AnswerEntry(Record, kw_only=True, tag="answer", tag_field="kind"):
    """The end of a call, on disk before the participant gets the answer.

    Attributes:
        outcome: a value of ``CallOutcome``.
        usage: None if the server did not report it.
        charged: amounts counted towards the budgets; the reserved ones if the usage is unknown.
        cost: cost by the price table; None without a price or usage.
        first_s: time until the first token of a stream, in seconds; None otherwise.
        total_s: time until the end of the answer, retries included, in seconds.
        chunks: the bytes of the answer as text, in the pieces in which the participant got them; empty if redacted.
        chunks_s: time of each piece since the start of the call, in seconds.
        sha256: hash of the bytes of the answer.
        invalid_tool_calls: tool calls with arguments that are not JSON.
    """

    call: int
    outcome: str
    status: int
    usage: TokenUsage | None = None
    charged: Amounts = msgspec.field(default_factory=Amounts)
    cost: float | None = None
    first_s: float | None = None
    total_s: float = 0.0
    tries: int = 0
    chunks: list[str] = msgspec.field(default_factory=list)
    chunks_s: list[float] = msgspec.field(default_factory=list)
    sha256: str = ""
    response_bytes: int = 0
    content_type: str = "application/json"
    invalid_tool_calls: int = 0
    message: str = ""


class RetryEntry(Record, kw_only=True, tag="retry", tag_field="kind"):
    """A try that failed and is repeated.

    Attributes:
        reason: status of the server, or the error of the connection.
        wait_s: pause before the next try.
        charged: the reserved amounts if the server may have answered the lost request, else zero.
    """

    call: int
    reason: str
    wait_s: float
    charged: Amounts = msgspec.field(default_factory=Amounts)


class ServedEntry(Record, kw_only=True, tag="served", tag_field="kind"):
    """A request that was answered from a record, without a call.

    Attributes:
        scope: where in the run the request was made.
        replayed: whether the record is that of another run (``--model BUNDLE``).
    """

    call: int
    attempt: int
    scope: CallScope
    replayed: bool = False


class RefusedEntry(Record, kw_only=True, tag="refused", tag_field="kind"):
    """A request that the relay refused; nothing was sent.

    Attributes:
        scope: where in the run it was made.
        outcome: a value of ``CallOutcome``.
        budget: name of the exhausted budget; empty for other reasons.
        sha256: hash of the request, if it was read.
    """

    scope: CallScope
    outcome: str
    message: str
    budget: str = ""
    sha256: str = ""


class OpenedEntry(Record, kw_only=True, tag="opened", tag_field="kind"):
    """The start of a relay.

    Attributes:
        endpoint: address of the server, without user, password and query.
        models: names of the models that may be used.
    """

    attempt: int
    endpoint: str
    models: list[str]


ModelEntry = CallEntry | AnswerEntry | RetryEntry | ServedEntry | RefusedEntry | OpenedEntry


class Percentiles(Record, kw_only=True):
    """Distribution of a duration, in seconds."""

    count: int
    median_s: float
    p90_s: float
    p99_s: float
    max_s: float


class UsageCounts(Record, kw_only=True):
    """Calls and their costs.

    Attributes:
        answered: calls with the outcome ``"ok"``.
        calls_without_usage: answered calls for which the server reported no tokens. If it is above 0, the sums of
            tokens and cost are lower bounds.
        cost: cost of the calls with usage; None without a price table.
        call_s: sum of the durations of the calls, in seconds.
        invalid_tool_calls: tool calls of the model with arguments that are not JSON.
        errors: number of calls and refused requests by kind of error.
        first_token: time to the first token of streamed answers; None without any.
        total: duration of answered calls; None without any.
    """

    calls: int = 0
    answered: int = 0
    served: int = 0
    refused: int = 0
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    calls_without_usage: int = 0
    cost: float | None = None
    call_s: float = 0.0
    invalid_tool_calls: int = 0
    errors: dict[str, int] = msgspec.field(default_factory=dict)
    first_token: Percentiles | None = None
    total: Percentiles | None = None


class ScopeUsage(Record, kw_only=True):
    """Usage in one episode, or in one phase outside of episodes."""

    task: str
    phase: str
    episode: int | None
    usage: UsageCounts


class BudgetUse(Record, kw_only=True):
    """One budget of a run.

    Attributes:
        used: the amount counted so far; calls with unknown usage count at their reserved maximum.
    """

    limit: float
    used: float
    refused: int = 0


class ModelUsage(Record, kw_only=True):
    """``metrics/model_usage.json``: usage of language models by one run.

    Attributes:
        endpoint: address of the server, without user, password and query; empty in a replay.
        replay_of: SHA-256 of the journal that answered the requests in a replay; empty otherwise.
        currency: unit of costs; empty without a price table.
        energy: where the energy of the model is: always ``"unknown"``; the run's own energy is in ``tracking.json``.
        scopes: usage per episode and per phase.
        budgets: those with a limit, by name: ``"tokens"``, ``"calls"``, ``"seconds"``, ``"joules"``, ``"cost"``; and
            ``"record_bytes"``, if the journal reached its largest size.
    """

    schema: int = SCHEMA
    endpoint: str = ""
    replay_of: str = ""
    models: list[str] = msgspec.field(default_factory=list)
    currency: str = ""
    energy: str = "unknown"
    total: UsageCounts = msgspec.field(default_factory=UsageCounts)
    scopes: list[ScopeUsage] = msgspec.field(default_factory=list)
    budgets: dict[str, BudgetUse] = msgspec.field(default_factory=dict)
