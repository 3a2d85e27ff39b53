"""Self-contained HTML pages: inline style, script and SVG, pictures as data URIs, nothing from a network.

Names and logs in a bundle come from people that nobody vouches for: Jinja escapes all of them, and the page's content
policy allows no request and no script but ours, which it names by its hash. Without a script everything is still there,
but for hiding series and reading values out of charts.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import jinja2
from markupsafe import Markup

from a2perf.plain_text import html_text
from a2perf.report.content import Report
from a2perf.report.drawing import Chart, inline_svg
from a2perf.report.score_tables import MARK_WORDS
from a2perf.report.tables import to_html

_QUOTED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def to_page(report: Report) -> str:
    """Renders a report as one HTML document."""
    return render("report.html", report=report)


def render(template: str, *, loader: jinja2.BaseLoader | None = None, **context: Any) -> str:
    """Renders a page that extends ``base.html``, with its style, its script and the content policy that allows them.

    Args:
        template: name of the template.
        loader: finds templates of other packages; those of reports are found as well.
        context: what the template shows; everything in it is escaped.
    """
    own = jinja2.PackageLoader("a2perf.report", "templates")
    environment = jinja2.Environment(
        loader=own if loader is None else jinja2.ChoiceLoader([loader, own]),
        autoescape=True,
        finalize=html_text,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.update(table=to_html, svg=inline_svg, chart_data=chart_data, mark_words=MARK_WORDS)
    # made of the package's own files, not of anything from a bundle
    style, script = (Markup(own.get_source(environment, name)[0]) for name in ("page.css", "chart.js"))
    return environment.get_template(template).render(
        style=style, script=script, script_hash=content_hash(f"\n{script}\n"), **context
    )


def content_hash(script: str) -> str:
    """Returns the source expression by which a content policy allows this inline script alone."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def chart_data(chart: Chart) -> Markup:
    """Returns what the page's script needs of a chart, as JSON that cannot end the element that holds it."""
    text = json.dumps(chart.data(), separators=(",", ":"), sort_keys=True, allow_nan=False)
    for sign, quoted in _QUOTED.items():
        text = text.replace(sign, quoted)
    return Markup(text)
