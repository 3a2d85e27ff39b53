"""What the training data cost: the energy that went into a data set and the policies it was made from.

``training_sample_cost`` is the mean training energy of the checkpoints whose episodes are in the data set, as the
earlier platform defined it. The energy of an experiment is here the sum over all its processes; the earlier code kept
the last one only and so under-counted distributed collectors (``every_process=False`` repeats that). ``data_energy`` is
what lies behind the samples that a training really used, generating them included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.values import Metric, MetricValue, Profile, RunData, Values, as_finite, not_enough

Level = Literal["novice", "intermediate", "expert"]


class SkillBounds(msgspec.Struct, kw_only=True, frozen=True):
    """Bounds of the skill levels in mean episode return; what lies between them belongs to no level.

    Attributes:
        novice_max: mean less two standard deviations.
        intermediate_min: mean less one.
        intermediate_max: mean plus one.
        expert_min: mean plus two.
    """

    novice_max: float
    intermediate_min: float
    intermediate_max: float
    expert_min: float

    def level(self, mean_return: float) -> Level | None:
        """Returns the level of a checkpoint, ``None`` when it lies in a gap."""
        if mean_return <= self.novice_max:
            return "novice"
        if mean_return >= self.expert_min:
            return "expert"
        return "intermediate" if self.intermediate_min <= mean_return <= self.intermediate_max else None


def skill_levels(mean_returns: Sequence[float]) -> SkillBounds:
    """Returns the bounds from the mean (or median) return of each checkpoint of all experiments; ddof 1.

    Raises:
        ValueError: fewer than two finite returns.
    """
    finite, _ = as_finite(mean_returns)
    if finite.size < 2:
        raise ValueError(not_enough(finite.size, 2, "checkpoints"))
    mean, deviation = float(finite.mean()), float(finite.std(ddof=1))
    return SkillBounds(
        novice_max=mean - 2 * deviation,
        intermediate_min=mean - deviation,
        intermediate_max=mean + deviation,
        expert_min=mean + 2 * deviation,
    )


def experiment_energy(cumulative_by_process: Mapping[str, Sequence[float]], *, every_process: bool = True) -> float:
    """Returns the energy of an experiment in kWh.

    Args:
        cumulative_by_process: per ``run_id`` its cumulative ``energy_consumed`` rows in order, kWh.
        every_process: sum the last value of every process; ``False`` takes that of the last process only.
    """
    last = [float(finite[-1]) for rows in cumulative_by_process.values() if (finite := as_finite(rows)[0]).size]
    if not last:
        return 0.0
    return sum(last) if every_process else last[-1]


def checkpoint_energies(total_kwh: float, checkpoint_numbers: Sequence[int]) -> Values:
    """Returns what training up to each checkpoint took: the total in proportion to its number, kWh.

    Args:
        total_kwh: energy of the whole training.
        checkpoint_numbers: number (step) of each checkpoint; the highest one took all of it.
    """
    numbers = np.asarray(checkpoint_numbers, dtype=np.float64)
    if not numbers.size or numbers.max() <= 0:
        return np.zeros(numbers.size)
    return np.asarray(total_kwh * numbers / numbers.max())


def training_sample_cost(data: RunData, profile: Profile) -> Mapping[str, MetricValue]:
    """Computes ``training_sample_cost`` from the checkpoints' energies of each data set."""
    name = "training_sample_cost"
    made: dict[str, Any] = {"name": name, "unit": "kWh", "direction": "min", "profile": profile}
    made["provenance"] = "estimated"
    made["method"] = "claimed by the participant: energy of the training in proportion to the checkpoint's number"
    finite = [as_finite(costs) for costs in data.dataset_costs]
    means = np.array([costs.mean() for costs, _ in finite if costs.size])
    notes = [f"{lost} checkpoint(s) without energy left out" for _, lost in finite if lost]
    if not means.size:
        condition = not_enough(0, 1, "checkpoints")
        return {name: MetricValue(**made, n=len(finite), condition=condition, notes=notes)}
    several = means.size > 1
    return {
        name: MetricValue(
            **made,
            value=float(means.mean()),
            spread=float(means.std(ddof=1)) if several else None,
            spread_kind="standard deviation over data sets, ddof 1" if several else None,
            interval=mean_interval(means) if several and profile == "corrected" else None,
            per_run=[float(mean) for mean in means],
            n=int(means.size),
            notes=notes,
        )
    }


def data_energy(data: RunData, profile: Profile) -> Mapping[str, MetricValue]:
    """Computes ``data_energy`` from what lies behind the samples of each run."""
    name = "data_energy"
    made: dict[str, Any] = {"name": name, "unit": "kWh", "direction": "min", "profile": profile}
    known = np.array([kwh for kwh, _ in data.data_energy], np.float64)
    finite, lost = as_finite(known)
    ways = {way for (kwh, way) in data.data_energy if np.isfinite(kwh)}
    made["provenance"] = ways.pop() if len(ways) == 1 else "mixed" if ways else "estimated"
    made["method"] = "claimed by the participant: samples used, as the training noted them, times the energy of one"
    notes = [f"{lost} run(s) used data whose energy is not known"] if lost else []
    if not finite.size:
        condition = not_enough(0, 1, "runs on data of known energy")
        return {name: MetricValue(**made, n=int(known.size), condition=condition, notes=notes)}
    several = finite.size > 1
    return {
        name: MetricValue(
            **made,
            value=float(finite.mean()),
            spread=float(finite.std(ddof=1)) if several else None,
            spread_kind="standard deviation over runs, ddof 1" if several else None,
            interval=mean_interval(finite) if several and profile == "corrected" else None,
            per_run=[float(kwh) if np.isfinite(kwh) else None for kwh in known],
            n=int(finite.size),
            notes=notes,
        )
    }


METRICS: tuple[Metric, ...] = (
    Metric(
        name="training_sample_cost",
        label="Training sample cost",
        category="data",
        unit="kWh",
        direction="min",
        provenance="as recorded",
        formula="mean over the checkpoints of a data set of the energy that training them took",
        source="earlier public platform",
        needs="1 checkpoint with its training energy",
        compute=training_sample_cost,
    ),
    Metric(
        name="data_energy",
        label="Energy behind the offline data",
        category="data",
        unit="kWh",
        direction="min",
        provenance="as recorded",
        formula="samples used times (energy of generating the data set + of training its policies) / its steps",
        source="a2perf",
        needs="1 training that read a data set of known energy",
        compute=data_energy,
    ),
)
