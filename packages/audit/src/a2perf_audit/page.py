"""The page, the badge and the text of an audit."""

from __future__ import annotations

from html import escape

from a2perf_audit.auditing import Audit
from a2perf_audit.bench import FAILS, HOLDS

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
    counted = [finding.verdict for finding in audit.findings]
    not_run = f", {len(audit.not_run)} could not run" if audit.not_run else ""
    return f"{counted.count(HOLDS)} hold, {counted.count(FAILS)} fail{not_run}"


def _section(audit: Audit) -> str:
    rows = "\n".join(
        f"<tr><td>{escape(one.question)}</td><td class={one.verdict.split()[0]}>{one.verdict}</td>"
        f"<td>{escape(one.evidence)}{'' if one.seed is None else f' (seed {one.seed})'}</td></tr>"
        for one in audit.findings
    )
    returns = "\n".join(
        f'<tr><td>{escape(name)}</td><td class="number">{mean:.4g}</td><td class="number">± {half:.2g}</td></tr>'
        for name, mean, half in audit.returns
    )
    return (
        f"<h2>{escape(audit.subject)}</h2>\n<p>{_summary(audit)}. Repeat it: <code>{escape(audit.command)}</code></p>\n"
        f"<table><tr><th>Check</th><th>Verdict</th><th>Evidence</th></tr>\n{rows}</table>\n"
        "<h3>Mean returns</h3>\n<table><tr><th>Policy</th><th>Return</th><th>95 % interval</th></tr>\n"
        f"{returns}</table>"
    )
