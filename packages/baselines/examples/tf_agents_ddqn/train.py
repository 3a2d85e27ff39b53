"""Double DQN (van Hasselt et al. 2016) with TF-Agents over candidates, for web navigation and circuit training.

Invalid candidates are never explored, never chosen, and never enter the learning target. Arguments: the fields of
`Settings`, over ``configs/<task>.gin``; the same command resumes after a kill. The replay memory is not stored: the
current policy refills it, so the result differs from that of an uninterrupted run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.submission.participant.adapters.origin import record_environment
from a2perf_baselines import learning
from a2perf_baselines.candidates import CandidateEnv
from a2perf_baselines.learning.tf_agents.frameworks import seed_everything, tf  # before TF-Agents
from a2perf_baselines.tf_agents_candidates import record_candidates

from a2perf_baselines.learning.tf_agents import checkpoint  # isort: skip
from a2perf_baselines.learning.tf_agents.candidates import CandidateNetwork, Chooser, split_mask  # isort: skip
from a2perf_baselines.learning.tf_agents.collection import Actors  # isort: skip
from a2perf_baselines.learning.tf_agents.export import PolicyExport  # isort: skip
from tf_agents.agents.dqn.dqn_agent import DdqnAgent  # isort: skip
from tf_agents.replay_buffers.tf_uniform_replay_buffer import TFUniformReplayBuffer  # isort: skip
from tf_agents.specs import tensor_spec  # isort: skip
from tf_agents.trajectories import time_step as ts  # isort: skip
from tf_agents.utils import common  # isort: skip


@dataclass(frozen=True)
class Settings:
    """Parameters of the training.

    Attributes:
        total_steps: environment steps of the whole training, evaluations not counted.
        time_budget_s: of this call.
        actors: actor processes; 1 walks in the learner's process.
        members: environments of each actor.
        rows: steps of each environment between two spells of learning.
        updates: gradient steps of such a spell.
        learning_starts: steps with random valid actions before it, and in a refilled memory.
        memory: steps that are kept of each environment.
        batch_size, learning_rate: of a gradient step; the rate falls on a line to a tenth of it.
        gamma: discount.
        target_period: gradient steps between two copies of the network for the learning target.
        exploration: share of the steps over which the share of random actions falls from 1 to ``least_exploration``.
        least_exploration: see ``exploration``.
        layers: widths of the hidden layers.
        elements, fields, per_key: limits of a page's table of candidates: elements, profile rows with the one without a
            value, controls for each key.
        evaluate_every: steps between evaluations, each followed by a checkpoint; the best policy is kept.
        evaluation_episodes: of an evaluation, the same ones every time.
    """

    total_steps: int = learning.may_change(10_000)
    time_budget_s: float = learning.may_change(900.0)
    actors: int = learning.may_change(1)
    members: int = 4
    rows: int = 8
    updates: int = 8
    learning_starts: int = 500
    memory: int = 1500
    batch_size: int = 64
    learning_rate: float = 1e-3
    gamma: float = 0.95
    target_period: int = 150
    exploration: float = 0.6
    least_exploration: float = 0.05
    layers: tuple[int, ...] = (64, 64)
    elements: int = 64
    fields: int = 5
    per_key: int = 8
    evaluate_every: int = 1000
    evaluation_episodes: int = 20


class Learner:
    """TF-Agents' double DQN over candidates with its replay memory.

    Args:
        shape: rows and features of a table.
        environments: that walk at the same time.
        settings: of the training.
    """

    def __init__(self, shape: tuple[int, int], environments: int, settings: Settings) -> None:
        spec = tensor_spec.TensorSpec(shape, tf.float16, "observation")
        self.network = CandidateNetwork(spec, settings.layers)
        self.optimizer = tf.keras.optimizers.Adam(settings.learning_rate)
        self.agent = DdqnAgent(
            ts.time_step_spec(spec),
            tensor_spec.BoundedTensorSpec((), tf.int64, 0, shape[0] - 1, "action"),
            q_network=self.network,
            optimizer=self.optimizer,
            observation_and_action_constraint_splitter=split_mask,
            target_update_period=settings.target_period,
            td_errors_loss_fn=common.element_wise_huber_loss,
            gamma=settings.gamma,
            gradient_clipping=10.0,
        )
        self.agent.initialize()
        self.memory = TFUniformReplayBuffer(
            self.agent.collect_data_spec, batch_size=environments, max_length=settings.memory
        )
        self._batch = settings.batch_size
        self._learn = tf.function(self.agent.train)
        self._samples: Any = None

    def remember(self, rollout: Any) -> None:
        """Puts what the actors saw into the memory."""
        seen = rollout.trajectory()
        for row in range(rollout.reward.shape[0]):
            self.memory.add_batch(tf.nest.map_structure(lambda tensor, row=row: tensor[:, row], seen))

    def update(self, rate: float) -> float:
        """Makes one gradient step and returns the loss."""
        if self._samples is None:
            self._samples = iter(self.memory.as_dataset(sample_batch_size=self._batch, num_steps=2))
        self.optimizer.learning_rate.assign(rate)
        return float(self._learn(next(self._samples)[0]).loss)

    def trackables(self) -> dict[str, Any]:
        """Returns what a checkpoint holds; the agent has the network and the one for the target."""
        return {"agent": self.agent, "optimizer": self.optimizer}


def train(**participant_args: str) -> None:
    """Trains on the run's environment until its steps are made or its time is used up."""
    settings = learning.read_settings(Settings, participant_args, Path(__file__).parent)
    with learning.begin(settings) as run:
        _train(run)


def _train(run: learning.TrainingRun) -> None:
    settings: Settings = run.settings
    seed_everything(run.seed)
    arguments = {}
    if learning.domain_name() == "web_navigation":
        arguments = {"elements": settings.elements, "fields": settings.fields, "per_key": settings.per_key}
    make_env = run.env_maker()
    env = CandidateEnv(make_env(), shaped=False, **arguments)
    run.require_spaces(env.observation_space, env.action_space)
    shape = env.observation_space.shape
    learner = Learner(shape, settings.actors * settings.members, settings)
    record_environment(run.folder)
    record_candidates(run.folder, run.env_id, *shape, arguments)
    seeds = run.seeds("evaluation", settings.evaluation_episodes)
    step, best = 0, -math.inf
    if (found := run.latest()) is not None:
        checkpoint.read(found.path, **learner.trackables())
        step, best = found.step, found.state["best"]
    export = PolicyExport(learner.agent.policy, run.folder)
    starts, next_evaluation = step + settings.learning_starts, step + settings.evaluate_every
    with Actors(
        lambda: CandidateEnv(make_env(), **arguments), settings.actors, run.seed, members=settings.members
    ) as actors:
        actors.restart(step)
        while step < run.total_steps and not run.out_of_time:
            share = step / run.total_steps
            random = 1.0 - (1.0 - settings.least_exploration) * min(1.0, share / settings.exploration)
            rollout = actors.collect(Chooser.of(learner.network, random), settings.rows)
            step += rollout.env_steps
            learner.remember(rollout)
            losses = []
            if step >= starts:
                rate = settings.learning_rate * (1.0 - 0.9 * min(1.0, share))
                losses = [learner.update(rate) for _ in range(settings.updates)]
                run.log({"Loss/td": float(np.mean(losses)), "Training/random": random}, step)
            run.progress(step, f"random {random:.2f}  loss {np.mean(losses or [math.nan]):.4f}")
            if step < next_evaluation and step < run.total_steps:
                continue
            next_evaluation = step + settings.evaluate_every
            value = float(learning.evaluate(Chooser.of(learner.network).best, env, seeds).mean())
            run.average_return(value, step)
            if value > best:
                best = value
                export.save(step)
            else:
                export.save_checkpoint(step)
            run.save(step, lambda folder: checkpoint.write(folder, **learner.trackables()), {"best": best})
    env.close()
    run.say(f"done: {step} steps, best return {best:.4f}, {run.elapsed_s:.0f} s")


if __name__ == "__main__":
    learning.main(train)
