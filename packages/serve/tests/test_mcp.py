"""The tools of the Model Context Protocol, called with the official SDK."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from PIL import Image

import a2perf
from packages.serve.tests.conftest import TEXT, WEB, Server, assert_same, from_plain, started


@pytest.fixture(scope="module")
def mcp_server() -> Iterator[Server]:
    limits = ["--max-message-bytes", "65536", "--request-seconds", "1", "--client-kwargs", "observation"]
    with started("mcp", "--task", WEB, "--task", TEXT, *limits) as server:
        yield server


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
        assert [row["task"] for row in (await call("list_tasks"))["tasks"]][:1] == [WEB]
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
        assert await refused("observe", session=session) == "unknown_session"
    local.close()


def test_a_client_plays_an_episode_over_http(mcp_server: Server) -> None:
    asyncio.run(_play(mcp_server.address + "/mcp"))
    assert mcp_server.request("GET", "/health") == (200, {"status": "healthy"})


async def _play_as_text(target: str) -> None:
    local = a2perf.make(TEXT, observation="screenshot")
    observation, info = local.reset(seed=5)
    async with Client(target) as client:
        result = await client.call_tool("reset", {"task": TEXT, "seed": 5, "kwargs": {"observation": "screenshot"}})
        session, names = result.structured_content["session"], ("reward", "terminated", "truncated")
        for action in ("click 999", *local.unwrapped.solution(), None):
            assert not result.is_error, result.content
            assert_same(from_plain(result.structured_content["observation"]), observation)
            assert_same(result.structured_content["info"], info)
            instruction, page, picture, rest = result.content
            assert (instruction.text, page.text) == (observation["instruction"], observation["page"])
            assert picture.mime_type == "image/png"
            assert_same(np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.data)))), observation["screenshot"])
            assert set(json.loads(rest.text)) == result.structured_content.keys() - {"observation"}
            if action is not None:
                observation, reward, *ends, info = local.step(action)
                result = await client.call_tool("step", {"session": session, "action": action})
                assert [result.structured_content[name] for name in names] == [reward, *ends]
        assert info["is_success"]
        await client.call_tool("close", {"session": session})
    local.close()


def test_a_model_reads_texts_and_pictures_and_acts_with_texts(mcp_server: Server) -> None:
    asyncio.run(_play_as_text(mcp_server.address + "/mcp"))


_INVALID = [
    (b"{", {}, 400, -32700),
    (b"\xff", {}, 400, -32700),
    (b"[" * 30_000, {}, 400, -32700),
    (b"null", {}, 400, -32602),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}', {}, 400, -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}', {"Mcp-Session-Id": "guess"}, 404, -32600),
]


def test_hostile_requests_are_refused_and_harm_no_session(mcp_server: Server) -> None:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    with socket.create_connection((mcp_server.host, mcp_server.port), timeout=300) as stalled:
        stalled.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        for body, more, status, code in _INVALID:
            found, fields = mcp_server.request("POST", "/mcp", body, {**headers, **more})
            assert (found, fields["error"]["code"]) == (status, code), body[:40]
        with pytest.raises(urllib.error.HTTPError, match="413"):
            urllib.request.urlopen(urllib.request.Request(mcp_server.address + "/mcp", b"x" * 70_000, headers))
        asyncio.run(_play(mcp_server.address + "/mcp"))
        with contextlib.suppress(ConnectionResetError):  # either end of a connection may be seen
            assert stalled.recv(4096) == b""


@pytest.mark.slow
def test_a_client_plays_an_episode_over_standard_streams() -> None:
    arguments = ["-m", "a2perf", "serve", "--protocol", "mcp", "--stdio", "--task", WEB, "--workers", "1"]
    asyncio.run(_play(stdio_client(StdioServerParameters(command=sys.executable, args=arguments))))
