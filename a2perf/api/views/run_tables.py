"""Tables of recorded runs: one row per run, episode, step, timed call or point of a curve. Runs as text."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from a2perf.api.scored_group import ScoredGroup, ends_text, text_line, wrapped
from a2perf.api.views.table import Kind, Table, shown_rows, table_text
from a2perf.metrics import registry
from a2perf.metrics.application import generalization, returns
from a2perf.metrics.runs_in_mode import once_per_run
from a2perf.metrics.scores import score_modes
from a2perf.metrics.values import Lead, MetricValue
from a2perf.plain_text import plain_text, terminal_line, terminal_text
from a2perf.report.numbers_text import counted
from a2perf.runs.bundles import layout
from a2perf.runs.bundles.bundle_reader import BundleReader, read_arrays
from a2perf.runs.run import BUNDLE, Run

_STEP_ARRAYS = ("episode", "round_trip_ns", "cpu_ns")
_OF_EPISODE = ("length", "success", "terminated", "truncated", "clipped_actions")
_Described: TypeAlias = dict[str, tuple[Kind, str]]
"""Kind and description by column; a column without a description has an empty one."""
_Row: TypeAlias = dict[str, Any]
_Block: TypeAlias = tuple[int, _Row]
"""A number of rows, and by column their values as an array, or the value of all of them."""
_IDENTITY: _Described = {
    "run": ("text", "name of the run: its folder below the given path"),
    "algorithm": ("text", "name of the submission or algorithm"),
    "task": ("text", ""),
    "seed": ("int", "root seed of the run"),
}
_RETURNS = (returns, generalization)
"""In the column ``return``."""
_MOST_CONDITIONS = 10
_RETURN = text_line("Return", "").rstrip()
_LISTED = ("algorithm", "task", "mode", "seed", "state", "return", "success_rate", "energy_gross", "energy_provenance")


@once_per_run
def groups_of(run: Run) -> list[ScoredGroup]:
    """Returns the scores of a run alone, one group per mode, by the corrected profile."""
    return list(map(ScoredGroup.of, score_modes(run.folder, run)))


def main_group(run: Run) -> ScoredGroup | None:
    """Returns the group of the main mode of a run."""
    return next((group for group in groups_of(run) if group.mode == run.main_mode), None)


def run_table(runs: Sequence[Run], metrics: Collection[str] | None = None) -> Table:
    """Returns one row per run with its identity and metrics; a ``ConfigError`` for an unknown metric."""
    first = [one for one in registry.all_metrics().values() if one.leads(Lead.TEXT) and one not in _RETURNS]
    chosen = {metric.name: metric for metric in (first if metrics is None else registry.select(metrics))}
    described: _Described = {
        **_IDENTITY,
        "domain": ("text", ""),
        "mode": ("text", ""),
        "state": ("text", ""),
        "return": ("float", "mean return over episodes; over tasks in generalization"),
        "normalised_score": ("float", "0: floor, 1: expert"),
        **{name: ("float", metric.formula) for name, metric in chosen.items()},
        "energy_provenance": ("text", ""),
        "bundle": ("text", "folder of the run"),
    }
    rows: list[_Row] = []
    sources: list[dict[str, str | None]] = []
    for run in runs:
        group = main_group(run)
        scores: Mapping[str, MetricValue] = {} if group is None else group.scores
        values = {name: scores[name].value if name in scores else None for name in chosen}
        normalised = None if group is None else group.normalised
        returned = scores.get((generalization if run.main_mode == "generalization" else returns).name)
        rows.append(
            {
                **_identity(run),
                **values,
                "domain": plain_text(run.identity.domain),
                "mode": run.main_mode,
                "state": run.state,
                "return": None if returned is None else returned.value,
                "normalised_score": None if normalised is None else normalised.value,
                "energy_provenance": scores["energy_gross"].provenance if "energy_gross" in scores else None,
                "bundle": plain_text(str(run.folder.path)),
            }
        )
        sources.append({name: scores[name].provenance for name, value in values.items() if value is not None})
    same = {name: {held[name] for held in sources if held.get(name)} for name in chosen}
    # power has the provenance of the energy; a component of the energy can have another
    by_row = [
        name
        for name in chosen
        if name.startswith(("energy", "power"))
        and all(held.get(name) in (None, row["energy_provenance"]) for held, row in zip(sources, rows, strict=True))
    ]
    return _table(
        "Runs",
        described,
        [(1, row) for row in rows],
        units={name: metric.unit for name, metric in chosen.items()},
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
    terms = dict.fromkeys(name for row in rows for name in row if name.startswith("reward/"))
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
    units = {"wall_time": "s", "length": "steps"}
    return _table("Episodes", described, [(1, row) for row in rows], units=units, provenance=provenance)


def step_table(runs: Sequence[Run]) -> Table:
    """Returns one row per step of the episodes of runs, from the files of their bundles."""
    described: _Described = {
        **_IDENTITY,
        "episode": ("int", "position of the episode in the run, from 0"),
        "step": ("int", "position of the step in the episode, from 0"),
        "round_trip": ("float", "of scored steps, with transport, by the clock of the evaluator"),
        "processor_time": ("float", "processor time of the process tree per step, by the kernel"),
    }
    timed = ("round_trip", "processor_time")
    blocks = [block for run in runs for block in _step_blocks(run)]
    units, provenance = dict.fromkeys(timed, "s"), dict.fromkeys(timed, "measured")
    return _table("Steps", described, blocks, units=units, provenance=provenance)


def curve_table(runs: Sequence[Run]) -> Table:
    """Returns one row per point of the training curves."""
    described: _Described = {
        **_IDENTITY,
        "step": ("float", "environment steps"),
        "return": ("float", "training return as the submission logged it"),
        "elapsed": ("float", "since the first point, by the clock of the writer"),
    }
    blocks: list[_Block] = []
    for run in runs:
        if (curve := run.curve) is not None:
            points = {"step": curve.steps, "return": curve.values, "elapsed": curve.elapsed_s()}
            blocks.append((curve.steps.size, {**_identity(run), **points}))
    units, provenance = {"step": "steps", "elapsed": "s"}, {"return": "recorded", "elapsed": "recorded"}
    return _table("Training curves", described, blocks, units=units, provenance=provenance)


def _table(title: str, described: _Described, blocks: Sequence[_Block], **more: Any) -> Table:
    columns: dict[str, list[Any]] = {name: [] for name in described}
    for count, block in blocks:
        for name, column in columns.items():
            value = block.get(name)
            column += value.tolist() if isinstance(value, np.ndarray) else [value] * count
    kinds = {name: kind for name, (kind, _) in described.items()}
    descriptions = {name: text for name, (_, text) in described.items() if text}
    return Table(columns, title=title, kinds=kinds, descriptions=descriptions, **more)


def _identity(run: Run, task: str | None = None) -> _Row:
    identity = run.identity
    return {
        "run": plain_text(run.key),
        "algorithm": run.algorithm,
        "task": plain_text(task or identity.task),
        "seed": identity.seed,
    }


def _episode_rows(run: Run) -> Iterator[_Row]:
    for task, episodes in sorted(run.episodes.items()):
        where = _identity(run, None if len(run.episodes) == 1 else task)
        for episode in episodes:
            yield {
                **where,
                "episode": episode.index,
                "episode_seed": episode.seed,
                "return": episode.episode_return,
                "wall_time": episode.wall_s,
                **{name: getattr(episode, name) for name in _OF_EPISODE},
                "termination": None if episode.termination is None else plain_text(episode.termination),
                **{f"reward/{plain_text(name)}": value for name, value in episode.reward_terms.items()},
            }
    for mode, of_tasks in {} if run.episodes else run.returns.items():
        for task, of_task in sorted(of_tasks.items()):
            successes = run.successes.get(mode, {}).get(task)
            for index, value in enumerate(of_task):
                success = None if successes is None else bool(successes[index])
                yield {**_identity(run, task), "episode": index, "return": float(value), "success": success}


def _step_blocks(run: Run) -> Iterator[_Block]:
    """Yields the steps of each task. A damaged file is left out, as are layouts other than bundles."""
    if run.folder.layout != BUNDLE:
        return
    reader = BundleReader(run.folder.files(), run.manifest)
    names = {"": layout.STEPS} if reader.listed(layout.STEPS) else {}
    for name in reader.below(layout.TASKS, (layout.STEPS_FILE,)):
        names[name.removeprefix(f"{layout.TASKS}/").rpartition("/")[0]] = name
    for task, name in sorted(names.items()):
        arrays = reader.tolerant(name, lambda name: read_arrays(reader.files, name, _STEP_ARRAYS))
        if not arrays or set(arrays) != set(_STEP_ARRAYS) or len({array.size for array in arrays.values()}) != 1:
            continue
        episode = arrays["episode"].astype(np.int64)
        starts = np.flatnonzero(np.diff(episode, prepend=-1) != 0)
        yield (
            episode.size,
            {
                **_identity(run, task),
                "episode": episode,
                "step": np.arange(episode.size) - np.repeat(starts, np.diff(starts, append=episode.size)),
                "round_trip": arrays["round_trip_ns"] * 1e-9,
                "processor_time": arrays["cpu_ns"] * 1e-9,
            },
        )


def result_text(run: Run, interval: tuple[float, float] | None) -> str:
    """Returns what ``a2perf score`` prints for one run, the interval of its mean over episodes, and its folder."""
    lines: list[str] = []
    for group in groups_of(run):
        block = group.lines()
        at = next((place for place, line in enumerate(block) if line.startswith(_RETURN)), None)
        if interval is not None and at is not None and group.mode == run.main_mode:
            block.insert(at + 1, text_line("Interval", ends_text(interval), "95 %, of the mean over episodes"))
        lines += block
    if not lines:
        lines.append(f"{run.algorithm or run.folder.label}: no data")
    if run.manifest is not None and (failure := run.manifest.failure) is not None:
        lines.insert(1, wrapped(f"failed in {failure.where} ({failure.kind.value}): {plain_text(failure.message)}"))
    lines += [wrapped(plain_text(condition)) for condition in run.conditions[:_MOST_CONDITIONS]]
    if len(run.conditions) > _MOST_CONDITIONS:
        lines.append(f"  {len(run.conditions) - _MOST_CONDITIONS} more in .conditions")
    return terminal_text("\n".join([*lines, text_line("Bundle", shown_path(run.folder.path))]))


def runs_text(runs: Sequence[Run]) -> str:
    """Returns the number of runs and a line for each of the first and last ones."""
    if not runs:
        return "no runs"
    count = len(runs)
    positions = shown_rows(count)
    table = run_table([runs[at] for at in positions])
    return "\n".join([counted(count, "run"), *table_text(table, count - len(positions), _LISTED).splitlines()[1:]])


def shown_path(path: Path) -> str:
    """Returns a path on one line, relative if it is below the working directory."""
    here = Path.cwd()
    return terminal_line(os.fspath(path.relative_to(here) if path.is_relative_to(here) else path))
