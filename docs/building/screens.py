"""Pictures of what a reader sees first: ``python -m docs.building.screens -o FOLDER NAME=PAGE...``.

Each page is opened in a headless Chromium at 1280 and 390 px, and its first screen is saved as ``NAME_WIDTH.png``. A
Markdown page is rendered as code hosts render it. Two versions of the project are compared by two calls:
``python -m docs.building.screens -o after readme=README.md site=build/docs/index.html``.
"""

from __future__ import annotations

import html
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from markdown_it import MarkdownIt
from selenium import webdriver

SIZES = ((1280, 900), (390, 844))
"""Width and height of a first screen, in CSS pixels: a laptop and a phone."""

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # Chromium refuses to start as root with its sandbox; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--hide-scrollbars",
)

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2328; max-width: 1012px; margin: 0 auto; padding: 32px; }
h1, h2 { border-bottom: 1px solid #d1d9e0; padding-bottom: .3em; } a { color: #0969da; }
pre { background: #f6f8fa; padding: 16px; overflow: auto; border-radius: 6px; font-size: 85%; line-height: 1.45; }
code { background: #818b981f; padding: .2em .4em; border-radius: 6px; font-size: 85%; } pre code { all: unset; }
table { border-collapse: collapse; display: block; overflow: auto; }
td, th { border: 1px solid #d1d9e0; padding: 6px 13px; }
img { max-width: 100%; }
@media (max-width: 600px) { body { padding: 16px; } }
"""


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Yields a headless Chromium of the host, without a profile."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or "google-chrome"
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


def first_screen(driver: webdriver.Chrome, page: Path, target: Path, width: int, height: int) -> None:
    """Saves the first screen of ``page`` as a PNG file of ``width`` x ``height`` pixels."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    driver.get(page.resolve().as_uri())
    driver.save_screenshot(str(target))


def rendered(page: Path) -> Path:
    """Returns an HTML page for a Markdown page, written beside it for its relative pictures."""
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(page.read_text(encoding="utf-8"))
    target = page.with_name(f".{page.stem}.html")
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    target.write_text(f"<!doctype html><title>{html.escape(page.stem)}</title>{head}<style>{STYLE}</style>{body}")
    return target


@click.command()
@click.argument("pages", nargs=-1, required=True, metavar="NAME=PAGE...")
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder of the pictures."
)
@click.option("--height", type=click.IntRange(100, 20000), help="Height in pixels instead of one screen.")
def main(pages: tuple[str, ...], output: Path, height: int | None) -> None:
    """Save the first screens of PAGES at 1280 and 390 px."""
    output.mkdir(parents=True, exist_ok=True)
    with chromium() as driver:
        for named in pages:
            name, _, place = named.partition("=")
            page = Path(place)
            markdown = page.suffix == ".md"
            shown = rendered(page) if markdown else page
            try:
                for width, screen in SIZES:
                    target = output / f"{name}_{width}.png"
                    first_screen(driver, shown, target, width, height or screen)
                    click.echo(str(target))
            finally:
                if markdown:
                    shown.unlink()


if __name__ == "__main__":
    main()
