"""The page, the badge and the text of an audit."""

from __future__ import annotations

import json
from collections import Counter
from html import escape

from a2perf_audit.auditing import Audit
from a2perf_audit.bench import COULD_NOT_RUN, FAILS, HOLDS, NOT_APPLICABLE, NOT_FINISHED

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.holds { color: #116329; } .fails, .could { color: #b3261e; font-weight: 600; } .not { color: #595959; }
code { background: #f3f3f3; padding: .1rem .3rem; }
"""


def text(audit: Audit) -> str:
    """Returns one line per check, and the number of findings."""
    width = max(len(finding.check) for finding in audit.findings)
    lines = [f"{audit.subject}: {_summary(audit)}"]
    lines += [f"  {one.check.replace('_', ' '):<{width}}  {one.verdict:<14}  {one.evidence}" for one in audit.findings]
    return "\n".join(lines)


def page(audits: list[Audit]) -> str:
    """Returns one HTML page with a section per environment."""
    title = f"Audit of {audits[0].subject if len(audits) == 1 else f'{len(audits)} environments'}"
    body = "\n".join(_section(audit) for audit in audits)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><main><h1>{escape(title)}</h1>\n{body}\n</main></body></html>\n"
    )


def badge(audit: Audit) -> str:
    """Returns an SVG badge with the number of checks that hold."""
    label, value = "a2perf audit", _summary(audit)
    colour = "#b3261e" if audit.failed or audit.not_run else "#116329"
    left, right = 7 * len(label) + 12, 7 * len(value) + 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
        f' aria-label="{label}: {value}"><rect width="{left}" height="20" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,sans-serif" font-size="11">'
        f'<text x="6" y="14">{label}</text><text x="{left + 6}" y="14">{value}</text></g></svg>\n'
    )


def _summary(audit: Audit) -> str:
    counted = Counter(finding.verdict for finding in audit.findings)
    text = f"{counted[HOLDS]} hold, {counted[FAILS]} fail"
    for verdict in (COULD_NOT_RUN, NOT_FINISHED):
        text += f", {counted[verdict]} {verdict}" if counted[verdict] else ""
    without = "" if audit.identity.get("expert") else " without an expert"
    return text + (f", {counted[NOT_APPLICABLE]} {NOT_APPLICABLE}{without}" if counted[NOT_APPLICABLE] else "")


def _section(audit: Audit) -> str:
    rows = "\n".join(
        f"<tr><td>{escape(one.question)}</td><td class={one.verdict.split()[0]}>{one.verdict}</td>"
        f"<td>{escape(one.evidence)}{'' if one.seed is None else f' (seed {one.seed})'}</td>"
        f'<td class="number">{one.seconds:.1f} s</td></tr>'
        for one in audit.findings
    )
    returns = "\n".join(
        f'<tr><td>{escape(name)}</td><td class="number">{mean:.4g}</td><td class="number">± {half:.2g}</td></tr>'
        for name, mean, half in audit.returns
    )
    identity = escape(json.dumps(audit.identity))
    return (
        f"<h2>{escape(audit.subject)}</h2>\n<p>{_summary(audit)}. Repeat it: <code>{escape(audit.command)}</code></p>\n"
        f"<p>Of: <code>{identity}</code></p>\n"
        f"<table><tr><th>Check</th><th>Verdict</th><th>Evidence</th><th>Time</th></tr>\n{rows}</table>\n"
        "<h3>Mean returns</h3>\n<table><tr><th>Policy</th><th>Return</th><th>95 % interval</th></tr>\n"
        f"{returns}</table>"
    )
