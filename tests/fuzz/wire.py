"""Fuzzing of what the evaluator reads from a participant: decoder, answer checks and action checks together.

Every input is fed through the code of the evaluator without its last net, so that whatever is raised beside the typed
errors is a finding. Coverage-guided, with `pip install atheris` (Python 3.11 and 3.12):

    python -m tests.fuzz.wire -runs=10000000 -max_len=512 -rss_limit_mb=1024 CORPUS_FOLDER

The suite runs `mutations` of the same seeds instead, which need nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import random
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import numpy as np
from gymnasium import spaces

try:
    import atheris
except ImportError:
    atheris = None

guided = __name__ == "__main__" and atheris is not None
with atheris.instrument_imports(include=["a2perf.submission"]) if guided else contextlib.nullcontext():
    from a2perf.submission.evaluator.playing import actions
    from a2perf.submission.evaluator.process import answers, failure_diagnosis
    from a2perf.submission.evaluator.process.failures import ParticipantFailure
    from a2perf.submission.participant import wire

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
SPACES: tuple[spaces.Space[Any], ...] = (
    BOX,
    spaces.Box(-np.inf, np.inf, (), np.float64),
    spaces.Box(0, 255, (2, 2), np.uint8),
    spaces.Box(-(2**63), 2**63 - 1, (1,), np.int64),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 300], dtype=np.int16),
    spaces.MultiBinary((2, 2)),
    spaces.Tuple((spaces.Discrete(2), BOX)),
    spaces.Dict(a=BOX, b=spaces.Tuple((spaces.MultiBinary(1),))),
    spaces.Text(4, charset="ab"),
    spaces.Sequence(spaces.Discrete(2)),
    spaces.Graph(BOX, None),
)
CHECKERS = tuple(actions.ActionChecker(space) for space in SPACES)
TAIL = bytes(range(256))
NANOSECONDS = 10**9
_DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16")
_ODD_DTYPES = (">i4", "|O", "|V8", "<M8[ns]", "<U4", "|S3", "<f16", "", "\xff")


def check(data: bytes) -> str:
    """Reads one reply as the evaluator does.

    Args:
        data: the first byte chooses the space, the second one what surrounds the rest: nothing, or a reply that has the
            rest as its action.

    Returns:
        ``"wire"``, ``"report"``, ``"answer"`` or ``"action"`` for what refused it, ``"accepted"`` otherwise.
    """
    if len(data) < 2:
        return "wire"
    which, surrounded, body = data[0] % len(CHECKERS), data[1] % 2, data[2:]
    if surrounded:
        body = b"\x94\xa2ok" + body + b"\x01\x01"
    try:
        wire.check_claims(body)
        reply = wire.decode(body, memoryview(TAIL))
    except wire.WireError:
        return "wire"
    if answers.word_of(reply) != "ok":
        failure_diagnosis.reported(reply, "infer_once")
        return "report"
    try:
        found = answers.single(reply, NANOSECONDS).action
    except answers.BadAnswer:
        return "answer"
    try:
        action = CHECKERS[which].checked(found)
    except ParticipantFailure as error:
        failure = error.failure
    else:
        assert SPACES[which].contains(action), (SPACES[which], action)
        return "accepted"
    assert len(failure.message) < 2000
    return "action"


def array(dtype: str, shape: tuple[int, ...], content: bytes, code: int = 1) -> msgpack.ExtType:
    """Returns an array as the wire carries it, whatever its header claims."""
    name = dtype.encode("latin-1")
    header = struct.pack(f"<B{len(name)}sB{len(shape)}Q", len(name), name, len(shape) & 0xFF, *shape)
    return msgpack.ExtType(code, header + content)


def seeds() -> list[bytes]:
    """Returns the corpus: answers that are valid for some space, and those that have been a fault once."""
    two = np.array([0.5, -0.5], np.float32)
    small = array("<i8", (), struct.pack("<q", 1))
    values: list[Any] = [
        None,
        True,
        False,
        0,
        1,
        -1,
        2**63 - 1,
        2**64 - 1,
        -(2**63),
        0.0,
        1.5,
        float("nan"),
        float("inf"),
        1e300,
        "",
        "ab",
        "ok",
        b"\xff",
        [],
        [[]],
        [1, 0],
        [0.5, -0.5],
        [[1, 0], [0, 1]],
        [[1, 2], [3]],
        [1, "a", None],
        {},
        {"a": 1},
        {"a": [0.5, 0.5], "b": [[1]]},
        {"a": array("<f4", (2,), two.tobytes()), "b": [array("|i1", (1,), b"\x01")]},
        [1, array("<f4", (2,), two.tobytes())],
        small,
        array("<f8", (), struct.pack("<d", 2.0), code=3),
        array("<u1", (2, 2), bytes(4)),
        array("<f4", (2,), struct.pack("<Q", 0), code=2),
        msgpack.Timestamp(1, 2),
        array("<f4", (0, 2**62), b""),
        array("<f4", (2**32, 2**32), b""),
        array("|b1", (2, 2), b"\x00\x01\x02\xff"),
        array("<f8", (2,), struct.pack("<dd", 1e300, float("nan"))),
        msgpack.ExtType(1, b""),
        msgpack.ExtType(9, b"x"),
        [array("<i8", (2,), bytes(16))],
        [array("<f4", (32,), struct.pack("<Q", 0), code=2)] * 3,
    ]
    for dtype in (*_DTYPES, *_ODD_DTYPES):
        values += [
            array(dtype, (2,), bytes(16)),
            array(dtype, (1, 2), b"\xff" * 32),
            array(dtype, (), b"\x01" * 8, code=3),
        ]
    nested: Any = 1
    for _ in range(100):
        nested = [nested]
    values.append(nested)
    packed = [msgpack.packb(value) for value in values]
    frames = [bytes([which, 1]) + body for body in packed for which in range(0, len(CHECKERS), 2)]
    frames += [b"\x00\x00" + body for body in packed]
    reports: list[Any] = [
        ["error", "exception", "x", "y", None, None],
        ["error", {}, "x", "y", None, None],
        ["error", "exit", "x", "y", "t", 3],
        ["error", "exception", "x", "y", None, small],
        ["progress", 1],
        ["ok"],
        ["ok", 1, small, 1],
        ["ok", 1, -1, 1],
    ]
    frames += [b"\x00\x00" + msgpack.packb(report) for report in reports]
    return frames


def mutations(count: int, seed: int) -> Iterator[bytes]:
    """Yields inputs made of the seeds: bytes changed, removed, repeated, and pieces of one seed put into another."""
    chance, corpus = random.Random(seed), seeds()
    for _ in range(count):
        data = bytearray(chance.choice(corpus))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(6):
                case 0 if at < len(data):
                    data[at] = chance.randrange(256)
                case 1 if at < len(data):
                    data[at] ^= 1 << chance.randrange(8)
                case 2:
                    del data[at : at + chance.randint(1, 8)]
                case 3:
                    data[at:at] = bytes(chance.choices(range(256), k=chance.randint(1, 4)))
                case 4:
                    other = chance.choice(corpus)
                    start = chance.randrange(len(other) + 1)
                    data[at:at] = other[start : start + chance.randint(1, 24)]
                case _:
                    data[at:at] = data[at : at + chance.randint(1, 16)] * chance.randint(1, 3)
        yield bytes(data)


def main() -> None:
    """Runs libFuzzer; the arguments are its own."""
    if atheris is None:
        sys.exit("atheris is not installed: pip install atheris")
    counts = SimpleNamespace(total=0)

    def one(data: bytes) -> None:
        counts.total += 1
        check(data)

    folders = [Path(word) for word in sys.argv[1:] if not word.startswith("-")]
    for folder in folders[:1]:
        folder.mkdir(parents=True, exist_ok=True)
        for number, frame in enumerate(seeds()):
            (folder / f"seed_{number:04d}").write_bytes(frame)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
