"""Tables of recorded runs: one row per run, episode, step, timed call or point of a curve. Runs as text."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from a2perf.api.columns import Kind
from a2perf.api.recorded import LazyRun
from a2perf.api.score_text import group_lines, normalised_return, text_line, wrapped
from a2perf.api.table import Table
from a2perf.api.table_text import shown_rows, table_text
from a2perf.arrays import Values
from a2perf.metrics import registry
from a2perf.plain_text import plain_text, terminal_line, terminal_text
from a2perf.records import Episode
from a2perf.report.numbers_text import Scale, counted, written
from a2perf.report.provenance import noise
from a2perf.runs import layout
from a2perf.runs.bundle_reading import BundleReader, read_arrays
from a2perf.runs.run import BUNDLE, Run

MAIN_METRICS = (
    "success_rate", "energy_gross", "power_mean", "emissions", "memory_rss_peak", "wall_clock",
    "latency_round_trip_median", "latency_round_trip_p99", "latency_infer_once_median", "MedianPerfDuringTraining",
)  # fmt: skip
"""Columns of the table of runs after the return."""
_CALLS = {
    "round_trip": "of scored steps, with transport, by the clock of the evaluator",
    "infer_once": "infer_once only, by the clock of the participant",
    "preprocess_observation": "preprocess_observation only, by the clock of the participant",
    "processor_time": "processor time of the process tree per step, by the kernel",
}
_Described: TypeAlias = dict[str, tuple[Kind, str]]
"""Kind and description by column; a column without a description has an empty one."""
_IDENTITY: _Described = {
    "run": ("text", "name of the run: its folder below the given path"),
    "algorithm": ("text", "name of the submission or algorithm"),
    "task": ("text", ""),
    "seed": ("int", "root seed of the run"),
}
_ENDS = 5
_MOST_CONDITIONS = 10
_RETURN = text_line("Return", "").rstrip()
_LISTED = ("algorithm", "task", "mode", "seed", "state", "return", "success_rate", "energy_gross", "energy_provenance")


def run_table(results: Sequence[LazyRun], metrics: Collection[str] | None = None) -> Table:
    """Returns one row per run with its identity and metrics.

    Raises:
        ConfigError: an unknown metric.
    """
    chosen = [metric.name for metric in registry.select(MAIN_METRICS if metrics is None else metrics)]
    known = registry.all_metrics()
    described: _Described = {
        **_IDENTITY, "domain": ("text", ""), "mode": ("text", ""), "state": ("text", ""),
        "return": ("float", "mean return over episodes; over tasks in generalization"),
        "normalised_score": ("float", "0: floor, 1: expert"),
        **{name: ("float", known[name].formula) for name in chosen},
        "energy_provenance": ("text", ""), "bundle": ("text", "folder of the run"),
    }  # fmt: skip
    columns: dict[str, list[Any]] = {name: [] for name in described}
    sources: dict[str, list[str | None]] = {name: [] for name in chosen}
    for result in results:
        run, group = result.run, result.main_group
        scores = {} if group is None else group["scores"]
        entries = [scores.get(name) or {"value": None, "provenance": None} for name in chosen]
        normalised = None if group is None else normalised_return(group)
        returned = scores.get("generalization" if result.main_mode == "generalization" else "returns")
        row: dict[str, Any] = {
            **_identity(run, run.identity.task),
            **{name: entry["value"] for name, entry in zip(chosen, entries, strict=True)},
            "domain": plain_text(run.identity.domain),
            "mode": result.main_mode,
            "state": run.state,
            "return": None if returned is None else returned["value"],
            "normalised_score": None if normalised is None else normalised.value,
            "energy_provenance": None if "energy_gross" not in scores else scores["energy_gross"]["provenance"],
            "bundle": plain_text(str(result.folder.path)),
        }
        for name, entry in zip(chosen, entries, strict=True):
            sources[name].append(entry["provenance"] if entry["value"] is not None else None)
        for name in columns:
            columns[name].append(row[name])
    same = {name: set(held) - {None} for name, held in sources.items()}
    # power has the provenance of the energy; a component of the energy can have another
    of_energy = columns["energy_provenance"]
    by_row = [
        name
        for name in chosen
        if name.startswith(("energy", "power"))
        and all(held in (None, energy) for held, energy in zip(sources[name], of_energy, strict=True))
    ]
    return _table(
        "Runs",
        columns,
        described,
        units={name: known[name].unit for name in chosen},
        provenance={
            name: next(iter(held)) or "" if len(held) == 1 else "mixed"
            for name, held in same.items()
            if held and name not in by_row
        },
        row_provenance=dict.fromkeys(by_row, "energy_provenance"),
    )


def episode_table(runs: Sequence[Run]) -> Table:
    """Returns one row per episode. Layouts other than bundles hold returns and success only."""
    rows = [row for run in runs for row in _episode_rows(run)]
    terms = list(dict.fromkeys(name for row in rows for name in row if name.startswith("reward/")))
    described: _Described = {
        **_IDENTITY,
        "episode": ("int", "position in the run, from 0"),
        "episode_seed": ("int", "seed of the reset of the environment"),
        "return": ("float", "undiscounted sum of rewards"),
        "length": ("int", "number of environment steps"),
        "success": ("bool", ""),
        "terminated": ("bool", "whether the task ended the episode"),
        "truncated": ("bool", "whether a time limit ended it"),
        "termination": ("text", ""),
        "clipped_actions": ("int", ""),
        "wall_time": ("float", "participant and environment together"),
        **dict.fromkeys(terms, ("float", "mean over the steps of this reward term")),
    }
    provenance = {"wall_time": "measured", "return": "recorded"} if rows else {}
    columns = {name: [row.get(name) for row in rows] for name in described}
    return _table("Episodes", columns, described, units={"wall_time": "s", "length": "steps"}, provenance=provenance)


def step_table(run: Run) -> Table:
    """Returns one row per step of the episodes of a run, from the files of its bundle."""
    described: _Described = {
        **_IDENTITY,
        "episode": ("int", "position of the episode in the run, from 0"),
        "step": ("int", "position of the step in the episode, from 0"),
        "round_trip": ("float", _CALLS["round_trip"]),
        "processor_time": ("float", _CALLS["processor_time"]),
    }
    parts: dict[str, list[Any]] = {name: [] for name in described}
    for task, steps in read_steps(run).items():
        count = steps.episode.size
        for name, value in _identity(run, task or run.identity.task).items():
            parts[name] += [value] * count
        starts = np.flatnonzero(np.diff(steps.episode, prepend=-1) != 0)
        since = np.arange(count) - np.repeat(starts, np.diff(starts, append=count))
        parts["episode"] += steps.episode.tolist()
        parts["step"] += since.tolist()
        parts["round_trip"] += steps.round_trip_s.tolist()
        parts["processor_time"] += steps.processor_s.tolist()
    timed = ("round_trip", "processor_time")
    units, provenance = dict.fromkeys(timed, "s"), dict.fromkeys(timed, "measured")
    return _table("Steps", parts, described, units=units, provenance=provenance)


def latency_table(runs: Sequence[Run]) -> Table:
    """Returns one row per timed call, without warm-up."""
    described: _Described = {
        **_IDENTITY, "call": ("text", ""), "number": ("int", "position of the call, from 0"), "duration": ("float", ""),
        "includes": ("text", "what a time covers"),
    }  # fmt: skip
    columns: dict[str, list[Any]] = {name: [] for name in described}
    for run in runs:
        for call, seconds in run.latency_s.items():
            row = {**_identity(run, run.identity.task), "call": call, "includes": _CALLS.get(call, "")}
            for name, value in row.items():
                columns[name] += [value] * seconds.size
            columns["number"] += range(seconds.size)
            columns["duration"] += seconds.tolist()
    units, provenance = {"duration": "s"}, {"duration": "measured"}
    return _table("Timed calls", columns, described, units=units, provenance=provenance)


def curve_table(runs: Sequence[Run]) -> Table:
    """Returns one row per point of the training curves."""
    described: _Described = {
        **_IDENTITY,
        "step": ("float", "environment steps"),
        "return": ("float", "training return as the submission logged it"),
        "elapsed": ("float", "since the first point, by the clock of the writer"),
    }
    columns: dict[str, list[Any]] = {name: [] for name in described}
    for run in runs:
        if run.curve is None:
            continue
        for name, value in _identity(run, run.identity.task).items():
            columns[name] += [value] * run.curve.steps.size
        columns["step"] += run.curve.steps.tolist()
        columns["return"] += run.curve.values.tolist()
        columns["elapsed"] += run.curve.elapsed_s().tolist()
    units, provenance = {"step": "steps", "elapsed": "s"}, {"return": "recorded", "elapsed": "recorded"}
    return _table("Training curves", columns, described, units=units, provenance=provenance)


def _table(title: str, columns: dict[str, list[Any]], described: _Described, **more: Any) -> Table:
    kinds = {name: kind for name, (kind, _) in described.items()}
    descriptions = {name: text for name, (_, text) in described.items() if text}
    return Table(columns, title=title, kinds=kinds, descriptions=descriptions, **more)


def _identity(run: Run, task: str) -> dict[str, Any]:
    return {
        "run": plain_text(run.key),
        "algorithm": run.algorithm,
        "task": plain_text(task),
        "seed": run.identity.seed,
    }


def _episode_rows(run: Run) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for task, episodes in sorted(run.episodes.items()):
        where = _identity(run, run.identity.task if len(run.episodes) == 1 else task)
        rows += [{**where, **_of_episode(episode)} for episode in episodes]
    if not run.episodes:
        for mode, of_tasks in run.returns.items():
            for task, returns in sorted(of_tasks.items()):
                successes = run.successes.get(mode, {}).get(task)
                rows += [
                    {
                        **_identity(run, task or run.identity.task),
                        "episode": index,
                        "return": float(value),
                        "success": None if successes is None else bool(successes[index]),
                    }
                    for index, value in enumerate(returns)
                ]
    return rows


def _of_episode(episode: Episode) -> dict[str, Any]:
    return {
        "episode": episode.index,
        "episode_seed": episode.seed,
        "return": episode.episode_return,
        "length": episode.length,
        "success": episode.success,
        "terminated": episode.terminated,
        "truncated": episode.truncated,
        "termination": None if episode.termination is None else plain_text(episode.termination),
        "clipped_actions": episode.clipped_actions,
        "wall_time": episode.wall_s,
        **{f"reward/{plain_text(name)}": value for name, value in episode.reward_terms.items()},
    }


def result_text(result: LazyRun, interval: tuple[float, float] | None) -> str:
    """Returns what ``a2perf score`` prints for one run, the interval over its episodes, and its folder.

    Args:
        result: the run.
        interval: of the mean return over episodes; None without one.
    """
    lines: list[str] = []
    for group in result.groups:
        block = group_lines(group)
        at = next((place for place, line in enumerate(block) if line.startswith(_RETURN)), None)
        if interval is not None and at is not None and group["mode"] == result.main_mode:
            block.insert(at + 1, text_line("Interval", interval_text(interval), "95 %, of the mean over episodes"))
        lines += block
    if not lines:
        lines.append(f"{result.run.algorithm or result.folder.label}: no data")
    if result.run.manifest is not None and (failure := result.run.manifest.failure) is not None:
        lines.insert(1, wrapped(f"failed in {failure.where} ({failure.kind.value}): {plain_text(failure.message)}"))
    conditions = list(result.run.conditions)
    if noisy := noise(result.run):
        conditions.append(f"Timings unreliable, noisy host: {'; '.join(noisy)}.")
    lines += [wrapped(plain_text(condition)) for condition in conditions[:_MOST_CONDITIONS]]
    if len(conditions) > _MOST_CONDITIONS:
        lines.append(f"  {len(conditions) - _MOST_CONDITIONS} more in .conditions")
    return terminal_text("\n".join([*lines, f"  Bundle     {shown_path(result.folder.path)}"]))


def runs_text(results: Sequence[LazyRun]) -> str:
    """Returns the number of runs and a line for each of the first and last ones."""
    if not results:
        return "no runs"
    count = len(results)
    positions = shown_rows(count, _ENDS)
    table = run_table([results[at] for at in positions]).select(*_LISTED)
    return "\n".join([counted(count, "run"), *table_text(table, _ENDS, count - len(positions)).splitlines()[1:]])


def interval_text(interval: tuple[float, float]) -> str:
    """Returns ``[1.10, 1.30]``, rounded to the second digit of its half width."""
    low, high = interval
    return written((low + high) / 2, Scale(1.0, ""), (high - low) / 2, interval).interval()


def shown_path(path: Path) -> str:
    """Returns a path on one line, relative if it is below the working directory."""
    here = Path.cwd()
    return terminal_line(os.fspath(path.relative_to(here) if path.is_relative_to(here) else path))


_KEYS = ("episode", "round_trip_ns", "cpu_ns")


@dataclass(frozen=True, eq=False)
class StepTimes:
    """The steps of one task in the order of the episodes.

    Attributes:
        episode: index of the episode of each step, int64, shape ``(steps,)``.
        round_trip_s: wall time of the call in seconds, by the evaluator's clock, shape ``(steps,)``.
        processor_s: processor time of the process tree in seconds, shape ``(steps,)``.
    """

    episode: NDArray[np.int64]
    round_trip_s: Values
    processor_s: Values


def read_steps(run: Run) -> dict[str, StepTimes]:
    """Returns the steps by task; the task of a run with one task is ``""``.

    Empty without such a file. A damaged one is left out, as are layouts other than bundles.
    """
    if run.folder.layout != BUNDLE:
        return {}
    reader = BundleReader(run.folder.files(), run.manifest)
    names = {"": layout.STEPS} if reader.listed(layout.STEPS) else {}
    for name in reader.below(layout.TASKS, (layout.STEPS_FILE,)):
        names[name.removeprefix(f"{layout.TASKS}/").rpartition("/")[0]] = name
    found = {}
    for task, name in sorted(names.items()):
        arrays = reader.tolerant(name, lambda name: read_arrays(reader.files, name, _KEYS))
        if arrays and set(arrays) == set(_KEYS) and len({array.size for array in arrays.values()}) == 1:
            found[task] = StepTimes(
                arrays["episode"].astype(np.int64), arrays["round_trip_ns"] * 1e-9, arrays["cpu_ns"] * 1e-9
            )
    return found
