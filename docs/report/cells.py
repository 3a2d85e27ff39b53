"""Cells of the report's tables: numbers as text, rounded as in all reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from findings import Row

from a2perf.metrics.protocol import Reference
from a2perf.metrics.values import MetricValue
from a2perf.report.numbers_text import Scale, row_scale, written

NONE = "–"
MARKS = {"estimated": "≈ ", "mixed": "≈ "}


def metric_words(
    value: MetricValue | None, *, spread: bool = True, interval: bool = False, scale: Scale | None = None
) -> str:
    """Returns a value with its spread, and its interval on a second line."""
    if value is None or value.value is None:
        return NONE
    scale = scale or row_scale([value.value], value.unit)
    number = written(value.value, scale, value.spread if spread else None, value.interval if interval else None)
    below = number.interval()
    if spread and not interval and number.spread and number.exponent is None:
        number, below = number._replace(spread=""), f"± {number.spread}"
    mark = MARKS.get(value.provenance, "")
    text = f"{mark}{number.text()} {_unit(scale)}".rstrip()
    return "\n".join(part for part in (text, below) if part)


def _unit(scale: Scale) -> str:
    return f"× {scale.unit}" if scale.unit.startswith("10") else scale.unit


def score_words(row: Row, *, star: bool = False) -> str:
    """Returns a normalised score with its interval, and a star for a leader of its task."""
    score = row.entry.score
    if score.value is None:
        return NONE
    text = f"{'★ ' if star else ''}{_fixed(score.value)}"
    if score.low is None or score.high is None or score.low == score.high:
        return text
    return f"{text}\n[{_fixed(score.low)}, {_fixed(score.high)}]"


def _fixed(value: float) -> str:
    text = f"{abs(value):.3f}"
    return f"−{text}" if value < 0 and float(text) else text


def reference_words(reference: Reference) -> str:
    """Returns a reference of the protocol with its interval."""
    scale = Scale(1.0, "")
    interval = None if reference.exact else (reference.low, reference.high)
    spread = None if interval is None else (reference.high - reference.low) / 2 or None
    number = written(reference.mean, scale, spread, interval)
    return "\n".join(part for part in (number._replace(spread="").text(), number.interval()) if part)


def lengths_words(row: Row | None) -> str:
    """Returns the lengths of the episodes of an entry: mean, shortest and longest."""
    if row is None or not row.lengths.size:
        return NONE
    low, mean, high = row.lengths.min(), row.lengths.mean(), row.lengths.max()
    return f"{mean:.0f}" if low == high else f"{mean:.1f}\n{low:.0f} to {high:.0f}"


def space_words(space: gymnasium.Space[Any]) -> str:
    """Returns a short description of a space."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"one of {int(space.n):,} actions".replace(",", "\u202f")
    if isinstance(space, gymnasium.spaces.Dict):
        parts = list(space.spaces.values())
        numbers = sum(int(np.prod(part.shape or (1,))) for part in parts)
        return f"{len(parts)} named arrays, {numbers:,} numbers".replace(",", "\u202f")
    return f"{' × '.join(map(str, space.shape or ()))} numbers ({space.dtype})"


def short_words(task: str) -> str:
    """Returns a task's name for a narrow column."""
    level = re.fullmatch(r"difficulty_level_(\d+)_num_websites_(\d+)", task)
    if level:
        return f"web level {level[1]}\n{level[2]} sites"
    return re.sub(r"^(toy_macro)_", "\\1\n", task)


def pair_words(pair: Sequence[float]) -> str:
    """Returns a mean with its standard deviation."""
    return f"{pair[0]:.2f} ± {pair[1]:.2f}"


def as_published_words(row: Row) -> tuple[str, ...]:
    """Returns an entry's row in the units of the published table."""

    def of(mode: str, metric: str, factor: float) -> str:
        value = row.value(mode, metric)
        if value is None or value.value is None:
            return NONE
        return f"{value.value / factor:.2f}" + ("" if value.spread is None else f" ± {value.spread / factor:.2f}")

    memory = of("train", "memory_rss_peak", 1e9) if row.trained else of("inference", "memory_rss_peak", 1e9)
    return (
        row.label, of("inference", "returns", 1.0), of("train", "wall_clock", 3600.0), memory,
        of("inference", "latency_infer_once_mean", 1e-3), str(row.entry.score.n),
    )  # fmt: skip


def time_words(seconds: float) -> str:
    """Returns a time in a suitable unit."""
    scale = row_scale([seconds], "s")
    return f"{written(seconds, scale).text()} {scale.unit}"


def memory_words(row: Row) -> str:
    """Returns the peak memory of the training run, or of the evaluation if there was no training run."""
    value = row.value("train", "memory_rss_peak") if row.trained else None
    return metric_words(value or row.value("inference", "memory_rss_peak"), scale=Scale(2.0**20, "MiB"))


def steps_words(row: Row) -> str:
    """Returns the number of environment steps of one training run."""
    steps = row.steps
    if steps is None:
        return NONE
    return f"{steps / 1e6:.2f} M" if steps >= 1e6 else f"{steps / 1e3:.1f} k" if steps >= 1e3 else f"{steps:.0f}"
