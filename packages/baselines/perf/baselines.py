"""Training throughput: ``python packages/baselines/perf/baselines.py [--json] [--tf-python FILE] [BASELINE ...]``.

For each baseline: steps per second of the training run and of its environment alone; the share of the run's time spent
in its environment, measured in the same run around each ``step`` and ``reset``; the ratio of two actors to one. Rates
and shares use processor time between the first and the last point of the learning curve. This excludes start-up and
hardly depends on other load. Two actors over one is wall time and needs two idle processors
(``ratio_of_plain_hashing`` is the ratio that the host reaches at that moment). ``collection`` compares the ways of
stepping several robots with Stable-Baselines3. A baseline without its framework is skipped with the reason.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
TF_PYTHON = str(ROOT.parents[1] / ".venv-tf" / "bin" / "python")
TROT = "QuadrupedLocomotion-SyntheticTrot-v0"
TOY = "CircuitTraining-ToyMacro-v0"
CLASSES = {
    TROT: "a2perf.domains.quadruped_locomotion.environment:QuadrupedLocomotionEnv",
    TOY: "a2perf.domains.circuit_training.environment:CircuitEnv",
}
"""What is timed inside a run."""
TARGET = 1.6  # two actors over one
NEVER = "1000000"


@dataclass(frozen=True)
class Baseline:
    """A training run to measure.

    Attributes:
        framework: what it needs: a module that has to be there.
        env_id: of its environment.
        settings: participant arguments; no evaluation falls into the measured time.
    """

    framework: str
    env_id: str
    settings: dict = field(default_factory=dict)


BASELINES = {
    "sb3_ppo": Baseline(
        "stable_baselines3", TROT, {"total_steps": "6144", "checkpoint_every": NEVER, "evaluation_episodes": "1"}
    ),
    "sb3_sac": Baseline(
        "stable_baselines3",
        TROT,
        {
            "total_steps": "3000",
            "learning_starts": "200",
            "checkpoint_every": NEVER,
            "log_every": "200",
            "evaluation_episodes": "1",
        },
    ),
    "tf_agents_ppo": Baseline("tf_agents", TROT, {"total_steps": "6144", "evaluate_every": NEVER}),
    "tf_agents_sac": Baseline("tf_agents", TROT, {"total_steps": "3000", "evaluate_every": NEVER}),
    "tf_agents_ddqn": Baseline("tf_agents", TOY, {"total_steps": "3000", "evaluate_every": NEVER}),
}


def main() -> None:
    """Measures the requested baselines and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("baselines", nargs="*", metavar="BASELINE", help=f"all by default: {', '.join(BASELINES)}")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tf-python", default=TF_PYTHON, help="see `make frameworks`")
    given = parser.parse_args()
    if unknown := sorted(set(given.baselines) - {*BASELINES, "collection"}):
        parser.error(f"no baseline {', '.join(unknown)}")
    wanted = given.baselines or [*BASELINES, "collection"]
    results, skipped, environments = {}, {}, {}
    for name in wanted:
        python, reason = interpreter("sb3_ppo" if name == "collection" else name, given.tf_python)
        if reason:
            skipped[name] = reason
            continue
        if name == "collection":
            results[name] = collection()
            continue
        baseline = BASELINES[name]
        if baseline.env_id not in environments:
            environments[baseline.env_id] = environment_rate(baseline.env_id)
        try:
            (rate, one, share), (_, two, _) = (training_rate(name, python, actors) for actors in (1, 2))
        except RuntimeError as error:
            skipped[name] = f"failed: {error}"
            continue
        alone = environments[baseline.env_id]
        results[name] = {
            "steps_per_s": rate,
            "environment_steps_per_s": alone,
            "share_of_environment": share,
            "two_actors_over_one": two / one,
            "ratio_of_plain_hashing": host_ratio(),
        }
    if given.json:
        print(json.dumps({"results": results, "skipped": skipped}, indent=1))
        return
    for name, values in results.items():
        print(f"{name}:")
        for key, value in values.items():
            mark = f"   (target {TARGET})" if key == "two_actors_over_one" else ""
            print(f"  {key:32s} {value:10.3g}{mark}")
    for name, reason in skipped.items():
        print(f"{name}: SKIPPED, {reason}")


def interpreter(name: str, tf_python: str) -> tuple[str, str]:
    """Returns the Python that can run a baseline, or why there is none."""
    framework = BASELINES[name].framework
    if not (ROOT / "examples" / name / "train.py").is_file():
        return "", f"there is no example {name}"
    if importlib.util.find_spec(framework) is not None:
        return sys.executable, ""
    if framework != "tf_agents" or not os.access(tf_python, os.X_OK):
        return "", f"{framework} is not installed (`make frameworks`)"
    return tf_python, ""


PROBE = """
import functools, importlib, json, os, runpy, sys, threading, time
from a2perf_baselines.learning import TrainingRun
points, log, lock, spent = [], TrainingRun.log, threading.Lock(), [0.0]
def logging(self, values, step):
    log(self, values, step)
    points.append((step, time.process_time(), time.perf_counter(), spent[0]))
def timed(call):
    @functools.wraps(call)
    def timing(*given, **named):
        started = time.thread_time()
        try:
            return call(*given, **named)
        finally:
            with lock:
                spent[0] += time.thread_time() - started
    return timing
TrainingRun.log = logging
module, name = os.environ["ENVIRONMENT"].split(":")
kind = getattr(importlib.import_module(module), name)
kind.step, kind.reset = timed(kind.step), timed(kind.reset)
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    json.dump(points, open(os.environ["POINTS"], "w"))
"""


def training_rate(name: str, python: str, actors: int) -> tuple[float, float, float]:
    """Trains; returns steps per second of the process's time and of wall time, and the environment's share.

    The share is that of the process's time, of one actor: the threads of several are in it, their processes are not.
    Points of the curve count up to the first evaluation, which only comes at the end.
    """
    baseline = BASELINES[name]
    with tempfile.TemporaryDirectory() as folder:
        arguments = [f"{key}={value}" for key, value in {**baseline.settings, "actors": actors}.items()]
        points = Path(folder) / "points.json"
        done = subprocess.run(
            [
                python,
                "-c",
                PROBE,
                str(ROOT / "examples" / name / "train.py"),
                "--env-id",
                baseline.env_id,
                "--output",
                f"{folder}/run",
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "POINTS": str(points),
                "ENVIRONMENT": CLASSES[baseline.env_id],
            },
        )
        if done.returncode:
            raise RuntimeError((done.stderr.strip() or "no message").splitlines()[-1])
        seen = {step: (cpu, wall, spent) for step, cpu, wall, spent in reversed(json.loads(points.read_text()))}
    if len(seen) < 2:
        raise RuntimeError("the training logged fewer than two points")
    first, last = min(seen), max(seen)
    cpu, wall, spent = (after - before for after, before in zip(seen[last], seen[first], strict=True))
    return (last - first) / cpu, (last - first) / wall, spent / cpu


def environment_rate(env_id: str, steps: int = 2000) -> float:
    """Steps per second of processor time of one environment without a learner, with actions like a training's.

    A robot that only stands touches the ground with all feet for 600 steps, which costs more than the steps of one that
    walks and falls.
    """
    from a2perf.domains.tfa.suite_gym import make_environment
    from a2perf_baselines.quadruped_locomotion.residual_control import ResidualControl

    kwargs = {"mode": "test"} if env_id == TROT else {}
    with make_environment(env_id, kwargs) as env:
        rng, control = np.random.default_rng(0), ResidualControl()
        observation, info = env.reset(seed=0)
        taken, started = 0, 0.0
        for number in range(steps + 200):
            if number == 200:  # what is compiled on first use is
                taken, started = 0, time.process_time()
            mask = info.get("action_mask")
            if mask is None:
                noise = rng.normal(scale=0.1, size=env.action_space.shape)
                action = np.clip(control.reference(observation) + noise, -6.28, 6.28).astype(np.float32)
            else:
                action = int(rng.choice(np.flatnonzero(mask)))
            observation, _, terminated, truncated, info = env.step(action)
            taken += 1
            if terminated or truncated:
                observation, info = env.reset()
        return taken / (time.process_time() - started)


def collection() -> dict:
    """Two robots in threads of one process and in separate processes, in turn; steps/s and two over one."""
    from stable_baselines3.common.vec_env import SubprocVecEnv

    from a2perf_baselines.quadruped_locomotion.sb3_training import QuadrupedSettings, robots, single_robot

    def threads(count: int):
        return robots(TROT, {}, QuadrupedSettings(robots=2, actors=count))

    def processes(count: int):
        make = [lambda: single_robot(TROT, {}, QuadrupedSettings())] * count
        return SubprocVecEnv(make, start_method="fork")

    best = {}
    kinds = {"threads": threads, "processes": processes}
    for kind, make in kinds.items():
        envs = {count: make(count) for count in (1, 2)}
        for repeat in range(4):
            for count, env in envs.items():
                env.seed(0)
                env.reset()
                action = np.zeros((env.num_envs, 12), np.float32)
                started = time.perf_counter()
                for _ in range(150):
                    env.step(action)
                rate = env.num_envs * 150 / (time.perf_counter() - started)
                if repeat:
                    best[kind, count] = max(best.get((kind, count), 0.0), rate)
        for env in envs.values():
            env.close()
    values = {}
    for kind in kinds:
        values[f"{kind}_steps_per_s"] = best[kind, 2]
        values[f"two_{kind}_over_one"] = best[kind, 2] / best[kind, 1]
    values["threads_over_processes"] = best["threads", 2] / best["processes", 2]
    values["ratio_of_plain_hashing"] = host_ratio()
    return values


def host_ratio() -> float:
    """Ratio of two threads to one on this host at this moment, for work outside the interpreter."""
    block = bytes(40_000_000)

    def hashed(count: int) -> float:
        workers = [threading.Thread(target=lambda: hashlib.sha256(block).digest()) for _ in range(count)]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return count / (time.perf_counter() - started)

    return max(hashed(2) for _ in range(3)) / max(hashed(1) for _ in range(3))


if __name__ == "__main__":
    main()
