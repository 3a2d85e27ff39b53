"""The typeface of charts, made light: matplotlib's own DejaVu Sans without layout tables and far scripts.

A PDF embeds the letters that it uses, and cutting them out of the whole font takes longer than drawing the chart. Cut
out of a part of the font it takes a third of that. Letters beyond the part still come from the whole.
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
    """Returns the faces to draw with, the first that has a letter is taken; makes the light one once a process."""
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
    folder = Path(tempfile.mkdtemp(prefix="a2perf-face-"))
    # matplotlib reads the file anew for every chart
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    font.save(str(folder / "light.ttf"))
    font_manager.fontManager.addfont(str(folder / "light.ttf"))
    return [LIGHT, WHOLE]
