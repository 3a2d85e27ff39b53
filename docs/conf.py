"""Sphinx's configuration. The pages are staged by ``docs/building``; `make docs` runs both."""

from pygments.lexers.python import PythonLexer

from a2perf import __version__

project = "a2perf"
version = release = __version__
author = "The a2perf authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_static", ".doctrees"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
html_theme = "furo"
html_title = f"a2perf {__version__}"
html_css_files = ["a2perf.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# no page may need the network, so none may name a host for styles, fonts or scripts; the pages hold no formulas
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "tango"
pygments_dark_style = "monokai"


def setup(app):
    """Colours gin files, which are written in the words of Python."""
    app.add_lexer("gin", PythonLexer)
