"""Widths of texts in the one font of all pages: DejaVu Sans as shipped with matplotlib, checked by its hash.

The browser loads the same file without hinting and kerning: a text has the same width in both backends.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path

from a2perf.errors import MissingDependency

FONT_SHA256 = "3fdf69cabf06049ea70a00b5919340e2ce1e6d02b0cc3c4b44fb6801bd1e0d22"
_UNITS_PER_EM = 2048
_CARRIED = Path(__file__).parent / "data" / "DejaVuSans.ttf"
"""A copy where matplotlib is not: in a participant's own environment."""


@functools.cache
def font_file() -> Path:
    """Returns the font file.

    Raises:
        MissingDependency: matplotlib is not installed, or its font is another one, and no copy was brought along.
    """
    spec = importlib.util.find_spec("matplotlib")  # found, not imported: it is large
    folders = [] if spec is None or spec.submodule_search_locations is None else spec.submodule_search_locations
    for path in (_CARRIED, *(Path(folder) / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf" for folder in folders)):
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == FONT_SHA256:
            return path
    raise MissingDependency(
        "web pages need the font DejaVuSans.ttf of matplotlib, and it is missing or another one",
        hint="pip install --force-reinstall matplotlib",
    )


@functools.cache
def _advance(character: str) -> float:
    from PIL import ImageFont

    # at one px per font unit the advance is exact
    font = ImageFont.truetype(str(font_file()), _UNITS_PER_EM, layout_engine=ImageFont.Layout.BASIC)
    return float(font.getlength(character))


@functools.cache
def text_width(text: str, size: float) -> float:
    """Width of a text in one line, px."""
    return sum(_advance(character) for character in text) * size / _UNITS_PER_EM
