"""Who may talk to the server: a check around the application, before anything of a request is read.

A token is compared in constant time. Without a token the server listens on loopback only, and a page in a browser on
the same machine must not reach it: requests with a foreign ``Origin`` or ``Host`` are refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from a2perf_serve.errors import ServingError
from a2perf_serve.requests import refusal
from a2perf_serve.settings import ServerSettings

_OPEN_PATHS = ("/health",)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class AccessCheck:
    """ASGI middleware that lets authorized requests pass."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._digest = None if settings.token is None else _digest(settings.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request or connection."""
        if scope["type"] in ("http", "websocket"):
            try:
                self._check(Headers(scope=scope), scope["path"])
            except ServingError as error:
                response = refusal(error)
                if scope["type"] == "websocket":
                    await WebSocket(scope, receive, send).send_denial_response(response)
                else:
                    await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, headers: Mapping[str, str], path: str) -> None:
        host = _host_name(headers.get("host", ""))
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            raise ServingError("forbidden", "requests of other websites are refused", "leave the header Origin out")
        if self._digest is None:
            if host not in (*_LOOPBACK, self._settings.host):
                raise ServingError("forbidden", f"the host {host[:60]!r} is not this server", "connect to 127.0.0.1")
        elif path not in _OPEN_PATHS and not hmac.compare_digest(self._digest, _digest(_token_of(headers))):
            raise ServingError(
                "unauthorized",
                "the token is missing or wrong",
                "send the header Authorization: Bearer TOKEN, or connect to http://token:TOKEN@HOST:PORT",
            )


def _digest(token: str) -> bytes:
    """Digests have one length, so comparing them does not tell that of the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _host_name(host: str) -> str:
    """Returns the name in a ``Host`` header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _token_of(headers: Mapping[str, str]) -> str:
    """Returns the token of a request: of the scheme Bearer, or the password of the scheme Basic.

    The client of OpenEnv cannot send headers, but takes an address with a user name and a password.
    """
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    return ""
