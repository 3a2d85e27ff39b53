"""Speed of an evaluated step, against the same environment without a2perf.

    python perf/evaluation.py [--json] [--seconds 3] [--rounds 3] [--sandbox bubblewrap] [--sb3]
    python perf/evaluation.py --where     # where an evaluated step goes, in microseconds
    python perf/evaluation.py --batch 16 # 16 episodes per call, against one and against SyncVectorEnv(16)

A policy that always gives the same valid action (the first of the mask) plays the same task in three ways, in turns in
one run: a loop in one process; Gymnasium's ``AsyncVectorEnv`` with one child; ``a2perf.evaluate``, which confines the
policy, checks and hashes what it receives, and accounts for every step. Steps per second count resets and records of
episodes, not the start.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import a2perf
from a2perf.api.environments import find_task
from a2perf.sandbox import get_sandbox
from a2perf.submission.evaluator.playing.rollouts import rollout
from a2perf.submission.evaluator.playing.step_account import StepAccount
from a2perf.submission.evaluator.playing.step_trace import StepTrace
from a2perf.submission.evaluator.process.confinement import ProvidedConfinement
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from a2perf.submission.evaluator.process.participant_spec import ParticipantSpec

TASKS = {
    "web level 1": "difficulty_level_1_num_websites_1",
    "toy circuit": "toy_macro_stdcell",
    "quadruped": "synthetic_pace",
}
BATCH_TASKS = {"web level 1": TASKS["web level 1"], "CartPole": "CartPole-v1"}
POLICY = """
import numpy as np
def load_policy(env, **kwargs): return None
def preprocess_observation(observation): return observation
MOTORS = np.zeros(12, np.float32)
def infer_once(policy, observation):
    if not isinstance(observation, dict): return MOTORS if len(observation) > 20 else 0
    mask = observation.get("mask", observation.get("action_mask"))
    return 0 if mask is None else int(np.argmax(mask))
def infer_batch(policy, observations):
    if not isinstance(observations, dict): return np.zeros(len(observations), int)
    mask = observations.get("mask", observations.get("action_mask"))
    return np.zeros(len(next(iter(observations.values()))), int) if mask is None else mask.argmax(1)
"""


def _load() -> Any:
    names: dict[str, Any] = {}
    exec(POLICY, names)
    return lambda observation: names["infer_once"](None, observation)


def _make(task: Any) -> Any:
    kwargs = {"mode": "test"} if task.domain == "quadruped_locomotion" else {}  # as the gin file of the evaluation
    return gymnasium.make(task.env_id, **task.kwargs, **kwargs)


def in_process(task: Any, seconds: float) -> float:
    act = _load()
    with _make(task) as env:
        env.reset(seed=0)
        steps, seed, began = 0, 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            seed += 1
            observation, _ = env.reset(seed=seed)
            over = False
            while not over:
                observation, _, terminated, truncated, _ = env.step(act(observation))
                over = terminated or truncated
                steps += 1
        return steps / (time.perf_counter() - began)


def async_vector(task: Any, seconds: float) -> float:
    act = _load()
    # in the same step: otherwise a call that only resets would count as a step
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    envs = gymnasium.vector.AsyncVectorEnv([lambda: _make(task)], autoreset_mode=mode)
    try:
        observations, _ = envs.reset(seed=0)
        steps, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            for _ in range(20):
                first = (
                    {k: v[0] for k, v in observations.items()} if isinstance(observations, dict) else observations[0]
                )
                observations, *_ = envs.step(np.asarray(act(first))[None])
            steps += 20
        return steps / (time.perf_counter() - began)
    finally:
        envs.close()


def sync_vector(task: Any, rows: int, seconds: float) -> float:
    """Returns steps per second of the policy on rows, unconfined and without records."""
    names: dict[str, Any] = {}
    exec(POLICY, names)
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    envs = gymnasium.vector.SyncVectorEnv([lambda: _make(task)] * rows, autoreset_mode=mode)
    try:
        observations, _ = envs.reset(seed=0)
        steps, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            observations, *_ = envs.step(names["infer_batch"](None, observations))
            steps += rows
        return steps / (time.perf_counter() - began)
    finally:
        envs.close()


def stable_baselines3(task: Any, episodes: int) -> float:
    from stable_baselines3.common.evaluation import evaluate_policy

    act = _load()

    class Model:
        def predict(self, observations: Any, state: Any = None, **options: Any) -> tuple[Any, Any]:
            first = {k: v[0] for k, v in observations.items()} if isinstance(observations, dict) else observations[0]
            return np.asarray(act(first))[None], state

    with _make(task) as env:
        env.reset(seed=0)
        began = time.perf_counter()
        _, lengths = evaluate_policy(Model(), env, episodes, return_episode_rewards=True, warn=False)  # type: ignore[arg-type]
        return float(sum(lengths)) / (time.perf_counter() - began)


class _Timed(gymnasium.Wrapper):
    """Adds up the time of steps and resets."""

    ns = 0

    def step(self, action: Any) -> Any:
        began = time.perf_counter_ns()
        result = self.env.step(action)
        self.ns += time.perf_counter_ns() - began
        return result

    def reset(self, **options: Any) -> Any:
        began = time.perf_counter_ns()
        result = self.env.reset(**options)
        self.ns += time.perf_counter_ns() - began
        return result


def where(task: Any, seconds: float, sandbox: str) -> dict[str, float]:
    """Returns the mean microseconds per step of each part of an evaluated step.

    Resets count in the environment, and in the transport the hash of the observation.
    """
    with tempfile.TemporaryDirectory() as folder, _Timed(_make(task)) as env:
        entry = _entry(Path(folder))
        spec = ParticipantSpec(submission=entry, logs=Path(folder, "logs"), call_timeout_s=60.0)
        with ParticipantProcess(spec, ProvidedConfinement(sandbox=get_sandbox(sandbox))) as process:
            process.start()
            process.load_policy({})
            account = StepAccount(process.tree)
            rollout(env, process, index=0, seed=0, account=account)
            first, env.ns, seed = account.calls(), 0, 0
            began = time.perf_counter()
            while time.perf_counter() - began < seconds:
                seed += 1
                trace = StepTrace()
                process.on_observation = trace.see
                rollout(env, process, index=seed, seed=seed, account=account, trace=trace)
            steps, wall_us = account.calls() - first, (time.perf_counter() - began) * 1e6
            columns = account.columns(first)
    inside = (columns["infer_ns"] + columns["preprocess_ns"]).sum() / 1e3 / steps
    found = {
        "environment": env.ns / 1e3 / steps,
        "policy": float(inside),
        "transport": float(columns["round_trip_ns"].sum() / 1e3 / steps - inside),
    }
    return {**found, "checks, action's hash, account": wall_us / steps - sum(found.values()), "step": wall_us / steps}


def _entry(folder: Path) -> Path:
    entry = folder / "entry"
    entry.mkdir()
    (entry / "inference.py").write_text(POLICY)
    for name in ("train.py", "requirements.txt", "__init__.py"):
        (entry / name).write_text("")
    return entry


def evaluated(task: Any, episodes: int, sandbox: str, batch: int = 1) -> tuple[float, float, float, float]:
    """Returns steps per second, the median round trip in us, and the wall time of the call and of playing in s."""
    with tempfile.TemporaryDirectory() as folder:
        entry = _entry(Path(folder))
        began = time.perf_counter()
        result = a2perf.evaluate(
            entry,
            task.name,
            episodes=episodes,
            root_dir=Path(folder, "run"),
            sandbox=sandbox,
            batch=batch,
            progress=False,
            bindings=["Submission.num_inference_steps = 20", "Submission.num_warmup_steps = 5"],
        )
        wall_s = time.perf_counter() - began
        played = json.loads(next(Path(result.bundle).rglob("rollouts.json")).read_text())["episodes"]
        with np.load(next(Path(result.bundle).rglob("rollout_steps.npz"))) as steps:
            trip = float(np.median(steps["round_trip_ns"])) / 1e3 if batch == 1 else float("nan")
        phases = json.loads(next(Path(result.bundle).rglob("tracking.json")).read_text())["phases"]
        playing_s = phases["rollouts"]["wall_s"]
        return sum(e["length"] for e in played) / playing_s, trip, wall_s, playing_s


def in_batches(task: Any, rows: int, options: argparse.Namespace) -> dict[str, float]:
    """Returns the medians of alternating rounds: batches over one observation per call, and over SyncVectorEnv."""
    found, episodes = [], 2 * rows
    for turn in range(options.rounds + 1):
        alone, _, _, _ = evaluated(task, max(2, episodes // 8), options.sandbox)
        batch, _, _, playing_s = evaluated(task, episodes, options.sandbox, rows)
        vector = sync_vector(task, rows, options.seconds)
        if turn:
            found.append((alone, batch, vector, batch / alone, batch / vector))
        else:
            episodes = rows * max(2, int(2 * options.seconds / playing_s))
    names = ("evaluated steps/s", "in batches steps/s", "sync steps/s", "batches over one", "batches over sync")
    return {name: statistics.median(values) for name, values in zip(names, zip(*found, strict=True), strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sandbox", default="bubblewrap")
    parser.add_argument("--sb3", action="store_true", help="also evaluate_policy of Stable-Baselines3, in one process")
    parser.add_argument("--where", action="store_true", help="print where a step goes")
    parser.add_argument("--batch", type=int, metavar="N", help="only N episodes per call of the policy")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    for label, name in BATCH_TASKS.items() if options.batch else ():
        found[label] = in_batches(find_task(name), options.batch, options)
        if not options.json:
            print(label, {name: round(value, 2) for name, value in found[label].items()}, flush=True)
    for label, name in () if options.batch else TASKS.items():
        task = next(task for task in a2perf.tasks() if task.name == name)
        if options.where:
            found[label] = where(task, options.seconds, options.sandbox)
            if not options.json:
                print(label, {name: round(value, 1) for name, value in found[label].items()}, flush=True)
            continue
        rows = []
        episodes = 3
        for turn in range(options.rounds + 1):
            loop, child = in_process(task, options.seconds), async_vector(task, options.seconds)
            ours, trip, wall_s, playing_s = evaluated(task, episodes, options.sandbox)
            if turn:  # the first turn fills caches and tells how long an episode takes
                theirs = (stable_baselines3(task, episodes),) if options.sb3 else ()
                rows.append((loop, child, ours, trip, wall_s, ours / loop, ours / child, *(ours / x for x in theirs)))
            else:
                episodes = max(3, int(episodes * options.seconds / playing_s))
        names = (
            "loop steps/s",
            "async steps/s",
            "evaluated steps/s",
            "round trip us",
            "call s",
            "over loop",
            "over async",
            *["over SB3"] * options.sb3,
        )
        found[label] = {
            name: statistics.median(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
        }
        if not options.json:
            print(label, {name: round(value, 2) for name, value in found[label].items()}, flush=True)
    if options.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
