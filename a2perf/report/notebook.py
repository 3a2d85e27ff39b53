"""HTML for notebooks: escaped, without scripts, readable on light and dark pages.

Colours derive from ``currentColor``, which is the text colour of the page around.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from a2perf.plain_text import plain_text

_STYLE = Markup("""<style>
.a2perf-view{font:13px/1.45 system-ui,sans-serif;color:inherit;max-width:100%;overflow-x:auto;
 scrollbar-width:thin;scrollbar-color:color-mix(in srgb,currentColor 35%,transparent) transparent}
.a2perf-view table{border-collapse:collapse;margin:.3em 0;font-size:inherit;color:inherit;background:none;
 border:0;width:auto;display:table}
.a2perf-view caption{text-align:left;font-weight:600;padding:.2em 0;color:inherit;caption-side:top}
.a2perf-view th,.a2perf-view td{padding:.2em .7em;text-align:left;vertical-align:top;white-space:nowrap;border:0;
 background:none;color:inherit;font-weight:400}
.a2perf-view thead th{border-bottom:1px solid;border-color:color-mix(in srgb,currentColor 35%,transparent);
 font-weight:600}
.a2perf-view tbody tr{border-top:1px solid;border-color:color-mix(in srgb,currentColor 12%,transparent);
 background:none}
.a2perf-view .right{text-align:right;font-variant-numeric:tabular-nums}
.a2perf-view small,.a2perf-view .unit{opacity:.75;font-weight:400;font-size:.92em;font-style:normal}
.a2perf-view thead small{display:block}
.a2perf-view p{margin:.2em 0}
.a2perf-view code{background:none;color:inherit;padding:0;word-break:break-all}
</style>""")


def view(*parts: str) -> Markup:
    """Returns escaped parts (``Markup``) or texts in one block with the style of results."""
    return Markup('{}<div class="a2perf-view">{}</div>').format(_STYLE, Markup("").join(parts))


def link_html(page: Path, name: str, lines: Iterable[str]) -> str:
    """Returns lines of text and a link to a written page."""
    path = Path(os.path.abspath(page))
    below = path.is_relative_to(Path.cwd())  # Jupyter serves the working directory
    address = quote(path.relative_to(Path.cwd()).as_posix()) if below else path.as_uri()
    # A notebook resolves links against its folder, and not every server shows other files: the path stays readable.
    link = Markup('<p><a href="{}" target="_blank">{}</a> <code>{}</code></p>').format(
        address, name, plain_text(str(page))
    )
    return str(view(*(Markup("<p>{}</p>").format(plain_text(line.strip())) for line in lines), link))
