"""The language model that a run may use, as its relay needs to know it, and the first message to the relay."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

import msgspec

MAX_MESSAGE_BYTES = 1 << 17
"""Below the size of a socket's buffer: a message is sent as a whole or not at all."""
Price = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(gt=0)]


class ModelPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices of one model per million tokens.

    Attributes:
        cached_input: price of tokens of the prompt that the server had cached; by default that of ``input``.
    """

    input: Price
    output: Price = 0.0
    cached_input: Price | None = None


class PriceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices by name of the model.

    Attributes:
        currency: unit of the prices, ``"USD"``.
    """

    currency: str
    models: dict[str, ModelPrice]


class BudgetLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Budgets of one run; None means no bound.

    Attributes:
        seconds: time in which at least one call is in flight.
        joules: energy above idle of the participant's processes; that of the model is unknown.
    """

    tokens: Count | None = None
    calls: Count | None = None
    seconds: Amount | None = None
    joules: Amount | None = None
    cost: Amount | None = None


class ModelAccess(msgspec.Struct, frozen=True):
    """What a relay needs to know; ``key`` is never written anywhere.

    Attributes:
        endpoint: base address of the server, ``"https://host/v1"``; empty in a replay.
        key: its secret key; empty for a server without one.
        models: names of the models that may be used; the first is the default.
        call_timeout_s: limit of one call, retries included, in seconds.
        replay: journal that answers the requests; None to use the endpoint.
    """

    endpoint: str = ""
    key: str = ""
    models: tuple[str, ...] = ()
    budgets: BudgetLimits = BudgetLimits()
    prices: PriceTable | None = None
    output_tokens: int = 4096
    call_timeout_s: float = 120.0
    replay: str | None = None

    @property
    def shown_endpoint(self) -> str:
        """The endpoint without user, password and query."""
        parts = urlsplit(self.endpoint)
        port = "" if parts.port is None else f":{parts.port}"
        return urlunsplit((parts.scheme, f"{parts.hostname or ''}{port}", parts.path, "", ""))


class RelaySettings(msgspec.Struct):
    """The first message of the evaluator to the relay process."""

    access: ModelAccess
    folder: str
    token: str
    attempt: int
