"""The section on language models: what each run asked of them, and what it cost.

A report of runs without a model has no such section. The energy of a model is what the record says: unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics.system import energy_gross_of
from a2perf.plain_text import plain_text, terminal_line
from a2perf.report.numbers_text import rounded_text
from a2perf.report.own_sections import ReportSection
from a2perf.report.tables import Cell, Column, Quantity, Table, Text
from a2perf.report.task_results import TaskResults, labels_of, title_of
from a2perf.runs.run import Run
from a2perf_agents.costs import currency_of, in_episodes, successes_in
from a2perf_agents.record import UsageCounts
from a2perf_agents.use import ModelUse, use_of

MOST_EPISODES = 200
"""Rows of the table of episodes; the others are counted below it."""
_MOST_NAMES, _NAME_CHARACTERS = 3, 60
_SUMMARY = (
    "Tokens as the model's server counted them; cost by the price table of the organizer. The energy of a model on "
    "another host is unknown; the energy of the own host is that of the submission and its environment. "
    "`a2perf model transcript RUN` writes the questions and answers."
)
_RUN_COLUMNS = (
    Column(key="run", title="Run"),
    Column(key="model", title="Model"),
    Column(key="calls", title="Calls", align="right"),
    Column(key="errors", title="Errors"),
    Column(key="tokens_in", title="Tokens in", align="right"),
    Column(key="tokens_out", title="Tokens out", align="right"),
    Column(key="cost", title="Cost", align="right"),
    Column(key="per_success", title="Cost per success", align="right"),
    Column(key="first_token", title="First token", align="right"),
    Column(key="answer", title="Answer", align="right"),
    Column(key="energy", title="Energy, own host", align="right"),
    Column(key="model_energy", title="Energy, model"),
)
_EPISODE_COLUMNS = (
    Column(key="episode", title="Episode"),
    Column(key="run", title="Run"),
    Column(key="return", title="Return", align="right"),
    *(column for column in _RUN_COLUMNS if column.key in ("calls", "errors", "tokens_in", "tokens_out", "cost")),
    Column(key="first_token", title="First token", align="right"),
    Column(key="time", title="Model time", align="right"),
)


def model_section(results: Sequence[TaskResults]) -> ReportSection | None:
    """Returns the section, or None if no run used a model."""
    labels = labels_of(results)
    used = [
        (run, models, Text(text=title_of(labels, group.algorithm), detail=f"{run.mode or 'run'}, {seed}"))
        for task in results
        for group in task.groups
        for run, seed in zip(group.runs, group.seed_names(), strict=True)
        if (models := use_of(run)) is not None
    ]
    if not used:
        return None
    runs = Table(
        name="language-models",
        caption="Language models by run",
        columns=_RUN_COLUMNS,
        rows=tuple(_run_row(run, models, title) for run, models, title in used),
        kind="cards",
    )
    rows = [row for run, models, title in used for row in _episode_rows(run, models, title)]
    left_out = f" of {len(rows)}, the first {MOST_EPISODES}" if len(rows) > MOST_EPISODES else ""
    episodes = Table(
        name="language-model-episodes",
        caption=f"Language models by episode{left_out}",
        columns=_EPISODE_COLUMNS,
        rows=tuple(rows[:MOST_EPISODES]),
    )
    return ReportSection("Language models", _SUMMARY, tables=(runs, episodes) if rows else (runs,))


def _run_row(run: Run, models: ModelUse, title: Text) -> tuple[Cell, ...]:
    usage = models.usage
    total = usage.total
    names = [terminal_line(plain_text(name), _NAME_CHARACTERS) for name in usage.models[:_MOST_NAMES]]
    more = len(usage.models) - len(names)
    energy = energy_gross_of(run)
    return (
        title,
        Text(text=", ".join(names) or "–", detail=f"and {more} more" if more > 0 else None),
        _calls(total),
        Text(text=errors_text(total)),
        *_tokens(total),
        _cost(total.cost, run),
        _per_success(run),
        _times(models.first_token_s, "no streamed answer"),
        _times(models.answer_s, "no answer"),
        Quantity(
            value=energy.value,
            unit="kWh",
            spread=energy.uncertainty,
            provenance=energy.provenance,
            method=energy.method,
            note=energy.provenance if energy.value else "not recorded",
        ),
        Text(text=plain_text(usage.energy), detail="no record of the model's host"),
    )


def _episode_rows(run: Run, models: ModelUse, title: Text) -> list[tuple[Cell, ...]]:
    returns = {
        (task, episode.index): episode.episode_return
        for held in (run.further, run.episodes)
        for task, episodes in held.items()
        for episode in episodes
    }
    own = next(iter(run.episodes), "") if len(run.episodes) == 1 else ""
    rows: list[tuple[Cell, ...]] = []
    for scope in models.usage.scopes:
        if scope.episode is None:
            continue
        counts, first = scope.usage, scope.usage.first_token
        rows.append(
            (
                Text(text=f"{scope.episode}", detail=plain_text(scope.task) or None),
                title,
                Quantity(value=returns.get((scope.task or own, scope.episode)), provenance="recorded"),
                _calls(counts),
                Text(text=errors_text(counts)),
                *_tokens(counts),
                _cost(counts.cost, run),
                Quantity(value=None if first is None else first.median_s, unit="s", provenance="measured"),
                Quantity(value=counts.call_s, unit="s", provenance="measured"),
            )
        )
    return rows


def errors_text(counts: UsageCounts) -> str:
    """Returns the errors by kind, the most frequent first, ``"2 × timeout"``; ``"none"`` without errors."""
    ordered = sorted(counts.errors.items(), key=lambda item: (-item[1], item[0]))
    listed = [f"{count} × {plain_text(kind.replace('_', ' '))[:40]}" for kind, count in ordered]
    if counts.invalid_tool_calls:
        listed.append(f"{counts.invalid_tool_calls} × tool call without valid JSON")
    return ", ".join(listed) or "none"


def _calls(counts: UsageCounts) -> Quantity:
    more = [f"{counts.served} from a record"] if counts.served else []
    more += [f"{counts.retries} retr{'y' if counts.retries == 1 else 'ies'}"] if counts.retries else []
    return Quantity(value=float(counts.calls), provenance="recorded", note=", ".join(more) or None)


def _tokens(counts: UsageCounts) -> tuple[Quantity, Quantity]:
    missing = counts.calls_without_usage
    note = f"lower bound, {missing} answers without a count" if missing else None
    return (
        Quantity(value=float(counts.tokens_in), provenance="recorded", note=note),
        Quantity(value=float(counts.tokens_out), provenance="recorded", note=note),
    )


def _cost(cost: float | None, run: Run) -> Quantity:
    note = "no price table" if cost is None else None
    return Quantity(value=cost, unit=currency_of(run), provenance="recorded", note=note)


def _per_success(run: Run) -> Quantity:
    cost, count = in_episodes(run, "cost"), successes_in(run, None)
    if cost is None:
        return Quantity(value=None, note="no price table")
    if count is None:
        return Quantity(value=None, note="success not reported")
    if not count:
        return Quantity(value=None, note="no success")
    return Quantity(value=cost / count, unit=currency_of(run), provenance="recorded", note=f"{count:g} successes")


def _times(seconds: Values, none: str) -> Quantity:
    if not seconds.size:
        return Quantity(value=None, note=none)
    middle, high = np.percentile(seconds, (50, 95))
    return Quantity(value=float(middle), unit="s", provenance="measured", beside=f"p95 {rounded_text(high, 's')}")
