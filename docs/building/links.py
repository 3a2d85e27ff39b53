"""Checks the links of a built site: ``python -m docs.building.links build/docs``.

Every ``href``, ``src``, ``poster`` and ``srcset`` of every page must lead to a file of the site, and every anchor to
an element. Nothing is requested from the network: of addresses outside of the site only the form is checked;
``--external`` lists them.
"""

from __future__ import annotations

import functools
import html.parser
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click

_LINKS = ("href", "src", "poster", "data", "xlink:href")
_INLINE = ("data:", "javascript:void")


@dataclass
class _Page(html.parser.HTMLParser):
    """Targets and anchors of one page."""

    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.links += [given[name] for name in _LINKS if name in given]
        self.links += [one.split()[0] for one in given.get("srcset", "").split(",") if one.strip()]


@dataclass(frozen=True)
class Links:
    """The links of a site.

    Attributes:
        internal: number of links that stay in the site.
        dead: one line per dead link, ``"page: target: reason"``.
        external: addresses outside of the site, with the pages that name them.
    """

    internal: int
    dead: list[str]
    external: dict[str, set[str]]


def check(site: Path) -> Links:
    """Follows every link of every page below ``site``."""
    site = site.resolve()
    internal, dead, external = 0, [], dict[str, set[str]]()
    for page in sorted(site.rglob("*.html")):
        name = page.relative_to(site).as_posix()
        for target in _read(page).links:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                external.setdefault(target, set()).add(name)
                if reason := _wrong_form(target):
                    dead.append(f"{name}: {target}: {reason}")
            elif not target.startswith(_INLINE):
                internal += 1
                if reason := _dead(site, page, target):
                    dead.append(f"{name}: {target}: {reason}")
    return Links(
        internal, dead, {target: pages for target, pages in external.items() if not target.startswith(_INLINE)}
    )


@functools.cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _dead(site: Path, page: Path, target: str) -> str | None:
    parts = urlsplit(target)
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not path.is_relative_to(site.resolve()):
        return "leaves the site"
    if path.is_dir():
        return "is a folder, which no page of a local copy can open"
    if not path.is_file():
        return "does not exist"
    anchor = unquote(parts.fragment)
    if anchor and anchor != "top" and path.suffix == ".html" and anchor not in _read(path).anchors:
        return "has no such anchor"
    return None


def _wrong_form(target: str) -> str | None:
    parts = urlsplit(target)
    if parts.scheme in ("data", "mailto", "javascript"):
        return None
    if parts.scheme not in ("http", "https"):
        return f"has the scheme {parts.scheme or 'of the page'!r}"
    if "." not in parts.netloc or any(character in target for character in " <>\"'"):
        return "is not a well-formed address"
    return None


def _lines(links: Links, *, external: bool) -> Iterator[str]:
    if external:
        for target, pages in sorted(links.external.items()):
            if not target.startswith("data:"):
                yield f"{target}  ({len(pages)} pages, first {min(pages)})"
    yield from links.dead
    yield f"{links.internal} links inside the site, {len(links.dead)} dead; {len(links.external)} addresses outside"


@click.command()
@click.argument("site", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--external", is_flag=True, help="List the addresses outside of the site as well.")
def main(site: Path, external: bool) -> None:
    """Follow every link of the site in SITE; exits with 1 if a link is dead."""
    links = check(site)
    for line in _lines(links, external=external):
        click.echo(line)
    sys.exit(bool(links.dead))


if __name__ == "__main__":
    main()
