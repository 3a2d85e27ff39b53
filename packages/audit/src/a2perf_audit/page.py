"""The page, the badge and the text of an audit."""

from __future__ import annotations

from collections import Counter

import jinja2

from a2perf_audit.auditing import Audit
from a2perf_audit.bench import COULD_NOT_RUN, FAILS, HOLDS, NOT_APPLICABLE, NOT_FINISHED


def text(audit: Audit) -> str:
    """Returns one line per check, and the number of findings."""
    width = max(len(finding.check) for finding in audit.findings)
    lines = [f"{audit.subject}: {_summary(audit)}"]
    lines += [f"  {one.check.replace('_', ' '):<{width}}  {one.verdict:<14}  {one.evidence}" for one in audit.findings]
    return "\n".join(lines)


def page(audits: list[Audit]) -> str:
    """Returns one HTML page with a section per environment."""
    from a2perf.report.page import render  # the text of an audit needs no report

    return render(
        "audits.html",
        loader=jinja2.PackageLoader("a2perf_audit", "templates"),
        styles=("page", "audit"),
        scripts=(),
        page_title=f"Audit of {audits[0].subject if len(audits) == 1 else f'{len(audits)} environments'}",
        audits=[(audit, _summary(audit)) for audit in audits],
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
