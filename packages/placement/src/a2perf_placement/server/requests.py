"""Cuts the byte stream of a client into requests: JSON values that follow each other without a delimiter.

A value that is not complete yet is waited for. Nothing marks the end of a request, so one that stays incomplete while
the client is silent is malformed.
"""

from __future__ import annotations

import json
import select
import socket
from typing import Any

MAX_REQUEST_BYTES = 16 << 20  # a list of a million nodes takes half of it
SILENCE_S = 1.0  # after which an incomplete request counts as truncated
DRAIN_S = 0.05  # of silence after which the rest of a malformed request has been discarded
_PIECE_BYTES = 1 << 20
_PARSED_AT_ONCE = 1 << 16
_SPACES = b" \t\r\n"
_PLACES_AT_THE_END = 10  # in which the cut through a literal, a number or an escape is reported


class MalformedRequest(Exception):
    """The received bytes are not a request; the message gives the reason."""


class _Incomplete(Exception):
    """More bytes may make it a JSON value."""


def _refuse_constant(name: str) -> float:
    raise MalformedRequest(f"the request contains {name}, which is not a JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def parse(data: bytes | bytearray) -> tuple[Any, bytes]:
    """Returns the first JSON value and the bytes behind it.

    Raises:
        MalformedRequest: no further bytes can make it JSON.
    """
    try:
        # Without this, each piece of a large request would parse all pieces before it again.
        if len(data) > _PARSED_AT_ONCE and not data.rstrip(_SPACES).endswith(b"}"):
            raise _Incomplete
        text = data.decode().lstrip()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            raise _Incomplete from None
        raise MalformedRequest(f"byte {error.start} of the request is not UTF-8") from None
    try:
        value, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) - _PLACES_AT_THE_END or error.msg.startswith("Unterminated string"):
            raise _Incomplete from None
        raise MalformedRequest(f"the request is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise MalformedRequest("the request is nested too deeply") from None
    except ValueError as error:  # an integer with more digits than Python converts
        raise MalformedRequest(f"the request is not JSON: {error}") from None
    return value, text[end:].lstrip().encode()


class RequestStream:
    """The requests of one connection, in their order.

    Args:
        connection: a connected stream socket without a timeout.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = memoryview(bytearray(_PIECE_BYTES))
        self._rest = b""
        self._readable = select.poll()
        self._readable.register(connection, select.POLLIN)

    def next(self) -> Any:
        """Returns the next JSON value, of whatever type; waits for it.

        Raises:
            MalformedRequest: there is none; what was received of it has been discarded.
            EOFError: the client closed the connection.
        """
        data: bytes | bytearray = self._rest or self._receive()
        while True:
            if not data:
                raise EOFError
            try:
                value, self._rest = parse(data)
                return value
            except _Incomplete:
                data = self._extended(data)
            except MalformedRequest:
                self._discard()
                raise

    def _receive(self) -> bytes:
        try:
            count = self._connection.recv_into(self._buffer)
        except ConnectionError:
            return b""
        return bytes(self._buffer[:count])

    def _extended(self, data: bytes | bytearray) -> bytearray:
        """Returns the data with more behind it."""
        if not data.strip(_SPACES):
            return bytearray(self._receive())  # spaces between requests: wait for the next as long as it takes
        more = self._receive() if self._readable.poll(SILENCE_S * 1e3) else b""
        if not more:
            self._discard()
            raise MalformedRequest(
                f"the request is truncated: it ends after {len(data)} bytes and is not complete JSON"
            )
        if len(data) + len(more) > MAX_REQUEST_BYTES:
            self._discard()
            raise MalformedRequest(f"the request is larger than {MAX_REQUEST_BYTES >> 20} MiB")
        extended = data if isinstance(data, bytearray) else bytearray(data)
        extended += more
        return extended

    def _discard(self) -> None:
        """Drops what the client is still sending, which would otherwise be taken for further requests."""
        self._rest = b""
        while self._readable.poll(DRAIN_S * 1e3) and self._receive():
            pass
