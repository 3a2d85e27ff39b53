"""Uncertainty of an energy, after the Guide to the Expression of Uncertainty in Measurement (GUM, JCGM 100:2008).

Every contribution is a standard uncertainty in joules. A bound without more knowledge is a rectangular distribution
(GUM 4.3.7): half-width / sqrt(3). Contributions are independent and add in quadrature (GUM 5.1.2); the expanded
uncertainty is twice the result (coverage factor k = 2, about 95 % for a normal distribution, GUM 6.2).

resolution
    one tick of a counter, at the start and at the end.
sampling
    energy between the update of a counter and its reading, at both ends; time in which no counter could be read.
attribution
    the part of the tree in the energy of a machine or device, and the idle draw that is subtracted.
model
    what the instrument itself gets wrong: ``MODEL_ERRORS``, half-widths relative to the energy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from a2perf.runs.tracking_record import COMPONENTS, JOULES_PER_KWH, EnergyUncertainty, TrackingReport

COVERAGE_FACTOR = 2.0

MODEL_ERRORS: dict[str, float] = {
    "rapl": 0.05,
    "rapl amd": 0.15,
    "rapl dram": 0.20,
    "rapl_core": 0.05,
    "rapl_psys": 0.10,
    "nvml": 0.05,
    "tdp_model": 0.50,
    "ram_model": 0.60,
    "force_ram_power": 0.20,
}
"""Half-widths of what an instrument or a model may be wrong by, relative to the energy. Measuring RAPL since Haswell
follows meters within a few percent (Khan et al. 2018, doi:10.1145/3177754); AMD's is computed from events and misses
the dependence on data (Schoene et al. 2021, arXiv:2108.00808); sensors of GPUs are within 5 % (Yang et al. 2024,
arXiv:2312.02741). The bounds of the models are ours: the power of a thread at full load says little about its work."""

POWER_RATIO = 2.0
"""A second of processor time of one program may take up to this many times the energy of another's."""
SHORT_RUN = 0.10
"""A run is too short for its counters if their resolution and sampling leave a larger share of the energy open."""
IDLE_DRIFT = 0.10
"""The idle draw during the run may differ from that of the baseline by this share."""


@dataclass(frozen=True)
class Contributions:
    """Standard uncertainties of one energy in joules, by cause."""

    resolution: float = 0.0
    sampling: float = 0.0
    attribution: float = 0.0
    model: float = 0.0

    def standard(self) -> float:
        """Returns the combined standard uncertainty in joules."""
        return math.hypot(*vars(self).values())

    def scaled(self, factor: float) -> Contributions:
        """Returns the contributions to a part of the energy."""
        return Contributions(*(factor * value for value in vars(self).values()))

    def record(self, pue: float) -> EnergyUncertainty:
        """Returns the record in kilowatt-hours; the power usage effectiveness is taken as exact."""
        scale = pue / JOULES_PER_KWH
        return EnergyUncertainty(
            expanded_kwh=COVERAGE_FACTOR * self.standard() * scale,
            coverage_factor=COVERAGE_FACTOR,
            resolution_kwh=self.resolution * scale,
            sampling_kwh=self.sampling * scale,
            attribution_kwh=self.attribution * scale,
            model_kwh=self.model * scale,
        )


def rectangular(half_width: float) -> float:
    """Returns the standard uncertainty of a value that lies anywhere within plus or minus ``half_width``."""
    return abs(half_width) / math.sqrt(3)


def of_two_readings(step: float) -> float:
    """Returns the standard uncertainty of a difference of two readings, each of them late by up to one ``step``."""
    return abs(step) / math.sqrt(6)


def of_share(share: float) -> float:
    """Returns the standard uncertainty of a share by processor time, if power per second differs by ``POWER_RATIO``.

    With shares s and 1 - s of the time and a ratio r of the powers, the energy's share is r s / (r s + 1 - s): by first
    order a half-width of s (1 - s) ln(POWER_RATIO), none for a tree that is alone.
    """
    return rectangular(share * (1.0 - share) * math.log(POWER_RATIO))


def short_run_notes(report: TrackingReport) -> list[str]:
    """Returns one sentence per component with an energy that the run is too short, or was read too rarely, to know."""
    notes = []
    for name in COMPONENTS:
        part = getattr(report.energy, name)
        unsure = part.gross_uncertainty
        open_kwh = COVERAGE_FACTOR * math.hypot(unsure.resolution_kwh, unsure.sampling_kwh)
        if part.quality != "none" and part.gross_kwh > 0 and open_kwh > SHORT_RUN * part.gross_kwh:
            notes.append(
                f"the run of {report.wall_s:.3g} s with {report.samples} sample(s) is too short for its {name.upper()}"
                f" energy: resolution and sampling alone leave ± {100 * open_kwh / part.gross_kwh:.0f} % open"
            )
    return notes
