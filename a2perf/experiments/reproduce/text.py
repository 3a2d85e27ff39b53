"""Verdicts for people: a few lines per bundle, a table over all, and JSON. Recorded words are made printable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from a2perf.plain_text import terminal_line
from a2perf.runs.reproduction import Reproduction, ReturnComparison

if TYPE_CHECKING:
    from rich.table import Table

    from a2perf.experiments.reproduce.reproduction import Reproductions

_MOST_CHANGES = 8


def verdict_text(found: Reproduction) -> str:
    """Returns what changed, the comparison, the first difference and the verdict of one bundle."""
    lines = [terminal_line(f"{found.bundle}: {found.submission} on {found.task}, seed {found.root_seed}")]
    if found.changed:
        shown = [f"{item.name} {item.recorded} → {item.repeated}" for item in found.changed[:_MOST_CHANGES]]
        more = len(found.changed) - len(shown)
        lines.append(f"  changed: {'; '.join(shown)}{f'; and {more} more' if more else ''}")
    elif found.runs:
        lines.append("  changed: nothing that the record names")
    if found.statement is not None:
        lines.append(f"  {_statement_text(found.statement)}")
    if (first := found.first_difference) is not None:
        step = "" if first.step is None else f", step {first.step}"
        lines.append(
            f"  first difference: episode {first.episode}{step}, {first.array}: {first.recorded} → {first.repeated} "
            f"({found.equal_episodes} of {found.episodes} episodes equal)"
        )
    lines += [f"  missing: {text}" for text in found.missing]
    lines += [f"  checked: {text}" for text in found.checked]
    how = f" ({found.method})" if found.method == "bit-equal" else f": {found.reason}"
    lines.append(f"  {found.verdict}{how}")
    return "\n".join(terminal_line(line) for line in lines)


def summary_table(result: Reproductions) -> Table:
    """Returns one row per submission and task, and one of totals."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("submission", "task"):
        table.add_column(name, no_wrap=True)
    for name in ("bundles", "confirmed", "bit-equal", "refuted", "inconclusive", "not checked", "refused", "reruns"):
        table.add_column(name, justify="right")
    groups: dict[tuple[str, str], list[Reproduction]] = {}
    for one in result.verdicts:
        groups.setdefault((one.submission, one.task), []).append(one)
    for (submission, task), members in sorted(groups.items()):
        table.add_row(terminal_line(submission), terminal_line(task), *_counted(members))
    if len(groups) > 1:
        table.add_row("all", "", *_counted(result.verdicts))
    return table


def as_json(result: Reproductions) -> dict[str, Any]:
    """Returns the verdicts as a JSON object."""
    return {
        "bundles": result.bundles,
        "kept": result.kept,
        "replaced": list(result.replaced),
        "interrupted": result.interrupted,
        "counts": result.counts(),
        "verdicts": [msgspec.to_builtins(one) for one in result.verdicts],
    }


def _counted(members: Sequence[Reproduction]) -> list[str]:
    verdicts = [one.verdict for one in members]
    counts = [
        len(members),
        verdicts.count("CONFIRMED"),
        sum(one.method == "bit-equal" for one in members),
        verdicts.count("REFUTED"),
        verdicts.count("INCONCLUSIVE"),
        verdicts.count("NOT CHECKED"),
        verdicts.count("REFUSED"),
        sum(len(one.runs) for one in members),
    ]
    return [str(count) if count else "" for count in counts]


def _statement_text(found: ReturnComparison) -> str:
    if found.low is None or found.high is None:
        interval = "no interval"
    else:
        interval = f"{100 * found.confidence:.3g} % interval [{found.low:+.4g}, {found.high:+.4g}]"
    looks = "" if found.look == 1 else f", look {found.look}"
    return (
        f"return: recorded {found.recorded:.6g} from {found.recorded_n}, repeated {found.repeated:.6g} from"
        f" {found.repeated_n} {found.unit}{looks}; difference {found.repeated - found.recorded:+.4g}, {interval},"
        f" margin {found.margin:.3g}"
    )
