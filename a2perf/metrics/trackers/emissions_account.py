"""Turns the run's energy into emissions, with the carbon intensity of codecarbon or of its data files."""

from __future__ import annotations

from pathlib import Path

from a2perf.metrics.trackers.carbon_factors import CarbonFactor, find_factor
from a2perf.metrics.trackers.codecarbon_run import CodecarbonRun
from a2perf.metrics.trackers.emissions import EmissionsSettings
from a2perf.metrics.trackers.energy import CpuEnergy
from a2perf.runs.tracking_record import Emissions, TrackedEnergy
from a2perf.metrics.trackers.tick import Tick


class EmissionsTracker:
    """Finds the carbon intensity, and runs codecarbon in the background.

    Args:
        settings: where the run takes place and what codecarbon shall do.
        directory: where codecarbon's log goes.
        cpu: the processor's tracker, whose power model codecarbon is given so that both use one.
        grace_s: how long a run may last without codecarbon being imported; ``None`` leaves it out.
    """

    name = "emissions"

    def __init__(
        self,
        settings: EmissionsSettings,
        directory: Path,
        cpu: CpuEnergy,
        *,
        grace_s: float | None = None,
    ) -> None:
        self._settings = settings
        self._log_file = directory / "codecarbon.log"
        self._cpu = cpu
        self._grace_s = grace_s
        self._run: CodecarbonRun | None = None
        self.factor: CarbonFactor | None = None
        self.log_files: dict[str, str] = {}
        self._result_kg_per_kwh: float | None = None
        self._emissions = Emissions()

    def start(self) -> None:
        """Finds the factor in codecarbon's data files."""
        given = self._settings
        self.factor = find_factor(
            country_iso_code=given.country_iso_code,
            region=given.region,
            cloud_provider=given.cloud_provider,
            cloud_region=given.cloud_region,
            force_g_per_kwh=given.force_carbon_intensity_g_co2e_kwh,
        )

    def attach(self) -> None:
        """Starts codecarbon's grace period."""
        if self._grace_s is None:
            return
        from a2perf.metrics.trackers.host import describe_host

        model = self._cpu.model
        watts = model.watts_per_thread * describe_host().cpu_count if model is not None else None
        self._run = CodecarbonRun(self._settings, self._log_file, cpu_watts=watts, grace_s=self._grace_s)
        self._run.start()

    def sample(self, tick: Tick) -> None:
        """Has nothing to read; codecarbon samples by itself."""

    def stop(self) -> None:
        """Ends codecarbon."""
        if self._run is None:
            return
        result = self._run.stop()
        self._emissions.codecarbon = result
        self._result_kg_per_kwh = result.kg_per_kwh if result.ready_after_s is not None else None
        if self._log_file.exists():
            self.log_files["codecarbon_log"] = self._log_file.name
        if result.state.startswith("failed"):
            raise RuntimeError(f"codecarbon {result.state}")

    @property
    def kg_per_kwh(self) -> float:
        """The carbon intensity in force now; codecarbon's as soon as it has measured."""
        live = self._result_kg_per_kwh or (self._run.kg_per_kwh if self._run is not None else None)
        return live if live is not None else self.factor.kg_per_kwh if self.factor is not None else 0.0

    def method(self, cpu_method: str) -> str:
        """How emissions come about now: ``"a2perf:<energy>+codecarbon"`` or ``"a2perf:<energy>+factor:<place>"``."""
        energy = f"a2perf:{cpu_method.split(':')[0]}"
        if self._result_kg_per_kwh is not None or (self._run is not None and self._run.kg_per_kwh is not None):
            return f"{energy}+codecarbon"
        return f"{energy}+factor:{self.factor.source if self.factor is not None else 'none'}"

    def emissions(self, energy: TrackedEnergy) -> Emissions:
        """The emissions of so much energy."""
        result, factor = self._emissions, self.factor
        result.kg_per_kwh = self.kg_per_kwh
        result.kg_co2eq = energy.gross_kwh * result.kg_per_kwh
        result.method = self.method(energy.cpu.method)
        result.quality = energy.quality
        if factor is not None:
            result.country_name, result.country_iso_code = factor.country_name, factor.country_iso_code
            result.region, result.factor_source, result.note = factor.region, factor.source, factor.note
        return result
