"""Self-contained HTML pages: inline style, script and SVG, pictures as data URIs, no network requests.

Names and logs in a bundle are untrusted. Jinja escapes all of them, and the content policy of the page allows no
request and no script except ours, which it identifies by its hash. Without the script the page is complete, except
that series of charts cannot be hidden and their values not read out.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from a2perf.plain_text import html_text
from a2perf.report.content import Report, shared
from a2perf.report.figures.compared_charts import colour_of
from a2perf.report.figures.drawing import inline_svg
from a2perf.report.markdown import FIGURES
from a2perf.report.run_sections import RUN_PAGES
from a2perf.report.tables import to_html

TERMS = {
    "Normalised score": "Mean return on the scale of the protocol: 0 is its floor, the best trivial policy "
    "(under v1 the random policy), and 1 its expert.",
    "Worst 5 %, CVaR": "Conditional value at risk: the mean of the worst 5 % of the values.",
    "IQR, IQM": "Interquartile range, and mean of the middle half of the values.",
    "round_trip": "Time per scored step by the evaluator's clock, including transport to the submission's process.",
    "infer_once": "The function of a submission that maps one observation to one action.",
    "RSS, PSS": "Resident and proportional set size: memory of a process; PSS divides shared pages.",
    "Gross, net energy": "With and without the energy that the idle host would have used.",
    "Seed": "An independent run: training and evaluation from one root seed.",
    "Profile, rules": "The set of formulas behind the numbers, and its version. Only equal ones compare.",
    "Fingerprint": "Hash of an environment's behaviour. Runs with different fingerprints never share a table.",
}
_QUOTED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def to_pages(report: Report, *, figures: str = FIGURES) -> Iterator[tuple[str, str]]:
    """Yields the name and content of each page of a report: of each run root of a large one, then the first page.

    Args:
        figures: folder of the files of its charts, if there are any.
    """
    for root in () if report.own_charts else report.roots:
        name = f"{RUN_PAGES}/{root.anchor}.html"
        yield name, render("run_page.html", scripts=(), report=report, root=root, figures=figures)
    conditions = shared(report.conditions)
    yield (
        "index.html",
        render("report.html", report=report, conditions=conditions, terms=TERMS, figures=figures),
    )


def render(
    template: str,
    *,
    loader: jinja2.BaseLoader | None = None,
    styles: Sequence[str] = ("page",),
    scripts: Sequence[str] = ("chart",),
    **context: Any,
) -> str:
    """Renders a page that extends ``base.html``, with the content policy that allows its script and no other.

    Args:
        styles, scripts: names of files of this package or of ``loader``.
    """
    environment = templates(loader)
    environment.globals.update(table=to_html, svg=inline_svg, embedded_json=embedded_json, colour=colour_of)
    # unescaped, because they are files of packages and hold nothing from a bundle
    style, script = (
        Markup("\n").join(Markup(source(environment, f"{name}.{ending}")) for name in names)
        for names, ending in ((styles, "css"), (scripts, "js"))
    )
    return environment.get_template(template).render(
        style=style,
        script=script,
        script_hash=content_hash(f"\n{script}\n"),
        is_site="leaderboard" in styles,
        **context,
    )


@functools.lru_cache(maxsize=4)
def templates(loader: jinja2.BaseLoader | None = None) -> jinja2.Environment:
    """Returns the templates of reports, and those of another loader before them; every text is escaped."""
    own = jinja2.PackageLoader("a2perf.report", "templates")
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([own] if loader is None else [loader, own]),
        autoescape=True,
        finalize=html_text,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def source(environment: jinja2.Environment, name: str) -> str:
    """Returns a style or script that the loader of an environment finds."""
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def embedded_json(document: Any) -> Markup:
    """Returns JSON that cannot close the ``script`` element that it stands in."""
    text = json.dumps(document, separators=(",", ":"), sort_keys=True, allow_nan=False)
    for sign, quoted in _QUOTED.items():
        text = text.replace(sign, quoted)
    return Markup(text)


def content_hash(script: str) -> str:
    """Returns the source expression with which a content policy allows this inline script and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
