"""Proximal policy optimisation (Schulman et al. 2017) with TF-Agents' ``PPOClipAgent``, for networks of any domain.

Actors run a NumPy copy of the policy; the learner computes values, advantages and the parameters of the distributions
for a whole batch at once. At each checkpoint all episodes restart with seeds derived from the step: a killed run
ends exactly like an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.submission.participant.adapters.origin import record_environment
from a2perf_baselines import learning
from a2perf_baselines.learning.tf_agents.frameworks import tf  # before TF-Agents

from a2perf_baselines.learning.tf_agents import checkpoint  # isort: skip
from a2perf_baselines.learning.tf_agents.collection import LAST, ActorPolicy, Actors, Rollout  # isort: skip
from a2perf_baselines.learning.tf_agents.export import PolicyExport  # isort: skip
from tf_agents.agents.ppo.ppo_clip_agent import PPOClipAgent  # isort: skip
from tf_agents.trajectories import time_step as ts  # isort: skip
from tf_agents.trajectories import trajectory  # isort: skip
from tf_agents.utils import value_ops  # isort: skip

EVALUATION = 1 << 40  # a moment that no training comes to


@dataclass(frozen=True)
class PPOSettings:
    """Parameters of the algorithm and of a training run; the settings of a domain derive from it.

    Attributes:
        total_steps: environment steps of the whole training, evaluations not counted.
        time_budget_s: of this call; it ends after an iteration.
        actors: actor processes; 1 walks in the learner's process.
        members: environments of each actor.
        rows: steps of each environment between two updates.
        epochs, batch_size: passes over these steps, and how many make a gradient step.
        learning_rate, final_learning_rate: at the start and at the end, on a line in between.
        gamma, lambda_: discount, and weight of longer advantages.
        clip, entropy, value_loss, gradient_norm: as in the paper; 0.2, 0, 0.5 and 0.5 mostly.
        reward_scale, reward_offset: what is learnt from is ``(reward + offset) * scale``.
        evaluate_every: steps between evaluations, each followed by a checkpoint; the best policy is kept. An evaluation
            is one episode of each environment, the same every time.
    """

    total_steps: int = learning.may_change(200_000)
    time_budget_s: float = learning.may_change(3600.0)
    actors: int = learning.may_change(1)
    members: int = 8
    rows: int = 256
    epochs: int = 6
    batch_size: int = 256
    learning_rate: float = 2e-4
    final_learning_rate: float = 3e-5
    gamma: float = 0.95
    lambda_: float = 0.95
    clip: float = 0.2
    entropy: float = 0.0
    value_loss: float = 0.5
    gradient_norm: float = 0.5
    reward_scale: float = 1.0
    reward_offset: float = 0.0
    evaluate_every: int = 20_000


@dataclass(frozen=True)
class Parts:
    """What a domain brings.

    Attributes:
        make_env: makes one environment of the training.
        actor, value: TF-Agents' networks; the first returns a distribution, the second a number.
        act: returns the policy as it is now, for the actors; its argument is whether it explores.
        observe: learns from the observations of a rollout, as a normalisation does; may do nothing.
        layers: all that holds variables, for the checkpoint, by name.
        state, restore: return and restore further content of a checkpoint.
    """

    make_env: Callable[[], Any]
    actor: Any
    value: Any
    act: Callable[[bool], ActorPolicy]
    observe: Callable[[Rollout], None]
    layers: Mapping[str, Any]
    state: Callable[[], Mapping[str, Any]] = dict
    restore: Callable[[Mapping[str, Any]], None] = lambda state: None


def train_ppo(run: learning.TrainingRun, parts: Parts, step_spec: Any, action_spec: Any) -> None:
    """Trains until the steps are made or the time is used up.

    Args:
        run: the training; its settings are ``PPOSettings``.
        parts: what the domain brings.
        step_spec, action_spec: of tensors, as TF-Agents has them.
    """
    settings: PPOSettings = run.settings
    optimizer = tf.keras.optimizers.Adam(settings.learning_rate, epsilon=1e-5)
    agent = PPOClipAgent(
        step_spec,
        action_spec,
        optimizer=optimizer,
        actor_net=parts.actor,
        value_net=parts.value,
        importance_ratio_clipping=settings.clip,
        entropy_regularization=settings.entropy,
        value_pred_loss_coef=settings.value_loss,
        gradient_clipping=settings.gradient_norm,
        discount_factor=settings.gamma,
        num_epochs=1,
        use_gae=True,
        normalize_rewards=False,  # the settings scale them
        normalize_observations=False,  # the networks do that
        compute_value_and_advantage_in_train=False,  # once for all epochs
        update_normalizers_in_train=False,
    )
    agent.initialize()
    record_environment(run.folder)
    rng = np.random.default_rng(run.seeds("minibatches", 1)[0])
    trackables = {"agent": agent, "optimizer": optimizer, **parts.layers}
    step, best = 0, -math.inf
    if (found := run.latest()) is not None:
        checkpoint.read(found.path, **trackables)
        learning.restore_rng(rng, found.state["rng"])
        parts.restore(found.state["domain"])
        step, best = found.step, found.state["best"]
    export = PolicyExport(agent.policy, run.folder)
    batches = _Batches(agent, settings)
    with Actors(parts.make_env, settings.actors, run.seed, members=settings.members) as actors:
        actors.restart(step)
        next_evaluation = step + settings.evaluate_every
        while step < run.total_steps and not run.out_of_time:
            rollout = actors.collect(parts.act(True), settings.rows)
            step += rollout.env_steps
            share = min(1.0, step / run.total_steps)
            rate = settings.learning_rate + share * (settings.final_learning_rate - settings.learning_rate)
            optimizer.learning_rate.assign(rate)
            # what was seen first is only looked at: the networks learn from normalised observations alone
            losses = {} if step == rollout.env_steps else batches.learn(rollout, rng)
            parts.observe(rollout)
            if rollout.episode_returns:
                losses["Training/AverageReturn"] = float(np.mean(rollout.episode_returns))
            run.log(losses, step)
            seen = losses.get("Training/AverageReturn")
            run.progress(step, "" if seen is None else f"training {seen:.4g}")
            if step < next_evaluation and step < run.total_steps:
                continue
            next_evaluation = step + settings.evaluate_every
            value = float(actors.evaluate(parts.act(False), EVALUATION).mean())
            run.average_return(value, step)
            if value > best:
                best = value
                export.save(step)
            else:
                export.save_checkpoint(step)
            state = {"rng": learning.rng_state(rng), "best": best, "domain": dict(parts.state())}
            run.save(step, lambda folder: checkpoint.write(folder, **trackables), state)
            actors.restart(step)
    run.say(f"done: {step} steps, best return {best:.4g}, {run.elapsed_s:.0f} s")


class _Batches:
    """Turns rollouts into gradient steps."""

    def __init__(self, agent: Any, settings: PPOSettings) -> None:
        self._agent, self._settings = agent, settings
        # One call for a whole rollout; without it every step of the network would be one of Python.
        self._looked_at = tf.function(self._look, reduce_retracing=True)

    def _look(self, observation: Any, step_type: Any) -> Any:
        count = tf.shape(step_type)[0]
        steps = ts.TimeStep(step_type, tf.zeros(count), tf.ones(count), observation)
        return self._agent.collect_policy.distribution(steps, ()).info

    def learn(self, rollout: Rollout, rng: np.random.Generator) -> dict[str, float]:
        """Makes the gradient steps of one rollout and returns the mean of each loss."""
        settings = self._settings
        rows, members = rollout.reward.shape
        info = self._looked_at(_flat(rollout.observation), rollout.step_type.reshape(-1))
        info = tf.nest.map_structure(lambda tensor: tensor.numpy(), info)
        values = info["value_prediction"].reshape(rows, members)
        final = self._looked_at(rollout.last_observation, rollout.last_step_type)["value_prediction"].numpy()
        advantages = self._advantages(rollout, values, final)
        info["advantage"] = advantages.reshape(-1)
        info["return"] = (advantages + values).reshape(-1)
        whole = trajectory.Trajectory(
            rollout.step_type.reshape(-1),
            _flat(rollout.observation),
            _flat(rollout.action),
            info,
            rollout.next_step_type.reshape(-1),
            rollout.reward.reshape(-1),
            rollout.discount.reshape(-1),
        )
        usable = np.flatnonzero(rollout.step_type.reshape(-1) != LAST)
        size = min(settings.batch_size, len(usable))
        losses = []
        for _ in range(settings.epochs):
            order = rng.permutation(usable)
            for start in range(0, len(order) - size + 1, size):
                chosen = order[start : start + size]
                batch = tf.nest.map_structure(lambda array, chosen=chosen: tf.constant(array[chosen][:, None]), whole)
                extra = self._agent.train(batch).extra
                losses.append(
                    [extra.policy_gradient_loss, extra.value_estimation_loss, extra.entropy_regularization_loss]
                )
        names = ("Loss/policy", "Loss/value", "Loss/entropy")
        return dict(zip(names, np.mean(np.array(losses, np.float64), axis=0).tolist(), strict=True))

    def _advantages(self, rollout: Rollout, values: NDArray[Any], final: NDArray[Any]) -> NDArray[np.float32]:
        """Returns generalised advantages, shape (rows, members).

        At a boundary row the next episode must not leak into the one before, so its own value is its reward there.
        """
        settings = self._settings
        boundary = rollout.step_type == LAST
        rewards = (rollout.reward + settings.reward_offset * (rollout.next_step_type == LAST)) * settings.reward_scale
        discounts = np.where(boundary, 0.0, rollout.discount * settings.gamma)
        advantages = value_ops.generalized_advantage_estimation(
            values=tf.constant(values, tf.float32),
            final_value=tf.constant(final, tf.float32),
            discounts=tf.constant(discounts, tf.float32),
            rewards=tf.constant(np.where(boundary, values, rewards), tf.float32),
            td_lambda=settings.lambda_,
            time_major=True,
        )
        result: NDArray[np.float32] = advantages.numpy()
        return result


def _flat(nest: Any) -> Any:
    return tf.nest.map_structure(lambda array: array.reshape(-1, *array.shape[2:]), nest)
