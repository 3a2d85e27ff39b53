"""The numbers of one run: the metrics of this run alone, and further numbers of the trackers that are not ranked."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from a2perf.arrays import Values
from a2perf.metrics import application, registry
from a2perf.metrics.application import returns
from a2perf.metrics.profiles.reliability import SPREAD_OF_ROLLOUTS
from a2perf.metrics.runs_in_mode import scored_runs
from a2perf.metrics.system import energy_gross
from a2perf.metrics.values import MetricValue, Profile
from a2perf.records import Episode
from a2perf.report.ranks import lacks_uncertainty
from a2perf.report.tables import Quantity
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import recorded

EPISODE_SPREAD = "standard deviation over episodes, ddof 1"
MEASUREMENT_SPREAD = "expanded uncertainty of the measurement, k = 2"
_SIDE_NOTES = (
    ("cpu_mean", "CPU use, mean", "cpu_utilization_mean_percent", "%", "of one core, process tree"),
    ("processes_peak", "Processes, peak", "processes_peak", "", "in the tree"),
    ("threads_peak", "Threads, peak", "threads_peak", "", "in the tree"),
    ("io_read", "Read from storage", "io_read_bytes", "bytes", "by the process tree"),
    ("io_write", "Written to storage", "io_write_bytes", "bytes", "by the process tree"),
    ("tracker_cpu", "Trackers' own CPU time", "own_cpu_seconds", "s", "of the sampling, in the evaluator"),
    ("tracker_share", "Trackers' own share", "own_cpu_percent", "%", "of one core"),
)


class Measure(msgspec.Struct, kw_only=True, frozen=True):
    """One named number of a run."""

    key: str
    label: str
    category: str
    mode: str
    quantity: Quantity
    task: str | None = None


def measures(run: Run, profile: Profile) -> list[Measure]:
    """Returns every number that a run holds: metrics in the order of the registry, then side notes."""
    found = [measure for mode in run.modes() for measure in _of_mode(run, mode, profile)]
    return [*found, *_side_notes(run)]


def find(found: list[Measure], key: str) -> Quantity | None:
    """Returns the quantity with this key, preferably of the whole run rather than of one task."""
    named = [measure for measure in found if measure.key == key]
    return next((m.quantity for m in sorted(named, key=lambda m: m.task is not None)), None)


def episode_values(episodes: list[Episode], name: str) -> Values:
    """Returns one number per episode: an attribute of the record."""
    return np.array([float(getattr(episode, name)) for episode in episodes], dtype=np.float64)


def reward_terms(episodes: list[Episode]) -> dict[str, Values]:
    """Returns the mean reward per step of each term, one value per episode, terms in the environment's order."""
    names = dict.fromkeys(name for episode in episodes for name in episode.reward_terms)
    return {
        name: np.array([episode.reward_terms[name] for episode in episodes if name in episode.reward_terms])
        for name in names
    }


def _of_mode(run: Run, mode: str, profile: Profile) -> Iterator[Measure]:
    metrics = registry.all_metrics()
    data = scored_runs([run], mode)
    scores = registry.score(data, profile)
    spread = scores.get(SPREAD_OF_ROLLOUTS.name)
    for name, value in scores.items():
        if value.value is not None:
            over_episodes = spread if name == returns.name else None
            episodes = sum(len(runs[0]) for runs in data.returns.values() if runs) if name == returns.name else None
            quantity = _quantity(value, over_episodes, episodes)
            metric = metrics[name]
            yield Measure(key=name, label=metric.label, category=metric.category, mode=mode, quantity=quantity)
    for task, episodes_of in run.episodes.items():
        if episodes_of and run.identity.mode == mode:
            lengths = episode_values(episodes_of, "length")
            mean = Quantity(
                value=float(lengths.mean()),
                unit="steps",
                n=lengths.size,
                provenance="recorded",
                spread=float(lengths.std(ddof=1)) if lengths.size > 1 else None,
                spread_kind=EPISODE_SPREAD if lengths.size > 1 else None,
            )
            yield Measure(
                key="episode_length",
                label="Episode length",
                category="application",
                mode=mode,
                quantity=mean,
                task=task if mode == "generalization" else None,
            )
    if mode == "generalization":
        for task, values in application.per_task(data, profile).items():
            for name, value in values.items():
                if value.value is not None:
                    yield Measure(
                        key=name,
                        label=metrics[name].label,
                        category="application",
                        mode=mode,
                        task=task,
                        quantity=_quantity(value, None, len(data.returns[task][0])),
                    )


def _quantity(value: MetricValue, over_episodes: MetricValue | None, episodes: int | None) -> Quantity:
    spread = value.uncertainty if over_episodes is None else over_episodes.value
    kind = MEASUREMENT_SPREAD if over_episodes is None else EPISODE_SPREAD
    note = "uncertainty not recorded" if lacks_uncertainty(value) else ""
    return Quantity(
        value=value.value,
        unit=value.unit,
        spread=spread,
        spread_kind=kind if spread is not None else None,
        n=episodes,
        provenance=value.provenance,
        method=value.method,
        note="; ".join(text for text in (*value.notes, note) if text) or None,
    )


def _side_notes(run: Run) -> Iterator[Measure]:
    for task, report in (run.tracking_by_task or {"": run.tracking}).items():
        for key, label, name, unit, method in _SIDE_NOTES:
            yield from _note(run, key, label, recorded(getattr(report, name)), unit, "measured", method, task)
        missing = recorded(report.account.cpu_not_accounted_max_s)
        method = f"at most; beside what the {report.account.cpu or 'tree'} shows"
        yield from _note(run, "cpu_not_attributed", "CPU time, not attributed", missing, "s", "measured", method, task)
        energy = report.energy
        if task and energy.quality not in ("", "none"):
            gross = recorded(energy.gross_kwh)
            yield from _note(
                run, energy_gross.name, energy_gross.label, gross, "kWh", energy.quality, energy.method, task
            )
        for key, label, component in (
            ("power_cpu_idle", "Power, CPU, idle", energy.cpu),
            ("power_gpu_idle", "Power, GPU, idle", energy.gpu),
            ("power_ram_idle", "Power, RAM, idle", energy.ram),
        ):
            if component.quality not in ("", "none"):
                idle_w = recorded(component.idle_w)
                yield from _note(run, key, label, idle_w, "W", component.quality, component.method, task)
    if run.details.train is not None:
        size, files = float(run.details.train.artifact_bytes), f"{run.details.train.artifact_files} file(s)"
        yield from _note(run, "artifacts", "Artifacts written", size, "bytes", "measured", files, "")


def _note(
    run: Run, key: str, label: str, value: float | None, unit: str, quality: str, method: str, task: str
) -> Iterator[Measure]:
    if value is not None:
        provenance = "measured" if quality == "measured" else "estimated"
        quantity = Quantity(value=value, unit=unit, provenance=provenance, method=method)
        yield Measure(key=key, label=label, category="system", mode=run.mode, quantity=quantity, task=task or None)
