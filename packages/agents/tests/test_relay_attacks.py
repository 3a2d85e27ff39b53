"""The attack table of the relay: what a hostile participant sends, and what it gets. The relay keeps working."""

from __future__ import annotations

import json
import socket

import pytest

from a2perf_agents.relay import server
from packages.agents.examples.scripted_model import Script, ScriptRule
from packages.agents.tests.conftest import KEY, TOKEN, Relays, RelayUnderTest
from tests.waiting import until

PATH = "/v1/chat/completions"
GOOD = '{"model": "scripted", "messages": [{"role": "user", "content": "go"}]}'


@pytest.fixture
def through(relay: Relays) -> RelayUnderTest:
    return relay(Script(rules=[ScriptRule(answer="fine")], key=KEY), key=KEY)


REQUESTS: dict[str, tuple[str, str, dict[str, str], int, str]] = {
    "no key": (PATH, GOOD, {"Authorization": ""}, 401, "invalid_api_key"),
    "another key": (PATH, GOOD, {"Authorization": "Bearer sk-guess"}, 401, "invalid_api_key"),
    "not JSON": (PATH, "{'model': 1}", {}, 400, "invalid_request"),
    "not an object": (PATH, "[1]", {}, 400, "invalid_request"),
    "NaN": (PATH, '{"model": "scripted", "temperature": NaN}', {}, 400, "invalid_request"),
    "nested 100,000 times": (PATH, '{"a":' * 100_000 + "1" + "}" * 100_000, {}, 400, "invalid_request"),
    "another model": (PATH, GOOD.replace("scripted", "expensive"), {}, 404, "model_not_found"),
    "a model that is not a text": (PATH, '{"model": {"a": 1}}', {}, 400, "invalid_request"),
    "a stream that is not a truth value": (PATH, '{"model": "scripted", "stream": "yes"}', {}, 400, "invalid_request"),
    "a million choices": (PATH, '{"model": "scripted", "n": 1000000}', {}, 400, "invalid_request"),
    "a negative bound": (PATH, '{"model": "scripted", "max_tokens": -5}', {}, 400, "invalid_request"),
    "a bound that is not a number": (PATH, '{"model": "scripted", "max_tokens": "9"}', {}, 400, "invalid_request"),
    "5 MB": (PATH, json.dumps({"model": "scripted", "prompt": "x" * 5_000_000}), {}, 413, "request_too_large"),
    "path upwards": ("/v1/../admin", GOOD, {}, 404, "unknown_path"),
    "encoded path upwards": ("/v1/%2e%2e/%2e%2e/etc/passwd", GOOD, {}, 404, "unknown_path"),
    "path below a good one": (f"{PATH}/../../files", GOOD, {}, 404, "unknown_path"),
    "other paths of the server": ("/v1/files", GOOD, {}, 404, "unknown_path"),
    "another host as target": ("http://example.com/v1/secrets", GOOD, {}, 404, "unknown_path"),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_a_hostile_request_is_refused_and_nothing_is_sent(what: str, through: RelayUnderTest) -> None:
    path, body, headers, status, code = REQUESTS[what]
    found, document = through.post(path, body, headers)
    assert (found, document["error"]["code"]) == (status, code)
    assert through.server is not None
    assert through.server.requests == []
    assert through.calls == []
    assert through.post(PATH, GOOD)[0] == 200


def _head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode()


AUTHORIZED = f"Authorization: Bearer {TOKEN}"
RAW: dict[str, tuple[bytes, bytes]] = {
    "not HTTP": (b"\x16\x03\x01\x02\x00" * 50 + b"\r\n\r\n", b"400"),
    "a tunnel": (_head("CONNECT example.com:443 HTTP/1.1", "Host: example.com:443"), b"40"),
    "two lengths": (_head(f"POST {PATH} HTTP/1.1", "Host: x", "Content-Length: 5", "Content-Length: 50"), b"400"),
    "a header that is split": (_head(f"POST {PATH} HTTP/1.1", "Host: x", "A b: c", "Content-Length: 0"), b"400"),
    "100 kB of headers": (_head(f"POST {PATH} HTTP/1.1", "Host: x", "A: " + "b" * 100_000), b"4"),
    "half a head": (f"POST {PATH} HTTP/1.1\r\nHost: x\r\n".encode(), b""),
    "half a body": (_head(f"POST {PATH} HTTP/1.1", "Host: x", AUTHORIZED, "Content-Length: 99") + b"{", b"408"),
}


@pytest.mark.parametrize("what", RAW)
def test_malformed_and_slow_connections_end(
    what: str, through: RelayUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, status = RAW[what]
    with monkeypatch.context() as patch:
        patch.setattr(server, "BODY_TIMEOUT_S", 0.5 if what.startswith("half") else 300.0)
        patch.setattr(server, "HEAD_TIMEOUT_S", 0.5 if what.startswith("half") else 300.0)
        answer = through.raw(data, until=b"\r\n")
    assert answer[:40].partition(b" ")[2].startswith(status)
    assert through.calls == []
    assert through.post(PATH, GOOD)[0] == 200


def test_headers_of_the_participant_do_not_reach_the_server(through: RelayUnderTest) -> None:
    headers = {
        "X-Forwarded-For": "1.2.3.4",
        "OpenAI-Organization": "other",
        "Transfer-Encoding-": "chunked",
        "Host": "evil",
    }
    assert through.post(f"{PATH}?key=1", GOOD, headers)[0] == 200
    assert through.server is not None
    (received,) = through.server.headers
    assert received["authorization"] == f"Bearer {KEY}"
    assert set(received) == {
        "host",
        "accept-encoding",
        "user-agent",
        "authorization",
        "content-type",
        "content-length",
    }


def test_a_request_that_hides_in_another_is_two_requests_with_two_keys(through: RelayUnderTest) -> None:
    hidden = _head("POST /v1/embeddings HTTP/1.1", "Host: x", "Content-Length: 2", "Connection: close") + b"{}"
    both = "Content-Length: 4\r\nTransfer-Encoding: chunked"
    answer = through.raw(_head(f"POST {PATH} HTTP/1.1", "Host: x", AUTHORIZED, both) + b"0\r\n\r\n" + hidden)
    assert answer.count(b"HTTP/1.1 ") <= 2
    assert b"HTTP/1.1 200" not in answer
    assert through.calls == []


def test_connections_beyond_the_limit_are_closed_and_others_continue(
    through: RelayUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(server, "HEAD_TIMEOUT_S", 3600.0)
    held = [socket.create_connection(("127.0.0.1", through.port), 300) for _ in range(30)]
    try:
        assert held[-1].recv(1) == b""
    finally:
        for connection in held:
            connection.close()
    asking = _head("GET /v1/models HTTP/1.1", "Host: x", AUTHORIZED, "Connection: close")
    answer = until(lambda: through.raw(asking))  # the relay learns of the closed ones one by one
    assert answer.startswith(b"HTTP/1.1 200")


def test_a_flood_of_refused_requests_does_not_fill_the_record(
    through: RelayUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2perf_agents.relay.exchange.MAX_REFUSALS", 5)
    for _ in range(20):
        assert through.post(PATH, "{")[0] == 400
    assert len(through.refused) == 5
