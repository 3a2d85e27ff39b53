"""Trains with RL Baselines3 Zoo at its tuned hyperparameters, then evaluates the agent as the zoo's benchmark does.

    python zoo.py --algo ppo --env-id CartPole-v1 --seed 1

Both steps are unmodified programs of the zoo, `rl_zoo3.train` and `rl_zoo3.enjoy`. The zoo's benchmark evaluates the
last agent with deterministic actions over 150,000 steps, and reports the mean and the standard deviation of the
episodes that end in them. This script writes these episodes to `evaluation.csv`. The agent and the Monitor files of
the training episodes are in `logs/`.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EVALUATION_STEPS = 150_000


def main() -> None:
    """Trains, evaluates, and writes the episodes of the evaluation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", required=True, help="name of the algorithm in the zoo, for example ppo")
    parser.add_argument("--env-id", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--total-timesteps", type=int, default=-1, help="training steps; by default those of the zoo")
    parser.add_argument("--evaluation-steps", type=int, default=EVALUATION_STEPS)
    given = parser.parse_args()
    folder = Path(os.environ.get("A2PERF_RUN_DIR", "."))
    logs = str(folder / "logs")
    shared = ["--algo", given.algo, "--env", given.env_id, "--device", "cpu", "--num-threads", "1"]
    seed, steps = str(given.seed), str(given.total_timesteps)
    run("rl_zoo3.train", *shared, "--seed", seed, "--n-timesteps", steps, "--log-folder", logs)
    with tempfile.TemporaryDirectory() as episodes:
        evaluation = ["--n-timesteps", str(given.evaluation_steps), "--reward-log", episodes]
        run("rl_zoo3.enjoy", *shared, "--folder", logs, *evaluation, "--no-render", "--verbose", "0")
        (monitor,) = Path(episodes).glob("*.monitor.csv")
        returns = write_evaluation(monitor, folder / "evaluation.csv")
    print(f"evaluation: {len(returns)} episodes, mean return {sum(returns) / len(returns):.2f}")


def run(module: str, *arguments: str) -> None:
    """Runs a program of the zoo, and ends with its status if it fails."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", module, *arguments], check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    print(f"{module}: {time.perf_counter() - began:.1f} s", flush=True)


def write_evaluation(monitor: Path, table: Path) -> list[float]:
    """Copies the episodes of a Monitor file to a table of steps and returns, and returns the returns.

    Monitor files in the run's folder would be read as parts of the learning curve.
    """
    with monitor.open(newline="") as stream:
        stream.readline()  # a comment with the time of the start
        rows = [(int(row["l"]), float(row["r"])) for row in csv.DictReader(stream)]
    steps = itertools.accumulate(length for length, _ in rows)
    with table.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["step", "evaluation_return"])
        writer.writerows((step, value) for step, (_, value) in zip(steps, rows, strict=True))
    return [value for _, value in rows]


if __name__ == "__main__":
    main()
