"""The wire: what passes it arrives the same, and what is forged is refused before it costs anything."""

import copy
import mmap
import os
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2perf.submission.participant.shared_region import SharedRegion, SharedView
from a2perf.submission.participant.wire import (
    MAX_REPLY_BYTES,
    Connection,
    ConnectionClosed,
    Unsendable,
    WireError,
    WireTimeout,
)


class Wire(SimpleNamespace):
    evaluator: Connection
    participant: socket.socket


@pytest.fixture
def wire() -> Iterator[Wire]:
    """The evaluator's connection, and the bare socket at the participant's end."""
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    ended: list[int] = []
    watched = SimpleNamespace(fileno=lambda: read, poll=lambda: ended[0] if ended else None)
    connection = Connection(ours, watched)
    yield Wire(evaluator=connection, participant=theirs, ended=ended, news=write)
    connection.close()
    theirs.close()
    os.close(read)
    os.close(write)


def round_trip(value):
    """Sends a value through a real socket; large ones need both ends at work."""
    ours, theirs = socket.socketpair()
    sender, receiver = Connection(ours), Connection(theirs)
    thread = threading.Thread(target=sender.send, args=(value,))
    thread.start()
    try:
        return receiver.receive(max_bytes=1 << 28)
    finally:
        thread.join(300)
        sender.close()
        receiver.close()


def frame(body: bytes, tail: bytes = b"", *, claimed: int | None = None, shared: int = 0) -> bytes:
    return struct.pack("<III", len(body) if claimed is None else claimed, len(tail), shared) + body + tail


def array_ext(code: int, dtype: bytes, shape: tuple[int, ...], rest: bytes) -> bytes:
    header = struct.pack(f"<B{len(dtype)}sB{len(shape)}Q", len(dtype), dtype, len(shape), *shape)
    return msgpack.packb(msgpack.ExtType(code, header + rest))


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shape", [(), (0,), (160,), (3, 0, 2), (70, 90), (300, 200, 3)])
def test_array_arrives_the_same_and_writable(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(np.random.default_rng(0).random(shape) * 100).astype(dtype)
    arrived = round_trip(array)
    assert arrived.dtype == array.dtype
    assert arrived.shape == shape
    np.testing.assert_array_equal(arrived, array)
    assert arrived.flags.writeable or not shape


def test_array_layouts_arrive_by_value() -> None:
    array = np.arange(60_000, dtype=">f8").reshape(200, 300)
    for given_array in (array, array.T, array[::2, ::3], np.asfortranarray(array), array[:0]):
        arrived = round_trip(given_array)
        np.testing.assert_array_equal(arrived, given_array)
        assert arrived.dtype == np.float64


def test_nested_observation_with_text_arrives_the_same() -> None:
    observation = {
        "page": "Größe ✓\x00 \U0001f600",
        "features": (np.ones((4, 5), np.float32), {"mask": np.zeros(50_000, bool), "step": 7}),
        "none": None,
        "bytes": b"\x00\xff",
        "scalar": np.float32(0.1),
        "count": np.int64(-5),
        "list": [1, [2.5, "x"]],
        "tensor": type("Tensor", (), {"__array__": lambda self: np.arange(3.0)})(),
    }
    arrived = round_trip(observation)
    assert arrived["page"] == observation["page"]
    np.testing.assert_array_equal(arrived["features"][0], observation["features"][0])
    assert arrived["features"][1]["mask"].shape == (50_000,)
    assert arrived["features"][1]["step"] == 7
    assert arrived["none"] is None
    assert arrived["bytes"] == b"\x00\xff"
    assert arrived["scalar"] == np.float32(0.1)
    assert arrived["scalar"].dtype == np.float32
    assert arrived["count"] == -5
    assert arrived["list"] == (1, (2.5, "x"))
    np.testing.assert_array_equal(arrived["tensor"], [0.0, 1.0, 2.0])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
        lambda inner: st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
@settings(max_examples=150, deadline=None)
def test_plain_values_arrive_the_same(value: object) -> None:
    arrived = round_trip(value)
    assert repr(arrived) == repr(value)


CYCLE: list[object] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (CYCLE, "cannot be sent"),
        (np.array([object()]), "dtype object"),
        (np.array(["text"]), "dtype <U4"),
        (np.zeros(2, [("a", "f4")]), "cannot be sent"),
        (np.array(["2020"], "datetime64[Y]"), "dtype datetime64"),
        (object(), "type object cannot be sent"),
        ({1, 2}, "type set cannot be sent"),
        (2**70, "cannot be sent"),
        (np.zeros(2 * MAX_REPLY_BYTES, np.uint8), "bytes"),
        ("x" * (MAX_REPLY_BYTES + 1), "at most 1,048,576 can be sent"),
    ],
)
def test_what_cannot_cross_is_refused_by_the_sender(wire: Wire, value: object, message: str) -> None:
    with pytest.raises(Unsendable, match=message):
        wire.evaluator.send(("ok", value), max_bytes=MAX_REPLY_BYTES)
    wire.evaluator.send(("ok", 1))  # the connection is still good
    assert wire.participant.recv(100)[12:] == msgpack.packb(("ok", 1))


FORGED = {
    "no msgpack": frame(b"\xc1"),
    "cut off inside": frame(msgpack.packb((1, 2, 3))[:-1]),
    "trailing bytes": frame(msgpack.packb(1) + b"\x00"),
    "array of four billion elements": frame(b"\xdd\xff\xff\xff\xff"),
    "map of four billion keys": frame(b"\xdf\xff\xff\xff\xff"),
    "string of four billion bytes": frame(b"\xdb\xff\xff\xff\xff"),
    "text that is no UTF-8": frame(b"\xa2\xff\xfe"),
    "unhashable key": frame(b"\x81\x90\x01"),
    "deep nesting": frame(b"\x91" * 100_000),
    "unknown extension": frame(msgpack.packb(msgpack.ExtType(42, b"cos\nsystem\n"))),
    "object dtype": frame(array_ext(1, b"|O8", (1,), bytes(8))),
    "string that numpy would take for a record": frame(array_ext(1, b"f4,O", (1,), bytes(12))),
    "shape larger than its data": frame(array_ext(1, b"<f4", (2**40,), bytes(16))),
    "shape whose product overflows": frame(array_ext(1, b"<f8", (2**32, 2**32, 2), b"")),
    "shape of too many dimensions": frame(array_ext(1, b"<f4", (1,) * 40, bytes(4))),
    "data longer than its shape": frame(array_ext(1, b"<f4", (1,), bytes(8))),
    "array outside the tail": frame(array_ext(2, b"<f4", (16,), struct.pack("<Q", 2**63)), bytes(64)),
    "array past the end of the tail": frame(array_ext(2, b"<f4", (17,), struct.pack("<Q", 0)), bytes(64)),
    "extension without content": frame(msgpack.packb(msgpack.ExtType(1, b""))),
    "header cut off": frame(msgpack.packb(msgpack.ExtType(1, b"\x03<f4\x05\x00"))),
    "shared memory that is not there": frame(b"\x01", shared=64),
    "length of four gigabytes": frame(b"\x01", claimed=2**32 - 1),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_frame_is_refused(wire: Wire, name: str) -> None:
    wire.participant.setblocking(False)
    wire.participant.send(FORGED[name])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(WireError) as caught:
        wire.evaluator.receive(deadline=time.monotonic() + 20)
    assert not isinstance(caught.value, WireTimeout)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


@given(st.binary(min_size=1, max_size=300))
@settings(max_examples=300, deadline=None)
def test_noise_never_does_more_than_raise_wire_error(noise: bytes) -> None:
    ours, theirs = socket.socketpair()
    connection = Connection(ours)
    theirs.sendall(frame(noise))
    theirs.close()
    try:
        connection.receive()
    except WireError:
        pass
    finally:
        connection.close()


@pytest.mark.parametrize("cut", [1, 11, 12, 20])
def test_frame_cut_off_by_the_end_is_a_closed_connection(wire: Wire, cut: int) -> None:
    wire.participant.sendall(frame(msgpack.packb("x" * 100))[:cut])
    wire.participant.close()
    with pytest.raises(ConnectionClosed):
        wire.evaluator.receive(deadline=time.monotonic() + 20)


@pytest.mark.parametrize("cut", [0, 4, 20])
def test_frame_that_never_ends_runs_into_the_deadline(wire: Wire, cut: int) -> None:
    wire.participant.sendall(frame(msgpack.packb("x" * 100))[:cut])
    with pytest.raises(WireTimeout):
        wire.evaluator.receive(deadline=time.monotonic() + 0.1)


def test_receiver_that_takes_nothing_runs_into_the_deadline(wire: Wire) -> None:
    with pytest.raises(WireTimeout):
        wire.evaluator.send(np.zeros(10_000_000, np.float32), deadline=time.monotonic() + 0.1)


def test_death_of_the_process_ends_a_wait_though_somebody_holds_the_wire(wire: Wire) -> None:
    wire.ended.append(9)
    os.write(wire.news, b"x")
    with pytest.raises(ConnectionClosed):
        wire.evaluator.receive(deadline=time.monotonic() + 20)


def test_answer_sent_before_the_death_is_still_received(wire: Wire) -> None:
    wire.participant.sendall(frame(msgpack.packb("last words")))
    wire.ended.append(0)
    os.write(wire.news, b"x")
    assert wire.evaluator.receive(deadline=time.monotonic() + 20) == "last words"


def test_messages_that_come_together_are_received_one_by_one(wire: Wire) -> None:
    wire.participant.sendall(b"".join(frame(msgpack.packb(index)) for index in range(3)))
    assert [wire.evaluator.receive() for _ in range(2)] == [0, 1]
    assert wire.evaluator.has_unread()
    assert wire.evaluator.receive() == 2
    assert not wire.evaluator.has_unread()


def test_large_message_followed_by_another_keeps_both() -> None:
    ours, theirs = socket.socketpair()
    sender, receiver = Connection(ours), Connection(theirs)
    array = np.arange(300_000, dtype=np.int64)

    def send() -> None:
        for index in range(20):
            sender.send((index, array[: 1000 * index]))
            sender.send(index)

    thread = threading.Thread(target=send)
    thread.start()
    for index in range(20):
        number, arrived = receiver.receive(max_bytes=1 << 28)
        assert number == index
        np.testing.assert_array_equal(arrived, array[: 1000 * index])
        assert receiver.receive() == index
    thread.join(300)
    sender.close()
    receiver.close()


def test_large_arrays_go_through_shared_memory_and_stay_the_receivers_own() -> None:
    ours, theirs = socket.socketpair()
    region = SharedRegion()
    sender, receiver = Connection(ours, outgoing=region), Connection(theirs, incoming=SharedView(region.descriptor))
    first, second = np.arange(400_000, dtype=np.float32), np.ones((30, 40, 50))
    sender.send({"a": first, "b": second, "c": "text"})  # more than a socket's buffer: it can only go past the socket
    arrived = receiver.receive(max_bytes=1 << 28)
    sender.send({"a": -first})
    np.testing.assert_array_equal(receiver.receive(max_bytes=1 << 28)["a"], -first)
    np.testing.assert_array_equal(arrived["a"], first)
    np.testing.assert_array_equal(arrived["b"], second)
    arrived["a"][:] = 0
    assert first[1] == 1
    sender.close()
    receiver.close()


def test_participant_can_neither_write_nor_truncate_the_shared_memory() -> None:
    region = SharedRegion()
    with pytest.raises(PermissionError):
        os.ftruncate(region.descriptor, 0)
    with pytest.raises(PermissionError):
        os.write(region.descriptor, b"x")
    with pytest.raises(PermissionError):
        mmap.mmap(region.descriptor, 4096)
    os.close(region.descriptor)
    region.close()


@pytest.fixture
def in_memory() -> Iterator[tuple[Connection, Connection]]:
    """Both ends of a wire with shared memory."""
    ours, theirs = socket.socketpair()
    region = SharedRegion()
    watched = SimpleNamespace(fileno=theirs.fileno, poll=lambda: None)
    sender = Connection(ours, watched, outgoing=region)
    receiver = Connection(theirs, incoming=SharedView(region.descriptor))
    yield sender, receiver
    sender.close()
    receiver.close()


def test_requests_of_one_layout_arrive_the_same_and_stay_the_same(in_memory: tuple[Connection, Connection]) -> None:
    sender, receiver = in_memory
    random = np.random.default_rng(0)
    sent, kept = [], []
    for step in range(40):
        wide = step % 10 == 9  # another layout in between
        observation: Any = {
            "image": random.integers(0, 255, (40, 50, 3 + wide), np.uint8)[:, ::2],  # not contiguous
            "mask": random.integers(0, 2, 17).astype(bool),
            "scalar": np.array(step, np.int32),
            "empty": np.zeros(0, np.float32),
        }
        if step >= 20:
            del observation["empty"]
        if step >= 30:
            observation = observation["image"]
        sent.append(copy.deepcopy(observation))
        sender.send(("infer", observation))
        word, arrived = receiver.receive(max_bytes=1 << 28)
        assert word == "infer"
        kept.append(arrived)
        for array in arrived.values() if isinstance(arrived, dict) else [arrived]:
            assert array.flags.writeable
    for ours, theirs in zip(sent, kept, strict=True):
        pairs = ours if isinstance(ours, dict) else {"": ours}
        others = theirs if isinstance(theirs, dict) else {"": theirs}
        assert list(pairs) == list(others)
        for name, array in pairs.items():
            assert (array.dtype, array.shape) == (others[name].dtype, others[name].shape)
            np.testing.assert_array_equal(array, others[name])
