"""Cost of the wire between evaluator and participant process for one step.

Measures the round trip of ``ParticipantProcess.infer`` with a policy that does nothing, against a bare ping-pong of the
same number of bytes between two processes over a socketpair, in turns in one run. ``--json`` prints machine-readable
numbers. Target: at most 60 us median for the quadruped's observation (160 float32).
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

import numpy as np

from a2perf.sandbox import get_sandbox
from a2perf.submission.evaluator.process.confinement import ProvidedConfinement
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from a2perf.submission.evaluator.process.participant_spec import ParticipantSpec

SUBMISSION = """
import numpy as np
ACTION = np.zeros(12, np.float32)
def load_policy(env, **kwargs): return None
def preprocess_observation(observation): return observation
def infer_once(policy, observation): return ACTION
"""
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


def measure(count: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "entry")
        folder.mkdir()
        for file, text in {
            "inference.py": SUBMISSION,
            "train.py": "",
            "__init__.py": "",
            "requirements.txt": "",
        }.items():
            (folder / file).write_text(text)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--count", type=int, default=5000, help="round trips of the small observation")
    options = parser.parse_args()
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
