"""Soft actor-critic (Haarnoja et al. 2018) for quadruped locomotion, with TF-Agents' agent and replay buffer.

A checkpoint contains the replay buffer, all networks and all optimizers. TensorFlow draws new random numbers for
minibatches and loss samples after a resume, so the learning curve differs from there on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from a2perf.submission.participant.adapters.origin import record_environment
from a2perf_baselines import learning
from a2perf_baselines.learning.tf_agents.frameworks import seed_everything, tf  # before TF-Agents

from a2perf_baselines.learning.tf_agents import checkpoint  # isort: skip
from a2perf_baselines.learning.tf_agents.collection import Actors, Rollout  # isort: skip
from a2perf_baselines.learning.tf_agents.export import PolicyExport  # isort: skip
from a2perf_baselines.learning.tf_agents.networks import Affine, Moments  # isort: skip
from a2perf_baselines.quadruped_locomotion.tf_agents_training import LearnerTask, open_task, reference_prior  # isort: skip
from squashed import Actor, Critic, Deployed, RandomPolicy  # isort: skip
from tf_agents.agents.sac.sac_agent import SacAgent  # isort: skip
from tf_agents.policies.actor_policy import ActorPolicy  # isort: skip
from tf_agents.replay_buffers.tf_uniform_replay_buffer import TFUniformReplayBuffer  # isort: skip
from tf_agents.specs import tensor_spec  # isort: skip
from tf_agents.trajectories import time_step as ts  # isort: skip
from tf_agents.trajectories import trajectory  # isort: skip

EVALUATION = 1 << 40  # a moment that no training comes to


@dataclass(frozen=True)
class Settings:
    """Parameters of the training.

    Attributes:
        total_steps: environment steps of the whole training, evaluations not counted.
        time_budget_s: of this call.
        actors: actor processes; 1 walks in the learner's process.
        members: environments of each actor.
        rows: steps of each environment between two rounds of learning.
        mode: of the environment. Episodes of ``"train"`` begin with 20 steps and only grow over 30 million.
        randomize: draw masses, friction, latency and so on for each episode, as in mode ``"train"``.
        share, ahead: how much of the reference the policy starts with, and how many control steps ahead of the motion;
            a share of 0 is to start from nothing.
        reach: rad of a deviation of 1 from it.
        learning_starts: steps with small random deviations before learning, which also fix the normalisation.
        spread: of these deviations.
        buffer_size: steps in the replay buffer; one takes 0.7 kB.
        updates_per_step: gradient steps for each environment step.
        batch_size, learning_rate, gamma, tau: as in the paper.
        target_entropy: of a deviation, nats.
        initial_alpha: first weight of the entropy; it is learnt from there.
        layers: widths of the hidden layers of every network.
        log_deviation: logarithm of the deviations' standard deviation at the start.
        evaluate_every: steps between evaluations, each followed by a checkpoint; the best policy is kept. An evaluation
            is one episode of each environment, the same every time.
    """

    total_steps: int = learning.may_change(60_000)
    time_budget_s: float = learning.may_change(3600.0)
    actors: int = learning.may_change(1)
    members: int = 4
    rows: int = 16
    mode: str = "test"
    randomize: bool = False
    share: float = 1.0
    ahead: float = 3.0
    reach: float = 0.5
    learning_starts: int = 2_000
    spread: float = 0.4
    buffer_size: int = 100_000
    updates_per_step: float = 1.0
    batch_size: int = 256
    learning_rate: float = 3e-4
    gamma: float = 0.95
    tau: float = 0.005
    target_entropy: float = -24.0
    initial_alpha: float = 0.01
    layers: tuple[int, ...] = (256, 256)
    log_deviation: float = -1.5
    evaluate_every: int = 5_000


def train(run: learning.TrainingRun) -> None:
    """Trains until the steps are made or the time is used up."""
    settings: Settings = run.settings
    seed_everything(run.seed)
    task = open_task(run, mode=settings.mode, randomize=settings.randomize)
    record_environment(run.folder)
    learner = Learner(task, settings)
    random = RandomPolicy(learner.prior, settings.reach, settings.spread)
    step, updates, best = 0, 0.0, -math.inf
    if (found := run.latest()) is not None:
        checkpoint.read(found.path, **learner.trackables)
        learner.moments.restore(found.state["moments"])
        step, updates, best = found.step, found.state["updates"], found.state["best"]
        tf.random.set_seed(run.seeds(f"after {step} steps", 1)[0])
    export = PolicyExport(learner.deployed, run.folder)
    next_evaluation = step + settings.evaluate_every
    with Actors(task.make_env, settings.actors, run.seed, members=settings.members) as actors:
        actors.restart(step)
        while step < run.total_steps and not run.out_of_time:
            warming = step < settings.learning_starts
            rollout = actors.collect(random if warming else learner.policy(explore=True), settings.rows)
            step += rollout.env_steps
            learner.remember(rollout, settle=warming)
            losses: dict[str, float] = {}
            if not warming:
                updates += rollout.env_steps * settings.updates_per_step
                losses = learner.update(int(updates))
                updates -= int(updates)
            if rollout.episode_returns:
                losses["Training/AverageReturn"] = float(np.mean(rollout.episode_returns))
            run.log(losses, step)
            seen = losses.get("Training/AverageReturn")
            run.progress(step, "" if seen is None else f"training {seen:.4g}")
            if step < next_evaluation and step < run.total_steps:
                continue
            next_evaluation = step + settings.evaluate_every
            value = float(actors.evaluate(learner.policy(explore=False), EVALUATION).mean())
            run.average_return(value, step)
            if value > best:
                best = value
                export.save(step)
            else:
                export.save_checkpoint(step)
            state = {"moments": learner.moments.state(), "updates": updates, "best": best}
            run.save(step, lambda folder: checkpoint.write(folder, **learner.trackables), state)
            actors.restart(step)
    run.say(f"done: {step} steps, best return {best:.4g}, {run.elapsed_s:.0f} s")


class Learner:
    """TF-Agents' soft actor-critic with its replay buffer.

    Args:
        task: what is learnt.
        settings: how.
    """

    def __init__(self, task: LearnerTask, settings: Settings) -> None:
        self._settings = settings
        deviation_spec = tensor_spec.BoundedTensorSpec(task.action_spec.shape, tf.float32, -1.0, 1.0, "deviation")
        step_spec = ts.time_step_spec(task.observation_spec)
        self.prior = reference_prior(settings.share, settings.ahead)
        self._normalise, self.moments = Affine(limit=5.0), Moments(task.observation_spec.shape[0])
        self._actor = Actor(
            task.observation_spec, deviation_spec, self._normalise, settings.layers, settings.log_deviation
        )
        optimizers = {name: tf.keras.optimizers.Adam(settings.learning_rate) for name in ("actor", "critic", "alpha")}
        self._agent = SacAgent(
            step_spec,
            deviation_spec,
            critic_network=Critic((task.observation_spec, deviation_spec), self._normalise, settings.layers),
            actor_network=self._actor,
            **{f"{name}_optimizer": optimizer for name, optimizer in optimizers.items()},
            target_update_tau=settings.tau,
            gamma=settings.gamma,
            target_entropy=settings.target_entropy,
            initial_log_alpha=math.log(settings.initial_alpha),
            gradient_clipping=10.0,
        )
        self._agent.initialize()
        lanes = settings.actors * settings.members
        self._buffer = TFUniformReplayBuffer(self._agent.collect_data_spec, lanes, settings.buffer_size // lanes)
        self._add = tf.function(self._one_row)
        self._samples: Any = None
        self._step = tf.function(self._one_update)
        network = Deployed(task.observation_spec, self._actor, self.prior, settings.reach)
        self.deployed = ActorPolicy(step_spec, task.action_spec, network)
        self.trackables = {"agent": self._agent, "buffer": self._buffer, "normalise": self._normalise, **optimizers}

    def policy(self, *, explore: bool) -> Any:
        """Returns the policy as it is now, for the actors."""
        return self._actor.copied(self.prior, self._settings.reach, explore=explore)

    def remember(self, rollout: Rollout, *, settle: bool) -> None:
        """Puts rows into the replay buffer.

        Args:
            rollout: of the actors.
            settle: whether the normalisation still follows what is seen; later, values would no longer fit.
        """
        if settle:
            self.moments.add(rollout.observation.reshape(-1, rollout.observation.shape[-1]))
            self._normalise.set_moments(self.moments.mean, self.moments.deviation)
        for row in range(len(rollout.reward)):
            columns = (
                rollout.step_type, rollout.observation, rollout.extras["deviation"], (),
                rollout.next_step_type, rollout.reward, rollout.discount,
            )  # fmt: skip
            items = tf.nest.map_structure(lambda array, row=row: tf.constant(array[row]), columns)
            self._add(trajectory.Trajectory(*items))

    def update(self, count: int) -> dict[str, float]:
        """Makes gradient steps and returns the last losses."""
        if count == 0:
            return {}
        if self._samples is None:
            self._samples = iter(self._buffer.as_dataset(sample_batch_size=self._settings.batch_size, num_steps=2))
        for _ in range(count):
            info = self._step(next(self._samples)[0])
        names = ("critic_loss", "actor_loss", "alpha_loss")
        return {f"Loss/{name}": float(getattr(info.extra, name)) for name in names}

    def _one_row(self, items: Any) -> None:
        self._buffer.add_batch(items)

    def _one_update(self, experience: Any) -> Any:
        # between two episodes nothing was stepped, so there is nothing to learn
        weights = tf.cast(tf.logical_not(experience.is_boundary()[:, 0]), tf.float32)
        return self._agent.train(experience, weights=weights)
