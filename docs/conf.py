"""Sphinx's configuration. The pages are staged by ``docs/building``; `make docs` runs both.

``A2PERF_DOCS_URL`` is the address that the site is published under; previews of shared links need it.
``A2PERF_DOCS_VERSIONS`` names the versions published beside this one, separated by spaces.
"""

import os
from pathlib import Path

from pygments.lexers.python import PythonLexer

from a2perf import __version__
from docs.building import page_head

project = "a2perf"
version = release = __version__
author = "The a2perf authors"
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_static", ".doctrees"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
templates_path = ["style/templates"]

html_theme = "furo"
html_title = "a2perf"
html_baseurl = os.environ.get("A2PERF_DOCS_URL", "")
html_favicon = "style/favicon.svg"
html_css_files = ["a2perf.css"]
html_js_files = [("keyboard_scrolling.js", {"defer": "defer"}), ("pause.js", {"defer": "defer"})]
html_search_scorer = str(Path(__file__).parent / "style" / "search_order.js")
smartquotes_action = "qe"  # without "D": `--flag` in prose is not a dash
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False  # the pages define no terms, so an index would be empty
html_context = {"a2perf_versions": os.environ.get("A2PERF_DOCS_VERSIONS", "").split()}
# no page may need the network, so none may name a host for styles, fonts or scripts; the pages hold no formulas
html_theme_options = {
    "navigation_with_keys": True,
    "top_of_page_buttons": [],
    "light_logo": "favicon.svg",
    "dark_logo": "favicon.svg",
}
# contrast of at least 7:1 in both colour schemes
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True


def setup(app):
    """Colours gin files, which have the syntax of Python, and completes the head of every page."""
    app.add_lexer("gin", PythonLexer)
    page_head.setup(app)
