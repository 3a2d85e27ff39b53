"""The callback of ``a2perf.integrations.keras``; importing this module imports Keras."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras

from a2perf.integrations.epoch_tracking import EpochCosts, EpochTracking


# Keras is not installed where types are checked
class KerasTracker(EpochCosts, keras.callbacks.Callback):  # type: ignore[misc]
    """Tracks energy, power, memory and time of ``model.fit`` by epoch, and evaluates a policy if asked to.

    After each epoch it adds ``a2perf/energy_kwh`` (so far), ``a2perf/energy_epoch_kwh``, ``a2perf/power_w`` and
    ``a2perf/memory_peak_bytes`` to the logs, so ``History``, ``CSVLogger`` and the other callbacks that follow it in
    the list record them. Keras does not report exceptions to callbacks: after one, call ``close`` or start another
    ``fit`` with the same callback; the costs up to then stay available. It is for Keras 3, not for ``tf_keras``.

    Args:
        name: name of the run.
        folder: records the run, as ``a2perf.track`` does.
        interval_s: time between samples in seconds; 1 s by default.
        policy: ``policy(model)`` returns what ``a2perf.evaluate`` takes, for example a function of an observation.
            Without it nothing is evaluated.
        task: task of the evaluations and of the record.
        every_epochs: epochs between evaluations.
        episodes: episodes per evaluation; by default those of the task.
        seed: seed of the record and of the evaluations.
        root_dir: folder of the evaluations.
        options: further keywords of ``a2perf.evaluate``.

    Raises:
        ConfigError: a policy without a task, an unknown task, or a number that is not positive.

    Example:
        >>> tracker = KerasTracker("behavioural cloning", folder="runs/bc")
        >>> history = model.fit(x, y, epochs=3, callbacks=[tracker])
        >>> history.history["a2perf/energy_epoch_kwh"]
    """

    def __init__(
        self,
        name: str = "keras",
        *,
        folder: str | Path | None = None,
        interval_s: float | None = None,
        policy: Callable[[Any], object] | None = None,
        task: str = "",
        every_epochs: int = 1,
        episodes: int | None = None,
        seed: int = 0,
        root_dir: str | Path = "runs",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._policy = policy
        self._tracking = EpochTracking(
            name, folder=folder, interval_s=interval_s, task=task, seed=seed, evaluates=policy is not None,
            every_epochs=every_epochs, episodes=episodes, root_dir=root_dir, options=options,
        )  # fmt: skip

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Starts the block."""
        self._tracking.begin()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Starts the phase of the epoch."""
        self._tracking.begin_epoch(epoch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Adds the costs of the epoch to the logs and evaluates the policy if it is due."""
        values = self._tracking.end_epoch()
        if self._policy is not None and self._tracking.is_due(epoch):
            for entry in self._tracking.evaluate(self._policy(self.model), epoch):
                values.update({name: value for name, value in entry.values().items() if name != "a2perf/energy_kwh"})
        if logs is not None:
            logs.update(values)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Ends the block."""
        self._tracking.end()

    def close(self, error: BaseException | None = None) -> None:
        """Ends the block after an exception in ``fit``.

        Args:
            error: the exception, for the record.
        """
        self._tracking.end(error)
