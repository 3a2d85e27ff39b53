"""Cost of ``a2perf.evaluate`` above ``a2perf run`` of the same folder, and of scores in Python beside ``a2perf score``.

``python perf/python_api.py [--json] [--repeats N]``. Medians over fresh processes (import included) and over calls in
one process. Every evaluation is a new run; the policy is a function, so it is pickled and written each time. Scores are
of ``results/recorded``, in processor time, with an empty cache of scores and with a full one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TASK = "difficulty_level_1_num_websites_1"
SETTINGS = ("Submission.num_inference_steps = 100", "Submission.record_frames = 0")
TARGET_S = 1.5

SCRIPT = """
import sys
import a2perf

def first(observation):
    return 0

result = a2perf.evaluate(
    first, {task!r}, episodes=5, bindings={settings!r}, root_dir=sys.argv[1], progress=False, sandbox="process"
)
print(result.mean_return)
"""


def run_script(script: Path, root: Path) -> None:
    subprocess.run([sys.executable, str(script), str(root)], check=True, stdout=subprocess.DEVNULL)


def run_command(submission: Path, root: Path) -> None:
    bindings = (*SETTINGS, "Submission.num_inference_episodes = 5")
    subprocess.run(
        [
            str(Path(sys.executable).parent / "a2perf"),
            "run",
            "--submission",
            str(submission),
            "--gin-config",
            "inference.gin",
            "--task",
            TASK,
            "--seed",
            "0",
            "--root-dir",
            str(root),
            "--sandbox",
            "process",
            *(word for binding in bindings for word in ("--gin-bindings", binding)),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def first(observation: Any) -> int:
    return 0


def call(root: Path) -> None:
    import a2perf

    result = a2perf.evaluate(
        first, TASK, episodes=5, bindings=SETTINGS, root_dir=root, progress=False, sandbox="process"
    )
    assert len(result.returns) == 5


RECORDED = str(Path(__file__).resolve().parents[1] / "results" / "recorded")
SCORES = f"import a2perf; a2perf.read_runs({RECORDED!r}).scores()"


def processor_seconds(command: list[str], cache: Path) -> float:
    """Returns the processor time of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "A2PERF_CACHE_DIR": str(cache)}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_scores(folder: Path, repeats: int) -> dict[str, float]:
    commands = {
        "a2perf score": [str(Path(sys.executable).parent / "a2perf"), "score", RECORDED, "-o", str(folder)],
        "read_runs().scores()": [sys.executable, "-c", SCORES],
    }
    times: dict[str, list[float]] = {}
    for number in range(repeats):
        for name, command in commands.items():
            cache = folder / f"cache_{name.split()[0]}_{number}"
            for state in ("empty", "full"):
                row = f"{name}, {state} cache (s of processor)"
                times.setdefault(row, []).append(processor_seconds(command, cache))
    return {name: statistics.median(values) for name, values in times.items()}


def seconds(action: Callable[[], None]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def measure(folder: Path, repeats: int) -> dict[str, float]:
    script = folder / "script.py"
    script.write_text(SCRIPT.format(task=TASK, settings=list(SETTINGS)))
    run_script(script, folder / "warm")  # byte code, and the folder that the command runs
    (submission,) = folder.glob("warm/submission-*/first")
    call(folder / "warm_call")
    times: dict[str, list[float]] = {"a2perf run": [], "evaluate, fresh process": [], "evaluate, call": []}
    for number in range(repeats):  # interleaved: a busy moment of the machine hits all three
        place = folder / str(number)
        times["a2perf run"].append(seconds(lambda place=place: run_command(submission, place / "command")))
        times["evaluate, fresh process"].append(seconds(lambda place=place: run_script(script, place / "script")))
        times["evaluate, call"].append(seconds(lambda place=place: call(place / "call")))
    medians = {f"{name} (s)": statistics.median(values) for name, values in times.items()}
    command = medians["a2perf run (s)"]
    for name in ("evaluate, fresh process", "evaluate, call"):
        medians[f"{name}, above a2perf run (s, target {TARGET_S})"] = medians[f"{name} (s)"] - command
    return medians


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    os.environ.setdefault("A2PERF_OFFLINE", "1")
    with tempfile.TemporaryDirectory() as folder:
        numbers = {**measure(Path(folder), options.repeats), **measure_scores(Path(folder), options.repeats)}
    if options.json:
        print(json.dumps(numbers, indent=2))
        return
    for name, value in numbers.items():
        print(f"{name:<75} {value:8.3f}")


if __name__ == "__main__":
    main()
