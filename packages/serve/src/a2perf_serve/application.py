"""The ASGI application of a server: the routes of one protocol, health, and the check of access."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from a2perf_serve.access import AccessCheck
from a2perf_serve.errors import ServingError
from a2perf_serve.openenv import openenv_routes
from a2perf_serve.requests import answer, refusal
from a2perf_serve.sessions import Sessions


def application(sessions: Sessions) -> ASGIApp:
    """Returns the application; its lifespan starts the expiry of sessions and ends all of them.

    Args:
        sessions: the sessions of the server; their settings name the protocol.

    Raises:
        MissingDependency: the protocol needs a package that is not installed.
    """

    async def health(request: Request) -> Response:
        return answer({"status": "unhealthy" if sessions.is_closing else "healthy"})

    async def explain(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
        refused = ServingError(
            kind, f"{request.method} {request.url.path[:100]}: {error.detail}", "see the documentation"
        )
        return refusal(refused)

    async def internal(request: Request, error: Exception) -> Response:
        return refusal(ServingError("internal", "the server failed", "its log has the cause"))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        expiry = asyncio.create_task(sessions.expire())
        try:
            async with running():
                yield
        finally:
            expiry.cancel()
            await sessions.stop()

    running: Callable[[], contextlib.AbstractAsyncContextManager[None]] = contextlib.nullcontext
    if sessions.settings.protocol == "openenv":
        routes = openenv_routes(sessions)
    else:
        from a2perf_serve.mcp_tools import mcp_application

        routes, running = mcp_application(sessions)
    routes = [Route("/health", health), *routes]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: explain, Exception: internal})
    app.router.redirect_slashes = False
    return AccessCheck(app, sessions.settings)
