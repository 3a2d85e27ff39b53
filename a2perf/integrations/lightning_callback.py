"""The callback of ``a2perf.integrations.lightning``; importing this module imports Lightning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch import Callback

from a2perf.integrations.epoch_tracking import EpochCosts, EpochTracking

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer


# Lightning is not installed where types are checked
class LightningTracker(EpochCosts, Callback):  # type: ignore[misc]
    """Tracks energy, power, memory and time of ``trainer.fit`` by epoch, and evaluates a policy if asked to.

    After each training epoch it logs ``a2perf/energy_kwh`` (so far), ``a2perf/energy_epoch_kwh``, ``a2perf/power_w``
    and ``a2perf/memory_peak_bytes`` to the loggers of the trainer. In a distributed run it tracks the process of rank
    zero with its child processes.

    Args:
        name: name of the run.
        folder: records the run, as ``a2perf.track`` does.
        interval_s: time between samples in seconds; 1 s by default.
        policy: ``policy(trainer, module)`` returns what ``a2perf.evaluate`` takes, for example a function of an
            observation. Without it nothing is evaluated.
        task: task of the evaluations and of the record.
        every_epochs: epochs between evaluations.
        episodes: episodes per evaluation; by default those of the task.
        seed: seed of the record and of the evaluations.
        root_dir: folder of the evaluations.
        options: further keywords of ``a2perf.evaluate``.

    Raises:
        ConfigError: a policy without a task, an unknown task, or a number that is not positive.

    Example:
        >>> tracker = LightningTracker("behavioural cloning", folder="runs/bc")
        >>> lightning.pytorch.Trainer(max_epochs=3, callbacks=[tracker]).fit(module)
        >>> tracker.tracked.to_pandas()[["phase", "energy"]]
    """

    def __init__(
        self,
        name: str = "lightning",
        *,
        folder: str | Path | None = None,
        interval_s: float | None = None,
        policy: Callable[[Trainer, LightningModule], object] | None = None,
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

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Starts the block."""
        if trainer.is_global_zero:
            self._tracking.begin()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Starts the phase of the epoch."""
        if trainer.is_global_zero:
            self._tracking.begin_epoch(trainer.current_epoch)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs the costs of the epoch and evaluates the policy if it is due."""
        if not trainer.is_global_zero:
            return
        values = self._tracking.end_epoch()
        if self._policy is not None and self._tracking.is_due(trainer.current_epoch):
            for entry in self._tracking.evaluate(self._policy(trainer, pl_module), trainer.current_epoch):
                values.update({name: value for name, value in entry.values().items() if name != "a2perf/energy_kwh"})
        for logger in trainer.loggers:
            logger.log_metrics(values, step=trainer.global_step)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Ends the block."""
        self._tracking.end()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Ends the block of a training run that failed."""
        self._tracking.end(exception)
