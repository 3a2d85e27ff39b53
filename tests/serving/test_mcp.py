"""The tools of the Model Context Protocol, called with the official SDK."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

import a2perf
from a2perf.serving.values import from_plain
from tests.serving.conftest import WEB, assert_same, started


async def _play(target: Any) -> None:
    local = a2perf.make(WEB)
    observation, _ = local.reset(seed=4)
    async with Client(target) as client:

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            assert result.structured_content is not None
            return result.structured_content

        async def refused(tool: str, **arguments: Any) -> str:
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            text = result.content[0].text  # type: ignore[union-attr]
            return str(json.loads(text[text.index("{") :])["error"]["kind"])

        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"list_tasks", "reset", "step", "observe", "describe", "close"}
        assert [row["task"] for row in (await call("list_tasks"))["tasks"]] == [WEB]
        fields = await call("reset", task=WEB, seed=4)
        session = fields["session"]
        assert_same(from_plain(fields["observation"]), observation)
        assert await refused("step", session=session, action="click") == "invalid_action"
        for action in local.unwrapped.solution():
            observation, reward, terminated, truncated, _ = local.step(action)
            fields = await call("step", session=session, action=action)
            assert_same(from_plain(fields["observation"]), observation)
            assert [fields[name] for name in ("reward", "terminated", "truncated")] == [reward, terminated, truncated]
        assert await call("observe", session=session) == fields
        assert (await call("describe", session=session))["spaces"]["action_space"]["n"] == 12_500
        assert await refused("step", session=session, action=0) == "episode_over"
        assert await refused("step", session="guess", action=0) == "unknown_session"
        assert await refused("reset", task="nope") == "unknown_task"
        assert await refused("reset", kwargs={"data_dir": "/"}) == "forbidden"
        assert await call("close", session=session) == {"closed": True}
    local.close()


def test_a_client_plays_an_episode_over_http() -> None:
    with started("mcp", "--task", WEB) as server:
        asyncio.run(_play(server.address + "/mcp"))
        assert server.metrics()["a2perf_sessions"] == 0
        assert server.request("GET", "/health") == (200, {"status": "healthy"})


@pytest.mark.slow
def test_a_client_plays_an_episode_over_standard_streams() -> None:
    arguments = ["-m", "a2perf", "serve", "--protocol", "mcp", "--stdio", "--task", WEB, "--workers", "1"]
    asyncio.run(_play(stdio_client(StdioServerParameters(command=sys.executable, args=arguments))))
