"""Sentences on a comparison for the terminal, the comment of a pull request and the page."""

from __future__ import annotations

import textwrap
from collections import Counter

from a2perf.metrics.difference import Sign
from a2perf.report.tables import markdown_text, narrowed, to_markdown, to_text
from a2perf.rlops.compare.comparison import Candidate, ComparedGroups
from a2perf.rlops.compare.more_seeds import MOST_FURTHER_SEEDS
from a2perf.rlops.compare.tables import EXPENDABLE, JudgementNumbers, further, score_table, verdict_table
from a2perf.rlops.compare.verdict import Judgement, Verdict, pooled_level

_SIGNS = {Verdict.PASS: "✅", Verdict.REGRESSION: "❌", Verdict.INCONCLUSIVE: "❔"}
_MOST_NOTICES = 8
_OVERALL_UNITS = "in standard deviations (SD) of all scores of an environment, or 0 for random to 1 for expert if known"


def title_of(comparison: ComparedGroups) -> str:
    """Returns the title of a report."""
    experiments = dict.fromkeys(group.query.experiment or "all runs" for group in comparison.request.groups)
    return f"Comparison: {', '.join(experiments)}"


def summary(comparison: ComparedGroups) -> str:
    """Returns the outcome in a sentence."""
    # several metrics give several panels of the same runs
    every = [(p.env, at, run) for p in comparison.panels for at, cell in enumerate(p.cells) for run in cell.runs]
    runs = {(env, at, run.name) for env, at, run in every}
    policies = {(env, at, run.identity.policy) for env, at, run in every if run.identity.policy}
    environments = len({panel.env for panel in comparison.panels})
    units = "trained policies" if len(policies) == len(runs) else "runs"
    size = f"{len(runs)} {units} on {environments} environment{'s' if environments != 1 else ''}"
    if not comparison.candidates:
        return f"{size}; nothing to compare with."
    parts = []
    for candidate in comparison.candidates:
        text = f"{comparison.names[candidate.place]}: {sign_text(candidate)}"
        if comparison.request.gate:
            worst = ", ".join(item.env for item in candidate.judgements if item.verdict is candidate.verdict)
            where = "every environment" if candidate.verdict is Verdict.PASS else worst or "all environments together"
            text += f", gate {candidate.verdict.value} on {where}"
        parts.append(text)
    baseline = comparison.names[comparison.request.baseline or 0]
    return (
        f"{'; '.join(parts)}. Baseline: {baseline}; {size}. "
        f"Question: {comparison.request.question_text}. The results hold at any number of looks at growing data."
    )


def verdict_sentences(comparison: ComparedGroups) -> str:
    """Returns the outcome of each candidate in a sentence, and the question, for pages that show the groups already."""
    baseline = comparison.names[comparison.request.baseline or 0]
    parts = []
    for candidate in comparison.candidates:
        text = f"{comparison.names[candidate.place]} against {baseline}: {sign_text(candidate)}"
        if len(candidate.judgements) == 1:
            (row,) = candidate.rows()
            numbers = JudgementNumbers(row[0], row[1])
            text += f" ({numbers.difference()} {numbers.interval()})" if row[1].low is not None else ""
        found = reasons(candidate, gate=False)
        parts.append(f"{text}; {found[0].partition(': ')[2]}" if found and len(candidate.judgements) == 1 else text)
    return f"{'. '.join(parts)}. Question: {comparison.request.question_text}."


def sign_text(candidate: Candidate) -> str:
    """Returns the result over all environments, with the numbers of environments if there are several."""
    several = len(candidate.overall) > 1
    texts = []
    for metric, overall in candidate.overall.items():
        counted = Counter(item.sign for panel, item, _ in candidate.rows() if panel.metric == metric)
        text = f"{metric}: {overall.found.sign.value}" if several else overall.found.sign.value
        if counted.total() > 1:
            parts = [f"{count} {sign.value}" for sign in Sign if (count := counted[sign])]
            text += f" overall ({', '.join(parts)}; not corrected for {counted.total()} lines)"
        texts.append(text)
    return "; ".join(texts)


def reasons(candidate: Candidate, *, gate: bool = True) -> list[str]:
    """Returns why the sides are not separated although their scores differ, and the reasons of the regression gate."""
    found = [f"{item.env}: {item.sign_reason}" for item in candidate.judgements if item.sign_reason]
    found += [f"{item.env}: {_separating(item)}" for item in candidate.judgements if _is_open(item)]
    found += [f"overall: {item.reason}" for item in candidate.overall.values() if item.reason]
    if not gate:
        return found
    for judgement in candidate.judgements:
        if judgement.verdict is Verdict.PASS or judgement.reason == judgement.sign_reason:
            continue
        text = f"{judgement.env}: {judgement.reason}"
        if judgement.further_seeds:
            plural = "s" if judgement.further_seeds != 1 else ""
            text += f"; {further(judgement)} more seed{plural} on each side would probably settle it"
        found.append(text)
    if candidate.p_together is not None:
        found.append(f"all environments together: p = {candidate.p_together:.2g} if each were at its tolerance")
    return found


def _is_open(item: Judgement) -> bool:
    return item.sign is Sign.NOT_SEPARATED and not item.sign_reason and item.low is not None


def _separating(item: Judgement) -> str:
    unit, side = ("episode", "") if item.paired else ("seed", " on each side")
    if item.separating is None:
        return f"not separated; {MOST_FURTHER_SEEDS} more {unit}s{side} would probably not separate them"
    low, high = item.separating
    more = f"{high if low == high else f'{low}–{high}'} more {unit}{'s' if high > 1 else ''}{side}"
    return f"not separated; {more} would probably separate them"


def terminal_text(comparison: ComparedGroups, width: int | None = None) -> str:
    """Returns the output of the command: scores, verdicts, notices.

    Args:
        width: characters of a line; tables leave columns out and sentences are wrapped to fit. None for no limit.
    """
    parts = []
    if not comparison.candidates:
        parts.append(to_text(score_table(comparison)))
    for candidate in comparison.candidates:
        table = verdict_table(comparison, candidate)
        shown = table if width is None else narrowed(table, width, EXPENDABLE)
        sentences = "".join(
            f"{wrapped(f'  {words}', width)}\n" for words in reasons(candidate, gate=comparison.request.gate)
        )
        parts.append(f"{table.caption}\n{to_text(shown)}{sentences}")
    if comparison.notices:
        parts.append("".join(f"{wrapped(f'notice: {words}', width)}\n" for words in comparison.notices))
    return "\n".join(parts)


def wrapped(text: str, width: int | None) -> str:
    """Returns a sentence on lines of a width; further lines are indented by four."""
    if width is None or len(text) <= width:
        return text
    return textwrap.fill(text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def comment(comparison: ComparedGroups) -> str:
    """Returns a Markdown comment for a pull request."""
    parts = []
    for candidate in comparison.candidates:
        table = verdict_table(comparison, candidate)
        gate = comparison.request.gate
        head = f"{_SIGNS[candidate.verdict]} {candidate.verdict.value}" if gate else sign_text(candidate)
        parts.append(f"### {head}: {markdown_text(table.caption)}\n\n{to_markdown(table)}")
        parts.append("".join(f"- {markdown_text(words)}\n" for words in reasons(candidate, gate=gate)))
    if not comparison.candidates:
        parts.append(f"### {markdown_text(title_of(comparison))}\n")
    parts.append(f"<details><summary>Scores</summary>\n\n{to_markdown(score_table(comparison))}\n</details>\n")
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
    wrong = round(50 * (1 - request.confidence), 6)
    metrics = ", ".join(dict.fromkeys(panel.metric for panel in comparison.panels))
    test = (
        "mean of the differences in pairs"
        if request.question == "episodes"
        else ("difference of the means (outer of Welch's and the permutation interval)")
    )
    lines = max((len(one.overall) for one in comparison.candidates), default=0) * len(comparison.candidates)
    found = [
        ("Question", request.question_text),
        ("Score", request.score or f"{request.score_text()} of {metrics}"),
        (
            "Result",
            f"better or worse if the {100 * request.confidence:g} % interval of the {test} excludes 0; over "
            f"all looks at growing data each is wrong in at most {wrong:g} % of environments without a "
            "difference; the lines are not corrected for their number",
        ),
        (
            "Overall",
            "one test over all environments, so no correction for their number; "
            f"{f'Bonferroni correction for {lines} overall lines; ' if lines > 1 else ''}{_OVERALL_UNITS}",
        ),
        ("P(better)", "probability that a run of the candidate beats a run of the baseline; ties count half"),
    ]
    if request.gate:
        count = max(1, len(comparison.candidates))
        level = min((pooled_level(c.judgements, request.confidence, count) for c in comparison.candidates), default=0.0)
        found += [
            ("Tolerance", tolerance),
            (
                "Gate",
                f"Holm's correction over {sum(len(c.judgements) for c in comparison.candidates)} comparisons; "
                "also a regression if the pooled standardised differences have p <= "
                f"{level:.3g}, the level of this look",
            ),
        ]
    found += [(f"Group {group.name}", str(group.query)) for group in request.groups]
    sources = sorted({reference.source for reference in comparison.references.values()})
    if sources:
        found.append(("References", "; ".join(sources)))
    if comparison.store:
        found.append(("Store", comparison.store))
    return found
