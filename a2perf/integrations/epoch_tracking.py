"""The costs of a training run by epoch, for the callbacks of Lightning and Keras."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2perf.errors import ConfigError
from a2perf.integrations.periodic_evaluation import EvaluatedPolicy, PeriodicEvaluation

if TYPE_CHECKING:
    from a2perf.api.results import Runs
    from a2perf.api.tracking import Tracked, TrackedBlock

EVALUATION = "evaluation"


class EpochTracking:
    """One ``a2perf.track`` block around a training run, with one phase per epoch.

    Args:
        name: name of the block.
        folder: as for ``a2perf.track``.
        interval_s: as for ``a2perf.track``.
        task: task of the record and of evaluations.
        seed: seed of the record and of evaluations.
        evaluates: whether policies are evaluated; needs ``task``.
        every_epochs: epochs between evaluations.
        episodes: episodes per evaluation.
        root_dir: folder of the evaluations.
        options: further keywords of ``a2perf.evaluate``.

    Raises:
        ConfigError: evaluations without a task, an unknown task, or a number that is not positive.
    """

    def __init__(
        self,
        name: str,
        *,
        folder: str | Path | None,
        interval_s: float | None,
        task: str,
        seed: int,
        evaluates: bool,
        every_epochs: int,
        episodes: int | None,
        root_dir: str | Path,
        options: Mapping[str, Any] | None,
    ) -> None:
        if evaluates and not task:
            raise ConfigError("an evaluation needs the name of a task", hint='task="dog_pace", see `a2perf envs`')
        self._block_settings: dict[str, Any] = {
            "folder": folder, "interval_s": interval_s, "task": task, "seed": seed,
        }  # fmt: skip
        self._name = name
        self._block: TrackedBlock | None = None
        self.tracked: Tracked | None = None
        self.evaluation = (
            PeriodicEvaluation(
                task, every=every_epochs, episodes=episodes, seed=seed, name=name, root_dir=root_dir, options=options
            )
            if evaluates
            else None
        )
        self._last_kwh = 0.0

    @property
    def results(self) -> Runs:
        """The results of the evaluations so far."""
        from a2perf.api.results import Runs

        return Runs() if self.evaluation is None else self.evaluation.results

    def begin(self) -> None:
        """Starts a block; one that an exception left open ends here."""
        from a2perf.api.tracking import track

        self.end()
        self._block = track(self._name, **self._block_settings)
        self.tracked = self._block.__enter__()
        self._last_kwh = 0.0

    def begin_epoch(self, epoch: int) -> None:
        """Starts the phase of an epoch."""
        if self.tracked is not None:
            self.tracked.mark(f"epoch {epoch}")

    def end_epoch(self) -> dict[str, float]:
        """Returns the costs to log: energy of the epoch and in total in kWh, mean power in W, memory in bytes."""
        if self.tracked is None:
            return {}
        report = self.tracked.report
        total = report.energy.gross_kwh
        epoch_kwh, self._last_kwh = total - self._last_kwh, total
        return {
            "a2perf/energy_kwh": total,
            "a2perf/energy_epoch_kwh": epoch_kwh,
            "a2perf/power_w": report.energy.power_mean_w,
            "a2perf/memory_peak_bytes": float(report.rss_peak_bytes),
        }

    def evaluate(self, policy: object, epoch: int) -> list[EvaluatedPolicy]:
        """Evaluates a policy; its cost counts for a separate phase."""
        if self.evaluation is None:
            return []
        if self.tracked is not None:
            self.tracked.mark(EVALUATION)
        return self.evaluation.start(policy, epoch)

    def is_due(self, epoch: int) -> bool:
        """Returns whether a policy is evaluated after this epoch, counted from 0."""
        return self.evaluation is not None and (epoch + 1) % self.evaluation.every == 0

    def end(self, error: BaseException | None = None) -> None:
        """Ends the block; a second call changes nothing."""
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(type(error) if error is not None else None, error, None)


class EpochCosts:
    """What the callbacks of Keras and Lightning show; base class beside that of the framework."""

    _tracking: EpochTracking

    @property
    def tracked(self) -> Tracked | None:
        """The costs, one phase per epoch; None before the training run."""
        return self._tracking.tracked

    @property
    def results(self) -> Runs:
        """The results of the evaluations so far."""
        return self._tracking.results

    @property
    def failures(self) -> dict[int, str]:
        """Why evaluations failed, by epoch."""
        return {} if self._tracking.evaluation is None else self._tracking.evaluation.failures
