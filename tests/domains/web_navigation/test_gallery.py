"""The gallery of websites: a page for people, and pictures from both backends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from PIL import Image

from a2perf.domains.web_navigation import gallery
from a2perf.domains.web_navigation.commands import websites
from a2perf.domains.web_navigation.website import checked_design

SITE = {
    "number_of_pages": 2,
    "action": ["navbar", "city", "cabin", "cart"],
    "action_page": [0, 0, 1, 1],
}
SMALL = {"number_of_pages": 1, "action": ["username"], "action_page": [0]}


@pytest.fixture
def designs(tmp_path: Path) -> Path:
    folder = tmp_path / "designs"
    folder.mkdir()
    for level in (1, 2, 3):
        (folder / f"{level:02d}.json").write_text(json.dumps([SMALL, SITE]))
    return folder


def test_the_page_shows_every_page_of_every_site(designs: Path, tmp_path: Path) -> None:
    out = tmp_path / "websites.html"
    arguments = ["show", "--data-dir", str(designs), "--out", str(out), "--level", "1", "--level", "3"]
    result = CliRunner().invoke(websites, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert result.output.strip() == str(out)
    page = out.read_text(encoding="utf-8")
    assert re.findall("<h2>(.*?)</h2>", page) == ["Level 1", "Level 3"]
    assert page.count('class="phone"') == 2 * 3
    assert "cabin, city" in page
    assert page.count("display:none") == 2  # the menus; all pages are shown
    # nothing but data URIs: the page can be sent to somebody
    addresses = re.findall(r"""(?:src=|href=|url\()["']?([^"'\s)]*)""", page)
    assert addresses
    assert all(address.startswith("data:") for address in addresses)


def test_sites_are_spread_from_the_easiest_to_the_hardest() -> None:
    design = checked_design(SMALL)
    shown = [gallery.GallerySite(design, rate / 100, 3) for rate in (5, 90, 40, 60, 10)]
    assert [one.success for one in gallery.choose(shown, 3)] == [0.9, 0.4, 0.05]
    assert len(gallery.choose(shown, 10)) == 5


def _picture(path: Path) -> NDArray[np.float64]:
    return np.asarray(Image.open(path).convert("L"), dtype=np.float64)


def _pictures(backend: str, folder: Path, out: Path) -> list[Path]:
    arguments = ["show", "--data-dir", str(folder), "--out", str(out / "page.html"), "--count", "2"]
    arguments += ["--pictures", str(out), "--backend", backend]
    assert CliRunner().invoke(websites, arguments, catch_exceptions=False).exit_code == 0
    return [out / f"website_level_{level}_{backend}.png" for level in (1, 2, 3)]


def test_pictures_of_the_page_model_show_a_site_half_filled_in(designs: Path, tmp_path: Path) -> None:
    paths = _pictures("model", designs, tmp_path)
    picture = _picture(paths[0])
    assert picture.shape == (667, 375)
    assert (picture[100:140, 20:150] < 128).sum() > 50  # "Mountain View" in the field of the city


@pytest.mark.group("chromium")
@pytest.mark.usefixtures("keeper")
def test_pictures_of_both_backends_show_the_same_site(designs: Path, tmp_path: Path) -> None:
    ours = _picture(_pictures("model", designs, tmp_path)[0])
    theirs = _picture(_pictures("chromium", designs, tmp_path)[0])
    assert theirs.shape == (667, 375)
    # colours and corners may differ; where something dark stands may not
    dark = [image < 140 for image in (ours, theirs)]
    assert (dark[0] & dark[1]).sum() > 0.7 * max(dark[0].sum(), dark[1].sum())
