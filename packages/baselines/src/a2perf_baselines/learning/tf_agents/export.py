"""Exports the policy of a training run in the layout of ``a2perf.submission.participant.adapters.tf_agents``.

``policies/greedy_policy`` is a SavedModel and ``policies/checkpoints/policy_checkpoint_<step>`` the variables of one
step. Both are written atomically.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from a2perf_baselines.learning._checkpoints import replace
from a2perf_baselines.learning.tf_agents.frameworks import tf

FOLDER, CHECKPOINTS = "policies", "checkpoints"


class PolicyExport:
    """Saves a policy repeatedly; its functions are traced once.

    Args:
        folder: the training run's artifacts.
    """

    def __init__(self, policy: Any, folder: Path, name: str = "greedy_policy") -> None:
        from tf_agents.policies import policy_saver

        self._folder, self._name = folder / FOLDER, name
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self._saver = policy_saver.PolicySaver(policy, batch_size=None, train_step=self._step)

    def save(self, step: int) -> None:
        """Replaces the SavedModel by the current policy, and saves its variables as a checkpoint of this step."""
        self.save_checkpoint(step)
        replace(self._folder / self._name, lambda path: self._saver.save(str(path)))

    def save_checkpoint(self, step: int) -> None:
        """Saves the variables of the current policy beside the SavedModel."""
        self._step.assign(step)
        target = self._folder / CHECKPOINTS / f"policy_checkpoint_{step:010d}"
        replace(target, lambda path: self._saver.save_checkpoint(str(path)))
