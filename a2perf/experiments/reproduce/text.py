"""Verdicts for people: a few lines per bundle, a table over all, and JSON. Recorded words are made printable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from a2perf.plain_text import terminal_line
from a2perf.runs.bundles.reproduction import CheckedClaim, Reproduction

if TYPE_CHECKING:
    from rich.table import Table

    from a2perf.experiments.reproduce.reproduction import Reproductions

_MOST_CHANGES = 8


def verdict_text(found: Reproduction) -> str:
    """Returns what changed, the claims, the first difference and the verdict of one bundle."""
    lines = [terminal_line(f"{found.bundle}: {found.submission} on {found.task}, seed {found.root_seed}")]
    if found.changed:
        shown = [f"{item.name} {item.recorded} → {item.repeated}" for item in found.changed[:_MOST_CHANGES]]
        more = len(found.changed) - len(shown)
        lines.append(f"  changed: {'; '.join(shown)}{f'; and {more} more' if more else ''}")
    elif found.runs:
        lines.append("  changed: nothing that the record names")
    lines += [f"  {_claim_text(claim)}" for claim in found.claims]
    if (first := found.first_difference) is not None:
        step = "" if first.step is None else f", step {first.step}"
        lines.append(
            f"  first difference: episode {first.episode}{step}, {first.array}: {first.recorded} → {first.repeated} "
            f"({found.equal_episodes} of {found.episodes} episodes equal)"
        )
    lines += [f"  missing: {text}" for text in found.missing]
    lines += [f"  checked: {text}" for text in found.checked]
    how = f" ({found.method})" if found.method != "none" else f": {found.reason}"
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
        len(members), verdicts.count("CONFIRMED"), sum(one.method == "bit-equal" for one in members),
        verdicts.count("REFUTED"), verdicts.count("INCONCLUSIVE"), verdicts.count("NOT CHECKED"),
        verdicts.count("REFUSED"), sum(len(one.runs) for one in members),
    ]  # fmt: skip
    return [str(count) if count else "" for count in counts]


def _claim_text(claim: CheckedClaim) -> str:
    unit = f" {claim.unit}" if claim.unit else ""
    parts = [f"{claim.claim}: {claim.verdict}, claimed {claim.comparison} {claim.claimed:.6g}{unit}"]
    if claim.estimate is not None:
        interval = "" if claim.low is None or claim.high is None else f" [{claim.low:.6g}, {claim.high:.6g}]"
        parts.append(f"repeated {claim.estimate:.6g}{interval} from {claim.reruns}")
    if claim.needed is not None:
        parts.append(f"about {claim.needed} more would settle it")
    return "; ".join([*parts, claim.reason, *claim.notes])
