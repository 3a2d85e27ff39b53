"""Costs of confinement: the start of a participant process, the round trip of a step, and the time to the first step.

Every level that this host offers is measured against ``none`` in the same run, in turns: other load on the host affects
all levels alike. "quiet" is the first quartile, which other load hardly changes. The docker level needs an engine
(``DOCKER_HOST``). Targets: a sandboxed start at most 150 ms over an unsandboxed one; a round trip within 5 %.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from a2perf.sandbox import available_levels, get_sandbox
from a2perf.submission.evaluator.process.confinement import ProvidedConfinement
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from a2perf.submission.evaluator.process.participant_spec import ParticipantSpec

BASELINE = "none"
INFERENCE = """
import os, pathlib, time
import numpy as np
ACTION = np.zeros(12, np.float32)
FIRST = []
def load_policy(env, **kwargs): return None
def preprocess_observation(observation): return observation
def infer_once(policy, observation):
    if not FIRST:
        FIRST.append(time.time())
        pathlib.Path(os.environ["A2PERF_ARTIFACTS"], "first").write_text(repr(FIRST[0]))
    return ACTION
"""
GIN = """
import a2perf.submission.submission_util
Submission.mode = %BenchmarkMode.INFERENCE
Submission.domain = %BenchmarkDomain.QUADRUPED_LOCOMOTION
Submission.num_inference_episodes = 1
Submission.time_participant_code = False
Submission.record_frames = 0
create_domain.env_name = 'QuadrupedLocomotion-SyntheticTrot-v0'
"""
OBSERVATION = np.zeros(160, np.float32)


def start_ms(entry: Path, folder: Path, level: str) -> dict[str, float]:
    """Starts and ends one participant process.

    Returns:
        Milliseconds until it answers, until its first action and until it has ended; and the processor time of this
        process and its children for that, which other load on the host hardly changes.
    """
    used = processor_s()
    artifacts = folder / "artifacts"
    artifacts.mkdir(exist_ok=True)
    began = time.perf_counter()
    spec = ParticipantSpec(submission=entry, artifacts=artifacts, logs=folder / "logs")
    with ParticipantProcess(spec, ProvidedConfinement(sandbox=get_sandbox(level))) as participant:
        participant.start()
        ready = time.perf_counter()
        participant.load_policy({})
        participant.infer(OBSERVATION)
        first = time.perf_counter()
    return {
        "ready_ms": (ready - began) * 1e3,
        "first_action_ms": (first - began) * 1e3,
        "end_ms": (time.perf_counter() - first) * 1e3,
        "cpu_ms": (processor_s() - used) * 1e3,
    }


def processor_s() -> float:
    """Returns the processor time of this process and of the children that it has reaped."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def round_trips_us(entry: Path, folder: Path, levels: list[str], count: int) -> dict[str, list[float]]:
    """Returns the round trips of one process per level, in turns."""
    times: dict[str, list[float]] = {level: [] for level in levels}
    processes = {}
    try:
        for level in levels:
            artifacts = folder / f"artifacts-{level}"
            artifacts.mkdir()
            spec = ParticipantSpec(submission=entry, artifacts=artifacts, logs=folder / f"logs-{level}")
            process = ParticipantProcess(spec, ProvidedConfinement(sandbox=get_sandbox(level)))
            process.start()
            process.load_policy({})
            processes[level] = process
        for _ in range(count // 50):
            for level, process in processes.items():
                for _ in range(10):
                    process.infer(OBSERVATION)
                times[level] += [process.infer(OBSERVATION).round_trip_ns / 1e3 for _ in range(50)]
    finally:
        for process in processes.values():
            process.close()
    return times


def first_step_s(entry: Path, folder: Path, level: str) -> float:
    """Returns the seconds from the command ``a2perf-launch`` to the first step."""
    began = time.time()
    subprocess.run(
        [
            sys.executable,
            "-c",
            "from a2perf.cli import launch_main; launch_main()",
            "--submission",
            str(entry),
            "--gin-config",
            "inference.gin",
            "--root-dir",
            str(folder / "run"),
            "--sandbox",
            level,
            "--force",
        ],
        check=True,
        capture_output=True,
    )
    return float((folder / "run" / "inference" / "artifacts" / "first").read_text()) - began


def measure(rounds: int, count: int) -> dict[str, dict[str, float]]:
    levels = available_levels()
    starts: dict[str, list[dict[str, float]]] = {level: [] for level in levels}
    steps: dict[str, list[float]] = {level: [] for level in levels}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entry = folder / "entry"
        entry.mkdir()
        for file, text in {
            "inference.py": INFERENCE,
            "train.py": "",
            "__init__.py": "",
            "requirements.txt": "",
            "inference.gin": GIN,
        }.items():
            (entry / file).write_text(text)
        for turn in range(rounds + 1):
            for level in levels:
                values = start_ms(entry, folder, level)
                if turn:  # the first turn compiles files and builds the image
                    starts[level].append(values)
        for _ in range(max(1, rounds // 3)):
            for level in levels:
                steps[level].append(first_step_s(entry, folder, level))
        trips = round_trips_us(entry, folder, levels, count)
    results = {}
    for level in levels:
        row = {key: statistics.median(start[key] for start in starts[level]) for key in starts[level][0]}
        row["fastest_ready_ms"] = min(start["ready_ms"] for start in starts[level])
        row["command_to_first_step_s"] = statistics.median(steps[level])
        row["round_trip_us"] = statistics.median(trips[level])
        row["quiet_round_trip_us"] = float(np.percentile(trips[level], 25))
        results[level] = row
    base = results[BASELINE]
    for row in results.values():
        row["start_over_none_ms"] = row["ready_ms"] - base["ready_ms"]
        row["cpu_over_none_ms"] = row["cpu_ms"] - base["cpu_ms"]
        row["round_trip_ratio"] = row["round_trip_us"] / base["round_trip_us"]
        row["quiet_ratio"] = row["quiet_round_trip_us"] / base["quiet_round_trip_us"]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=9, help="starts per level")
    parser.add_argument("--count", type=int, default=4000, help="round trips per level")
    options = parser.parse_args()
    results = measure(options.rounds, options.count)
    if options.json:
        json.dump(results, sys.stdout, indent=2)
        print()
        return
    columns = (
        "ready_ms",
        "fastest_ready_ms",
        "start_over_none_ms",
        "cpu_ms",
        "cpu_over_none_ms",
        "first_action_ms",
        "end_ms",
        "round_trip_us",
        "round_trip_ratio",
        "quiet_round_trip_us",
        "quiet_ratio",
        "command_to_first_step_s",
    )
    print(f"{'':26}" + "".join(f"{level:>14}" for level in results))
    for name in columns:
        print(f"{name:26}" + "".join(f"{row[name]:14.2f}" for row in results.values()))


if __name__ == "__main__":
    main()
