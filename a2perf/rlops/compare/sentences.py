"""Sentences on a comparison for the terminal, the comment of a pull request and the page."""

from __future__ import annotations

import textwrap

from a2perf.report.tables import markdown_text
from a2perf.rlops.compare.comparison import Candidate, ComparedGroups
from a2perf.rlops.compare.tables import further, narrowed, number, score_grid, to_markdown, to_text, verdict_grid
from a2perf.rlops.compare.verdict import Verdict, pooled_level

_SIGNS = {Verdict.PASS: "✅", Verdict.REGRESSION: "❌", Verdict.INCONCLUSIVE: "❔"}
_MOST_NOTICES = 8


def title_of(comparison: ComparedGroups) -> str:
    """Returns the title of a report."""
    experiments = dict.fromkeys(group.query.experiment or "all runs" for group in comparison.request.groups)
    return f"Regression report: {', '.join(experiments)}"


def summary(comparison: ComparedGroups) -> str:
    """Returns the outcome in a sentence."""
    # several metrics give several panels of the same runs
    runs = {(panel.env, at, run.run_id) for panel in comparison.panels for at, cell in enumerate(panel.cells)
            for run in cell.runs}  # fmt: skip
    environments = len({panel.env for panel in comparison.panels})
    size = f"{len(runs)} runs on {environments} environment{'s' if environments != 1 else ''}"
    if not comparison.candidates:
        return f"{size}; nothing to compare with, so no verdict."
    parts = [f"{_name(comparison, candidate)}: {_verdict_text(candidate)}" for candidate in comparison.candidates]
    return f"{'; '.join(parts)}. Baseline: {comparison.names[comparison.request.baseline or 0]}; {size}."


def reasons(candidate: Candidate) -> list[str]:
    """Returns why environments did not pass and what would settle them, and the difference over all of them."""
    found = []
    for judgement in candidate.judgements:
        if judgement.verdict is Verdict.PASS:
            continue
        text = f"{judgement.env}: {judgement.reason}"
        if judgement.further_seeds:
            plural = "s" if judgement.further_seeds != 1 else ""
            text += f"; {further(judgement)} more seed{plural} on each side would probably settle it"
        found.append(text)
    if candidate.p_together is not None:
        found.append(f"all environments together: p = {candidate.p_together:.2g} if each were at its tolerance")
    iqm = candidate.iqm_difference
    if iqm is not None:
        width = None if iqm.low is None else iqm.high - iqm.low
        ends = [number(end, width, sign=True) for end in (iqm.low, iqm.high)]
        between = "" if width is None else f" [{', '.join(ends)}]"
        text = f"IQM of normalised scores over all environments: {number(iqm.value, width, sign=True)}{between}"
        found.append(f"{text} (bootstrap)")
    return found


def terminal_text(comparison: ComparedGroups, width: int | None = None) -> str:
    """Returns the output of the command: scores, verdicts, notices.

    Args:
        comparison: the comparison.
        width: characters of a line; tables leave columns out and sentences are wrapped to fit. None for no limit.
    """
    parts = []
    if not comparison.candidates:
        parts.append(to_text(score_grid(comparison)))
    for candidate in comparison.candidates:
        table = verdict_grid(comparison, candidate)
        shown = table if width is None else narrowed(table, width)
        sentences = "".join(f"{wrapped(f'  {words}', width)}\n" for words in reasons(candidate))
        parts.append(f"{table.title}\n{to_text(shown)}{sentences}")
    if comparison.notices:
        parts.append("".join(f"{wrapped(f'notice: {words}', width)}\n" for words in comparison.notices))
    return "\n".join(parts)


def wrapped(text: str, width: int | None) -> str:
    """Returns a sentence on lines of a width; further lines are indented by four."""
    if width is None or len(text) <= width:
        return text
    return textwrap.fill(text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def groups_text(comparison: ComparedGroups) -> str:
    """Returns the runs of each group: filter, environments, seeds."""
    lines = []
    for at, group in enumerate(comparison.request.groups):
        role = " (baseline)" if at == comparison.request.baseline else ""
        lines.append(f"{group.name}{role}: {group.query}")
        for panel in comparison.panels:
            runs = panel.cells[at].runs
            seeds = " ".join(str(run.seed) for run in runs)
            lines.append(f"  {panel.env_ids[at]}: {len(runs)} run{'s' if len(runs) != 1 else ''}, seeds {seeds}")
    return "\n".join([*lines, ""])


def normalisation_text(comparison: ComparedGroups, method: str | None) -> str:
    """Returns notices about the normalisation of scores, one per line.

    Args:
        comparison: the comparison.
        method: ``"maxmin"`` or ``"atari"`` of an old command line, which stored references replace; None for none.
    """
    lines = []
    if method is not None:
        sources = "; ".join(sorted({reference.source for reference in comparison.references.values()}))
        instead = "the lowest and highest of these runs" if method == "maxmin" else "a built-in table of human scores"
        lines.append(
            f"notice: scores are normalised by stored references ({sources}), not by {instead}; this keeps "
            "reports comparable"
        )
    if not comparison.normalised:
        lines.append("notice: a group has no run on some environments, so there are no aggregates")
    return "".join(f"{line}\n" for line in lines)


def comment(comparison: ComparedGroups) -> str:
    """Returns a Markdown comment for a pull request."""
    parts = []
    for candidate in comparison.candidates:
        table = verdict_grid(comparison, candidate)
        verdict = candidate.verdict
        parts.append(f"### {_SIGNS[verdict]} {verdict.value}: {markdown_text(table.title)}\n\n{to_markdown(table)}")
        parts.append("".join(f"- {markdown_text(words)}\n" for words in reasons(candidate)))
    if not comparison.candidates:
        parts.append(f"### {markdown_text(title_of(comparison))}\n")
    parts.append(f"<details><summary>Scores</summary>\n\n{to_markdown(score_grid(comparison))}\n</details>\n")
    if comparison.notices:
        shown = comparison.notices[:_MOST_NOTICES]
        more = len(comparison.notices) - len(shown)
        lines = "".join(f"- {markdown_text(words)}\n" for words in shown)
        lines += f"- and {more} more, in compare.json\n" if more else ""
        parts.append(f"<details><summary>Notices ({len(comparison.notices)})</summary>\n\n{lines}\n</details>\n")
    parts.append(f"{'. '.join(f'{name}: {markdown_text(words)}' for name, words in method(comparison)[:3])}.\n")
    return "\n".join(part for part in parts if part)


def method(comparison: ComparedGroups) -> list[tuple[str, str]]:
    """Returns how the numbers were computed, as (name, description)."""
    request = comparison.request
    tolerance = f"{100 * request.tolerance.relative:g} % of the baseline's mean"
    if request.tolerance.absolute:
        tolerance += f", at least {request.tolerance.absolute:g}"
    tolerance += f"; {100 * request.tolerance.unseen:g} % of the seeds may fail undetected"
    metrics = ", ".join(dict.fromkeys(panel.metric for panel in comparison.panels))
    found = [
        ("Score", request.score or f"{request.score_text()} of {metrics}"),
        ("Tolerance", tolerance),
        ("Interval", f"{100 * request.confidence:g} % of the difference of the means (Welch), Holm's correction over "
                     f"{sum(len(c.judgements) for c in comparison.candidates)} comparisons"),
        ("All together", "regression if the pooled standardised differences have p <= "
                         f"{pooled_level(request.confidence, max(1, len(comparison.candidates))):.3g}"),
        ("P(better)", "probability that a run of the candidate beats a run of the baseline; ties count half"),
    ]  # fmt: skip
    found += [(f"Group {group.name}", str(group.query)) for group in request.groups]
    sources = sorted({reference.source for reference in comparison.references.values()})
    if sources:
        found.append(("References", "; ".join(sources)))
    if request.as_of is not None:
        found.append(("Tags as of", request.as_of.isoformat()))
    if comparison.store:
        found.append(("Store", comparison.store))
    return found


def _name(comparison: ComparedGroups, candidate: Candidate) -> str:
    return comparison.names[candidate.place]


def _verdict_text(candidate: Candidate) -> str:
    worst = [j.env for j in candidate.judgements if j.verdict is candidate.verdict]
    if candidate.verdict is Verdict.PASS:
        return "PASS on every environment"
    return f"{candidate.verdict.value} on {', '.join(worst) or 'all environments together'}"
