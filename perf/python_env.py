"""Costs of a submission's isolated environment: building it, reusing it, and starting a participant in it.

Needs the package index, or the packages in uv's cache. Ratios are against a participant with the evaluator's packages.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

REPETITIONS = 5


def _start_s(submission: Path, folder: Path, env: object | None) -> float:
    from a2perf.sandbox import get_sandbox
    from a2perf.submission.evaluator.process.confinement import ProvidedConfinement
    from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
    from a2perf.submission.evaluator.process.participant_spec import ParticipantSpec

    python, files = (None, ()) if env is None else (env.python, env.readable)
    started = time.perf_counter()
    spec = ParticipantSpec(submission=submission, python=python, python_files=files, logs=folder / "logs")
    with ParticipantProcess(spec, ProvidedConfinement(sandbox=get_sandbox("process"))) as process:
        process.start()
        return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="a2perf-perf-"))
    os.environ["A2PERF_CACHE_DIR"] = str(folder / "cache")
    from a2perf.submission.evaluator import python_env

    submission = Path(__file__).resolve().parents[1] / "templates" / "submission"
    recipe = python_env.Recipe(
        python_env.read_requirements(submission / "requirements.txt"),
        ("web-navigation",),
        python_env.find_interpreter(),
        python_env.Sources(),
    )
    try:
        started = time.perf_counter()
        with python_env.environment(recipe, folder / "log"):
            built = time.perf_counter() - started
        reuse = []
        for _ in range(REPETITIONS):
            started = time.perf_counter()
            with python_env.environment(recipe, folder / "log"):
                reuse.append(time.perf_counter() - started)
        (listed,) = python_env.list_environments()
        with python_env.environment(recipe, folder / "log") as env:
            isolated = [_start_s(submission, folder, env) for _ in range(REPETITIONS)]
        shared = [_start_s(submission, folder, None) for _ in range(REPETITIONS)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result = {
        "build_s": built,
        "reuse_s": statistics.median(reuse),
        "size_bytes": listed.size_bytes,
        "start_isolated_s": statistics.median(isolated),
        "start_shared_s": statistics.median(shared),
        "start_ratio": statistics.median(isolated) / statistics.median(shared),
        "load": os.getloadavg()[0],
    }
    if asked.json:
        print(json.dumps(result, indent=2))
        return
    print(f"build                       {result['build_s']:8.2f} s   ({result['size_bytes'] / 1e6:.0f} MB)")
    print(f"use again                   {result['reuse_s'] * 1e3:8.1f} ms")
    print(f"start, isolated             {result['start_isolated_s'] * 1e3:8.1f} ms")
    print(f"start, shared               {result['start_shared_s'] * 1e3:8.1f} ms")
    print(f"start, isolated / shared    {result['start_ratio']:8.2f}     (load {result['load']:.1f})")


if __name__ == "__main__":
    main()
