"""Calls at the same time to a server that limits their rate."""

from __future__ import annotations

import asyncio
import threading

import pytest

from a2perf_agents.calls import joined
from a2perf_agents.relay import upstream
from a2perf_agents.relay.call_gate import CallGate
from packages.agents.examples.scripted_model import Script, ScriptRule
from packages.agents.tests.conftest import Relays


def test_every_client_of_a_limited_server_gets_its_answer_with_few_refusals(
    relay: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "FIRST_PAUSE_S", 0.02)
    through = relay(Script(rules=[ScriptRule(answer="fine", delay_s=0.05)], most_at_once=3))
    answers: list[str] = []
    together = threading.Barrier(12)

    def ask(number: int) -> None:
        body = f'{{"model":"scripted","messages":[{{"role":"user","content":"say n{number}"}}]}}'
        together.wait(300)
        for _ in range(4):
            answers.append(through.post("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert answers == ["fine"] * 48
    calls = joined(through.entries)
    assert len(calls) == 48
    assert sum(len(call.retries) for call in calls) < 96  # 12 calls at once meet a server that takes 3


def test_the_bound_falls_once_per_round_rises_with_answers_and_lets_repeated_calls_go_first() -> None:
    async def run() -> list[str]:
        gate, order = CallGate(), []
        opened = [gate.turn(again=False) for _ in range(4)]
        turns = [await turn.__aenter__() for turn in opened]
        for turn in turns[:3]:
            gate.refused(turn)  # four at once were too many: three may be sent from now on

        async def call(name: str, *, again: bool = False) -> None:
            async with gate.turn(again=again):
                order.append(name)

        waiting = [asyncio.create_task(call("first")), asyncio.create_task(call("cancelled"))]
        await asyncio.sleep(0)
        waiting += [asyncio.create_task(call("again", again=True))]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await opened[0].__aexit__(None, None, None)
        await asyncio.sleep(0.01)
        assert order == []  # three are still being sent
        await opened[1].__aexit__(None, None, None)
        await asyncio.gather(*waiting, return_exceptions=True)
        for turn in opened[2:]:
            await turn.__aexit__(None, None, None)
        for _ in range(6):
            gate.answered()
        many = [gate.turn(again=False) for _ in range(4)]
        async with asyncio.timeout(1):  # six answers have raised the bound above four
            for turn in many:
                await turn.__aenter__()
        return order

    assert asyncio.run(run()) == ["again", "first"]
