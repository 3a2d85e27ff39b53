"""The font of charts: a subset of matplotlib's DejaVu Sans without layout tables and rare scripts.

A PDF embeds the glyphs that it uses. Extracting them from the whole font takes longer than drawing the chart; from the
subset it takes a third of that time. Other glyphs still come from the whole font.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

WHOLE = "DejaVu Sans"
LIGHT = "A2perf Sans"
# Latin with its additions, Greek, Cyrillic, punctuation, super- and subscripts, currency, arrows and operators
_RANGES = ((0x20, 0x250), (0x370, 0x530), (0x2000, 0x2300))
_LAYOUT_TABLES = ["GPOS", "GSUB", "GDEF", "kern", "FFTM"]
_FAMILY_NAMES = (1, 4, 16)


@functools.cache
def families() -> list[str]:
    """Returns the fonts to draw with, in order of preference; the subset is made once per process."""
    import matplotlib
    from fontTools import subset  # type: ignore[import-untyped]
    from matplotlib import font_manager

    options = subset.Options(layout_features=[], hinting=False, name_IDs=["*"])
    options.drop_tables += _LAYOUT_TABLES
    source = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    font = subset.load_font(str(source), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=[sign for low, high in _RANGES for sign in range(low, high)])
    cutter.subset(font)
    for record in font["name"].names:
        if record.nameID in _FAMILY_NAMES:
            record.string = LIGHT
    folder = Path(tempfile.mkdtemp(prefix="a2perf-font-"))
    # matplotlib opens the file again for every chart, and it has to live as long as the process
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    font.save(str(folder / "light.ttf"))
    font_manager.fontManager.addfont(str(folder / "light.ttf"))
    return [LIGHT, WHOLE]
