"""Trains an algorithm of Stable-Baselines3 in one environment and evaluates it after every epoch.

    python -m a2perf.experiments.runners.stable_baselines3 --training FILE --env-id FetchReach-v4 --seed 0

FILE is a JSON object with the fields of ``performance_test.configuration.TrainingSpec``. It logs to event files in
``A2PERF_RUN_DIR``: ``eval/mean_reward``, ``eval/mean_ep_length``, ``eval/success_rate`` if the environment reports it,
``eval/rollout_rewards_step``, ``time/total timesteps``, and the values that the algorithm logs. It saves the model with
the best mean reward and the last one there. Needs the extra ``perftest``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.errors import MissingDependency, UserError, did_you_mean, install_hint
from a2perf.experiments.needs import resolve_env_id
from a2perf.experiments.script_wrapper.live_values import scalar
from a2perf.runs.events.event_writer import EventWriter

BEST, LAST = "rl_model_best", "rl_model_finished"
_SUCCESS_KEYS = ("is_success", "success")


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains and returns the exit status: 0, 1 if the training failed, 2 for an invalid configuration."""
    parser = argparse.ArgumentParser(description="Train an algorithm of Stable-Baselines3 and evaluate it.")
    parser.add_argument("--training", type=Path, required=True)
    parser.add_argument("--env-id", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--restore-policy", type=Path, help="resume from this saved model")
    given = parser.parse_args(arguments)
    folder = Path(os.environ.get("A2PERF_RUN_DIR", "."))
    try:
        training = json.loads(given.training.read_text(encoding="utf-8"))
        train(training, given.env_id, given.seed, folder, restore=given.restore_policy)
    except UserError as error:
        print(f"a2perf: {error}", file=sys.stderr)
        return int(error.exit_code)
    return 0


def train(
    training: Mapping[str, Any], env_id: str, seed: int, folder: Path, *, restore: Path | None = None
) -> dict[str, list[float]]:
    """Trains one model.

    Args:
        training: fields of ``TrainingSpec``.
        env_id: the environment; if it is not installed, the nearest version is used, with a notice.

    Raises:
        MissingDependency: Stable-Baselines3 is not installed.
        UserError: the algorithm or environment is unknown, or the algorithm does not have a parameter.
    """
    try:
        import stable_baselines3
        import torch
    except ImportError as error:
        raise MissingDependency("the packaged runner needs Stable-Baselines3", hint=install_hint("perftest")) from error
    import gymnasium
    from stable_baselines3.common.logger import Logger

    torch.set_num_threads(1)  # many runs execute at the same time
    env_id, notice = resolve_env_id(env_id)
    if notice:
        print(f"note: {notice}", flush=True)
    env_kwargs = dict(training.get("env_kwargs") or {})
    env, evaluation_env = gymnasium.make(env_id, **env_kwargs), gymnasium.make(env_id, **env_kwargs)
    kind = _algorithm(stable_baselines3, training["algorithm"])
    if restore is not None:
        model = kind.load(restore, env=env, device="cpu")
    else:
        model = kind(env=env, seed=seed, device="cpu", **_parameters(training, env))
    epochs, steps = int(training["n_epochs"]), int(training["eval_after_n_steps"])
    history: dict[str, list[float]] = {}
    best = -np.inf
    with EventWriter(folder, suffix="runner") as writer:
        formats: list[Any] = [_EventFormat(writer)]
        model.set_logger(Logger(folder=None, output_formats=formats))
        for epoch in range(epochs):
            model.learn(steps, reset_num_timesteps=False, progress_bar=False)
            columns = evaluate(model, evaluation_env, int(training["n_test_rollouts"]), seed=seed + 1_000_000)
            columns["time/total timesteps"] = float(model.num_timesteps)
            for name, value in columns.items():
                history.setdefault(name, []).append(value)
                writer.scalar(name, value, model.num_timesteps)
            line = ", ".join(f"{name} {value:g}" for name, value in columns.items())
            print(f"epoch {epoch + 1}/{epochs}: {line}", flush=True)
            if columns["eval/mean_reward"] > best:
                best = columns["eval/mean_reward"]
                model.save(folder / BEST)
            if _may_stop(training, history):
                print(f"stopped early: {training['early_stop_column']} has reached its threshold", flush=True)
                break
        model.save(folder / LAST)
    env.close()
    evaluation_env.close()
    return history


def evaluate(model: Any, env: Any, episodes: int, *, seed: int) -> dict[str, float]:
    """Runs some episodes with the deterministic policy.

    Args:
        seed: seed of the first reset; the others follow from it.

    Returns:
        The columns ``eval/...``; the success rate only if the last info of every episode contains it.
    """
    returns, lengths, successes = [], [], []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed if episode == 0 else None)
        total, length, ended, info = 0.0, 0, False, {}
        while not ended:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, info = env.step(action)
            total, length, ended = total + float(reward), length + 1, terminated or truncated
        returns.append(total)
        lengths.append(length)
        successes += [float(info[key]) for key in _SUCCESS_KEYS if key in info][:1]
    found = {
        "eval/mean_reward": float(np.mean(returns)),
        "eval/mean_ep_length": float(np.mean(lengths)),
        "eval/rollout_rewards_step": float(np.sum(returns) / np.sum(lengths)),
    }
    if len(successes) == episodes:
        found["eval/success_rate"] = float(np.mean(successes))
    return found


class _EventFormat:
    """Writes the values that the algorithm logs; replaces an output format of Stable-Baselines3."""

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer

    def write(self, key_values: Mapping[str, Any], key_excluded: Mapping[str, Any], step: int = 0) -> None:
        for key, value in key_values.items():
            number = scalar(value)
            if number is not None:
                self._writer.scalar(key, number, step)

    def close(self) -> None:
        """Does nothing, because the run closes the writer."""


def check_algorithm(name: str) -> None:
    """Refuses an algorithm that another project implements, instead of running one with a similar name.

    Raises:
        UserError: it is one of Scilab-RL's ``custom_algorithms``.
    """
    if name.lower().startswith("clean"):
        plain = name.lower().removeprefix("clean")
        raise UserError(
            f"{name!r} is an implementation of Scilab-RL, which is not part of a2perf",
            hint=f"test {plain!r} of Stable-Baselines3, a different implementation, or set `command: python ...`",
        )


def _algorithm(package: Any, name: str) -> Any:
    classes = {
        known.lower(): getattr(package, known)
        for known in vars(package)
        if known.isupper() and hasattr(getattr(package, known), "learn")
    }
    check_algorithm(name)
    if name.lower() not in classes:
        raise UserError(
            f"{name!r} is not an algorithm of Stable-Baselines3{did_you_mean(name.lower(), classes)}",
            hint=f"choose one of: {', '.join(sorted(classes))}",
        )
    return classes[name.lower()]


def _parameters(training: Mapping[str, Any], env: Any) -> dict[str, Any]:
    """Converts the keys of a configuration to arguments of the algorithm: names to classes, default policy."""
    import gymnasium
    from stable_baselines3 import HerReplayBuffer

    given = {key: value for key, value in dict(training.get("parameters") or {}).items() if key != "name"}
    if isinstance(given.get("replay_buffer_class"), str):
        name = given["replay_buffer_class"].rpartition(".")[2]
        if name != "HerReplayBuffer":
            raise UserError(
                f"replay_buffer_class = {name!r} is unknown", hint="choose HerReplayBuffer, or leave it out"
            )
        given["replay_buffer_class"] = HerReplayBuffer
    is_dict = isinstance(env.observation_space, gymnasium.spaces.Dict)
    policy = given.pop("policy", "MultiInputPolicy" if is_dict else "MlpPolicy")
    for name in ("buffer_size", "batch_size", "learning_starts", "gradient_steps", "n_steps", "n_epochs"):
        if isinstance(given.get(name), float) and given[name].is_integer():
            given[name] = int(given[name])  # YAML reads 1e6 as a float
    return {"policy": policy, **given}


def _may_stop(training: Mapping[str, Any], history: Mapping[str, Sequence[float]]) -> bool:
    values = history.get(str(training.get("early_stop_column")), ())
    least, bound = int(training["early_stop_last_n"]), float(training["early_stop_threshold"])
    if len(values) < least:
        return False
    both = (float(np.mean(values[-least:])), values[-1])
    return all(value >= bound if training.get("direction", ">=") == ">=" else value <= bound for value in both)


if __name__ == "__main__":
    sys.exit(main())
