"""A comparison in sentences: for the terminal, the comment of a pull request and the page."""

from __future__ import annotations

from a2perf.report.tables import markdown_text
from a2perf.rlops.compare.comparison import Candidate, Comparison
from a2perf.rlops.compare.tables import further, number, score_grid, to_markdown, to_text, verdict_grid
from a2perf.rlops.compare.verdict import Verdict, pooled_level

_SIGNS = {Verdict.PASS: "✅", Verdict.REGRESSION: "❌", Verdict.INCONCLUSIVE: "❔"}
_MOST_NOTICES = 8


def title_of(comparison: Comparison) -> str:
    """Returns the title of a report: what is compared."""
    experiments = dict.fromkeys(group.query.experiment or "all runs" for group in comparison.request.groups)
    return f"Regression report: {', '.join(experiments)}"


def lede(comparison: Comparison) -> str:
    """Returns the outcome in a sentence."""
    seeds = sum(len(cell.runs) for panel in comparison.panels for cell in panel.cells)
    size = f"{seeds} runs on {len(comparison.panels)} environment{'s' if len(comparison.panels) != 1 else ''}"
    if not comparison.candidates:
        return f"{size}; nothing to compare with, so no verdict."
    parts = [f"{_name(comparison, candidate)}: {_told(candidate)}" for candidate in comparison.candidates]
    return f"{'; '.join(parts)}. Baseline: {comparison.names[comparison.request.baseline or 0]}; {size}."


def reasons(candidate: Candidate) -> list[str]:
    """Returns what to know and to do about each environment that did not pass, and the difference over all of them."""
    said = []
    for judgement in candidate.judgements:
        if judgement.verdict is Verdict.PASS:
            continue
        words = f"{judgement.env}: {judgement.reason}"
        if judgement.further_seeds:
            plural = "s" if judgement.further_seeds != 1 else ""
            words += f"; {further(judgement)} more seed{plural} on each side would probably settle it"
        said.append(words)
    if candidate.p_together is not None:
        said.append(f"all environments together: p = {candidate.p_together:.2g} if each were at its tolerance")
    iqm = candidate.iqm_difference
    if iqm is not None:
        width = None if iqm.low is None else iqm.high - iqm.low
        ends = [number(end, width, sign=True) for end in (iqm.low, iqm.high)]
        between = "" if width is None else f" [{', '.join(ends)}]"
        words = f"IQM of normalised scores over all environments: {number(iqm.value, width, sign=True)}{between}"
        said.append(f"{words} (bootstrap)")
    return said


def terminal_text(comparison: Comparison) -> str:
    """Returns what the command prints: scores, verdicts, notices."""
    parts = []
    if not comparison.candidates:
        parts.append(to_text(score_grid(comparison)))
    for candidate in comparison.candidates:
        table = verdict_grid(comparison, candidate)
        parts.append(f"{table.title}\n{to_text(table)}" + "".join(f"  {words}\n" for words in reasons(candidate)))
    if comparison.notices:
        parts.append("".join(f"notice: {words}\n" for words in comparison.notices))
    return "\n".join(parts)


def comment(comparison: Comparison) -> str:
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


def method(comparison: Comparison) -> list[tuple[str, str]]:
    """Returns how the numbers came about, as names and words."""
    request = comparison.request
    tolerance = f"{100 * request.tolerance.relative:g} % of the baseline's mean"
    if request.tolerance.absolute:
        tolerance += f", at least {request.tolerance.absolute:g}"
    tolerance += f"; {100 * request.tolerance.unseen:g} % of the seeds may fail unseen"
    metrics = ", ".join(dict.fromkeys(panel.metric for panel in comparison.panels))
    said = [
        ("Score", f"mean of the last {request.last} values of {metrics}"),
        ("Tolerance", tolerance),
        ("Interval", f"{100 * request.confidence:g} % of the difference of the means (Welch), Holm's correction over "
                     f"{sum(len(c.judgements) for c in comparison.candidates)} comparisons"),
        ("All together", "regression where the pooled standardised differences have p <= "
                         f"{pooled_level(request.confidence, max(1, len(comparison.candidates))):.3g}"),
        ("P(better)", "probability that a run of the candidate beats a run of the baseline; ties count half"),
    ]  # fmt: skip
    said += [(f"Group {group.name}", str(group.query)) for group in request.groups]
    sources = sorted({reference.source for reference in comparison.references.values()})
    if sources:
        said.append(("References", "; ".join(sources)))
    if request.as_of is not None:
        said.append(("Tags as of", request.as_of.isoformat()))
    said.append(("Store", comparison.store))
    return said


def _name(comparison: Comparison, candidate: Candidate) -> str:
    return comparison.names[candidate.place]


def _told(candidate: Candidate) -> str:
    worst = [j.env for j in candidate.judgements if j.verdict is candidate.verdict]
    if candidate.verdict is Verdict.PASS:
        return "PASS on every environment"
    return f"{candidate.verdict.value} on {', '.join(worst) or 'all environments together'}"
