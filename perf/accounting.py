"""Recorded processor time of programs of known work, as ratios to what the programs count themselves.

``python perf/accounting.py [--json]``. Each program trains for about 2 s of processor time, and counts the time of its
processes with ``getrusage`` right before they end. The recorded time should differ by at most 2 % with a control group
(level 'process') and 5 % without one (level 'none'), on an idle machine and beside two busy processes. The last row is
an evaluation: recorded processor time of the scored steps over that of the policy's calls.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

TRAIN = '''
import atexit, hashlib, os, pathlib, resource, threading, time

BLOCK = bytes(1 << 20)  # hashing it releases the lock of the interpreter, so threads work at the same time

def burn(seconds, clock=time.process_time):
    end = clock() + seconds
    while clock() < end:
        hashlib.sha256(BLOCK)

def leave():
    """Counts this process and its children at the last moment, and ends it."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(usage.ru_utime + usage.ru_stime for usage in used)
    (pathlib.Path(os.environ["A2PERF_ARTIFACTS"]) / f"used-{os.getpid()}").write_text(repr(seconds))
    os._exit(0)

def one_thread():
    burn(2.0)

def two_threads():
    threads = [threading.Thread(target=burn, args=(1.0, time.thread_time)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def sleeping_between_steps():
    for _ in range(100):
        burn(0.02)
        time.sleep(0.02)

def children_that_exit():
    for _ in range(40):
        child = os.fork()
        if child == 0:
            burn(0.05)
            os._exit(0)
        os.waitpid(child, 0)

def double_fork():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            burn(2.0)
            os.write(write, b"x")
            leave()
        os._exit(0)
    os.waitpid(child, 0)
    os.read(read, 1)
    time.sleep(0.2)  # until it has counted itself

def work_after_the_answer():
    atexit.register(burn, 0.5)  # a process has five seconds for its end, however busy the machine is
    burn(1.5)

def train(program):
    atexit.register(leave)  # the first registered is the last one called
    globals()[program]()
'''
PROGRAMS = (
    "one_thread",
    "two_threads",
    "sleeping_between_steps",
    "children_that_exit",
    "double_fork",
    "work_after_the_answer",
)
INFERENCE = """
import atexit, os, pathlib, time

calls = []

@atexit.register
def count():
    pathlib.Path(os.environ["A2PERF_ARTIFACTS"], "used-calls").write_text(repr(sum(calls)))

def load_policy(env, **arguments):
    return None

def preprocess_observation(observation):
    return observation

def infer_once(policy, observation):
    began = time.process_time()
    while time.process_time() < began + 0.02:
        pass
    action = int(observation[2] + 0.5 * observation[3] > 0)
    calls.append(time.process_time() - began)
    return action
"""
GIN = """
import a2perf.submission.submission_util
Submission.mode = {mode!r}
Submission.domain = 'gymnasium'
Submission.num_inference_episodes = 1
Submission.num_inference_steps = 0
Submission.record_frames = 0
create_domain.env_name = 'CartPole-v1'
create_domain.max_episode_steps = 100
"""
LEVELS = {"with a control group": "process", "without": "none"}


def run(folder: Path, mode: str, level: str, *arguments: str) -> Path:
    """Runs the submission through the command line; returns its bundle."""
    entry, root = folder / "entry", folder / f"{mode}-{level}-{'-'.join(arguments)}"
    entry.mkdir(exist_ok=True)
    (entry / "train.py").write_text(TRAIN)
    (entry / "inference.py").write_text(INFERENCE)
    for name in ("__init__.py", "requirements.txt"):
        (entry / name).touch()
    (folder / f"{mode}.gin").write_text(GIN.format(mode=mode))
    command = [
        sys.executable,
        "-m",
        "a2perf",
        "run",
        "--submission",
        str(entry),
        "--gin-config",
        str(folder / f"{mode}.gin"),
        "--root-dir",
        str(root),
        "--sandbox",
        level,
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return root / mode


def used_s(bundle: Path) -> float:
    """Returns the processor time that the processes of a program have counted."""
    return sum(float(file.read_text()) for file in (bundle / "artifacts").glob("used-*"))


def training_ratio(folder: Path, program: str, level: str) -> tuple[float, str]:
    """Returns recorded over used processor time of a program, and the account that counted it."""
    bundle = run(folder, "train", level, "--participant-args", f"program={program}")
    report = json.loads((bundle / "metrics" / "tracking.json").read_text())
    return report["cpu_seconds"] / used_s(bundle), report["account"]["cpu"]


def steps_ratio(folder: Path, level: str) -> tuple[float, str]:
    """Returns the recorded time of scored steps over that of the policy's calls, and the account that counted it."""
    bundle = run(folder, "inference", level)
    costs = json.loads((bundle / "metrics" / "rollouts.json").read_text())["costs"]
    return costs["tree_s"] * costs["steps"] / used_s(bundle), costs["account"]


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keeps so many processes busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    for load in (0, 2):
        with busy(load), tempfile.TemporaryDirectory() as work:
            for level in LEVELS.values():
                for program in (*PROGRAMS, "scored steps"):
                    folder = Path(work)
                    found = steps_ratio(folder, level) if program not in PROGRAMS else None
                    ratio, account = found or training_ratio(folder, program, level)
                    rows.append({"busy": load, "program": program, "account": account, "ratio": ratio})
                    if not given.json:
                        print(f"{program:25s} {account:22s} {load} busy processes  {ratio:.4f}", flush=True)
    if given.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
