"""What the theme leaves out of every page: a description, what previews of shared links show, levels of headings."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from markupsafe import Markup, escape
from sphinx.application import Sphinx

DESCRIPTION_LENGTH = 200
DEFAULT_DESCRIPTION = "Run, measure and score reinforcement-learning submissions."
PICTURE = "_static/preview.png"
_AFTER_THE_THEME = 900  # the theme fills the navigation tree with the default priority, 500


def setup(app: Sphinx) -> None:
    """Registers with Sphinx."""
    app.connect("html-page-context", _complete, priority=_AFTER_THE_THEME)


def description(document: nodes.document | None) -> str:
    """Returns the first paragraph of a page as plain text, cut at a word."""
    if document is None:  # the search page
        return DEFAULT_DESCRIPTION
    for paragraph in document.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if len(text) > 20 and not isinstance(paragraph.parent, nodes.entry):
            return text if len(text) <= DESCRIPTION_LENGTH else text[:DESCRIPTION_LENGTH].rpartition(" ")[0] + " …"
    return DEFAULT_DESCRIPTION


def _complete(app: Sphinx, page: str, template: str, context: dict[str, Any], document: nodes.document | None) -> None:
    text = description(document)
    title = Markup(context.get("title") or app.config.project).striptags()
    tags = {
        "og:type": "website",
        "og:site_name": app.config.project,
        "og:title": title,
        "og:description": text,
    }
    if address := app.config.html_baseurl:  # both must be absolute
        tags["og:url"] = f"{address.rstrip('/')}/{page}.html"
        tags["og:image"] = f"{address.rstrip('/')}/{PICTURE}"
    lines = [f'<meta name="description" content="{escape(text)}">']
    lines += [f'<meta property="{name}" content="{escape(value)}">' for name, value in tags.items()]
    context["metatags"] = context.get("metatags", "") + "\n".join(lines)
    # Sphinx sets the captions of the navigation as headings without the level that the role requires
    for name in ("furo_navigation_tree", "body"):
        if isinstance(context.get(name), str):
            context[name] = context[name].replace('role="heading">', 'role="heading" aria-level="2">')
