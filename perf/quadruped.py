"""Speed, memory and fidelity of quadruped locomotion: ``python perf/quadruped.py [--json] [--episodes N] [PART ...]``.

Parts: ``speed`` (ratios to bare ``stepSimulation`` over the very same sub-steps), ``threads``, ``mujoco``, ``memory``,
``policies`` (the published policies in both engines). All by default. Rates are per second of the thread's processor
time, which a busy machine hardly distorts; the two-thread ratios are wall time and need two idle processors
(``ratio_of_plain_hashing`` is the ratio that the host reaches at that moment).
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time

import numpy as np

from a2perf import assets
from a2perf.domains.quadruped_locomotion import ASSETS

STEPS = 40  # control steps per measured piece
PIECES = 25
GAITS = ("pace", "trot", "spin")


def actions(count):
    """Small periodic actions that keep the robot on its feet."""
    step = np.arange(count)[:, None]
    return (0.1 * np.sin(2 * np.pi * 1.5 * 0.033 * step + np.arange(12) * np.pi / 6)).astype(np.float32)


def timed(work):
    start = time.thread_time()
    work()
    return time.thread_time() - start


class StepTimer:
    """Replaces the PyBullet module and times every ``stepSimulation``."""

    def __init__(self, module):
        self._module, self.seconds = module, 0.0

    def __getattr__(self, name):
        return getattr(self._module, name)

    def stepSimulation(self, **kwargs):  # noqa: N802 - PyBullet's name
        start = time.thread_time()
        self._module.stepSimulation(**kwargs)
        self.seconds += time.thread_time() - start


def speed():
    """Rates of the native and the Python loop beside bare physics, piece by piece in turn."""
    from a2perf.domains.quadruped_locomotion.environment import QuadrupedLocomotionEnv

    envs = {
        loop: QuadrupedLocomotionEnv(clip="synthetic_trot", mode="test", physics_loop=loop)
        for loop in ("native", "python")
    }
    probe = QuadrupedLocomotionEnv(clip="synthetic_trot", mode="test", physics_loop="python")
    timer = probe._physics._bullet = StepTimer(probe._physics._bullet)
    moves = actions(STEPS)

    def run(env):
        for move in moves:
            env.step(move)

    rates = {name: [] for name in ("bare", *envs)}
    for piece in range(PIECES + 1):
        for env in (probe, *envs.values()):
            env.reset(seed=piece, options={"phase": 0.0})
        timer.seconds = 0.0
        run(probe)
        seconds = {"bare": timer.seconds, **{name: timed(lambda env=env: run(env)) for name, env in envs.items()}}
        if piece:  # the first one compiles
            for name, value in seconds.items():
                rates[name].append(STEPS / value)
    for env in (probe, *envs.values()):
        env.close()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    start = time.perf_counter()
    QuadrupedLocomotionEnv(clip="synthetic_trot", mode="test").close()
    return {
        "bare_steps_per_s": medians["bare"],
        "native_steps_per_s": medians["native"],
        "python_steps_per_s": medians["python"],
        "native_to_bare": statistics.median(n / b for n, b in zip(rates["native"], rates["bare"], strict=True)),
        "python_to_bare": statistics.median(n / b for n, b in zip(rates["python"], rates["bare"], strict=True)),
        "make_and_close_s": time.perf_counter() - start,
    }


def host_ratio():
    """Ratio of two threads to one on this host at this moment, for work outside the interpreter."""
    block = bytes(40_000_000)

    def hashed(count):
        workers = [threading.Thread(target=lambda: hashlib.sha256(block).digest()) for _ in range(count)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return count / (time.perf_counter() - start)

    return max(hashed(2) for _ in range(5)) / max(hashed(1) for _ in range(5))


def thread_ratio(make, count):
    """Wall-clock rate of two threads over that of one, the same number of members; best of five."""
    best = {}
    envs = {threads: make(count, threads=threads, clip="synthetic_trot", mode="test") for threads in (1, 2)}
    moves = actions(STEPS)
    for _ in range(5):
        for threads, env in envs.items():
            env.reset(seed=0)
            start = time.perf_counter()
            for move in moves:
                env.step(np.tile(move, (count, 1)))
            best[threads] = max(best.get(threads, 0.0), count * STEPS / (time.perf_counter() - start))
    for env in envs.values():
        env.close()
    return {
        "one_thread_steps_per_s": best[1],
        "two_threads_steps_per_s": best[2],
        "ratio": best[2] / best[1],
        "ratio_of_plain_hashing": host_ratio(),
    }


def threads():
    """Two threads over one, with the native loop."""
    from a2perf.domains.quadruped_locomotion.vector import ThreadedVectorEnv

    return thread_ratio(ThreadedVectorEnv, 2)


def mujoco():
    """The MuJoCo twin over the PyBullet Python loop on one processor, and two threads over one."""
    from a2perf.domains.quadruped_locomotion.environment import QuadrupedLocomotionEnv
    from a2perf.domains.quadruped_locomotion.physics.mujoco_twin import MuJoCoQuadrupedEnv
    from a2perf.domains.quadruped_locomotion.vector import make_mujoco_vector_env

    envs = {
        "mujoco": MuJoCoQuadrupedEnv(clip="synthetic_trot", mode="test"),
        "python": QuadrupedLocomotionEnv(clip="synthetic_trot", mode="test", physics_loop="python"),
    }
    moves = actions(STEPS)
    rates = {name: [] for name in envs}
    for piece in range(PIECES + 1):
        for name, env in envs.items():
            env.reset(seed=piece, options={"phase": 0.0})
            seconds = timed(lambda env=env: [env.step(move) for move in moves])
            if piece:
                rates[name].append(STEPS / seconds)
    for env in envs.values():
        env.close()
    return {
        "mujoco_steps_per_s": statistics.median(rates["mujoco"]),
        "python_steps_per_s": statistics.median(rates["python"]),
        "mujoco_to_python": statistics.median(m / p for m, p in zip(rates["mujoco"], rates["python"], strict=True)),
        "two_threads": thread_ratio(make_mujoco_vector_env, 32),
    }


MEMORY = """
import gc, json, sys, time
def used():
    gc.collect()
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    number = {line.split()[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
    return number["Rss:"], number["Private_Dirty:"] + number["Private_Clean:"]
import gymnasium, numpy
import a2perf.domains as domains
domains.domains()
from a2perf.domains import quadruped_locomotion
domains.register_environments()
start = used()
from a2perf.domains.quadruped_locomotion import environment, native_backend
imported = used()
def make():
    env = gymnasium.make("QuadrupedLocomotion-SyntheticTrot-v0", mode="test")
    env.reset(seed=0)
    for _ in range(5):
        env.step(numpy.zeros(12, "f"))
    return env
envs, sizes = [], []
for _ in range(4):
    envs.append(make())
    sizes.append(used())
began = time.perf_counter()
envs.append(gymnasium.make("QuadrupedLocomotion-SyntheticTrot-v0", mode="test"))
make_s = time.perf_counter() - began
for env in envs:
    env.close()
closed = used()
for _ in range(50):
    make().close()
after = used()
print(json.dumps({
    "libraries_rss_mb": imported[0] - start[0],
    "libraries_private_mb": imported[1] - start[1],
    "first_rss_mb": sizes[0][0] - imported[0],
    "first_private_mb": sizes[0][1] - imported[1],
    "further_rss_mb": (sizes[3][0] - sizes[0][0]) / 3,
    "leak_of_50_cycles_mb": after[0] - closed[0],
    "gym_make_s": make_s,
}))
"""


def memory():
    """Memory of environments in a fresh process, MB; libraries (Numba above all) apart from environments."""
    run = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def policies(episodes):
    """Mean return, length and distance of the published policies over test-mode episodes, in both engines."""
    from a2perf.domains.quadruped_locomotion.environment import QuadrupedLocomotionEnv
    from a2perf.domains.quadruped_locomotion.motion.imitation import relative_heading
    from a2perf.domains.quadruped_locomotion.physics.mujoco_twin import MuJoCoQuadrupedEnv
    from a2perf.domains.quadruped_locomotion.pretrained import load_actor

    table = {}
    for engine, kind in (("pybullet", QuadrupedLocomotionEnv), ("mujoco", MuJoCoQuadrupedEnv)):
        for gait in GAITS:
            act = load_actor(assets.fetch(ASSETS[f"policies/dog_{gait}.zip"]))
            env = kind(clip=f"dog_{gait}", mode="test")
            returns, lengths, distances, turns, ends = [], [], [], [], []
            for seed in range(episodes):
                observation, info = env.reset(seed=seed)
                start, heading, turned, total, length, done = info["base_position"], None, 0.0, 0.0, 0, False
                while not done:
                    observation, reward, terminated, truncated, info = env.step(act(observation))
                    total, length, done = total + reward, length + 1, terminated or truncated
                    now = relative_heading(*info["base_orientation"])
                    turned += 0.0 if heading is None else (now - heading + np.pi) % (2 * np.pi) - np.pi
                    heading = now
                returns.append(total)
                lengths.append(length)
                distances.append(float(np.linalg.norm((info["base_position"] - start)[:2])))
                turns.append(turned)
                ends.append(info["termination"])
            whole = [value for value, end in zip(returns, ends, strict=True) if end == "time_limit"]
            table[f"{engine} {gait}"] = {
                "return": float(np.mean(returns)),
                "std": float(np.std(returns)),
                "length": float(np.mean(lengths)),
                "distance_m": float(np.mean(distances)),
                "turn_rad": float(np.mean(turns)),
                "to_the_limit": len(whole),
                "return_of_those": float(np.mean(whole)) if whole else None,
                "early_seeds": [seed for seed, end in enumerate(ends) if end != "time_limit"],
            }
            env.close()
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="speed, threads, mujoco, memory, policies")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--episodes", type=int, default=20)
    given = parser.parse_args()
    parts = {
        "speed": speed,
        "threads": threads,
        "mujoco": mujoco,
        "memory": memory,
        "policies": lambda: policies(given.episodes),
    }
    results = {"load": os.getloadavg()[0], "processors": len(os.sched_getaffinity(0))}
    for name in given.parts or parts:
        results[name] = parts[name]()
    if given.json:
        print(json.dumps(results, indent=1))
        return
    for name, values in results.items():
        if not isinstance(values, dict):
            print(f"{name}: {values}")
            continue
        print(name)
        for key, value in values.items():
            print(f"  {key:<24} {value:.3f}" if isinstance(value, float) else f"  {key:<24} {value}")


if __name__ == "__main__":
    main()
