"""The Model Context Protocol: the environments as tools of a language model, with the official SDK.

``reset`` returns the id of a session, which the other tools take: it works over every transport, and over connections
that a client opens for each request.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import io
import logging
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, ContentBlock, ImageContent, TextContent
from PIL import Image
from starlette.routing import BaseRoute

from a2perf._version import __version__
from a2perf_serve.errors import ServingError
from a2perf_serve.sessions import Session, Sessions
from a2perf_serve.settings import ServerSettings
from a2perf_serve.values import array_of, encode, is_array_record, plain

_MOST_PIXELS = 1 << 26  # numbers of one picture
_INSTRUCTIONS = (
    "Each task is an environment with episodes. Call list_tasks, then reset with a task: it starts an episode and "
    "returns a session and the first observation. Call step with the session and an action until terminated or "
    "truncated is true; reset with the same session starts the next episode. Call close at the end."
)


def mcp_server(sessions: Sessions) -> MCPServer[Any]:
    """Returns a server of the SDK with the tools."""
    server: MCPServer[Any] = MCPServer("a2perf", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")

    def tool(work: Callable[..., Awaitable[dict[str, Any]]]) -> None:
        """Adds a tool. Its result has all fields as structured content, and parts for the model."""

        @functools.wraps(work)
        async def answered(**arguments: Any) -> CallToolResult:
            try:
                fields = await work(**arguments)
            except ServingError as error:
                raise ToolError(encode({"error": error.record()}).decode()) from error
            structured = msgspec.json.decode(encode(fields))
            return CallToolResult(content=await asyncio.to_thread(_parts, structured), structured_content=structured)

        server.add_tool(answered, structured_output=False)

    @tool
    async def list_tasks() -> dict[str, Any]:
        """Lists the tasks with their titles and summaries."""
        return {"tasks": _task_rows(sessions)}

    @tool
    async def reset(
        task: str | None = None,
        session: str | None = None,
        seed: int | None = None,
        kwargs: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Starts an episode: of a task in a new session, or the next one of a session.

        Args:
            task: name of a task; by default the first one.
            session: id of an earlier reset; by default a new session.
            seed: of the episode; the same seed gives the same episode.
            kwargs: arguments of the environment, if the operator allows them.
            options: options of the reset, if the operator allows them.
        """
        found: Session = sessions.reserve() if session is None else sessions.find(session)
        try:
            if session is None or task is not None or kwargs is not None:
                await sessions.open(found, task, kwargs or {})
            outcome = await sessions.reset(found, seed, options)
        except BaseException:
            if session is None:
                sessions.close(found)
            raise
        return {"session": found.id, **outcome._asdict()}

    @tool
    async def step(session: str, action: int | float | str | list[Any] | dict[str, Any]) -> dict[str, Any]:
        """Acts in the running episode.

        Args:
            action: an integer, nested lists of numbers, or a string such as "click 12", as the task takes it.
        """
        return (await sessions.step(sessions.find(session), action))._asdict()

    @tool
    async def observe(session: str) -> dict[str, Any]:
        """Returns the last observation of the session again, without acting."""
        return (await sessions.observe(sessions.find(session)))._asdict()

    @tool
    async def describe(session: str) -> dict[str, Any]:
        """Returns the spaces of observations and actions of the session."""
        return {"spaces": await sessions.describe(sessions.find(session))}

    @tool
    async def close(session: str) -> dict[str, Any]:
        """Ends the session."""
        sessions.close(sessions.find(session))
        return {"closed": True}

    return server


def mcp_application(sessions: Sessions) -> tuple[list[BaseRoute], Callable[[], AbstractAsyncContextManager[None]]]:
    """Returns the routes of the tools over streamable HTTP, at ``/mcp``, and what runs while they are served."""
    settings = sessions.settings
    server = mcp_server(sessions)
    app = server.streamable_http_app(
        streamable_http_path="/mcp",
        json_response=True,
        max_request_body_size=settings.max_message_bytes,
        session_idle_timeout=settings.idle_seconds,
        max_sessions=settings.max_sessions,
        # AccessCheck examines Host and Origin for every protocol
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return list(app.routes), server.session_manager.run


def run_stdio(settings: ServerSettings) -> None:
    """Serves one client over standard input and output until it closes them, SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.WARNING, format="a2perf serve: %(message)s")
    asyncio.run(_serve_stdio(settings))


async def _serve_stdio(settings: ServerSettings) -> None:
    sessions = Sessions(settings)
    expiry = asyncio.create_task(sessions.expire())
    serving = asyncio.create_task(mcp_server(sessions).run_stdio_async())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    finally:
        expiry.cancel()
        await sessions.stop()


def _task_rows(sessions: Sessions) -> list[dict[str, Any]]:
    """Returns one row per served task: name, title, summary, domain, environment and arguments."""
    return [
        {
            "task": task.name,
            "title": task.title,
            "summary": task.summary,
            "domain": task.domain,
            "environment": task.qualified_id,
            "kwargs": plain(dict(task.kwargs)),
        }
        for task in sessions.settings.tasks
    ]


def _parts(fields: dict[str, Any]) -> list[ContentBlock]:
    """Returns what a language model reads: texts and pictures of the observation, then the other fields as JSON.

    In JSON, line ends are escaped and a picture is a megabyte of base64.
    """
    observed = fields.get("observation")
    named: dict[str, Any] = observed if isinstance(observed, dict) and not is_array_record(observed) else {"": observed}
    shown: dict[str, ContentBlock] = {}
    for name, value in named.items():
        if isinstance(value, str):
            shown[name] = TextContent(type="text", text=value)
        elif _is_picture(value):
            shown[name] = ImageContent(type="image", data=_png(value), mime_type="image/png")
    rest = {name: value for name, value in fields.items() if name != "observation"}
    if "observation" in fields and len(shown) < len(named):
        kept = {name: value for name, value in named.items() if name not in shown}
        rest["observation"] = kept if named is observed else observed
    return [*shown.values(), TextContent(type="text", text=encode(rest).decode())]


def _is_picture(value: Any) -> bool:
    return is_array_record(value) and value["dtype"] == "|u1" and len(value["shape"]) == 3 and value["shape"][2] == 3


def _png(record: dict[str, Any]) -> str:
    """Returns a picture as PNG in base64."""
    written = io.BytesIO()
    Image.fromarray(array_of(record, most_items=_MOST_PIXELS)).save(written, "PNG")
    return base64.b64encode(written.getvalue()).decode()
