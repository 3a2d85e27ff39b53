"""Results as HTML for notebooks: a card for one run, a table for several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from a2perf.api.html import heading, inner, listed, name_value_rows, quiet, shown, view
from a2perf.api.recorded import LazyRun
from a2perf.api.result_text import interval_text, shown_path
from a2perf.api.run_tables import run_table
from a2perf.api.score_text import MODE_NAMES, headlines, number_text
from a2perf.api.table_html import table_html
from a2perf.api.table_text import counted, shown_rows
from a2perf.report import provenance

_MOST_CONDITIONS = 20
_MOST_LOG_CHARACTERS = 4000
_ENDS = 10
_LISTED = (
    "algorithm", "domain", "task", "mode", "seed", "state", "return", "normalised_score", "success_rate",
    "energy_gross", "energy_provenance", "memory_rss_peak", "wall_clock", "latency_round_trip_median",
)  # fmt: skip


def result_html(result: LazyRun, interval: tuple[float, float] | None) -> Markup:
    """Returns a card: headline, costs with provenance, latency with what it includes, failure, conditions, folder.

    Args:
        result: the run.
        interval: of the mean return over episodes; None without one.
    """
    run = result.run
    identity = run.identity
    where = " / ".join(part for part in (identity.domain, identity.task) if part)
    seed = "" if identity.seed is None else f"seed {identity.seed}"
    modes = ", ".join(MODE_NAMES.get(group["mode"], group["mode"]) for group in result.groups)
    detail = " · ".join(part for part in (where, modes, seed, run.state) if part)
    parts = [heading(run.algorithm or "unnamed", detail)]
    parts.append(_failure(result))
    for group in result.groups:
        of_main = interval if group["mode"] == result.main_mode else None
        parts.append(name_value_rows(_rows(group, of_main)))
    parts.append(_conditions(result))
    parts.append(Markup('<p class="q">Bundle <code>{}</code></p>').format(shown(shown_path(result.folder.path))))
    return view(*parts)


def runs_html(results: Sequence[LazyRun]) -> Markup:
    """Returns the first and last runs as a table with their main metrics."""
    if not results:
        return view(quiet("no runs"))
    count = len(results)
    positions, _ = shown_rows(count, _ENDS)
    table = run_table([results[at] for at in positions]).select(*_LISTED)
    empty = [name for name in _LISTED if table.kinds[name] == "float" and all(value != value for value in table[name])]
    table = table.select(*(name for name in _LISTED if name not in empty))
    content = inner(table_html(table, _ENDS, count - len(positions), captioned=False))
    return view(heading(counted(count, "run")), content)


def _rows(group: Mapping[str, Any], interval: tuple[float, float] | None) -> Iterator[tuple[str, str, str]]:
    for title, number, remark in headlines(group):
        yield title, number, remark or _source(group, title)
        if title == "Return" and interval is not None:
            yield "", interval_text(interval), "95 % interval of the mean over episodes"
    success = group["scores"].get("success_rate")
    if success is not None and success["value"] is not None:
        yield "Success", number_text({**success, "spread": None}), "of the episodes"


def _source(group: Mapping[str, Any], title: str) -> str:
    """Returns provenance and method of a cost."""
    metric = {"Energy": "energy_gross", "Memory": "memory_rss_peak", "Time": "wall_clock"}.get(title)
    entry = group["scores"].get(metric)
    if entry is None:
        return ""
    return ", ".join(text for text in (entry["provenance"], entry["method"]) if text)


def _failure(result: LazyRun) -> Markup:
    failure = None if result.run.manifest is None else result.run.manifest.failure
    if failure is None:
        return Markup("")
    lines = [Markup("<p><b>Failed</b> in {} ({}): {}</p>").format(
        shown(failure.where), failure.kind.value, shown(failure.message)
    )]  # fmt: skip
    for title, text in (("Traceback", failure.traceback or ""), ("Last lines of the log", result.run.details.log_tail)):
        if text.strip():
            tail = shown(text.strip()[-_MOST_LOG_CHARACTERS:])
            lines.append(Markup("<details><summary>{}</summary><pre>{}</pre></details>").format(title, tail))
    return Markup("").join(lines)


def _conditions(result: LazyRun) -> Markup:
    conditions = provenance.conditions(result.run)
    if not conditions:
        return Markup("")
    left = len(conditions) - _MOST_CONDITIONS
    more = quiet(f"{left} more in .conditions") if left > 0 else Markup("")
    return Markup("{}{}{}").format(quiet("Conditions:"), listed(conditions[:_MOST_CONDITIONS]), more)
