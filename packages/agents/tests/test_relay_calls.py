"""Calls through the relay with the unmodified OpenAI client: what comes back, what is counted, what is recorded."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import openai
import pytest

from a2perf_agents.calls import joined, redact_journal, usage_of
from a2perf_agents.record import AnswerEntry, ServedEntry
from a2perf_agents.relay.access import ModelPrice, PriceTable
from packages.agents.examples.scripted_model import Script, ScriptRule
from packages.agents.tests.conftest import KEY, TOKEN, Relays

TALK = [
    ScriptRule(when=r"say (\w+)", answer=r"\1 \1 \1"),
    ScriptRule(when="book", tool="click", arguments='{"ref": 12}'),
    ScriptRule(when="broken tool", tool="click", arguments='{"ref": '),
]
BODY = b'{"model": "scripted", "messages": [{"role": "user", "content": "say b"}], "stream": true}'
STREAM = (
    f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n"
    f"Content-Length: {len(BODY)}\r\n\r\n"
).encode() + BODY
TOOLS = [{"type": "function", "function": {"name": "click", "parameters": {"type": "object"}}}]


def test_the_openai_client_gets_chat_tools_streams_logprobs_embeddings_and_models(relay: Relays) -> None:
    through = relay(TALK)
    client = through.client()
    assert [model.id for model in client.models.list()] == ["scripted"]
    assert through.ask("say yes").choices[0].message.content == "yes yes yes"
    probabilities = through.ask("say yes", logprobs=True).choices[0].logprobs
    assert [entry.logprob for entry in probabilities.content] == [-0.25] * 3
    call = through.ask("book it", tools=TOOLS).choices[0].message.tool_calls[0]
    assert (call.function.name, call.function.arguments) == ("click", '{"ref": 12}')
    pieces = list(through.ask("say go", stream=True))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "go go go"
    assert all(piece.usage is None for piece in pieces)  # the relay asks for the usage, the client did not
    with_usage = list(through.ask("say go", stream=True, stream_options={"include_usage": True}))
    assert with_usage[-1].usage.completion_tokens == 3
    streamed = [piece.choices[0].delta for piece in through.ask("book it", tools=TOOLS, stream=True)]
    arguments = [call.function.arguments or "" for delta in streamed for call in delta.tool_calls or []]
    assert "".join(arguments) == '{"ref": 12}'
    vectors = client.embeddings.create(model="scripted", input=["a", "b"], encoding_format="float").data
    assert [len(vector.embedding) for vector in vectors] == [8, 8]
    assert client.completions.create(model="scripted", prompt="say it").choices[0].text == "it it it"
    assert through.outcomes == ["ok"] * 8


def test_usage_cost_and_times_are_counted_per_episode(relay: Relays) -> None:
    prices = PriceTable("EUR", {"scripted": ModelPrice(input=2.0, output=10.0)})
    through = relay([*TALK, ScriptRule(answer="no count", usage=False)], prices=prices)
    through.ask("say yes")
    through.caller.enter("episode", 1)
    list(through.ask("say one", stream=True))
    through.ask("else")
    through.ask("broken tool")
    total, scopes = usage_of(through.entries)
    assert (total.calls, total.answered, total.calls_without_usage) == (4, 4, 1)
    assert (total.tokens_in, total.tokens_out) == (2 + 2 + 2, 3 + 3 + 2)
    assert total.cost == pytest.approx((6 * 2 + 8 * 10) / 1e6)
    assert total.invalid_tool_calls == 1
    assert total.first_token is not None
    assert total.first_token.count == 1
    assert [(scope.episode, scope.usage.calls) for scope in scopes] == [(0, 1), (1, 3)]
    without = next(call for call in joined(through.entries) if call.answer and call.answer.usage is None)
    assert without.charged == without.call.reserved  # an unknown amount counts at its maximum
    assert without.answer is not None
    assert without.answer.cost is None


def test_the_key_stays_in_the_relay(relay: Relays) -> None:
    through = relay(Script(rules=[ScriptRule(answer=f"the key is {KEY} and more")], key=KEY), key=KEY)
    answer = through.ask("tell").choices[0].message.content
    streamed = "".join(piece.choices[0].delta.content or "" for piece in through.ask("tell", stream=True))
    assert answer == streamed == "the key is [removed] and more"
    assert through.server is not None
    assert through.server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in (through.folder / "model_calls.jsonl").read_text()


def test_a_replay_gives_the_same_bytes_without_a_server_and_refuses_other_requests(
    relay: Relays, tmp_path: Path
) -> None:
    first = relay(TALK, folder=tmp_path / "first")
    recorded = [first.ask("say a"), first.ask("book it", tools=TOOLS)]
    bodies = [entry for entry in first.entries if isinstance(entry, AnswerEntry)]
    streamed = first.raw(STREAM)
    assert streamed.count(b"data: {") == 5
    again = relay("", folder=tmp_path / "second", models=(), replay=str(first.folder / "model_calls.jsonl"))
    assert [again.ask("say a"), again.ask("book it", tools=TOOLS)] == recorded
    assert again.raw(STREAM) == streamed  # with the framing of the pieces
    assert [hashlib.sha256("".join(entry.chunks).encode()).hexdigest() for entry in bodies] == [
        entry.sha256 for entry in bodies
    ]
    served = [entry for entry in again.entries if isinstance(entry, ServedEntry)]
    assert [(entry.call, entry.replayed) for entry in served] == [(1, True), (2, True), (3, True)]
    with pytest.raises(openai.NotFoundError, match="has no answer to this request"):
        again.ask("say a")  # it was asked once
    again.caller.enter("episode", 1)
    with pytest.raises(openai.NotFoundError, match="episode 1 of task"):
        again.ask("say a")
    assert again.errors == {"not_recorded": 2}


def test_redaction_removes_contents_and_keeps_hashes_and_counts(relay: Relays) -> None:
    through = relay([ScriptRule(answer="a private answer")])
    through.ask("a private question")
    list(through.ask("a private question", stream=True))
    before, journal = usage_of(through.entries), through.folder / "model_calls.jsonl"
    hashes = [call.sha256 for call in through.calls]
    assert "private" in journal.read_text()
    assert redact_journal(journal) == 2
    assert "private" not in journal.read_text()
    assert usage_of(through.entries) == before
    assert [call.sha256 for call in through.calls] == hashes


def test_64_clients_at_once_get_their_own_answers(relay: Relays) -> None:
    through = relay([ScriptRule(when=r"say (\w+)", answer=r"\1", delay_s=0.3)])
    wrong: list[str] = []

    def ask(number: int) -> None:
        body = f'{{"model":"scripted","messages":[{{"role":"user","content":"say n{number}"}}]}}'
        status, document = through.post("/v1/chat/completions", body)
        if status != 200 or document["choices"][0]["message"]["content"] != f"n{number}":
            wrong.append(str(document))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert wrong == []
    assert through.outcomes == ["ok"] * 64
