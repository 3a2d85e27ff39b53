"""Pictures of websites: one HTML page with all pages of some sites per level, and PNG files of sites."""

from __future__ import annotations

import base64
import dataclasses
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from a2perf.domains.web_navigation.designs import load_designs, shipped_designs, shipped_record
from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.font import font_file
from a2perf.domains.web_navigation.html import element, paint
from a2perf.domains.web_navigation.solver import solve
from a2perf.domains.web_navigation.website import Site, WebsiteDesign, build_site

_STYLE = """
html { background: #eceff2; } body { margin: 24px; color: #24292f; font: 15px/1.4 Pages, sans-serif; }
h1, h2 { font-weight: normal; } h2 { margin: 40px 0 4px; } p { margin: 4px 0 16px; }
.sites { display: flex; flex-wrap: wrap; gap: 24px; align-items: flex-start; }
figure { margin: 0; } figcaption { max-width: 380px; margin-top: 6px; font-size: 13px; color: #4a5560; }
.pages { display: flex; gap: 8px; }
.phone { zoom: 0.5; width: 375px; min-height: 667px; background: #fff; box-shadow: 0 2px 12px #0003; }
"""


class GallerySite(NamedTuple):
    """A site of the gallery.

    Attributes:
        design: the design.
        success: share of episodes that a random agent solves; None if not measured.
        length: actions of the shortest solution.
    """

    design: WebsiteDesign
    success: float | None
    length: int


def of_level(level: int, data_dir: Path | None = None) -> list[GallerySite]:
    """Returns the sites of a level: the shipped ones with their measured difficulty, or those of a folder.

    Raises:
        ConfigError: there is no such level, or its file is missing or broken.
    """
    if data_dir is None:
        record = shipped_record(level)
        measured = zip(shipped_designs(level), record["success"], record["length"], strict=True)
        return [GallerySite(design, success, length) for design, success, length in measured]
    return [GallerySite(design, None, len(design.fields) + design.pages) for design in load_designs(level, data_dir)]


def choose(shown: Sequence[GallerySite], count: int) -> list[GallerySite]:
    """Returns ``count`` of the sites, from the easiest to the hardest, evenly spread where success was measured."""
    ordered = sorted(shown, key=lambda one: (-(one.success or 0.0), one.length))
    if len(ordered) <= count:
        return ordered
    return [ordered[place] for place in np.linspace(0, len(ordered) - 1, count).round().astype(int)]


def gallery_page(sites: Mapping[str, Sequence[GallerySite]], seed: int = 0) -> str:
    """Returns a self-contained HTML page.

    Args:
        sites: heading of a section -> what it shows.
        seed: draws the prices.
    """
    random = np.random.default_rng(seed)
    sections = []
    for heading, shown in sites.items():
        figures = "".join(_figure(number, one, random) for number, one in enumerate(shown, start=1))
        sections.append(f'<h2>{html.escape(heading)}</h2><p>{_summary(shown)}</p><div class="sites">{figures}</div>')
    font = base64.b64encode(font_file().read_bytes()).decode()
    rule = f"@font-face {{ font-family: Pages; src: url(data:font/ttf;base64,{font}); }}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Websites by difficulty</title>'
        f"<style>{rule}{paint()}{_STYLE}</style></head>"
        f"<body><h1>Websites by difficulty</h1>{''.join(sections)}</body></html>\n"
    )


def _summary(shown: Sequence[GallerySite]) -> str:
    if not shown:
        return "no site"
    lengths = [one.length for one in shown]
    measured = [one.success for one in shown if one.success is not None]
    text = f"{len(shown)} sites; shortest solutions have {min(lengths)} to {max(lengths)} actions"
    if measured:
        text += f"; a random agent solves {min(measured):.2%} to {max(measured):.2%} of its episodes"
    return text


def _figure(number: int, one: GallerySite, random: np.random.Generator) -> str:
    site = build_site(one.design)
    texts = site.draw_texts(random)
    # inert: readers cannot click fields and links of the gallery
    pages = "".join(
        f'<div class="phone" inert>{element(dataclasses.replace(site.nodes[index], hidden=False), texts)}</div>'
        for index in site.page_nodes
    )
    rate = "" if one.success is None else f"; random agent {one.success:.2%}"
    caption = f"{number}: {one.length} actions{rate}; {', '.join(site.fields) or 'no field'}"
    return f'<figure><div class="pages">{pages}</div><figcaption>{html.escape(caption)}</figcaption></figure>'


def write_pictures(designs: Mapping[str, WebsiteDesign], backend: str, folder: Path, seed: int = 0) -> list[Path]:
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
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    env = WebNavigationEnv(
        designs=list(designs.values()), num_websites=len(designs), backend=backend, render_mode="rgb_array"
    )
    try:
        for name, design in designs.items():
            env.reset(seed=seed, options={"design": design})
            for action in _first_page(env.site, solve(env.site, env.profile)):
                env.step(action)
            picture = env.render()
            assert picture is not None
            written.append(folder / f"{name}_{backend}.png")
            Image.fromarray(picture).quantize(64).save(written[-1], optimize=True)
    finally:
        env.close()
    return written


def _first_page(site: Site, actions: Sequence[int]) -> Sequence[int]:
    """The actions of a solution that fill in the first half of the first page."""
    first = site.page_nodes[0]
    last = site.page_nodes[1] if site.pages > 1 else len(site.nodes)
    fields = {node.field for node in site.nodes[first:last] if node.field}
    return actions[: (len(fields) + 1) // 2]
