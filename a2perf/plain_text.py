r"""Escapes untrusted text for output: one function per format, applied as the last step.

Names, messages, log lines and values in a submission or a bundle are untrusted. Records keep them unchanged; output
goes through one of these functions:

* terminal and our own log lines: ``terminal_text`` (several lines) and ``terminal_line`` (one line, for names);
* HTML and SVG: ``html_text`` and ``safe_link``, then the template engine's escaping;
* Markdown, including comments on GitHub: ``markdown_text`` and ``markdown_block``;
* CSV: ``csv_cell``; LaTeX: ``a2perf.report.latex.latex_text``; drawings do not parse formulas (``report.drawing``).

Characters below 0x20 are escaped as ``\x1b``, others as ``\u202e``. JSON never contains the former unescaped, and reads
the latter as the same character: JSON keeps its values in ``terminal_text``. Standard library only.
"""

from __future__ import annotations

import functools
import re
from typing import Any

MAX_LINE = 2000
"""Longest name or message on one line, in characters."""

# Printable by Unicode's categories, but invisible: fillers, joiners and selectors.
_INVISIBLE = frozenset(
    (
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    )
)
_SPACES = frozenset([0x00A0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000])
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # some locales accept the full-width forms
_MARKDOWN = str.maketrans({**{sign: f"\\{sign}" for sign in "\\`*_[]|~$"}, "&": "&amp;", "<": "&lt;", ">": "&gt;"})
_HEADING_OR_LIST = re.compile(r"#+(?= |$)|[-+](?= |$)|-{2,}|=+$|\d{1,9}(?=[.)](?: |$))")
_INSIDE_WORD = re.compile(r"(?<=[A-Za-z0-9])\\_(?=[A-Za-z0-9])")  # an underscore inside a word is never emphasis
_REFERENCE = re.compile(r"[@#](?=\w)")  # GitHub notifies @somebody and links #123
_ADDRESS = re.compile(r"\b(https?|ftp|mailto|xmpp):|\b(www)\.", re.IGNORECASE)

_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)")
_UNUSUAL = re.compile(r"[^\n\t -~]")  # outside of ASCII, str.translate takes ten times as long
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class _Escapes(dict[int, str]):
    """A table for ``str.translate`` that computes and caches the escape of each character on first use."""

    def __init__(self, kept: str) -> None:
        super().__init__({ord(sign): sign for sign in kept})

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        if code in _SPACES or (sign.isprintable() and code not in _INVISIBLE):
            shown = sign
        elif code < 0x20:
            shown = sign.encode("unicode_escape").decode("ascii")
        else:
            units = sign.encode("utf-16-be", "surrogatepass").hex()
            shown = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
        self[code] = shown
        return shown


_TEXT, _LINE = _Escapes("\n\t"), _Escapes("")


def terminal_text(text: str) -> str:
    """Returns text with all control characters escaped except line breaks and tabs."""
    return _UNUSUAL.sub(lambda found: _TEXT[ord(found[0])], text)


def terminal_line(text: str, most: int = MAX_LINE) -> str:
    """Returns text on one line: line breaks and tabs are escaped too, and a longer text is truncated."""
    shown = text[:most].translate(_LINE)
    return shown if len(text) <= most else f"{shown}..."


def plain_text(text: str) -> str:
    """Returns text without terminal sequences, control and bidirectional characters, for a name or label.

    Line ends and tabs stay. Invalid Unicode (bytes of a file name) becomes a question mark.
    """
    text = text.encode("utf-8", errors="replace").decode()
    return terminal_text(_CONTROL.sub("", _TERMINAL_SEQUENCE.sub("", text)))


def html_text(value: Any) -> Any:
    """Returns a value for a template: strings with control characters escaped, other values unchanged."""
    return value.translate(_TEXT) if type(value) is str else value


def safe_link(target: str) -> str:
    """Returns a target for ``href``; anything but ``http``, ``https`` and relative paths becomes ``#``."""
    plain = terminal_line(target.strip())
    head = re.split("[/?#]", plain, maxsplit=1)[0]
    if plain.lower().startswith(("http://", "https://")):
        return plain
    relative = not any(sign in head for sign in ":\\&") and not plain.startswith("//") and not plain.startswith("/\\")
    return plain if relative else "#"


@functools.lru_cache(maxsize=1024)
def markdown_text(text: str) -> str:
    """Returns text on one line that Markdown, embedded HTML and GitHub render literally, even at a line's start."""
    words = terminal_line(" ".join(text.split()), most=100 * MAX_LINE)
    start = _HEADING_OR_LIST.match(words)
    quoted = _INSIDE_WORD.sub("_", words.translate(_MARKDOWN))
    if start is not None:
        number = len(start[0]) if start[0].isdecimal() else 0
        quoted = f"{quoted[:number]}\\{quoted[number:]}"
    quoted = _REFERENCE.sub(lambda found: f"{found[0]}<!-- -->", quoted)
    return _ADDRESS.sub(lambda found: f"{found[1]}&#58;" if found[1] else f"{found[2]}&#46;", quoted)


def markdown_block(text: str) -> str:
    """Returns lines as a code block with a fence longer than any run of backticks inside."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{terminal_text(text)}\n{fence}"


def csv_cell(value: Any) -> Any:
    """Returns a cell that no spreadsheet evaluates: text that looks like a formula is prefixed with an apostrophe.

    Such text starts with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return, after optional spaces. Numbers stay
    unchanged, and control characters are escaped.
    """
    if not isinstance(value, str):
        return value
    shown = terminal_line(value, most=32_000)
    start = value.lstrip(" \n\v\f\u00a0\ufeff\"'")
    if len(start) < 2 or not start.startswith(_FORMULA) or shown.startswith("'") or _is_number(value):
        return shown
    return f"'{shown}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return len(text) < 400
