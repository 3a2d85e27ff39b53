"""Stages the sources of the site: the pages of ``docs``, and the pages of the repository that they belong with.

Links between pages stay links; a link to something that is no page (a folder, a program) becomes its name.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FROM_REPOSITORY = {
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "results/README.md": "results.md",
    "third_party/NOTICES.md": "notices.md",
    "docker/README.md": "docker.md",
}
PICTURES = (".png", ".svg", ".gif", ".webp", ".jpg")
_LEFT_OUT = ("_", ".")  # parts of other pages
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)


class DeadLink(Exception):
    """A page links to a file that does not exist."""


def pages() -> dict[Path, Path]:
    """Returns where each page of the repository stands on the site: both paths relative to their tops."""
    found = {
        path.relative_to(REPOSITORY): path.relative_to(REPOSITORY / "docs")
        for path in sorted((REPOSITORY / "docs").rglob("*.md"))
        if not path.name.startswith(_LEFT_OUT) and "building" not in path.parts
    }
    for page, place in FROM_REPOSITORY.items():
        if (REPOSITORY / page).is_file():
            found[Path(page)] = Path(place)
    for readme in sorted(REPOSITORY.glob("examples/*/README.md")):
        found[readme.relative_to(REPOSITORY)] = Path("examples", f"{readme.parent.name}.md")
    return found


def stage(folder: Path) -> list[Path]:
    """Copies every page and the pictures it shows into ``folder``, with links that fit there.

    Returns:
        The pages, relative to ``folder``.

    Raises:
        DeadLink: pages link to files that do not exist; all of them are named.
    """
    table, dead = pages(), []
    for page, place in table.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.write_text(_relinked(page, place, table, folder), encoding="utf-8")
        except DeadLink as error:
            dead.append(str(error))
    if dead:
        raise DeadLink("; ".join(dead))
    return list(table.values())


def _relinked(page: Path, place: Path, table: dict[Path, Path], folder: Path) -> str:
    def link(match: re.Match[str]) -> str:
        bang, text, target, anchor = match[1], match[2], match[3], match[4] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        source = Path(os.path.normpath(page.parent / target))
        if not (REPOSITORY / source).exists():
            raise DeadLink(f"{page} links to {target}, which does not exist")
        if source == Path("README.md"):
            source = Path("docs/index.md")
        there = table.get(source) or table.get(source / "README.md")
        if there is not None:
            return f"{bang}[{text}]({os.path.relpath(there, place.parent)}{anchor})"
        if source.suffix in PICTURES:
            kept = Path(*source.parts[1:]) if source.parts[0] == "docs" else Path("pictures", *source.parts)
            (folder / kept).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / source, folder / kept)
            return f"{bang}[{text}]({os.path.relpath(kept, place.parent)})"
        named = str(source) in text or text.strip("`") == str(source)
        return text if named else f"{text} (`{source}`)"

    pieces = _fenced((REPOSITORY / page).read_text(encoding="utf-8"))
    return "".join(piece if is_code else _LINK.sub(link, piece) for is_code, piece in pieces)


def _fenced(text: str) -> list[tuple[bool, str]]:
    """Splits a page into prose and code blocks."""
    pieces: list[tuple[bool, str]] = []
    inside = False
    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line) is not None
        is_code = inside or fence
        if pieces and pieces[-1][0] == is_code:
            pieces[-1] = (is_code, pieces[-1][1] + line)
        else:
            pieces.append((is_code, line))
        inside ^= fence
    return pieces
