"""Reads a participant's request and prepares the one that is sent to the model.

Only the parsed JSON document is passed on, encoded again, to a path from a fixed list: no header, no query and no other
byte of the participant reaches the server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from a2perf.errors import CarriedError
from a2perf_agents.calls import request_hash
from a2perf_agents.record import CallOutcome

CHAT, COMPLETIONS, EMBEDDINGS = "chat/completions", "completions", "embeddings"
PATHS = (CHAT, COMPLETIONS, EMBEDDINGS)
"""Paths below the endpoint that a participant may post to."""

DEFAULT_MODEL = "default"
"""Name that stands for the first model of the run."""

MAX_REQUEST_BYTES = 4 << 20
MAX_CHOICES = 16
IMAGE_TOKENS = 4096
"""Bound on the tokens of one picture in a prompt, whatever the size of its data."""

_DATA_URL = re.compile(rb'"data:[a-z]+/[a-zA-Z0-9.+-]+;base64,[A-Za-z0-9+/=]*"')


class RefusedRequest(CarriedError):
    """A request that is not sent.

    Args:
        message: what was given and what is valid. The participant reads it, so it contains no number of the whole run.
        record: the message of the record; by default the same.
        budget: name of the exhausted budget, if that is the reason.
    """

    def __init__(
        self, outcome: CallOutcome, message: str, *, record: str = "", status: int = 400, budget: str = ""
    ) -> None:
        super().__init__(message)
        self.outcome, self.message, self.status, self.budget = outcome, message, status, budget
        self.record = record or message


@dataclass(frozen=True)
class ModelRequest:
    """A request of the participant.

    Attributes:
        path: one of ``PATHS``.
        stream: whether the answer is streamed.
        sha256: see ``request_hash``.
    """

    path: str
    text: str
    document: dict[str, Any]
    model: str
    stream: bool
    sha256: str


def read_request(path: str, body: bytes, models: tuple[str, ...]) -> ModelRequest:
    """Parses a request.

    Args:
        path: one of ``PATHS``.
        models: names of the models that may be used; empty for any, as in a replay.

    Raises:
        RefusedRequest: it is not a JSON object, or names another model.
    """
    try:
        document = msgspec.json.decode(body)
        text = body.decode("utf-8")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise RefusedRequest(CallOutcome.INVALID_REQUEST, f"the request is not valid JSON: {reason}") from None
    if not isinstance(document, dict):
        raise RefusedRequest(CallOutcome.INVALID_REQUEST, "the request is not a JSON object")
    model, stream = document.get("model", DEFAULT_MODEL), document.get("stream")
    if not isinstance(model, str) or not (stream is None or isinstance(stream, bool)):
        raise RefusedRequest(
            CallOutcome.INVALID_REQUEST, "`model` has to be a string, and `stream` true, false or absent"
        )
    if model == DEFAULT_MODEL and models:
        model = models[0]
    if models and model not in models:
        valid = ", ".join((DEFAULT_MODEL, *models))
        raise RefusedRequest(
            CallOutcome.UNKNOWN_MODEL, f"the model {model[:200]!r} is not available; use one of: {valid}", status=404
        )
    return ModelRequest(path, text, document, model, bool(stream) and path != EMBEDDINGS, request_hash(path, document))


def choices_of(request: ModelRequest) -> int:
    """Returns how many answers the model generates for the prompt.

    Raises:
        RefusedRequest: the number is not valid.
    """
    if request.path == EMBEDDINGS:
        return 0
    counts = [1 if (value := request.document.get(name)) is None else value for name in ("n", "best_of")]
    if any(type(count) is not int or not 1 <= count <= MAX_CHOICES for count in counts):
        raise RefusedRequest(
            CallOutcome.INVALID_REQUEST, f"`n` and `best_of` have to be integers from 1 to {MAX_CHOICES}"
        )
    prompt = request.document.get("prompt")
    prompts = len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1
    return max(counts) * prompts


def asked_output_tokens(request: ModelRequest) -> tuple[str, int | None]:
    """Returns the field that bounds the answer, and its value; None if the request has no bound.

    Raises:
        RefusedRequest: the value is not an integer of at least 1.
    """
    for name in ("max_completion_tokens", "max_tokens"):
        value = request.document.get(name)
        if value is not None:
            if type(value) is not int or value < 1:
                raise RefusedRequest(CallOutcome.INVALID_REQUEST, f"`{name}` has to be an integer of at least 1")
            return name, value
    return "max_tokens", None


def prompt_bound(document: dict[str, Any]) -> int:
    """Returns an upper bound on the tokens of a prompt.

    A token of a byte-level vocabulary stands for at least one byte, and the names and quotation marks of the JSON
    exceed what a chat template adds. A picture counts ``IMAGE_TOKENS``.
    """
    data = msgspec.json.encode(document)
    if b"data:" not in data:
        return len(data)
    without, pictures = _DATA_URL.subn(b"", data)
    return len(without) + pictures * IMAGE_TOKENS


def outgoing(request: ModelRequest, field: str, output_tokens: int) -> tuple[dict[str, Any], dict[str, object]]:
    """Returns the document for the server, and the fields that differ from the participant's.

    Args:
        output_tokens: its value; 0 sets no bound, for embeddings.
    """
    changes: dict[str, object] = {}
    if request.document.get("model") != request.model:
        changes["model"] = request.model
    if output_tokens and request.document.get(field) != output_tokens:
        changes[field] = output_tokens
        if field == "max_completion_tokens" and "max_tokens" in request.document:
            changes["max_tokens"] = output_tokens
    if request.stream:
        options = request.document.get("stream_options")
        options = options if isinstance(options, dict) else {}
        if options.get("include_usage") is not True:
            changes["stream_options"] = {**options, "include_usage": True}
    return {**request.document, **changes}, changes


def wants_usage(request: ModelRequest) -> bool:
    """Returns whether the participant asked for the usage at the end of a stream."""
    options = request.document.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def error_body(outcome: CallOutcome, message: str) -> bytes:
    """Returns an error in the format of the OpenAI interface."""
    error = {"message": message, "type": "a2perf_relay", "param": None, "code": outcome.value}
    return msgspec.json.encode({"error": error})
