"""Cloning of choices among candidates: demonstrations of any length, and TF-Agents' agent that learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf_baselines import learning
from a2perf_baselines.candidates import padded
from a2perf_baselines.learning.tf_agents.frameworks import tf  # before TF-Agents

from a2perf_baselines.learning.tf_agents import checkpoint  # isort: skip
from a2perf_baselines.learning.tf_agents.candidates import CandidateNetwork, Chooser  # isort: skip
from a2perf_baselines.learning.tf_agents.export import PolicyExport  # isort: skip
from tf_agents.agents.behavioral_cloning.behavioral_cloning_agent import BehavioralCloningAgent  # isort: skip
from tf_agents.specs import tensor_spec  # isort: skip
from tf_agents.trajectories import time_step as ts  # isort: skip
from tf_agents.trajectories import trajectory  # isort: skip


class Demonstrations:
    """Tables without the rows that pad them, and the row that the expert chose."""

    def __init__(self) -> None:
        self.tables: list[NDArray[Any]] = []
        self.rows: list[int] = []

    def add(self, table: NDArray[Any], row: int) -> None:
        """Keeps an example; ``table`` may be padded with invalid rows at its end."""
        last = int(np.flatnonzero(table[:, 0] > 0)[-1])
        self.tables.append(table[: last + 1].copy())
        self.rows.append(row)

    def __len__(self) -> int:
        """Returns the number of examples."""
        return len(self.rows)

    def batch(self, chosen: Sequence[int], size: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Returns some examples: tables of ``size`` rows, and the chosen rows."""
        tables = np.stack([padded(self.tables[index], size) for index in chosen])
        return tables, np.array([self.rows[index] for index in chosen], np.int64)


class Cloner:
    """TF-Agents' behavioural cloning over candidates; the loss is the cross entropy of the chosen row.

    Args:
        env: shows the tables.
        widths: of the hidden layers.
        learning_rate: of Adam.
    """

    def __init__(self, env: Any, widths: Sequence[int], learning_rate: float) -> None:
        self.size, features = env.observation_space.shape
        spec = tensor_spec.TensorSpec((self.size, features), tf.float16, "observation")
        self.network = CandidateNetwork(spec, widths)
        self.optimizer = tf.keras.optimizers.Adam(learning_rate)
        self.agent = BehavioralCloningAgent(
            ts.time_step_spec(spec),
            tensor_spec.BoundedTensorSpec((), tf.int64, 0, self.size - 1, "action"),
            cloning_network=self.network,
            optimizer=self.optimizer,
            gradient_clipping=5.0,
        )
        self.agent.initialize()
        self._learn = tf.function(self.agent.train)

    def fit(
        self,
        run: learning.TrainingRun,
        seen: Demonstrations,
        rng: np.random.Generator,
        rates: Sequence[float],
        batch: int,
        step: int,
    ) -> float:
        """Makes a gradient step for each learning rate; returns the mean loss of the last hundred."""
        losses = []
        for number, rate in enumerate(rates):
            self.optimizer.learning_rate.assign(rate)
            tables, rows = seen.batch(rng.integers(0, len(seen), batch), self.size)
            middle, one = tf.ones(batch, tf.int32), tf.ones(batch)
            example = trajectory.Trajectory(middle, tf.constant(tables), tf.constant(rows), (), middle, one, one)
            losses.append(float(self._learn(example).loss))
            run.progress(step, f"loss {losses[-1]:.4f}  update {number + 1}/{len(rates)}")
        return float(np.mean(losses[-100:]))

    def chooser(self) -> Chooser:
        """Returns the greedy policy as it is now, in NumPy."""
        return Chooser.of(self.network)

    def export(self, run: learning.TrainingRun) -> PolicyExport:
        """Returns what saves the greedy policy."""
        return PolicyExport(self.agent.policy, run.folder)

    def write(self, folder: Any) -> None:
        """Writes the variables into a checkpoint."""
        checkpoint.write(folder, network=self.network, optimizer=self.optimizer)

    def read(self, folder: Any) -> None:
        """Takes the variables of a checkpoint."""
        checkpoint.read(folder, network=self.network, optimizer=self.optimizer)
