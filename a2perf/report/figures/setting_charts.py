"""The charts of one task, each with its title, caption and a description in numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from a2perf.arrays import Values, as_finite
from a2perf.domains import task_title
from a2perf.metrics.application import returns
from a2perf.metrics.scores import SeedGroup
from a2perf.metrics.system import memory_rss_peak, power_mean
from a2perf.metrics.system_series import energy_course
from a2perf.plain_text import plain_text
from a2perf.report.across_tasks import profile_lines
from a2perf.report.figures import compared_charts as compared
from a2perf.report.figures.charts import THINNED, is_thinned, reliable
from a2perf.report.figures.compared_charts import Level, Lines
from a2perf.report.figures.drawing import Chart, Drawing, interactive
from a2perf.report.learning import Axis, learned
from a2perf.report.names import MODE_TITLES
from a2perf.report.numbers_text import rounded_text, row_scale
from a2perf.report.references import run_means, scored_task
from a2perf.report.task_results import Label, TaskResults
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import JOULES_PER_KWH

_AXES: tuple[tuple[Axis, str, str], ...] = (
    ("steps", "steps", ""),
    ("time", "time since the start of training", "s"),
    ("energy", "energy used", "kWh"),
)
_CALLS = ("round_trip", "infer_once", "processor_time")
_CLOCKS = {
    "round_trip": "including transport, by the evaluator's clock",
    "infer_once": "by the participant's clock",
    "processor_time": "processor time of the process tree per step, as the kernel counts it",
}
_CALL_TITLES = {
    "round_trip": "Decision latency (round_trip)",
    "infer_once": "Decision latency (infer_once)",
    "processor_time": "Processor time per step",
}
_POWER = ("cpu_power_w", "gpu_power_w", "ram_power_w")
_SHORTEST_RUN_S = 0.5
_WORTH_A_LOG = 1.5
Names = Callable[..., str]


def charts_of_setting(setting: TaskResults, labels: Mapping[str, Label], new_name: Names) -> list[Chart]:
    """Draws the charts of a setting for which there is data."""
    found = [chart for mode in ("inference", "generalization") for chart in _returns(setting, mode, labels, new_name)]
    for charts in (_learning, _profile, _latency):
        found += charts(setting, labels, new_name)
    return found + [chart for mode in ("train", "inference") for chart in _over_time(setting, mode, labels, new_name)]


def _learning(setting: TaskResults, labels: Mapping[str, Label], new_name: Names) -> Iterator[Chart]:
    groups = setting.in_mode("train")
    for axis, name, unit in _AXES:
        drawn = [lines for group in groups if (lines := learned(group, labels[group.algorithm], axis)) is not None]
        if not drawn:
            continue
        if unit == "kWh":
            drawn, unit = _readable_energy(drawn)
        levels = _levels(setting, labels, groups)
        build = partial(compared.lines, drawn, x_name=name, y_name="training return", x_unit=unit, levels=levels)
        builds: dict[str, Callable[[], Drawing]] = {"linear": build}
        if _worth_a_log(drawn) and all(value > 0 for _, value, _ in levels):
            builds["log"] = partial(build, log=True)
        last = [float(np.mean([y[-1] for _, _, y in of.runs]) if of.mean is None else of.mean[-1]) for of in drawn]
        ends = [f"{lines.name}: {rounded_text(value)} at the end" for lines, value in zip(drawn, last, strict=True)]
        several = "Bold: mean over runs with its 95 % interval; thin: single runs. "
        several *= any(lines.mean is not None for lines in drawn)
        with_curve = {lines.name for lines in drawn}
        absent = [title for group in groups if (title := labels[group.algorithm].title) not in with_curve]
        left_out = f" Without a curve against {axis}: {', '.join(absent)}." if absent else ""
        dotted = " Dotted: evaluated return, floor and expert." if levels else ""
        yield interactive(
            new_name(setting.name, "learning", axis),
            f"Learning curve against {axis}",
            f"{several}Training returns as logged by the submission, with exploration; not measured by the "
            f"evaluator.{dotted}{left_out}",
            "; ".join(ends) + ".",
            builds,
        )


def _levels(setting: TaskResults, labels: Mapping[str, Label], trained: Sequence[SeedGroup]) -> list[Level]:
    """Returns the reference lines of a learning curve: evaluated returns of what was trained, floor and expert."""
    found: list[Level] = []
    if (scored := scored_task(setting)) is not None:
        scale = scored.task.scale()
        found += [(scored.task.floor, scale.floor, None), ("expert", scale.expert, None)]
    for group in trained:
        evaluated = setting.of(group.algorithm, "inference")
        mean = None if evaluated is None else evaluated.scores.get(returns.name)
        if mean is not None and mean.value is not None and np.isfinite(mean.value):
            label = labels[group.algorithm]
            found.append((f"{label.title}, evaluated", mean.value, label.place))
    return found


def _returns(setting: TaskResults, mode: str, labels: Mapping[str, Label], new_name: Names) -> Iterator[Chart]:
    for task, drawn in episode_rows(setting, mode, labels).items():
        several = any(len(runs) > 1 for _, _, runs in drawn)
        caption = f"Each dot is an episode{', each line of dots one run' if several else ''}; the bar marks the mean."
        caption += THINNED * any(is_thinned(runs, 400) for _, _, runs in drawn)
        described = [
            f"{name}: mean {rounded_text(mean_of(runs))} over {sum(run.size for run in runs)} episodes"
            for name, _, runs in drawn
        ]
        where = "" if mode == "inference" else f", {task_title(setting.domain, task)}"
        yield interactive(
            new_name(setting.name, "returns", task if mode == "generalization" else ""),
            f"Returns of rollouts{plain_text(where)}",
            caption,
            "; ".join(described) + ".",
            {"linear": partial(compared.dots, drawn)},
        )


def episode_rows(
    setting: TaskResults, mode: str, labels: Mapping[str, Label]
) -> dict[str, list[tuple[str, int, list[Values]]]]:
    """Returns name, place and the returns of each run of every submission, by task; rows for ``compared.dots``."""
    found: dict[str, list[tuple[str, int, list[Values]]]] = {}
    for label, group in _labelled(setting, mode, labels):
        for task, of_task in sorted(group.data.returns.items()):
            if runs := [values for run in of_task if (values := as_finite(run)[0]).size]:
                found.setdefault(task, []).append((label.title, label.place, runs))
    return dict(sorted(found.items()))


def _profile(setting: TaskResults, labels: Mapping[str, Label], new_name: Names) -> list[Chart]:
    """Draws the profile of the runs' mean returns, normalised if the task has reference scores."""
    found = scored_task(setting)
    task = None if found is None else found.task
    means = {group.algorithm: values for group in setting.in_mode("inference") if (values := run_means(group)).size > 1}
    if not means:
        return []
    scores = {name: (values if task is None else task.normalise(values))[:, None] for name, values in means.items()}
    drawn = profile_lines(scores, labels)
    described = [
        f"{labels[name].title}: half of {s.size} runs above {rounded_text(np.median(s))}" for name, s in scores.items()
    ]
    scale = "" if found is None else f" Scores are normalised: {found.scale}."
    x_name = "mean return of a run" if task is None else "normalised score"
    return [
        interactive(
            new_name(setting.name, "profile"),
            "Performance profile",
            "Share of runs with a mean return above the threshold, with the 95 % bootstrap interval "
            f"(Agarwal et al. 2021). Submissions with one run are left out.{scale}",
            "; ".join(described) + ".",
            {"linear": partial(compared.profiles, drawn, x_name=x_name)},
        )
    ]


def _latency(setting: TaskResults, labels: Mapping[str, Label], new_name: Names) -> Iterator[Chart]:
    for call in _CALLS:
        calls: list[tuple[str, int, Values]] = []
        for label, group in _labelled(setting, "inference", labels):
            runs = [as_finite(run.latency_s.get(call, ()))[0] for run in group.data.runs]
            pooled = np.concatenate(runs) if runs else np.empty(0)
            if bool((pooled > 0).any()):
                calls.append((label.title, label.place, pooled[pooled > 0]))
        if not calls:
            continue
        described = [
            f"{name}: median {_time(np.median(values))}, 99th percentile {_time(np.quantile(values, 0.99))}"
            for name, _, values in calls
        ]
        build: Callable[..., Drawing] = partial(compared.times, calls)
        yield interactive(
            new_name(setting.name, "latency", call),
            _CALL_TITLES[call],
            f"All calls of all runs, {_CLOCKS[call]}; without warm-up.",
            "; ".join(described) + ".",
            {"log": build} if call != "infer_once" else {"log": build, "linear": partial(build, log=False)},
        )


def _over_time(setting: TaskResults, mode: str, labels: Mapping[str, Label], new_name: Names) -> Iterator[Chart]:
    for what, unit, read, metric in (("Power", "W", _power, power_mean), ("Memory", "MiB", _memory, memory_rss_peak)):
        drawn, kinds = [], set()
        for label, group in _labelled(setting, mode, labels):
            runs = []
            for run, name in zip(group.runs, group.seed_names(), strict=True):
                course = read(run, mode)
                if course is not None and course[0].size > 1 and course[0][-1] - course[0][0] >= _SHORTEST_RUN_S:
                    runs.append((name, *course))
            if runs:
                drawn.append(Lines(label.title, label.place, runs))
                score = group.scores.get(metric.name)
                kinds.add(score.provenance if score is not None else "recorded")
        if not drawn:
            continue
        title = f"{what} over time, {MODE_TITLES[mode]}"
        x_name, y_name = "time since the start of the run", what.lower()
        build = partial(compared.lines, drawn, x_name=x_name, y_name=y_name, x_unit="s", y_unit=unit)
        builds: dict[str, Callable[[], Drawing]] = {"linear": partial(build, from_zero=True)}
        if _worth_a_log(drawn):
            builds["log"] = partial(build, log=True)
        described = [
            f"{lines.name}: at most {rounded_text(max(float(y.max()) for _, _, y in lines.runs))} {unit}"
            for lines in drawn
        ]
        of = "Processor, GPU and memory together" if what == "Power" else "Resident set of the process tree"
        provenance = kinds.pop() if kinds in ({"measured"}, {"estimated"}) else "of mixed provenance"
        caption, name = f"{of}; {provenance}. One line per run.", new_name(setting.name, what, mode)
        yield interactive(name, title, caption, "; ".join(described) + ".", builds)


def _power(run: Run, mode: str) -> tuple[Values, Values] | None:
    """Returns seconds and watts, from the samples or, without samples, from the intervals of the emissions table."""
    seconds = run.details.clock()
    if run.details.trace is not None and seconds is not None:
        trace = reliable(run.details.trace, seconds)
        parts = [values for name in _POWER if (values := trace.numbers(name)) is not None]
        if parts:
            total = np.nansum(parts, axis=0)
            # the processor's power is a rate and blank over short intervals, where the sum would be too low
            known = np.isfinite(parts[0]) & (total > 0)
            if known.any():
                return seconds[known], total[known]
    course = energy_course(run.emissions.get(mode, {}))
    if course is None or course.elapsed_s.size < 2:
        return None
    watts = np.diff(course.kwh) * JOULES_PER_KWH / np.maximum(np.diff(course.elapsed_s), 1e-9)
    return course.elapsed_s[1:], watts


def _memory(run: Run, mode: str) -> tuple[Values, Values] | None:
    """Returns seconds and MiB: of the samples, or of the emissions table."""
    seconds = run.details.clock()
    if run.details.trace is not None and seconds is not None:
        values = reliable(run.details.trace, seconds).numbers("rss_bytes")
        if values is not None and (known := np.isfinite(values) & (values > 0)).any():
            return seconds[known], values[known] / 2.0**20
    columns = run.emissions.get(mode, {})
    duration, memory = columns.get("duration"), columns.get("ram_process")
    one_process = len(set(columns.get("run_id", ()))) < 2
    if not (isinstance(duration, np.ndarray) and isinstance(memory, np.ndarray) and one_process):
        return None
    known = np.isfinite(duration) & np.isfinite(memory) & (memory > 0)
    return (duration[known], memory[known] * 1024.0) if known.any() else None


def _labelled(setting: TaskResults, mode: str, labels: Mapping[str, Label]) -> list[tuple[Label, SeedGroup]]:
    """Returns the groups of a mode, each with its label."""
    return [(labels[group.algorithm], group) for group in setting.in_mode(mode)]


def mean_of(runs: Sequence[Values]) -> float:
    """Returns the mean over runs of the mean over episodes."""
    return float(np.mean([run.mean() for run in runs]))


def _worth_a_log(drawn: Sequence[Lines]) -> bool:
    values = np.concatenate([y for lines in drawn for _, _, y in lines.runs])
    return bool(values.size and values.min() > 0 and values.max() / values.min() >= _WORTH_A_LOG)


def _readable_energy(drawn: Sequence[Lines]) -> tuple[list[Lines], str]:
    """Converts energies on the horizontal axis to the unit that suits the largest."""
    factor, unit = row_scale([max(float(x.max()) for lines in drawn for _, x, _ in lines.runs)], "kWh")
    scaled = [
        dataclasses.replace(
            lines,
            runs=[(name, x / factor, y) for name, x, y in lines.runs],
            x=None if lines.x is None else lines.x / factor,
        )
        for lines in drawn
    ]
    return scaled, unit


def _time(seconds: float) -> str:
    return rounded_text(seconds, "s")
