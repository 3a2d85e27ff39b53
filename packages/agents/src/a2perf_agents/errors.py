"""What each kind of failed or refused call to a language model means, and what to do about it."""

from __future__ import annotations

from a2perf_agents.record import CallOutcome, UsageCounts

_EXPLAINED: dict[CallOutcome, tuple[str, str]] = {
    CallOutcome.BUDGET: (
        "a budget of the run was exhausted",
        "raise it in the table [budget], or make fewer or smaller requests",
    ),
    CallOutcome.INVALID_REQUEST: (
        "the request is not valid",
        "read the reason in model_calls.jsonl and correct the submission's request",
    ),
    CallOutcome.CONTEXT_LENGTH: (
        "the prompt is longer than the context of the model",
        "shorten the prompt, or choose a model with a larger context",
    ),
    CallOutcome.UNKNOWN_MODEL: (
        "the model is not offered",
        "ask for the model in A2PERF_MODEL, or add its name to `models`",
    ),
    CallOutcome.UNKNOWN_PATH: (
        "the relay has no such path",
        "use chat/completions, completions, embeddings or models below OPENAI_BASE_URL",
    ),
    CallOutcome.WRONG_TOKEN: (
        "the request did not carry the key of the run",
        "send OPENAI_API_KEY of the process as the key",
    ),
    CallOutcome.REQUEST_TOO_LARGE: ("the request is too large", "send less than 4 MiB per request"),
    CallOutcome.REQUEST_TIMEOUT: ("the request did not arrive in time", "send a request as a whole"),
    CallOutcome.WRONG_KEY: (
        "the model server refused the organizer's key",
        "correct the key behind key_variable or key_file",
    ),
    CallOutcome.RATE_LIMITED: (
        "the model server refused the rate of calls, also after retries",
        "run fewer episodes at the same time, or ask the server for a higher rate",
    ),
    CallOutcome.QUOTA: (
        "the organizer's account at the model server is used up",
        "raise the quota of the account, then run the same command again",
    ),
    CallOutcome.UNREACHABLE: ("the model server did not answer", "start the server, or correct the endpoint"),
    CallOutcome.UNTRUSTED: (
        "the certificate of the model server is not valid, so nothing was sent to it",
        "correct the endpoint, or give SSL_CERT_FILE a file with the certificate of its authority",
    ),
    CallOutcome.SERVER_ERROR: ("the model server failed, also after retries", "read the log of the server"),
    CallOutcome.BAD_RESPONSE: (
        "the answer of the model server was not in the OpenAI format",
        "check that the endpoint is the base address of an OpenAI-compatible interface",
    ),
    CallOutcome.TIMEOUT: ("the model did not answer in time", "raise call_timeout_s of the model"),
    CallOutcome.RESPONSE_TOO_LARGE: ("the answer was too large", "bound it with output_tokens of the model"),
    CallOutcome.NOT_RECORDED: (
        "the replayed record has no answer to the request",
        "use the seeds and the submission of the recorded run: `--seeds-from BUNDLE`",
    ),
    CallOutcome.UNKNOWN: (
        "the outcome is unknown, because the run was killed during the call",
        "nothing to do: the call counts with its largest amount and was sent again",
    ),
}


def error_lines(counts: UsageCounts) -> list[str]:
    """Returns one line per kind of failed calls and refused requests, the most frequent first.

    Args:
        counts: usage of a run or of a part of it.
    """
    lines = []
    for kind, number in sorted(counts.errors.items(), key=lambda item: (-item[1], item[0])):
        cause, hint = explained(kind)
        lines.append(f"{number} x {kind}: {cause}. Hint: {hint}")
    return lines


def explained(kind: str) -> tuple[str, str]:
    """Returns the cause of an outcome and how to fix it; a kind of a newer version has neither.

    Args:
        kind: a value of ``CallOutcome``.
    """
    try:
        return _EXPLAINED[CallOutcome(kind)]
    except (ValueError, KeyError):
        return "a call to the language model failed", "read model_calls.jsonl"
