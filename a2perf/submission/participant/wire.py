"""The wire between evaluator and participant process: typed values over a stream socket, never pickle.

A frame consists of three little-endian 32-bit lengths (body, tail, shared), the body and the tail. The body is one
msgpack value: None, booleans, integers, floats, strings, bytes, sequences (which arrive as tuples), maps with string
keys (to the participant also integers), and arrays. Small arrays are inside the body, large ones follow raw in the
tail. The evaluator writes the tail to shared memory instead, and the participant process copies it from there: a policy
that keeps an observation must not see it change. This halves the round trip of a megabyte, see ``perf/transport.py``.

Observations of one environment have the same names, dtypes and shapes at every step. From the second one on, the
evaluator copies the arrays to fixed places of the shared memory and sends the same body again, and the participant
process builds its arrays from the places that it knows for this body.

Both ends check lengths before they allocate. Before it decodes a reply, the evaluator also checks that the body
contains as many elements as it claims. Decoding then takes at most about sixty times the memory of the body.

Both processes import this file, so it needs only the standard library and msgpack; numpy is imported with the first
array.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgpack

from a2perf.submission.participant.shared_region import (
    ALIGNMENT,
    CAPACITY_BYTES,
    DTYPES,
    Layout,
    SharedRegion,
    SharedView,
)

if TYPE_CHECKING:
    import numpy as np

PROTOCOL_VERSION: Final = 3
SPACES: Final = ("action_space", "observation_space")
"""Attributes of an environment that the evaluator sends with the request to load the policy."""
MAX_REQUEST_BYTES: Final = 1 << 30
MAX_REPLY_BYTES: Final = 1 << 20
MAX_REPLY_BODY_BYTES: Final = 4 << 20
INLINE_BYTES: Final = 1 << 14
MAX_DIMENSIONS: Final = 32
_INLINE_ARRAY: Final = 1
_TAIL_ARRAY: Final = 2
_SCALAR: Final = 3
_UNCHECKED_BYTES: Final = 2048  # msgpack nests at most 1024 levels, so a body this small can claim at most 16 MiB
_BUFFER_BYTES: Final = 1 << 16
_SOCKET_BYTES: Final = 1 << 20
_NO_SIGNAL = int(getattr(socket, "MSG_NOSIGNAL", 0))
_PEEK = int(socket.MSG_PEEK | getattr(socket, "MSG_DONTWAIT", 0))  # as a flag of enum, it would take 1.4 us
_SPIN_S: Final = 100e-6
_TAKEN_S: Final = 1e-3
_OFTEN: Final = 2.0
_FORGOTTEN: Final = 1 / 32
_CALM_S: Final = 0.5
"""Time without spinning once more than ``_OFTEN`` yields took longer than ``_TAKEN_S``: the host is loaded.

A yield that returns sooner takes ``_FORGOTTEN`` of such a yield back. A sample of the trackers is one or two of them.
"""
_IN, _OUT = int(getattr(select, "POLLIN", 1)), int(getattr(select, "POLLOUT", 4))
_LOOK_S: Final = 0.05
_yield_processor = getattr(os, "sched_yield", lambda: time.sleep(0))
_EMPTY: Final = memoryview(b"")
_LENGTHS = struct.Struct("<III")


class WireError(Exception):
    """An invalid frame arrived, or the connection broke."""


class ConnectionClosed(WireError):
    """The other process has ended or closed the connection."""


class WireTimeout(WireError):
    """The deadline passed before the message was complete."""


class Unsendable(WireError):
    """A value has a type or size that cannot be sent."""


def _array_header(array: np.ndarray[Any, Any]) -> bytes:
    name = array.dtype.str
    if name not in DTYPES:
        raise Unsendable(f"arrays of dtype {array.dtype} cannot be sent; send numbers or booleans")
    shape = array.shape
    return struct.pack(f"<B{len(name)}sB{len(shape)}Q", len(name), name.encode(), len(shape), *shape)


class _Encoder:
    """Turns a value into frame parts. Each connection has one, which reuses its buffers."""

    def __init__(self) -> None:
        self._packer = msgpack.Packer(default=self._encode_special, autoreset=True)
        self._tail: list[memoryview | bytes] = []
        self._tail_bytes = 0
        self._limit = 0
        self._inline = INLINE_BYTES

    def encode(self, value: Any, limit: int, inline: int = INLINE_BYTES) -> tuple[bytes, list[bytes | memoryview], int]:
        """Returns the body, the parts of the tail and the tail's length; larger arrays than ``inline`` are in it."""
        self._tail = []
        self._tail_bytes = 0
        self._limit = limit
        self._inline = inline
        try:
            body = self._packer.pack(value)
        except Unsendable:
            self._packer.reset()
            raise
        except Exception as error:
            self._packer.reset()
            raise Unsendable(f"the value cannot be sent: {error}") from error
        if len(body) + self._tail_bytes > limit:
            raise Unsendable(f"the value has {len(body) + self._tail_bytes:,} bytes; at most {limit:,} can be sent")
        return body, self._tail, self._tail_bytes

    def _encode_special(self, value: Any) -> msgpack.ExtType:
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            if isinstance(value, numpy.ndarray):
                # ascontiguousarray would give an array without dimensions one dimension.
                return self._encode_array(numpy.ascontiguousarray(value) if value.ndim else value)
            if isinstance(value, numpy.generic):
                array = numpy.asarray(value)
                return msgpack.ExtType(_SCALAR, _array_header(array) + array.tobytes())
            if hasattr(value, "__array__"):
                return self._encode_array(numpy.ascontiguousarray(value))
        raise Unsendable(
            f"values of type {type(value).__name__} cannot be sent; send numbers, strings, arrays, sequences or dicts"
        )

    def _encode_array(self, array: np.ndarray[Any, Any]) -> msgpack.ExtType:
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        header = _array_header(array)
        size = array.nbytes
        if size <= self._inline:
            return msgpack.ExtType(_INLINE_ARRAY, header + array.tobytes())
        if size + self._tail_bytes > self._limit:
            raise Unsendable(f"the array has {size:,} bytes; at most {self._limit:,} can be sent")
        offset = self._tail_bytes
        padding = -size % ALIGNMENT
        # As bytes, because the length and the slices of a memoryview count elements.
        self._tail.append(array.reshape(-1).view("u1").data)
        if padding:
            self._tail.append(bytes(padding))
        self._tail_bytes += size + padding
        return msgpack.ExtType(_TAIL_ARRAY, header + struct.pack("<Q", offset))


def decode(body: bytes | bytearray | memoryview, tail: memoryview = _EMPTY, *, trusted: bool = False) -> Any:
    """Returns the value of a frame.

    Args:
        tail: the large arrays; the returned arrays share its memory.
        trusted: accept maps with other keys than strings, such as integers: a sender could choose them to collide.

    Raises:
        WireError: the frame is invalid. No bytes can cause another exception.
    """
    referenced = 0

    def special(code: int, data: bytes) -> Any:
        nonlocal referenced
        if code not in (_INLINE_ARRAY, _TAIL_ARRAY, _SCALAR):
            raise WireError(f"unknown extension type {code}")
        import numpy

        length = data[0]
        name = data[1 : 1 + length].decode("ascii")
        if name not in DTYPES:
            raise WireError(f"an array of dtype {name!r} is not allowed")
        dimensions = data[1 + length]
        if dimensions > MAX_DIMENSIONS:
            raise WireError(f"an array of {dimensions} dimensions is not allowed")
        shape = struct.unpack_from(f"<{dimensions}Q", data, 2 + length)
        start = 2 + length + 8 * dimensions
        count = math.prod(shape)
        dtype = numpy.dtype(name)
        if code == _TAIL_ARRAY:
            (offset,) = struct.unpack_from("<Q", data, start)
            if offset + count * dtype.itemsize > len(tail):
                raise WireError(f"an array of shape {shape} and dtype {name} exceeds its frame")
            referenced += count * dtype.itemsize
            # Arrays that share a megabyte of the tail would become gigabytes once they are copied.
            if referenced > len(tail):
                raise WireError("its arrays overlap")
            array = numpy.frombuffer(tail, dtype, count, offset)
        elif start + count * dtype.itemsize != len(data):
            raise WireError(f"an array of shape {shape} and dtype {name} does not fit its {len(data) - start} bytes")
        else:
            array = numpy.frombuffer(data, dtype, count, start)
        if name == "|b1" and (array.view("u1") > 1).any():
            raise WireError("an array of booleans contains bytes other than 0 and 1")
        array = array.reshape(shape)
        if code == _TAIL_ARRAY:
            return array
        # Copied, because an array over the bytes of msgpack is read-only.
        return array[()] if code == _SCALAR and not shape else array.copy()

    try:
        return msgpack.unpackb(body, ext_hook=special, use_list=False, raw=False, strict_map_key=not trusted)
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"not a valid message: {type(error).__name__}: {error}") from error


def check_claims(body: bytes | bytearray | memoryview) -> None:
    """Checks that a body contains as many elements as its lengths claim, without creating any of them.

    Each of a thousand nested sequences may claim as many elements as the body has bytes, and msgpack allocates memory
    for every claim before it reads the elements.

    Raises:
        WireError: the body contains fewer.
    """
    if len(body) <= _UNCHECKED_BYTES:
        return
    unpacker = msgpack.Unpacker(max_buffer_size=len(body))
    try:
        unpacker.feed(body)
        unpacker.skip()
    except Exception as error:
        raise WireError(f"not a valid message: {type(error).__name__}: {error}") from error


class Watched(Protocol):
    """The process at the other end, as far as a connection needs it."""

    def fileno(self) -> int:
        """Descriptor that becomes readable when the state of the process may have changed."""
        ...

    def poll(self) -> object | None:
        """Returns ``None`` while the process runs."""
        ...


class Limit(Protocol):
    """A deadline that may move when it has passed."""

    deadline: float

    def has_passed(self) -> bool:
        """Returns whether the wait is over; otherwise ``deadline`` is later than before."""
        ...


class _Select:
    """Stands for ``select.poll`` of a socket and a process, where only sockets can be waited for."""

    _event = _descriptor = 0

    def register(self, source: socket.socket | int, event: int) -> None:
        """Adds the socket; the process is looked at by whoever waits."""
        if not isinstance(source, int):
            self._event, self._descriptor = event, source.fileno()

    def poll(self, pause_ms: float | None = None) -> list[tuple[int, int]]:
        """Waits for the socket, and for the process only briefly; empty once the pause is over."""
        pause_s = _LOOK_S if pause_ms is None else min(_LOOK_S, pause_ms / 1000)
        read, write = ([self._descriptor] if self._event == event else [] for event in (_IN, _OUT))
        if any(select.select(read, write, [], pause_s)):
            return [(self._descriptor, self._event)]
        return [(-1, 0)] if pause_s == _LOOK_S else []


class Connection:
    """One end of the wire.

    Args:
        stream: a connected stream socket; the connection owns it from now on.
        watched: the process at the other end; its death ends every wait. Without it the connection blocks, which saves
            one system call but ignores deadlines.
    """

    def __init__(
        self,
        stream: socket.socket,
        watched: Watched | None = None,
        *,
        outgoing: SharedRegion | None = None,
        incoming: SharedView | None = None,
    ) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._socket = stream
        stream.setblocking(watched is None)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            stream.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BYTES)
        self._watched = watched
        poll = getattr(select, "poll", _Select)
        self._readable, self._writable = poll(), poll()
        self._readable.register(stream, _IN)
        self._writable.register(stream, _OUT)
        if watched is not None:
            self._readable.register(watched.fileno(), _IN)
            self._writable.register(watched.fileno(), _IN)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._have = 0
        self._spins = watched is not None
        self._calm_until = self._taken = 0.0
        self._encoder = _Encoder()
        self._layout: Layout | None = None
        self._body = b""  # of the requests with that layout

    def close(self) -> None:
        """Closes the socket and releases the shared memory; a second call has no effect."""
        self._socket.close()
        self._layout = None  # its arrays are views of the shared memory
        if self._outgoing is not None:
            self._outgoing.close()

    def places(self, word: str) -> Any:
        """Returns the arrays in shared memory of the last request, if it was this word and arrays; otherwise None."""
        return self._layout.places if self._layout is not None and self._layout.word == word else None

    @property
    def shared_bytes(self) -> float:
        """Size in shared memory of the last request; infinite if it was not only arrays."""
        return math.inf if self._layout is None else self._layout.size

    def shut_down(self) -> None:
        """Ends a wait in another thread with ``ConnectionClosed``; that thread closes the connection."""
        with contextlib.suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def has_unread(self) -> bool:
        """Returns whether an unrequested message has arrived. Never blocks."""
        if self._have:
            return True
        try:
            return bool(self._socket.recv(1, _PEEK))
        except OSError:
            return False

    def send(self, value: Any, *, deadline: float | Limit | None = None, max_bytes: int = MAX_REQUEST_BYTES) -> None:
        """Sends one value.

        Args:
            deadline: ``time.monotonic()`` at which to give up, or ``None``.

        Raises:
            Unsendable: the value's type or size is not supported; nothing was sent.
            ConnectionClosed: the other process is gone.
            WireTimeout: the other process did not read it in time.
        """
        if self._outgoing is not None and self._in_place(value, self._outgoing, max_bytes):
            assert self._layout is not None
            parts: list[bytes | memoryview] = [_LENGTHS.pack(len(self._body), 0, self._layout.size) + self._body]
        else:
            body, tail, tail_bytes = self._encoder.encode(value, max_bytes)
            if tail_bytes and self._outgoing is not None and tail_bytes <= CAPACITY_BYTES:
                self._layout = None  # its memory is written over
                self._outgoing.write(tail)
                parts = [_LENGTHS.pack(len(body), 0, tail_bytes) + body]
            else:
                parts = [_LENGTHS.pack(len(body), tail_bytes, 0) + body, *tail]
        for part in parts:
            view = memoryview(part)
            while view:
                try:
                    view = view[self._socket.send(view, _NO_SIGNAL) :]
                except BlockingIOError:
                    if not self._wait(self._writable, deadline):
                        raise ConnectionClosed("the other process has ended") from None
                except OSError as error:
                    raise ConnectionClosed("the other process closed the connection") from error

    def _in_place(self, value: Any, region: SharedRegion, limit: int) -> bool:
        """Copies the arrays of a request to their places; returns False for values that have no layout."""
        if type(value) is not tuple or len(value) != 2:
            return False
        if self._layout is not None and self._layout.write(value):
            return True
        self._layout, layout = None, Layout.of(value)
        if layout is None or layout.size > CAPACITY_BYTES:
            return False
        self._body, _, _ = self._encoder.encode(value, limit, inline=0)
        if _LENGTHS.size + len(self._body) > _BUFFER_BYTES:
            return False
        layout.open(region.memory)
        self._layout = layout
        return layout.write(value)

    def receive(self, *, deadline: float | Limit | None = None, max_bytes: int = MAX_REPLY_BYTES) -> Any:
        """Receives one value.

        Raises:
            WireError: the frame is invalid or claims more than ``max_bytes``.
            ConnectionClosed: the other process is gone, possibly in the middle of a frame.
            WireTimeout: no complete frame arrived before the deadline.
        """
        head = _LENGTHS.size
        while self._have < head:
            self._have += self._receive_into(self._view[self._have :], deadline)
        body_bytes, tail_bytes, shared_bytes = _LENGTHS.unpack_from(self._buffer)
        size = body_bytes + tail_bytes
        if shared_bytes and (tail_bytes or self._incoming is None or shared_bytes > CAPACITY_BYTES):
            raise WireError("a message claims shared memory that does not exist")
        trusted = self._watched is None  # only the participant's end is without it, and it trusts the evaluator
        if size > max_bytes or (body_bytes > MAX_REPLY_BODY_BYTES and not trusted):
            most = max_bytes if size > max_bytes else MAX_REPLY_BODY_BYTES
            raise WireError(f"a message claims {size:,} bytes; at most {most:,} are allowed")
        end = head + size
        if tail_bytes == 0 and end <= _BUFFER_BYTES:
            while self._have < end:
                self._have += self._receive_into(self._view[self._have :], deadline)
            body = self._view[head:end]
            if self._incoming is not None and shared_bytes:
                value = self._shared(body, self._incoming.read(shared_bytes))
            else:
                if not trusted:
                    check_claims(body)
                # Before _keep_from, which overwrites the buffer under the body.
                value = decode(body, trusted=trusted)
            self._keep_from(end)
            return value
        view = memoryview(bytearray(size))
        done = min(self._have - head, size)
        view[:done] = self._view[head : head + done]
        self._keep_from(head + done)
        while done < size:
            done += self._receive_into(view[done:], deadline)
        if not trusted:
            check_claims(view[:body_bytes])
        if self._incoming is not None and shared_bytes:
            return decode(view, memoryview(self._incoming.read(shared_bytes)), trusted=trusted)
        return decode(view[:body_bytes], view[body_bytes:], trusted=trusted)

    def _shared(self, body: memoryview, data: bytearray) -> Any:
        """Returns the value of a frame with arrays in shared memory."""
        layout = self._layout
        if layout is not None and layout.size == len(data) and self._body == body:
            return layout.read(data)
        value = decode(body, memoryview(data), trusted=True)  # only the participant's end has this memory
        layout = Layout.of(value)
        if layout is not None and layout.size == len(data):  # no array was elsewhere
            self._layout, self._body = layout, bytes(body)
        return value

    def _keep_from(self, end: int) -> None:
        rest = self._have - end
        if rest:
            # Through a copy, because source and target can overlap.
            self._buffer[:rest] = bytes(self._view[end : self._have])
        self._have = rest

    def _receive_into(self, view: memoryview, deadline: float | Limit | None) -> int:
        """Reads at least one byte.

        Waking a sleeping process takes tens of microseconds on many hosts. If the last answer came immediately, this
        polls for up to ``_SPIN_S`` before it sleeps, and yields the processor between two polls. On a loaded host a
        yield gives it away for milliseconds, and a sleeping process gets it back at once: then this only sleeps.
        """
        alive = True
        started = time.perf_counter()
        while True:
            try:
                count = self._socket.recv_into(view)
            except BlockingIOError:
                now = time.perf_counter()
                if self._spins and now - started < _SPIN_S and now >= self._calm_until:
                    _yield_processor()
                    was_taken = time.perf_counter() - now > _TAKEN_S
                    self._taken = self._taken + 1 if was_taken else max(0.0, self._taken - _FORGOTTEN)
                    if self._taken > _OFTEN:
                        self._calm_until, self._taken = now + _CALM_S, 0.0
                    continue
                if not alive:  # checked after a further read: the last message may precede the death
                    raise ConnectionClosed("the other process has ended") from None
                alive = self._wait(self._readable, deadline)
                self._spins = time.perf_counter() - started < 2 * _SPIN_S
                continue
            except OSError as error:
                raise ConnectionClosed("the other process closed the connection") from error
            if count == 0:
                raise ConnectionClosed("the other process closed the connection")
            return count

    def _wait(self, poll: Any, deadline: float | Limit | None) -> bool:
        """Waits for the socket; returns False if the process at the other end has ended."""
        ready = None
        while not ready:
            at = deadline if deadline is None or isinstance(deadline, float) else deadline.deadline
            ready = poll.poll(None if at is None else max(0.0, (at - time.monotonic()) * 1000))
            if not ready and (isinstance(deadline, float) or deadline is None or deadline.has_passed()):
                raise WireTimeout("the deadline has passed")
        own = self._socket.fileno()
        if any(descriptor == own for descriptor, _ in ready):
            return True
        return self._watched is None or self._watched.poll() is None
