"""What goes wrong between relay and model server: each has a kind, is recorded, and leaves the relay working."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import openai
import pytest

from a2perf.errors import ConfigError, InfrastructureError
from a2perf.records import Failure, FailureKind
from a2perf_agents.calls import joined
from a2perf_agents.record import RetryEntry
from a2perf_agents.relay import connections, upstream
from a2perf_agents.relay.access import ModelAccess, ModelPrice, PriceTable
from packages.agents.examples.scripted_model import Script, ScriptRule, running_server
from packages.agents.tests.conftest import KEY, Relays, RelayUnderTest
from tests.waiting import until


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "FIRST_PAUSE_S", 0.01)


FAILURES: dict[str, tuple[dict[str, Any], int, str]] = {
    "refused for the rate, for ever": ({"status": 429, "answer": "slow down"}, 429, "rate_limited"),
    "no credit": ({"status": 429, "code": "insufficient_quota", "answer": "pay"}, 502, "quota_exhausted"),
    "broken server": ({"status": 500, "answer": "oops"}, 500, "server_error"),
    "context too long": (
        {"status": 400, "answer": "too long", "code": "context_length_exceeded"},
        400,
        "context_length_exceeded",
    ),
    "invalid parameter": ({"status": 400, "answer": "temperature is too high"}, 400, "invalid_request"),
    "not a document": ({"broken": "not_json"}, 502, "bad_response"),
    "bytes": ({"broken": "garbage"}, 502, "bad_response"),
    "no answer": ({"broken": "silence"}, 504, "timeout"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_an_error_of_the_server_has_its_kind(what: str, relay: Relays) -> None:
    rule, status, kind = FAILURES[what]
    limit_s = 5.0 if kind in ("timeout", "rate_limited") else 300.0
    through = relay([ScriptRule(when="fail", **rule), ScriptRule(answer="fine")], call_timeout_s=limit_s)
    with pytest.raises(openai.APIStatusError) as caught:
        through.ask("fail")
    assert (caught.value.status_code, caught.value.code) == (status, kind)
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert through.outcomes == [kind]
    assert through.ask("again").choices[0].message.content == "fine"


def test_a_broken_connection_is_repeated_and_each_try_counts_at_its_maximum(relay: Relays) -> None:
    through = relay([ScriptRule(when="fail", broken="cut", times=1), ScriptRule(answer="fine")])
    assert through.ask("fail", max_tokens=10).choices[0].message.content == "fine"
    (call,) = joined(through.entries)
    assert [retry.charged for retry in call.retries] == [call.call.reserved]
    assert call.charged.tokens == call.call.reserved.tokens + 2


STREAMS = {"garbage": "bad_response", "cut": "bad_response", "endless": "timeout"}


@pytest.mark.parametrize("broken", STREAMS)
def test_a_broken_stream_ends_with_an_error(broken: str, relay: Relays) -> None:
    through = relay([ScriptRule(answer="one two", broken=broken)], call_timeout_s=5.0 if broken == "endless" else 300.0)
    pieces: list[str] = []
    answer = through.ask("go", stream=True)
    with pytest.raises(openai.APIError) as caught:
        pieces.extend(piece.choices[0].delta.content or "" for piece in answer)
    assert caught.value.code == STREAMS[broken]
    (call,) = joined(through.entries)
    assert call.outcome.value == STREAMS[broken]
    assert call.answer is not None
    assert "".join(call.answer.chunks).count("delta") >= 1  # what arrived is kept
    assert call.charged == call.call.reserved


def test_an_answer_without_an_end_in_bytes_is_cut(relay: Relays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_RESPONSE_BYTES", 2000)
    through = relay([ScriptRule(answer="long " * 1000)])
    with pytest.raises(openai.APIStatusError) as caught:
        through.ask("go")
    assert caught.value.code == "response_too_large"


def test_the_server_says_when_to_come_back(relay: Relays) -> None:
    through = relay([ScriptRule(status=429, retry_after_s=0.4, times=1), ScriptRule(answer="fine")])
    began = time.monotonic()
    through.ask("go")
    assert time.monotonic() - began >= 0.4
    (retry,) = [entry for entry in through.entries if isinstance(entry, RetryEntry)]
    assert (retry.reason, retry.wait_s) == ("HTTP 429", 0.4)
    assert upstream.pause_s(1, 3600.0) is None  # longer than any call: not worth waiting
    assert connections.retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0
    assert connections.retry_after("nan") is None
    assert connections.retry_after("soon") is None


def test_calls_that_share_a_limited_rate_wait_for_their_turn(relay: Relays) -> None:
    through = relay([ScriptRule(status=429, times=upstream.MAX_TRIES + 2), ScriptRule(answer="fine")])
    assert through.ask("go").choices[0].message.content == "fine"
    (call,) = joined(through.entries)
    assert call.answer is not None
    assert (call.answer.tries, call.charged.calls) == (upstream.MAX_TRIES + 3, 1)


def test_a_step_that_ran_out_of_time_in_a_call_says_so(relay: Relays) -> None:
    through = relay([ScriptRule(answer="late", delay_s=5.0)])
    late = Failure(kind=FailureKind.TIMEOUT, where="infer_once (call 1)", message="it was killed")
    assert through.caller.explained(late) == late
    asking = threading.Thread(target=through.ask, args=("go",))
    asking.start()
    until(lambda: through.calls)
    found = through.caller.explained(late)
    asking.join(300)
    assert found.kind is FailureKind.TIMEOUT
    assert "a call to the model was in flight for " in found.message
    assert "Submission.call_timeout_s" in found.message


def test_a_step_that_ran_out_of_time_because_of_the_rate_of_the_server_is_not_the_participants(relay: Relays) -> None:
    through = relay([ScriptRule(status=429, retry_after_s=5.0, times=1), ScriptRule(answer="late")])
    asking = threading.Thread(target=through.ask, args=("go",))
    asking.start()
    until(lambda: any(isinstance(entry, RetryEntry) for entry in through.entries))
    found = through.caller.explained(Failure(kind=FailureKind.TIMEOUT, where="infer_once (call 1)", message="killed"))
    asking.join(300)
    assert (found.kind, found.resumable, found.outside) == (FailureKind.INFRASTRUCTURE, True, False)


def test_a_server_that_went_away_is_unreachable(relay: Relays) -> None:
    with running_server(Script()) as running:
        through = relay(running.endpoint)
    with pytest.raises(openai.APIStatusError) as caught:
        through.ask("go")
    assert caught.value.code == "unreachable"
    assert through.budgets == {}
    assert joined(through.entries)[0].charged.tokens == 0


def test_a_key_that_is_refused_later_is_the_organizers_error(relay: Relays) -> None:
    through = relay([ScriptRule(status=401, answer=f"Incorrect API key: {KEY[:9]}***")], key=KEY)
    with pytest.raises(openai.APIStatusError) as caught:
        through.ask("go")
    assert (caught.value.status_code, caught.value.code) == (502, "wrong_key")
    assert KEY[:9] not in (through.folder / "model_calls.jsonl").read_text()


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"key": "sk-wrong-000000000"}, ConfigError, "refuses the key"),
        ({"key": ""}, ConfigError, "asks for a key"),
        ({"models": ("scriptd",)}, ConfigError, "did you mean 'scripted'"),
        ({"endpoint": "http://127.0.0.1:9/v1"}, InfrastructureError, "does not answer"),
    ],
)
def test_a_wrong_server_key_or_model_is_found_before_the_run(
    changes: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with running_server(Script(key=KEY)) as running:
        access = ModelAccess(**{"endpoint": running.endpoint, "models": ("scripted",), "key": KEY, **changes})
        with pytest.raises(kind, match=words) as caught:
            asyncio.run(_checked(access))
    assert KEY not in str(caught.value)


async def _checked(access: ModelAccess) -> None:
    await upstream.Upstream(access).check()


BUDGETS: dict[str, dict[str, float]] = {
    "calls": {"calls": 2},
    "tokens": {"tokens": 200},
    "cost": {"cost": 0.0016},
    "seconds": {"seconds": 0.25},
}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_budget_refuses_calls_that_could_exceed_it(name: str, relay: Relays) -> None:
    prices = PriceTable("USD", {"scripted": ModelPrice(input=10.0, output=10.0)})
    delay_s = 0.1 if name == "seconds" else 0.0
    through = relay([ScriptRule(answer="yes " * 30, delay_s=delay_s)], budgets=BUDGETS[name], prices=prices)
    asked = [0]
    with pytest.raises(openai.RateLimitError) as caught:
        _ask_often(through, asked)
    assert caught.value.code == "budget_exhausted"
    assert name in caught.value.message
    assert 1 <= asked[0] < 20
    use = through.budgets[name]
    assert (use.limit, use.refused) == (BUDGETS[name][name], 1)
    assert use.used <= use.limit or name == "seconds"  # the last call may end late
    assert through.errors == {"budget_exhausted": 1}
    assert through.budgets[name].refused == 1


def test_a_budget_that_is_too_small_for_one_call_refuses_the_first(relay: Relays) -> None:
    through = relay([ScriptRule(answer="yes")], budgets={"tokens": 10})
    with pytest.raises(openai.RateLimitError, match=r"the budget of tokens is exhausted, and this call can need up to"):
        through.ask("go")
    assert through.server is not None
    assert through.server.requests == []


def test_the_rest_of_a_budget_bounds_the_answer(relay: Relays) -> None:
    through = relay([ScriptRule(answer="a b c d e f g h i j")], budgets={"tokens": 70})
    answer = through.ask("go").choices[0]
    assert answer.finish_reason == "length"
    assert through.budgets["tokens"].used <= 70


def test_calls_are_refused_once_the_participant_has_used_its_energy(relay: Relays) -> None:
    through = relay([ScriptRule(answer="yes")], budgets={"joules": 5.0})
    through.ask("go")
    energy = through.caller.reporting_energy(lambda: 6.0 / 3.6e6)
    with energy, pytest.raises(openai.RateLimitError, match="joules"):
        _ask_often(through, [0], pause_s=0.1)


def _ask_often(through: RelayUnderTest, asked: list[int], *, pause_s: float = 0.0) -> None:
    for _ in range(20):
        through.ask("go", max_tokens=20)
        asked[0] += 1
        time.sleep(pause_s)
