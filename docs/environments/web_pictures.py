"""Draws the pictures of ``web_navigation.md``: ``python docs/environments/web_pictures.py``.

For each level, the website with the fullest first page, half filled in: drawn by the page model, and by Chromium if it
is installed. ``web_difficulty.png`` shows the measured difficulty of the shipped websites.
"""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from a2perf.domains.web_navigation import LEVELS
from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.page.layout import listed_boxes
from a2perf.domains.web_navigation.page.nodes import PAGE_MIN_HEIGHT
from a2perf.domains.web_navigation.sites.designs import shipped_designs, shipped_record
from a2perf.domains.web_navigation.sites.generator import EPISODES
from a2perf.domains.web_navigation.sites.website import build_site
from a2perf.domains.web_navigation.solver import solve
from a2perf.errors import MissingDependency

HERE = Path(__file__).parent
COLOURS = ("#4e9a06", "#c17d11", "#a40000")
CANDIDATES = 300  # designs of a level that are looked at


def fullest(level):
    """Returns the design with the most elements on its first page, if that page fits the window."""
    counts = {}
    for design in shipped_designs(level)[:CANDIDATES]:
        listed = listed_boxes(build_site(design), 0, ())
        if listed[0][1].height <= PAGE_MIN_HEIGHT:
            counts[design] = len(listed)
    return max(counts, key=counts.get)


def write_pictures(designs, backend, folder, seed=0):
    """Writes a PNG of each site, its first page half filled in.

    Args:
        designs: name of the file without its ending -> what to show.
        backend: ``"model"`` or ``"chromium"``.
        folder: where to.
        seed: draws gold values and prices.

    Returns:
        The files, named ``<name>_<backend>.png``.

    Raises:
        MissingDependency: the browser is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    env = WebNavigationEnv(
        designs=list(designs.values()), num_websites=len(designs), backend=backend, render_mode="rgb_array"
    )
    try:
        for name, design in designs.items():
            env.reset(seed=seed, options={"design": design})
            for action in first_page(env.site, solve(env.site, env.profile)):
                env.step(action)
            picture = env.render()
            assert picture is not None
            written.append(folder / f"{name}_{backend}.png")
            Image.fromarray(picture).quantize(64).save(written[-1], optimize=True)
    finally:
        env.close()
    return written


def first_page(site, actions):
    """Returns the actions of a solution that fill in the first half of the first page."""
    first = site.page_nodes[0]
    last = site.page_nodes[1] if site.pages > 1 else len(site.nodes)
    fields = {node.field for node in site.nodes[first:last] if node.field}
    return actions[: (len(fields) + 1) // 2]


def write_plot(path):
    """Plots the success of the random agent and the length of the shortest solution, one histogram per level."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    floor = 0.5 / EPISODES  # where never solved is drawn on a logarithmic axis
    bins = np.geomspace(floor, 1.0, 40)
    for level, colour in zip(LEVELS, COLOURS, strict=True):
        record = shipped_record(level)
        success = np.maximum(record["success"], floor)
        left.hist(success, bins=list(bins), color=colour, alpha=0.75, label=f"level {level}")
        right.hist(record["length"], bins=list(np.arange(0.5, 26.5)), color=colour, alpha=0.75, label=f"level {level}")
    left.set_xscale("log")
    left.set_xlabel(f"solved by random valid actions (of {EPISODES} episodes)")
    left.set_ylabel("websites")
    right.set_xlabel("actions of the shortest solution")
    right.legend()
    figure.savefig(path, dpi=100)


def main():
    """Writes the pictures that can be drawn here."""
    write_plot(HERE / "pictures" / "web_difficulty.png")
    designs = {f"website_level_{level}": fullest(level) for level in LEVELS}
    for backend in ("model", "chromium"):
        try:
            for path in write_pictures(designs, backend, HERE / "pictures"):
                print(path.name)
        except MissingDependency as error:
            print(error)


if __name__ == "__main__":
    main()
