"""Replies that no honest policy sends, from a running participant: bad output, and never the evaluator's fault."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gymnasium import spaces

from a2perf.records import FailureKind
from a2perf.sandbox import LADDER
from a2perf.submission.evaluator.playing.actions import ActionChecker
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from tests.made_submissions import policy

FORGER = policy(
    top="""
    import gc, os, signal, socket, struct, time
    import msgpack

    def array(value):
        name = value.dtype.str.encode()
        shape = struct.pack(f"<{value.ndim}Q", *value.shape)
        return msgpack.ExtType(1, bytes([len(name)]) + name + bytes([value.ndim]) + shape + value.tobytes())

    def header(name, shape, content, code=1):
        start = bytes([len(name)]) + name + bytes([len(shape)])
        return msgpack.ExtType(code, start + struct.pack(f"<{len(shape)}Q", *shape) + content)

    def send(body, tail=b""):
        wire = next(found for found in gc.get_objects() if isinstance(found, socket.socket) and found.fileno() > 2)
        wire.sendall(struct.pack("<III", len(body), len(tail), 0) + body + tail)
        time.sleep(600)
    """,
    infer="scope = dict(globals())\nexec(observation, scope)\nreturn scope.get('answer')",
)

PAIR = "array(np.array([1, 2], '<i8'))"
MALFORMED = {
    "a reply that begins with an array": f"send(msgpack.packb([{PAIR}]))",
    "a kind of failure that cannot be hashed": "send(msgpack.packb(['error', {}, 'x', 'y', None, None]))",
    "an exit status that is an array": f"send(msgpack.packb(['error', 'exception', 'x', 'y', None, {PAIR}]))",
    "times that are arrays": f"send(msgpack.packb(['ok', 1, {PAIR}, 1]))",
    "a thousand nested claims of a million elements": "send(b'\\xdd\\x00\\x0f\\xff\\x00' * 1000 + bytes(10**6 - 5000))",
    "four thousand copies of one large array": (
        "body = msgpack.packb(['ok', [header(b'<f8', (60000,), struct.pack('<Q', 0), 2)] * 4000, 1, 1]); "
        "send(body, bytes(480000))"
    ),
    "an array of 2^80 elements": "send(msgpack.packb(['ok', header(b'<f4', (2**40, 2**40), b''), 1, 1]))",
    "an array of objects": "send(msgpack.packb(['ok', header(b'|O', (1,), bytes(8)), 1, 1]))",
    "booleans that are neither": "send(msgpack.packb(['ok', header(b'|b1', (2,), b'\\x02\\xff'), 1, 1]))",
    "text that is not UTF-8": "send(b'\\x94\\xa2ok\\xa2\\xff\\xfe\\x01\\x01')",
    "a message of nothing": "send(b'')",
}


def failure_of(stage, level: str, code: str) -> ParticipantFailure:
    (stage.entry / "inference.py").write_text(FORGER)
    with stage.process(level) as participant:
        participant.start()
        participant.load_policy({})
        with pytest.raises(ParticipantFailure) as caught:
            participant.infer(code, timeout_s=300)
    return caught.value


@pytest.mark.parametrize("level", LADDER)
def test_a_malformed_reply_is_bad_output(level: str, stage, available: Callable[[str], None], noted) -> None:
    available(level)
    for what, code in MALFORMED.items():
        failure = failure_of(stage, level, code).failure
        noted(what, failure.kind.value, [level])
        assert failure.kind is FailureKind.BAD_OUTPUT, (what, failure)


def test_a_signal_without_a_name_is_a_participants_failure(stage, noted) -> None:
    failure = failure_of(stage, "process", "os.kill(os.getpid(), signal.SIGRTMIN + 5)").failure
    noted("end by a real-time signal", failure.kind.value, ["process"])
    assert failure.kind is FailureKind.SIGNAL
    assert failure.signal == f"signal {39}"


BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
HUGE = 10**5000
STRIDED = np.lib.stride_tricks.as_strided(np.zeros(1), (10**9,), (0,))
ODD = {
    "0-d array for a tuple": (spaces.Tuple((spaces.Discrete(2), BOX)), np.array(1)),
    "0-d array for a tuple of one": (spaces.Tuple((BOX,)), np.float32(1)),
    "array of objects": (BOX, np.array([{}, None], object)),
    "void": (BOX, np.zeros(2, "V8")),
    "structured": (BOX, np.zeros(2, [("a", "f4"), ("b" * 5000, "i4")])),
    "dates": (BOX, np.zeros(2, "M8[ns]")),
    "text array": (BOX, np.array(["a", "b"])),
    "big-endian NaN": (BOX, np.array([np.nan, 0], ">f4")),
    "half precision infinity": (BOX, np.array([np.inf, 0], np.float16)),
    "complex": (BOX, np.zeros(2, np.complex64)),
    "no elements": (BOX, np.zeros((0, 2**40), np.float32)),
    "a thousand million elements": (BOX, STRIDED),
    "one long text among many": (BOX, ("a" * 10**6, *("b",) * 10**5)),
    "nested tuples": (BOX, ((((((((((0.0,),),),),),),),),) * 60)),
    "a huge integer": (BOX, (HUGE, 0)),
    "a huge integer for one of three": (spaces.Discrete(3), HUGE),
    "a negative huge integer": (spaces.MultiDiscrete([2, 3]), (-HUGE, 0)),
    "infinity for one of three": (spaces.Discrete(3), float("inf")),
    "a number that wraps to 0": (spaces.MultiBinary(2), (256, 0)),
    "a number that wraps to 1": (spaces.MultiDiscrete([2, 3], dtype=np.int32), np.array([2**32 + 1, 0])),
    "the largest unsigned integer": (spaces.MultiDiscrete([2, 3]), np.array([2**64 - 1, 0], np.uint64)),
    "an overflow to int": (spaces.MultiDiscrete([2, 3]), (1e300, 0.0)),
    "keys that are arrays' text": (spaces.Dict(a=BOX), {"[0 1]" * 10_000: np.zeros(2)}),
    "keys of bytes": (spaces.Dict(a=BOX), {b"a": np.zeros(2)}),
    "an unhashable element of a sequence": (spaces.Sequence(spaces.Discrete(2)), ({}, [])),
    "a million elements of a sequence": (spaces.Sequence(spaces.Discrete(2)), (0,) * 10**6),
    "a text of a million letters": (spaces.Text(5), "a" * 10**6),
    "a tuple for a graph": (spaces.Graph(BOX, None), (np.zeros((1, 2)), None, None)),
}


@pytest.mark.parametrize("what", ODD)
def test_an_odd_action_is_bad_output(what: str, noted) -> None:
    space, value = ODD[what]
    with np.errstate(all="raise"), pytest.raises(ParticipantFailure) as caught:
        ActionChecker(space)(value)
    assert caught.value.failure.kind is FailureKind.BAD_OUTPUT
    assert "cannot be read" not in caught.value.failure.message, "the check itself has to refuse it"
    assert len(caught.value.failure.message) < 1000
    noted("odd actions: dtypes, shapes, overflow, nesting, size", "bad_output", ["none"])


def test_the_largest_float_for_an_integer_box_becomes_its_bound() -> None:
    space = spaces.Box(-(2**63), 2**63 - 1, (2,), np.int64)
    assert ActionChecker(space)((2.0**63, -1e30)).tolist() == [2**63 - 1, -(2**63)]


def test_whatever_nobody_foresaw_is_bad_output_with_its_traceback_in_the_log(capsys) -> None:
    class Surprise(spaces.Dict):
        pass

    class Mapping(dict):
        def __getitem__(self, key: object) -> object:
            raise ZeroDivisionError("a surprise")

    with pytest.raises(ParticipantFailure, match=r"cannot be read \(ZeroDivisionError\)") as caught:
        ActionChecker(Surprise(a=BOX))(Mapping(a=1))
    assert caught.value.failure.kind is FailureKind.BAD_OUTPUT
    assert "a surprise" in capsys.readouterr().err
