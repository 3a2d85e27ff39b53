"""Clones a dog's gait from its pre-trained policy by DAgger (Ross et al. 2011), or from a dataset of demonstrations.

In the first round the expert walks, disturbed by noise. In later rounds the learner walks and the expert labels its
states. After each round the learner trains on all data so far. The last rollout of the learner is for evaluation only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from experts import expert_for
from numpy.typing import NDArray

from a2perf.submission.participant.adapters.origin import record_environment
from a2perf_baselines import learning
from a2perf_baselines.learning.tf_agents.frameworks import seed_everything, tf  # before TF-Agents

from a2perf_baselines.learning.tf_agents import checkpoint  # isort: skip
from a2perf_baselines.learning.tf_agents.collection import Actors  # isort: skip
from a2perf_baselines.learning.tf_agents.export import PolicyExport  # isort: skip
from a2perf_baselines.learning.tf_agents.networks import Affine, NumpyNetwork  # isort: skip
from tf_agents.agents.behavioral_cloning.behavioral_cloning_agent import BehavioralCloningAgent  # isort: skip
from tf_agents.networks.sequential import Sequential  # isort: skip
from tf_agents.specs import tensor_spec  # isort: skip
from tf_agents.trajectories import time_step as ts  # isort: skip
from tf_agents.trajectories import trajectory  # isort: skip

from a2perf.domains.tfa.py_environment import array_specs  # isort: skip
from a2perf.domains.tfa.spaces import specs_of  # isort: skip

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Settings:
    """Parameters of the cloning.

    Attributes:
        rounds: walks that are learnt from; the first one is the expert's.
        rows: steps of each environment in a round; an episode has at most 600, and one more row ends it.
        members: environments of each actor process.
        actors: actor processes; 1 walks in the learner's process.
        mode: of the environment. Episodes of ``"train"`` begin with 20 steps and only grow over 30 million.
        randomize: draw masses, friction, latency and so on for each episode, as in mode ``"train"``.
        noise: standard deviation (rad) of what pushes the expert in half of the steps of the first round.
        dataset: id or path of demonstrations, which then are all that is learnt from.
        updates, last_updates: gradient steps after each round, and after the last one; all at once with a dataset.
        batch_size, learning_rate: of a gradient step; over the last updates the rate falls to nothing.
        layers: widths of the hidden layers.
        time_budget_s: of this call; it ends after a round.
    """

    rounds: int = 6
    rows: int = 601
    members: int = 5
    actors: int = learning.may_change(1)
    mode: str = "test"
    randomize: bool = False
    noise: float = 0.2
    dataset: str | None = None
    updates: int = 500
    last_updates: int = 1500
    batch_size: int = 256
    learning_rate: float = 1e-3
    layers: tuple[int, ...] = (512, 256)
    time_budget_s: float = learning.may_change(900.0)


@dataclass(frozen=True)
class Pushed:
    """What walks in the actors: the expert, pushed, or the learner.

    Attributes:
        act: from a batch of observations to one of actions.
        noise: see ``Settings``.
    """

    act: Callable[[NDArray[Any]], Floats]
    noise: float = 0.0

    def __call__(self, observations: NDArray[Any], rng: np.random.Generator) -> tuple[Floats, dict[str, Any]]:
        actions = self.act(observations)
        if self.noise:
            push = rng.normal(0.0, self.noise, actions.shape) * (rng.random((len(actions), 1)) < 0.5)
            actions = (actions + push).astype(np.float32)
        return actions, {}


class Learner:
    """TF-Agents' behavioural cloning, with a network that normalises for itself.

    Args:
        observation_space, action_space: of the environment.
        settings: of the cloning.
    """

    def __init__(self, observation_space: Any, action_space: Any, settings: Settings) -> None:
        dense = tf.keras.layers.Dense
        self.normalise, self.denormalise = Affine(), Affine(inverse=True)
        hidden = [dense(width, "relu") for width in settings.layers]
        self.layers = [self.normalise, *hidden, dense(action_space.shape[0]), self.denormalise]
        specs = array_specs(specs_of(observation_space, name="observation"))
        self.step_spec = ts.time_step_spec(tensor_spec.from_spec(specs))
        self.optimizer = tf.keras.optimizers.Adam(settings.learning_rate)
        self.agent = BehavioralCloningAgent(
            self.step_spec,
            tensor_spec.from_spec(array_specs(specs_of(action_space, name="action"))),
            cloning_network=Sequential(self.layers, input_spec=self.step_spec.observation),
            optimizer=self.optimizer,
            loss_fn=self._loss,
        )
        self.agent.initialize()

    def _loss(self, experience: Any, training: bool = False) -> Any:
        """Squared error of each example, in units of the expert's own variation."""
        network = self.agent.cloning_network
        chosen, _ = network(experience.observation, step_type=experience.step_type, training=training)
        return tf.reduce_sum(tf.square((chosen - experience.action) / self.denormalise.scale), axis=-1)

    def update(self, observations: Floats, actions: Floats, rate: float) -> float:
        """Makes one gradient step and returns the loss."""
        self.optimizer.learning_rate.assign(rate)
        count = len(observations)
        middle, one = tf.ones(count, tf.int32), tf.ones(count)
        batch = trajectory.Trajectory(middle, tf.constant(observations), tf.constant(actions), (), middle, one, one)
        return float(self.agent.train(batch).loss)

    def policy(self) -> NumpyNetwork:
        """Returns the network as it is now, for the actors."""
        return NumpyNetwork.of(self.layers)


def train(run: learning.TrainingRun) -> None:
    """Clones; see the file's docstring."""
    settings: Settings = run.settings
    seed_everything(run.seed)
    rng = np.random.default_rng(run.seeds("minibatches", 1)[0])
    make_env = _environments(run, settings)
    with Actors(make_env, settings.actors, run.seed, members=settings.members) as actors:
        example = make_env()
        run.require_spaces(example.observation_space, example.action_space)
        learner = Learner(example.observation_space, example.action_space, settings)
        example.close()
        record_environment(run.folder)
        seen = Seen(np.zeros((0, 160), np.float32), np.zeros((0, 12), np.float32))
        done, step = 0, 0
        if (found := run.latest()) is not None:
            checkpoint.read(found.path, agent=learner.agent, layers=learner.layers, optimizer=learner.optimizer)
            learning.restore_rng(rng, found.state["rng"])
            seen = Seen(found.state["observations"], found.state["actions"])
            done, step = found.state["rounds"], found.step
        export = PolicyExport(learner.agent.policy, run.folder)
        expert = None if settings.dataset else expert_for(run.env_id)
        rounds = 1 if settings.dataset else settings.rounds
        while done < rounds and step < run.total_steps and not run.out_of_time:
            if settings.dataset:
                seen = _demonstrations(settings.dataset, learner, run)
            else:
                walker = Pushed(expert, settings.noise) if done == 0 else Pushed(learner.policy())
                actors.restart(done)
                rollout = actors.collect(walker, settings.rows)
                if done > 0:
                    run.average_return(float(rollout.first_returns().mean()), step)
                step += rollout.env_steps
                observations = rollout.observation.reshape(-1, rollout.observation.shape[-1])
                seen = seen.with_more(observations, expert(observations))
            if done == 0:
                learner.normalise.set_moments(seen.observations.mean(0), seen.observations.std(0) + 1e-2)
                learner.denormalise.set_moments(seen.actions.mean(0), seen.actions.std(0) + 1e-3)
            done += 1
            loss = _fit(run, learner, seen, rng, step, last=done == rounds)
            run.log({"Loss/cloning": loss}, step)
            export.save(step)
            state = {"rng": learning.rng_state(rng), "rounds": done, "observations": seen.observations}
            run.save(
                step,
                lambda folder: checkpoint.write(
                    folder, agent=learner.agent, layers=learner.layers, optimizer=learner.optimizer
                ),
                {**state, "actions": seen.actions},
            )
        returns = actors.evaluate(Pushed(learner.policy()), rounds)
        run.average_return(float(returns.mean()), step)
        run.say(f"done: {step} steps, return {returns.mean():.1f}, {run.elapsed_s:.0f} s")


@dataclass(frozen=True)
class Seen:
    """Observations, float32, shape (n, 160), and what the expert does in them, shape (n, 12)."""

    observations: Floats
    actions: Floats

    def with_more(self, observations: Floats, actions: Floats) -> Seen:
        """Returns these and further ones."""
        return Seen(np.concatenate([self.observations, observations]), np.concatenate([self.actions, actions]))


def _environments(run: learning.TrainingRun, settings: Settings) -> Callable[[], Any]:
    changed = {"mode": settings.mode, "enable_randomizer": settings.randomize or None}
    return run.env_maker(**changed)


def _demonstrations(dataset: str, learner: Learner, run: learning.TrainingRun) -> Seen:
    import a2perf

    data = a2perf.open_dataset(dataset)
    env = run.make_env()
    data.require_fit(env)
    env.close()
    transitions = data.transitions()
    run.say(f"{len(transitions)} transitions of {data.id}")
    return Seen(np.asarray(transitions.observations, np.float32), np.asarray(transitions.policy_actions, np.float32))


def _fit(
    run: learning.TrainingRun, learner: Learner, seen: Seen, rng: np.random.Generator, step: int, *, last: bool
) -> float:
    settings: Settings = run.settings
    updates = settings.last_updates if last else settings.updates
    if settings.dataset:
        updates += settings.rounds * settings.updates  # the same number of updates as without a dataset
    losses = np.zeros(updates)
    started = time.monotonic()
    for update in range(updates):
        rate = settings.learning_rate
        if last:
            rate *= 0.01 + 0.99 * 0.5 * (1.0 + np.cos(np.pi * update / updates))
        chosen = rng.integers(0, len(seen.observations), settings.batch_size)
        losses[update] = learner.update(seen.observations[chosen], seen.actions[chosen], rate)
        run.progress(step, f"loss {losses[update]:.4f}  update {update}/{updates}")
    run.log({"Speed/updates_per_second": updates / (time.monotonic() - started)}, step)
    return float(losses[-100:].mean())
