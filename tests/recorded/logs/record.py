"""Records the logs in this folder with the packages that write them: ``pip install NAME``, then run it with the name.

Three training runs each of ``ppo`` and ``dqn`` on CartPole-v1, ten values per run; a long note in one of them makes its
file longer than a block.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RUNS = [(name, first, seed) for name, first in (("ppo", 100.0), ("dqn", 50.0)) for seed in range(3)]
STEPS = range(0, 1000, 100)


def returned(first: float, seed: int, step: int) -> float:
    """Returns the value that a run logged at a step."""
    return first + 3 * seed + step / 100


def wandb(folder: Path) -> None:
    """Records offline runs with the client of Weights & Biases."""
    import wandb as client

    quiet = client.Settings(
        x_disable_stats=True,
        x_disable_meta=True,
        disable_git=True,
        x_save_requirements=False,
        console="off",
        host="host",
        silent=True,
    )
    with tempfile.TemporaryDirectory() as place:
        for name, first, seed in RUNS:
            config = {"env_id": "CartPole-v1", "exp_name": name, "seed": seed, "net": {"layers": [64, 64]}}
            if (name, seed) == ("dqn", 2):
                config["note"] = "a long note " * 3000
            (Path(place) / name).mkdir(exist_ok=True)
            run = client.init(
                mode="offline",
                dir=f"{place}/{name}",
                project="logs",
                name=f"CartPole-v1__{name}__{seed}__17",
                config=config,
                settings=quiet,
            )
            for step in STEPS:
                run.log({"charts/episodic_return": returned(first, seed, step), "global_step": step})
            run.finish()
        client.teardown()  # the files are complete when the client's process has ended
        for written in Path(place).glob("*/wandb/offline-run-*/run-*.wandb"):
            target = folder / written.parents[2].name / written.parent.name
            target.mkdir(parents=True)
            shutil.copy(written, target)


def mlflow(folder: Path) -> None:
    """Records runs in a folder ``mlruns``."""
    import mlflow as client

    with tempfile.TemporaryDirectory() as place:
        for name, first, seed in RUNS:
            client.set_tracking_uri(f"file://{place}/{name}")
            client.set_experiment("CartPole-v1")
            with client.start_run(run_name=f"{name}_seed{seed}"):
                client.log_params({"exp_name": name, "seed": seed, "net/layers": [64, 64]})
                for step in STEPS:
                    client.log_metric("rollout/ep_rew_mean", returned(first, seed, step), step=step)
        for written in Path(place).glob("*/*/meta.yaml"):
            experiment = folder / written.relative_to(place).parent
            experiment.mkdir(parents=True)
            shutil.copy(written, experiment)
            for run in written.parent.glob("*/metrics"):
                for kept in ("meta.yaml", "metrics", "params"):
                    copy = shutil.copytree if (run.parent / kept).is_dir() else shutil.copy
                    (experiment / run.parent.name).mkdir(exist_ok=True)
                    copy(run.parent / kept, experiment / run.parent.name / kept)
            for meta in experiment.rglob("meta.yaml"):  # without what they say of the machine
                text = meta.read_text().replace(place, "/logs")
                meta.write_text(re.sub("user_id: .*", "user_id: user", text))


def paying(swing: float) -> Any:
    """Returns an environment of one step that pays its attribute ``reward``, ``swing`` more or less in turns."""
    import gymnasium as gym
    import numpy as np

    class Paying(gym.Env[np.ndarray, int]):
        observation_space = gym.spaces.Box(0, 1, (1,))
        action_space = gym.spaces.Discrete(2)
        reward, episode = 0.0, 0

        def reset(self, **settings: Any) -> tuple[np.ndarray, dict[str, Any]]:
            self.episode += 1
            return np.zeros(1, np.float32), {}

        def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            return np.zeros(1, np.float32), self.reward + swing * (-1) ** self.episode, True, False, {}

    return Paying()


def evaluations(folder: Path) -> None:
    """Records what the callback of Stable-Baselines3 that evaluates a policy saves."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.monitor import Monitor

    for name, first, seed in RUNS:
        played = paying(1.0)

        class Evaluation(EvalCallback):
            def _on_step(self) -> bool:
                played.reward = returned(first, seed, self.num_timesteps)  # noqa: B023
                return super()._on_step()

        target = folder / name / "CartPole-v1" / f"seed_{seed}"
        model = PPO("MlpPolicy", Monitor(paying(1.0)), n_steps=100, batch_size=100, n_epochs=1, device="cpu")
        callback = Evaluation(Monitor(played), eval_freq=100, n_eval_episodes=4, log_path=str(target), verbose=0)
        model.learn(900, callback)


def monitor(folder: Path) -> None:
    """Records the episodes of training with Stable-Baselines3, of one step each."""
    from stable_baselines3.common.monitor import Monitor

    for name, first, seed in RUNS:
        played = paying(0.0)
        target = folder / name / "CartPole-v1" / f"seed_{seed}"
        target.mkdir(parents=True)
        wrapped = Monitor(played, str(target))
        for step in STEPS:
            played.reward = returned(first, seed, step)
            wrapped.reset()
            wrapped.step(0)
        wrapped.close()


def _logged(folder: Path, kind: str) -> None:
    from stable_baselines3.common.logger import configure

    for name, first, seed in RUNS:
        logger = configure(str(folder / name / "CartPole-v1" / f"seed_{seed}"), [kind])
        for step in STEPS:
            logger.record("rollout/ep_rew_mean", returned(first, seed, step))
            logger.record("time/total_timesteps", step)
            logger.dump(step)
        logger.close()


def progress(folder: Path) -> None:
    """Records the table of the logger of Stable-Baselines3."""
    _logged(folder, "csv")


def tensorboard(folder: Path) -> None:
    """Records the event files of the logger of Stable-Baselines3, which PyTorch's writer of TensorBoard writes."""
    _logged(folder, "tensorboard")


if __name__ == "__main__":
    for record in (wandb, mlflow, evaluations, monitor, progress, tensorboard):
        if record.__name__ in sys.argv[1:] or len(sys.argv) == 1:
            shutil.rmtree(HERE / record.__name__, ignore_errors=True)
            record(HERE / record.__name__)
