"""One self-contained HTML page: inline style, inline SVG, pictures as data URIs, no script and nothing from a network.

Names and logs in a bundle come from people that nobody vouches for: Jinja escapes all of them, and the page's content
policy forbids scripts and requests to begin with.
"""

from __future__ import annotations

import jinja2
from markupsafe import Markup

from a2perf.report.content import Report
from a2perf.report.drawing import inline_svg
from a2perf.report.tables import to_html


def to_page(report: Report) -> str:
    """Renders a report as one HTML document."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("a2perf.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.update(table=to_html, svg=inline_svg)
    loader = environment.loader
    assert loader is not None
    style, _, _ = loader.get_source(environment, "page.css")
    # made of the package's own file, not of anything from a bundle
    return environment.get_template("page.html").render(report=report, style=Markup(style))
