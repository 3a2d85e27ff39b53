"""Requests to the model server: one try, its limits, and the rules for another try."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec

from a2perf.errors import ConfigError, InfrastructureError, did_you_mean
from a2perf_agents.errors import explained
from a2perf_agents.record import CallOutcome
from a2perf_agents.relay.access import ModelAccess
from a2perf_agents.relay.answers import BadResponse
from a2perf_agents.relay.connections import Connections, Lost, ResponseTooLarge, Unreachable, Untrusted

MAX_TRIES = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
LONGEST_RETRY_AFTER_S = 60.0
CHECK_TIMEOUT_S = 20.0
_SHORTEST_SCRUBBED = 8
"""A shorter word could occur in any text."""


class Upstream(Connections):
    """Connections to the model server, with the organizer's key."""

    def __init__(self, access: ModelAccess) -> None:
        self._access = access
        self._key = access.key.encode() if len(access.key) >= _SHORTEST_SCRUBBED else b""
        headers = {"accept-encoding": "identity", "content-type": "application/json", "user-agent": "a2perf"}
        if access.key:
            headers["authorization"] = f"Bearer {access.key}"
        super().__init__(access.endpoint, headers)

    def scrubbed(self, data: bytes) -> bytes:
        """Returns an answer without the key, in case the server repeats it."""
        return data.replace(self._key, b"[removed]") if self._key else data

    async def check(self) -> None:
        """Asks the server for its models, to find a wrong address, key or name before a run starts.

        A server without such a list passes.

        Raises:
            ConfigError: the server's certificate is not valid, the key is refused, or a model is not in the list.
            InfrastructureError: the server does not answer.
        """
        access = self._access
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S), self.request("GET", "models") as answer:
                status, content = answer.status, await answer.read()
        except Untrusted as error:
            hint = explained(CallOutcome.UNTRUSTED.value)[1]
            raise ConfigError(f"{error} ({access.shown_endpoint}); nothing was sent to it", hint=hint) from None
        except (TimeoutError, Unreachable, Lost) as error:
            raise InfrastructureError(
                f"the model server {access.shown_endpoint} does not answer: {str(error) or 'time limit'}",
                hint="start the server, or correct the endpoint",
            ) from None
        except (BadResponse, ResponseTooLarge):
            return
        if status in (401, 403):
            given = "refuses the key" if access.key else "asks for a key"
            raise ConfigError(
                f"the model server {access.shown_endpoint} {given} (HTTP {status})",
                hint="check the key behind key_variable or key_file",
            )
        if status == 200 and (listed := _names(content)):
            for name in access.models:
                if name not in listed:
                    raise ConfigError(
                        f"the model server {access.shown_endpoint} does not list {name!r}{did_you_mean(name, listed)}",
                        hint=f"choose one of its models: {', '.join(sorted(listed)[:10])}",
                    )


def _names(data: bytes) -> set[str]:
    try:
        document: Any = msgspec.json.decode(data)
        return {str(entry["id"]) for entry in document["data"]}
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return set()


def pause_s(tries: int, wanted_s: float | None, *, most_tries: float = MAX_TRIES) -> float | None:
    """Returns the pause before another try; None for no other try."""
    if tries >= most_tries or (wanted_s is not None and wanted_s > LONGEST_RETRY_AFTER_S):
        return None
    if wanted_s is not None:
        return wanted_s
    # Random: clients that failed together must not come back together.
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(tries - 1, 10)) * random.uniform(0.5, 1.0)
