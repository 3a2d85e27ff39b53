"""Pages for a browser, made from the same nodes as the page model.

Boxes depend on nothing but the inline styles written here and on the advance widths of one font; classes only paint
(see ``data/page.css``). Data attributes describe the effect of each element to ``data/page.js``.
"""

from __future__ import annotations

import functools
import html
import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from a2perf.domains.web_navigation.page.layout import font_file
from a2perf.domains.web_navigation.page.nodes import NodeRole, PageNode
from a2perf.domains.web_navigation.sites.website import Site

_DATA = Path(__file__).parents[1] / "data"
_VOID = ("img", "input")
_FONT_RULE = "@font-face { font-family: Pages; src: url('%s'); }\n"


def _picture(width: float, height: float) -> str:
    """A landscape as a data URI; nothing is loaded."""
    drawing = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 4' width='{width:g}' height='{height:g}'"
        " preserveAspectRatio='none'><path fill='#bcd4e6' d='M0 0h8v4H0z'/>"
        "<circle cx='6.3' cy='1' r='.5' fill='#fff3c4'/>"
        "<path fill='#7a9e7e' d='M0 4V2.6L2 1.2l2 1.7 1.5-.9L8 3.4V4z'/></svg>"
    )
    return "data:image/svg+xml," + quote(drawing, safe="/:=' ")


def _px(value: float) -> str:
    return f"{value:.6g}px"


def _style(node: PageNode) -> str:
    rules = [] if node.flow else [f"position:absolute;left:{_px(node.x)};top:{_px(node.y)}"]
    if node.w is not None:
        rules.append(f"width:{_px(node.w)}")
    if node.h is not None:
        rules.append(f"height:{_px(node.h)}")
        if node.text or node.slot:
            rules.append(f"line-height:{_px(node.h)}")  # centres the line without touching the box
    if node.min_h:
        rules.append(f"min-height:{_px(node.min_h)}")
    if node.pad:
        rules.append(f"padding:0 {_px(node.pad)}")
    if node.font:
        rules.append(f"font-size:{_px(node.font)}")
    if node.hidden:
        rules.append("display:none")
    return ";".join(rules)


def _attributes(node: PageNode) -> dict[str, str]:
    """HTML attributes of a node; those that are empty are left out."""
    given = {
        "id": node.id,
        "class": node.classes,
        "style": _style(node),
        # In a form, the default type of a button would submit it.
        "type": "button" if node.tag == "button" else node.type,
        "placeholder": node.placeholder,
        "value": node.choice,
        # Radio buttons with one name exclude each other; those of other pages must not.
        "name": f"{node.field}_p{node.page}" if node.field else "",
        "data-n": str(node.index),
        "data-role": node.role.name.lower() if node.role is not NodeRole.NONE else "",
        "data-field": node.field,
        "data-control": node.control,
        "data-slot": node.slot,
        "data-target": str(node.target) if node.target >= 0 else "",
        "data-needs": json.dumps(node.preconditions) if node.preconditions else "",
        "autocomplete": "off" if node.tag in ("input", "select") else "",
    }
    if node.tag == "img":
        given["src"] = _picture(node.w or 0.0, node.h or 0.0)
        given["alt"] = ""
    return {name: value for name, value in given.items() if value or name == "alt"}


def element(node: PageNode, texts: Mapping[str, str] | None = None) -> str:
    """Returns a node and all that is in it as HTML.

    Args:
        texts: text of each slot; slots that are not named stay empty.
    """
    pairs = "".join(f' {name}="{html.escape(value)}"' for name, value in _attributes(node).items())
    start = f"<{node.tag}{pairs}>"
    if node.tag in _VOID:
        return start
    text = (texts or {}).get(node.slot, "") if node.slot else node.text
    inside = html.escape(text) + "".join(element(child, texts) for child in node.children)
    inside += "".join(f"<option>{html.escape(option)}</option>" for option in node.options)
    return f"{start}{inside}</{node.tag}>"


@functools.lru_cache(maxsize=512)
def body_of(site: Site) -> tuple[str, str]:
    """Returns the inline style of the body and what is in it; slots are empty."""
    return _style(site.root), "".join(element(child) for child in site.root.children)


@functools.cache
def paint() -> str:
    """Returns the style sheet of all websites, without the rule that loads the font."""
    return (_DATA / "page.css").read_text(encoding="utf-8")


def style_sheet() -> str:
    """Returns the style sheet of a page, with the rule that loads the font from its file."""
    return _FONT_RULE % font_file().as_uri() + paint()


def empty_page() -> str:
    """Returns the page that a tab shows, into which ``page.js`` puts one site after the other."""
    script = (_DATA / "page.js").read_text(encoding="utf-8")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>website</title>'
        f"<style>{style_sheet()}</style></head><body><script>{script}</script></body></html>"
    )
