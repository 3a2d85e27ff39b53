"""The batch of MuJoCo robots: ``python packages/baselines/perf/quadruped_batch.py [--json] [PART ...]``.

Parts: ``rates`` (control steps per second of processor time, and where the time goes), ``fidelity`` (equal actions in
PyBullet and in the twin: how far the robots are apart), ``learner`` (the PPO core and Stable-Baselines3's PPO on the
same robots; needs PyTorch and Stable-Baselines3). All by default, on one thread.
"""

import argparse
import itertools
import json
import os
import time

import numpy as np

from a2perf.domains.quadruped_locomotion.environment import QuadrupedLocomotionEnv
from a2perf.domains.quadruped_locomotion.physics.mujoco_model import TwinPhysics
from a2perf_baselines.quadruped_locomotion.mujoco_batch import MuJoCoBatch, Variation
from a2perf_baselines.quadruped_locomotion.residual_control import ResidualControl

CLIP = "synthetic_pace"
ROBOTS = 128
HORIZON, EPOCHS, MINIBATCHES, WIDTHS = 24, 5, 4, (256, 128)
REPLAYED, REPLAY_STEPS = 60, 15
COMPARED = {"joints_rad": slice(13, 25), "base_m": slice(0, 3), "base_m_per_s": slice(7, 10)}


def physics(substeps, **changes):
    """The physics in which the example mujoco_ppo trains."""
    values = {"exact_start": True, "elliptic": True, "contact": "0.006 0.7", "fused": True}
    return TwinPhysics(substeps, implicit_damping=substeps < 33, **{**values, **changes})


def seconds_per_step(robots, pieces=6, steps=8):
    """Shortest processor time of a robot's control step, s."""
    actions = np.random.default_rng(0).normal(0.0, 0.1, (robots.count, 12)).astype(np.float32)
    robots.reset(0)
    robots.step(actions)
    best = float("inf")
    for _ in range(pieces):
        start = time.process_time()
        for _ in range(steps):
            robots.step(actions)
        best = min(best, (time.process_time() - start) / (steps * robots.count))
    return best


def rates():
    """Rates of the batch, and the shares of physics and of everything else."""
    seconds = {
        substeps: seconds_per_step(
            MuJoCoBatch(ROBOTS, CLIP, physics=physics(substeps), variation=Variation(mixed_ages=True))
        )
        for substeps in (3, 6, 11, 33)
    }
    sub_step = (seconds[33] - seconds[6]) / 27
    return {
        **{f"steps_per_s_{substeps}": 1.0 / value for substeps, value in seconds.items() if substeps != 3},
        "sub_step_us": 1e6 * sub_step,
        "rest_us": 1e6 * (seconds[6] - 6 * sub_step),
    }


def fidelity():
    """Median over episodes of the root mean square difference to PyBullet, by physics and range of steps."""
    control = ResidualControl(1.0, 3.0, 1.0, differences=False)
    generator = np.random.default_rng(0)
    phases = generator.random(REPLAYED)
    actions = np.zeros((REPLAY_STEPS, REPLAYED, 12), np.float32)
    states = np.full((REPLAY_STEPS, REPLAYED, 37), np.nan)
    env = QuadrupedLocomotionEnv(clip=CLIP, mode="test")
    for episode, phase in enumerate(phases):
        observation, _ = env.reset(seed=episode, options={"phase": phase})
        noise, level = np.zeros(12), (0.0, 0.035, 0.1)[episode % 3]
        for step in range(REPLAY_STEPS):
            noise = 0.7 * noise + level * generator.normal(size=12)
            actions[step, episode] = control.environment_action(noise, control.reference(observation))
            observation, _, terminated, _, _ = env.step(actions[step, episode])
            states[step, episode] = env.robot_state
            if terminated:
                break
    env.close()
    table = {}
    for name, kind in {
        "registered, 11": TwinPhysics(),
        "registered, 33": TwinPhysics(33),
        "registered, 6, implicit": TwinPhysics(6, implicit_damping=True),
        "training, 6": physics(6),
        "training, 11": physics(11),
        "training, 33": physics(33),
    }.items():
        robots = MuJoCoBatch(
            REPLAYED, CLIP, control=ResidualControl(0.0, 3.0, 1.0, False), physics=kind, autoreset=False
        )
        robots.reset(0, phases)
        twin = np.zeros_like(states)
        for step in range(REPLAY_STEPS):
            robots.step(actions[step])
            twin[step] = robots.states
        for first, last in ((0, 3), (3, 8), (8, 15)):
            part = (twin - states)[first:last]
            distance = {
                label: float(np.sqrt(np.nanmedian(np.nanmean(part[..., columns] ** 2, axis=-1))))
                for label, columns in COMPARED.items()
            }
            table[f"{name}, steps {first + 1}-{last}"] = "  ".join(f"{key} {v:.4f}" for key, v in distance.items())
    return table


def learner():
    """Environment steps per second of processor time of whole training loops with equal settings."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO as SB3
    from stable_baselines3.common.vec_env.base_vec_env import VecEnv

    from a2perf_baselines.learning.torch.ppo import PPO, ActorCritic, PPOSettings

    torch.set_num_threads(1)

    class Robots(VecEnv):
        """The batch as Stable-Baselines3 expects it."""

        def __init__(self):
            self.robots = MuJoCoBatch(ROBOTS, CLIP, physics=physics(6), variation=Variation(mixed_ages=True))
            size = self.robots.observation_sizes[0]
            box = gymnasium.spaces.Box
            super().__init__(ROBOTS, box(-np.inf, np.inf, (size,), np.float32), box(-1.0, 1.0, (12,), np.float32))

        def reset(self):
            return self.robots.reset(0)["policy"].copy()

        def step_async(self, actions):
            self.actions = actions

        def step_wait(self):
            done = self.robots.step(self.actions)
            infos = [{} for _ in range(ROBOTS)]
            if done.final_observations is not None:
                for row, last in zip(done.final_indices, done.final_observations["policy"], strict=True):
                    infos[row] = {"terminal_observation": last, "TimeLimit.truncated": True}
            over = done.terminated | done.truncated
            for row in np.flatnonzero(done.terminated):
                infos[row] = {"terminal_observation": done.observations["policy"][row]}
            return done.observations["policy"].copy(), done.rewards.copy(), over, infos

        def close(self):
            self.robots.close()

        def get_attr(self, attr_name, indices=None):
            return [None] * ROBOTS

        def set_attr(self, attr_name, value, indices=None):
            raise NotImplementedError

        def env_method(self, method_name, *args, indices=None, **kwargs):
            raise NotImplementedError

        def env_is_wrapped(self, wrapper_class, indices=None):
            return [False] * ROBOTS

    class Policy(ActorCritic):
        """The same perceptrons as Stable-Baselines3's policy."""

        def __init__(self, size):
            super().__init__()

            def perceptron(outputs):
                sizes, layers = [size, *WIDTHS], []
                for inputs, width in itertools.pairwise(sizes):
                    layers += [torch.nn.Linear(inputs, width), torch.nn.ELU()]
                return torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], outputs))

            self.actor, self.critic = perceptron(12), perceptron(1)
            self.log_std = torch.nn.Parameter(torch.full((12,), -1.2))

        def _density(self, mean, actions):
            return -(0.5 * ((actions - mean) / self.log_std.exp()).square() + self.log_std + 0.919).sum(-1)

        def value(self, observations):
            return self.critic(observations["policy"])[:, 0]

        def act(self, observations, generator):
            mean = self.actor(observations["policy"])
            actions = mean + self.log_std.exp() * torch.randn(mean.shape, generator=generator)
            return actions, self._density(mean, actions), self.value(observations)

        def evaluate(self, observations, actions):
            mean = self.actor(observations["policy"])
            entropy = (self.log_std + 1.419).sum().expand(len(actions))
            return self._density(mean, actions), entropy, self.value(observations)

    robots = MuJoCoBatch(ROBOTS, CLIP, physics=physics(6), variation=Variation(mixed_ages=True))
    ours = PPO(
        robots,
        Policy(robots.observation_sizes[0]),
        PPOSettings(horizon=HORIZON, epochs=EPOCHS, minibatches=MINIBATCHES),
        0,
    )
    policy = {
        "net_arch": {"pi": list(WIDTHS), "vf": list(WIDTHS)},
        "activation_fn": torch.nn.ELU,
        "log_std_init": -1.2,
    }
    theirs = SB3(
        "MlpPolicy",
        Robots(),
        n_steps=HORIZON,
        batch_size=ROBOTS * HORIZON // MINIBATCHES,
        n_epochs=EPOCHS,
        policy_kwargs=policy,
        device="cpu",
    )
    best = dict.fromkeys(("collect", "update", "stable_baselines3"), float("inf"))
    for _ in range(12):  # in turns, because other programs disturb both
        marks = [time.process_time()]
        for work in (ours.collect, ours.update, lambda: theirs.learn(ROBOTS * HORIZON)):
            work()
            marks.append(time.process_time())
        for name, (start, end) in zip(best, itertools.pairwise(marks), strict=True):
            best[name] = min(best[name], (end - start) / (ROBOTS * HORIZON))
    rate = 1.0 / (best["collect"] + best["update"])
    return {
        "ours": rate,
        "stable_baselines3": 1.0 / best["stable_baselines3"],
        "ratio": rate * best["stable_baselines3"],
        "collect_us_per_step": 1e6 * best["collect"],
        "update_us_per_step": 1e6 * best["update"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="rates, fidelity, learner")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    parts = {"rates": rates, "fidelity": fidelity, "learner": learner}
    results = {"load": os.getloadavg()[0]}
    for name in given.parts or parts:
        try:
            results[name] = parts[name]()
        except ImportError as error:  # a package that this machine does not have
            results[name] = {"not measured": str(error)}
    if given.json:
        print(json.dumps(results, indent=1))
        return
    for name, values in results.items():
        if not isinstance(values, dict):
            print(f"{name}: {values}")
            continue
        print(name)
        for key, value in values.items():
            print(f"  {key:<36} {value:.3f}" if isinstance(value, float) else f"  {key:<36} {value}")


if __name__ == "__main__":
    main()
