"""Cost of the wire between evaluator and participant process for one step.

Measures the round trip of ``ParticipantProcess.infer`` with a policy that does nothing, against a bare ping-pong of the
same number of bytes between two processes over a socketpair, in turns in one run. ``--json`` prints machine-readable
numbers, ``--parts`` where a round trip goes. Target: at most 20 us median for the quadruped's observation
(160 float32).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.sandbox import get_sandbox
from a2perf.submission.evaluator.process.confinement import ProvidedConfinement
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from a2perf.submission.evaluator.process.participant_spec import ParticipantSpec
from a2perf.submission.participant.wire import Connection

SUBMISSION = """
import numpy as np
ACTION = np.zeros(12, np.float32)
def load_policy(env, **kwargs): return None
def preprocess_observation(observation): return observation
def infer_once(policy, observation): return ACTION
"""
MARKED = f"""{SUBMISSION}
import atexit, time
from a2perf.submission.participant.wire import Connection
MARKS, INTO, SEND, CLOCK = [], Connection._receive_into, Connection.send, time.perf_counter_ns
def receive_into(self, *given):
    count = INTO(self, *given)
    MARKS.append(CLOCK())
    return count
def send(self, *given, **named):
    SEND(self, *given, **named)
    MARKS.append(CLOCK())
def infer_once(policy, observation):
    MARKS.append(CLOCK())
    return ACTION
def load_policy(env, **kwargs):
    Connection._receive_into, Connection.send = receive_into, send
    atexit.register(lambda: print(*MARKS))
"""
PARTS = ("copy to shared memory", "send and wake", "copy from shared memory", "answer", "wake back", "check")
REPLY_BYTES = 90
OBSERVATIONS = {
    "quadruped, 160 float32": np.zeros(160, np.float32),
    "image, 84x84x3 uint8": np.zeros((84, 84, 3), np.uint8),
    "graph, dict of 1 MB": {name: np.zeros(62_500, np.float32) for name in "abcd"},
}


def bare(size: int, count: int) -> list[float]:
    """Round trips of ``size`` bytes forth and a small answer back, in microseconds."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    child = os.fork()
    if child == 0:
        ours.close()
        view = memoryview(bytearray(size))
        while True:
            done = 0
            while done < size:
                part = theirs.recv_into(view[done:])
                if part == 0:
                    os._exit(0)
                done += part
            theirs.sendall(bytes(REPLY_BYTES))
    theirs.close()
    request, reply, times = bytes(size), bytearray(REPLY_BYTES), []
    for _ in range(count):
        started = time.perf_counter_ns()
        ours.sendall(request)
        done = 0
        while done < REPLY_BYTES:
            done += ours.recv_into(memoryview(reply)[done:])
        times.append((time.perf_counter_ns() - started) / 1e3)
    ours.close()
    os.waitpid(child, 0)
    return times


def _submission(folder: Path, inference: str) -> Path:
    folder.mkdir()
    for file, text in {"inference.py": inference, "train.py": "", "__init__.py": "", "requirements.txt": ""}.items():
        (folder / file).write_text(text)
    return folder


def measure(count: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as name:
        folder = _submission(Path(name, "entry"), SUBMISSION)
        results = {}
        started = time.perf_counter()
        spec = ParticipantSpec(submission=folder, logs=Path(name, "logs"))
        with ParticipantProcess(spec, ProvidedConfinement(sandbox=get_sandbox("process"))) as participant:
            participant.start()
            ready_ms = (time.perf_counter() - started) * 1e3
            participant.load_policy({})
            loaded_ms = (time.perf_counter() - started) * 1e3
            for label, observation in OBSERVATIONS.items():
                arrays = observation.values() if isinstance(observation, dict) else [observation]
                size = sum(array.nbytes for array in arrays)
                rounds = max(200, min(count, count * 2000 // size))
                ours: list[float] = []
                theirs: list[float] = []
                for _ in range(5):  # in turns: other load on the host affects both alike
                    ours += [participant.infer(observation).round_trip_ns / 1e3 for _ in range(rounds // 5)]
                    theirs += bare(size, rounds // 5)
                results[label] = {
                    "bytes": size,
                    "median_us": statistics.median(ours),
                    "p99_us": float(np.percentile(ours, 99)),
                    "bare_median_us": statistics.median(theirs),
                    "ratio": statistics.median(ours) / statistics.median(theirs),
                }
    results["start"] = {"ready_ms": ready_ms, "policy_loaded_ms": loaded_ms}
    return results


class _MarkedSocket:
    """Notes when a message is about to be sent."""

    def __init__(self, below: socket.socket, marks: list[int]) -> None:
        self._below, self._marks = below, marks

    def send(self, *given: Any) -> int:
        self._marks.append(time.perf_counter_ns())
        return self._below.send(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


def parts(observation: Any, count: int, sandbox: str) -> dict[str, float]:
    """Returns the mean microseconds of the parts of the fastest quarter of round trips; the others had to wait."""
    marks: list[int] = []

    def receive_into(self: Connection, *given: Any) -> int:
        received = into(self, *given)
        marks.append(time.perf_counter_ns())
        return received

    with tempfile.TemporaryDirectory() as name:
        folder = _submission(Path(name, "entry"), MARKED)
        spec = ParticipantSpec(submission=folder, logs=Path(name, "logs"))
        with ParticipantProcess(spec, ProvidedConfinement(sandbox=get_sandbox(sandbox))) as participant:
            participant.start()
            participant.load_policy({})
            into, Connection._receive_into = Connection._receive_into, receive_into  # type: ignore[method-assign]
            participant._connection._socket = _MarkedSocket(participant._connection._socket, marks)  # type: ignore
            for _ in range(count):
                marks.append(time.perf_counter_ns())
                participant.infer(observation)
                marks.append(time.perf_counter_ns())
            Connection._receive_into = into  # type: ignore[method-assign]
        theirs = np.array(Path(name, "logs", "stdout.log").read_text().split(), np.int64)
    ours = np.array(marks[: 4 * count], np.int64).reshape(count, 4)
    theirs = theirs[1 : 1 + 3 * count].reshape(count, 3)  # after the answer to load_policy
    times = np.diff(np.hstack([ours[:, :2], theirs, ours[:, 2:]]), axis=1) / 1e3
    fastest = times[np.argsort(times.sum(axis=1))[: count // 4]]
    return dict(zip(PARTS, fastest.mean(axis=0).round(1).tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--count", type=int, default=5000, help="round trips of the small observation")
    parser.add_argument("--parts", action="store_true", help="print where a round trip goes, in microseconds")
    parser.add_argument("--sandbox", default="bubblewrap", help="the level, with --parts")
    options = parser.parse_args()
    if options.parts:
        for label, observation in OBSERVATIONS.items():
            print(label, parts(observation, options.count, options.sandbox), flush=True)
        return
    results = measure(options.count)
    if options.json:
        json.dump(results, sys.stdout, indent=2)
        print()
        return
    start = results.pop("start")
    print(f"process ready after {start['ready_ms']:.0f} ms, policy loaded after {start['policy_loaded_ms']:.0f} ms\n")
    print(f"{'observation':26}{'bytes':>10}{'median us':>12}{'p99 us':>10}{'bare us':>10}{'ratio':>8}")
    for label, row in results.items():
        print(
            f"{label:26}{row['bytes']:>10,.0f}{row['median_us']:>12.1f}{row['p99_us']:>10.1f}"
            f"{row['bare_median_us']:>10.1f}{row['ratio']:>8.2f}"
        )


if __name__ == "__main__":
    main()
