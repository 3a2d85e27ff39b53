"""Draws the pictures of ``web_navigation.md``: ``python docs/environments/web_pictures.py``.

For each level, the website with the fullest first page, half filled in: drawn by the page model, and by Chromium if it
is installed.
"""

from pathlib import Path

from a2perf.domains.web_navigation import LEVELS, gallery
from a2perf.domains.web_navigation.layout import listed_boxes
from a2perf.domains.web_navigation.nodes import PAGE_MIN_HEIGHT
from a2perf.domains.web_navigation.website import build_site
from a2perf.errors import MissingDependency

HERE = Path(__file__).parent
CANDIDATES = 300  # designs of a level that are looked at


def fullest(level):
    """Returns the design with the most elements on its first page, if that page fits the window."""
    counts = {}
    for shown in gallery.of_level(level)[:CANDIDATES]:
        listed = listed_boxes(build_site(shown.design), 0, ())
        if listed[0][1].height <= PAGE_MIN_HEIGHT:
            counts[shown.design] = len(listed)
    return max(counts, key=counts.get)


def main():
    """Writes the pictures that can be drawn here."""
    designs = {f"website_level_{level}": fullest(level) for level in LEVELS}
    for backend in ("model", "chromium"):
        try:
            for path in gallery.write_pictures(designs, backend, HERE / "pictures"):
                print(path.name)
        except MissingDependency as error:
            print(error)


if __name__ == "__main__":
    main()
