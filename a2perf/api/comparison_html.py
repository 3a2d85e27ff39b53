"""A comparison as HTML for notebooks: verdicts, a table per candidate, reasons and notices."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from a2perf.api.html import listed, quiet, shown, view
from a2perf.metrics.bootstrap import Estimate
from a2perf.metrics.difference import Sign
from a2perf.rlops.compare.comparison import Candidate, ComparedGroups
from a2perf.rlops.compare.selection import Panel
from a2perf.rlops.compare.sentences import method, reasons, summary
from a2perf.rlops.compare.tables import UNKNOWN, Grid, JudgementNumbers, further, overall_texts, score_grid
from a2perf.rlops.compare.verdict import Judgement, Verdict

_MARKS: dict[str, str] = {
    Sign.BETTER: "✓", Sign.WORSE: "✕", Sign.NOT_SEPARATED: "?",
    Verdict.PASS: "✓", Verdict.REGRESSION: "✕", Verdict.INCONCLUSIVE: "?",
}  # fmt: skip
_COLOURS = {"✓": "#2e9170", "✕": "#d0524a", "?": "#c07a1c"}
"""Mixed with the colour of the text: no single colour has a contrast of 4.5 on both white and dark pages."""


def comparison_html(groups: ComparedGroups) -> Markup:
    """Returns a comparison as HTML that needs no script; every name is escaped."""
    parts = [_candidate(groups, candidate) for candidate in groups.candidates]
    if not groups.candidates:
        parts = [_table(score_grid(groups))]
    explained = "; ".join(f"{name.lower()}: {text}" for name, text in method(groups)[:3])
    marked = "≈: estimated by a model. " if any(panel.is_estimated for panel in groups.panels) else ""
    return view(
        *parts,
        _folded("Notices", groups.notices, is_open=len(groups.notices) <= 3),
        quiet(summary(groups)) if not groups.candidates else "",
        quiet(f"{marked}{explained[:1].upper()}{explained[1:]}."),
    )


def _candidate(groups: ComparedGroups, candidate: Candidate) -> Markup:
    baseline = groups.names[groups.request.baseline or 0]
    gate = groups.request.gate
    title = Markup("<h4>{} {}{}</h4>").format(
        Markup(" ").join(_badge(item.found.sign.value) for item in candidate.overall.values()),
        shown(f"{groups.names[candidate.place]} against {baseline}"),
        Markup(", gate {}").format(_badge(candidate.verdict.value)) if gate else "",
    )
    several = len({panel.metric for panel in groups.panels}) > 1
    rows = [
        _row(panel, judgement, improvement, panel.metric if several else "", gate=gate)
        for panel, judgement, improvement in zip(
            candidate.panels, candidate.judgements, candidate.improvement, strict=True
        )
    ]
    for metric, overall in candidate.overall.items():
        sign, difference, interval, *_, seeds = overall_texts(overall)
        cells = (sign, _over(difference, interval), "", "", "", seeds, *(("", "") if gate else ()))
        rows.append((_over("overall", metric if several else ""), *cells))
    heads = ["task", "result", "difference", "candidate", "baseline", "P(better)", "seeds"]
    heads += ["gate", "limit"] if gate else []
    why = reasons(candidate, gate=gate)
    return Markup("{}{}{}").format(title, _rows(heads, rows, right=2), _folded("Reasons", why, is_open=len(why) <= 2))


def _row(
    panel: Panel, judgement: Judgement, improvement: Estimate | None, metric: str, *, gate: bool
) -> tuple[str, ...]:
    numbers = JudgementNumbers(panel, judgement)
    more = further(judgement) if gate else UNKNOWN
    return (
        _over(panel.env, metric),
        judgement.sign.value,
        _over(numbers.difference(), numbers.interval()),
        numbers.mean(judgement.candidate.mean),
        numbers.mean(judgement.baseline.mean),
        UNKNOWN if improvement is None else f"{improvement.value:.0%}",
        _over(f"{judgement.candidate.seeds} / {judgement.baseline.seeds}", "" if more == UNKNOWN else f"{more} more"),
        *((judgement.verdict.value, numbers.limit()) if gate else ()),
    )


def _over(text: str, detail: str) -> Markup:
    """Returns a text with a fainter detail below."""
    below = Markup('<br><span class="q" style="white-space:nowrap">{}</span>').format(shown(detail)) if detail else ""
    return Markup("{}{}").format(shown(text), below)


def _table(grid: Grid) -> Markup:
    return _rows(grid.heads, grid.rows, grid.right)


def _rows(heads: Sequence[str], rows: Sequence[Sequence[str]], right: int) -> Markup:
    head = Markup("").join(
        Markup('<th scope="col" class="{}">{}</th>').format("n" if at >= right else "", text)
        for at, text in enumerate(heads)
    )
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(_cell(text, at, right) for at, text in enumerate(row)))
        for row in rows
    )
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body)


def _cell(text: str, at: int, right: int) -> Markup:
    if at == 0:
        return Markup('<th scope="row">{}</th>').format(text if isinstance(text, Markup) else shown(text))
    if text in _MARKS:
        return Markup("<td>{}</td>").format(_badge(text))
    return Markup('<td class="{}">{}</td>').format(
        "n" if at >= right else "", text if isinstance(text, Markup) else shown(text)
    )


def _badge(text: str) -> Markup:
    mark = _MARKS[text]
    return Markup(
        '<b style="color:color-mix(in srgb,{} 70%,currentColor)"><span aria-hidden="true">{}</span> {}</b>'
    ).format(_COLOURS[mark], mark, text)


def _folded(title: str, texts: Sequence[str], *, is_open: bool) -> Markup:
    if not texts:
        return Markup("")
    return Markup("<details{}><summary>{} ({})</summary>{}</details>").format(
        Markup(" open") if is_open else "", title, len(texts), listed(texts)
    )
