"""Tests one algorithm of Stable-Baselines3, or a submission, in one environment, phase by phase, in its own process.

    python -m a2perf.experiments.runners.smoke --algorithm ppo --env-id CartPole-v1 --folder DIR --steps 200

Every phase appends one line of JSON to ``DIR/phases.jsonl``: its name, ``"passed"``, ``"failed"`` or ``"not
possible"``, seconds, and the reason. If the process dies in a phase, the line of that phase is missing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.domains import video
from a2perf.errors import MissingDependency
from a2perf.experiments.needs import resolve_env_id
from a2perf.experiments.performance_test.configuration import TrainingSpec

PHASES = ("construct", "train", "record", "reload")
PHASES_FILE = "phases.jsonl"
_VIDEO_STEPS = 60
_TRAIN_LIMIT_S = "5"


class NotPossible(Exception):
    """The environment or this host does not support the phase."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the phases up to the first failure; returns 0, or 1 after a failure."""
    parser = argparse.ArgumentParser(description="Smoke test of an algorithm or a submission in one environment.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--algorithm")
    what.add_argument("--submission", type=Path)
    parser.add_argument("--env-id", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.submission is not None:
        actions = of_submission(given.submission, given.env_id)
    else:
        env_id, notice = resolve_env_id(given.env_id)
        if notice:
            print(f"note: {notice}", flush=True)
        actions = (
            lambda: construct(env_id),
            lambda: train(given.algorithm, env_id, given.folder, given.steps),
            lambda: record(given.algorithm, env_id, given.folder),
            lambda: reload(given.algorithm, env_id, given.folder, given.steps),
        )
    with (given.folder / PHASES_FILE).open("a", encoding="utf-8") as lines:
        for name, action in zip(PHASES, actions, strict=True):
            started = time.perf_counter()
            result: dict[str, Any] = {"phase": name, "result": "passed"}
            try:
                action()
            except NotPossible as error:
                result |= {"result": "not possible", "reason": str(error)}
            except Exception as error:  # any exception is a result of the smoke test
                traceback.print_exc()
                result |= {"result": "failed", "reason": f"{type(error).__name__}: {error}"}
            result["seconds"] = round(time.perf_counter() - started, 3)
            lines.write(json.dumps(result) + "\n")
            lines.flush()
            if result["result"] == "failed":
                return 1
    return 0


def of_submission(folder: Path, env_id: str) -> tuple[Callable[[], None], ...]:
    """Returns the phases of a submission: the first one is ``a2perf check``, the others report its findings."""
    findings: dict[str, list[str]] = {phase: [] for phase in PHASES}

    def report(phase: str) -> None:
        if findings[phase]:
            raise AssertionError(findings[phase][0])

    def check() -> None:
        words = ("check", str(folder), "--env-id", env_id, "--train-limit", _TRAIN_LIMIT_S, "--json")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "a2perf", *words], stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode not in (0, 1):
            raise AssertionError("the check could not start; its output is in the log")
        for found in json.loads(done.stdout)["findings"]:
            where = str(found["where"])
            of_file = (folder / where.partition(":")[0]).exists()
            phase = "construct" if of_file else "train" if where == "train" else "reload"
            findings[phase].append(f"{where}: {found['message']}")
        report("construct")

    def skip() -> None:
        raise NotPossible("a check records no video")

    return check, lambda: report("train"), skip, lambda: report("reload")


def construct(env_id: str) -> None:
    """Creates the environment and checks its interface with Gymnasium."""
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make(env_id, disable_env_checker=True)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def train(algorithm: str, env_id: str, folder: Path, steps: int) -> None:
    """Trains for one short epoch, evaluates, and saves."""
    from a2perf.experiments.runners.stable_baselines3 import train as train_model

    train_model(_training(algorithm, steps), env_id, 0, folder)


def record(algorithm: str, env_id: str, folder: Path) -> None:
    """Records a video of a few steps of the trained policy.

    Raises:
        NotPossible: the environment cannot render, or videos cannot be written on this host.
    """
    import gymnasium

    if (missing := video.missing_package()) is not None:
        raise NotPossible(f"{missing} is not installed")
    try:
        env = gymnasium.make(env_id, render_mode="rgb_array", disable_env_checker=True)
        env.reset(seed=0)
        first = env.render()
    except Exception as error:
        if isinstance(error, MissingDependency) or type(error).__name__ == "DependencyNotInstalled":
            raise NotPossible(str(error)) from error
        if "rgb_array" not in (gymnasium.spec(env_id).kwargs.get("render_modes") or ["rgb_array"]):
            raise NotPossible("it has no render mode rgb_array") from error
        raise
    if first is None:
        raise NotPossible("it has no render mode rgb_array")
    model = _load(algorithm, env, folder)
    observation, _ = env.reset(seed=0)

    def pictures() -> Iterator[Any]:
        seen = observation
        for _ in range(_VIDEO_STEPS):
            yield env.render()
            action, _ = model.predict(seen, deterministic=True)
            seen, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                seen, _ = env.reset()

    video.write_video(folder / "smoke.mp4", pictures(), 30)
    env.close()


def reload(algorithm: str, env_id: str, folder: Path, steps: int) -> None:
    """Loads the saved model, checks that it acts as before, and continues training."""
    import gymnasium

    from a2perf.experiments.runners.stable_baselines3 import LAST
    from a2perf.experiments.runners.stable_baselines3 import train as train_model

    env = gymnasium.make(env_id, disable_env_checker=True)
    first, second = _load(algorithm, env, folder), _load(algorithm, env, folder)
    observation, _ = env.reset(seed=1)
    actions = [model.predict(observation, deterministic=True)[0] for model in (first, second)]
    if not np.array_equal(*actions):
        raise AssertionError(f"two copies of the saved model act differently: {actions[0]} and {actions[1]}")
    env.close()
    train_model(_training(algorithm, steps), env_id, 0, folder / "restored", restore=folder / f"{LAST}.zip")


def _training(algorithm: str, steps: int) -> dict[str, Any]:
    small: dict[str, dict[str, Any]] = {
        "ppo": {"n_steps": 64, "batch_size": 32},
        "a2c": {},
        "dqn": {"learning_starts": 32, "buffer_size": 1000},
    }
    off_policy = {"learning_starts": 32, "buffer_size": 1000, "batch_size": 32}
    chosen = small.get(algorithm, off_policy)
    return asdict(TrainingSpec(algorithm, chosen, eval_after_n_steps=steps, n_test_rollouts=1, early_stop_last_n=1))


def _load(algorithm: str, env: Any, folder: Path) -> Any:
    import stable_baselines3

    from a2perf.experiments.runners.stable_baselines3 import LAST

    return getattr(stable_baselines3, algorithm.upper()).load(folder / f"{LAST}.zip", env=env, device="cpu")


if __name__ == "__main__":
    sys.exit(main())
