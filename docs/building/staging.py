"""Stages the sources of the site: the pages of ``docs``, and the pages of the repository that they belong with.

Links between pages stay links. A link to anything else (a folder, a program) becomes its name.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FROM_REPOSITORY = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "compatibility/benchmarks/README.md": "benchmarks.md",
    "results/README.md": "results.md",
    "third_party/NOTICES.md": "notices.md",
    "docker/README.md": "docker.md",
    "packages/README.md": "packages/index.md",
}
MOVED = {Path("examples/small_language_model"): Path("packages/baselines/examples/small_language_model")}
"""Folders that pages of recorded submissions still link to by their former place: an edit would change their hash."""
FRONT = Path("docs/index.md")
"""The only page that may link to generated pages: the others are read on code hosts as well."""
PICTURES = (".png", ".svg", ".gif", ".webp", ".jpg")
_LEFT_OUT = ("_", ".")  # parts of other pages
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)


class DeadLink(Exception):
    """A page links to a file that does not exist."""


def pages() -> dict[Path, Path]:
    """Returns the place of each page on the site; both paths are relative to their tops."""
    found = {
        path.relative_to(REPOSITORY): path.relative_to(REPOSITORY / "docs")
        for path in sorted((REPOSITORY / "docs").rglob("*.md"))
        if not path.name.startswith(_LEFT_OUT) and "building" not in path.parts
    }
    for page, place in FROM_REPOSITORY.items():
        if (REPOSITORY / page).is_file():
            found[Path(page)] = Path(place)
    examples = (*REPOSITORY.glob("examples/*/README.md"), *REPOSITORY.glob("packages/*/examples/*/README.md"))
    for readme in sorted(examples):
        found[readme.relative_to(REPOSITORY)] = Path("examples", f"{readme.parent.name}.md")
    for readme in sorted(REPOSITORY.glob("packages/*/README.md")):
        found[readme.relative_to(REPOSITORY)] = Path("packages", f"{readme.parent.name}.md")
    for notebook in sorted(REPOSITORY.glob("docs/notebooks/*.ipynb")):
        found[notebook.relative_to(REPOSITORY)] = Path("notebooks", f"{notebook.stem}.md")
    return found


def stage(folder: Path, texts: Mapping[Path, str] | None = None) -> list[Path]:
    """Copies every page and the pictures it shows into ``folder``, with links that fit there.

    Args:
        folder: where to.
        texts: Markdown of the pages that are not Markdown themselves: of every notebook, by its path.

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
            text = (texts or {}).get(page) or (REPOSITORY / page).read_text(encoding="utf-8")
            target.write_text(_relinked(text, page, place, table, folder), encoding="utf-8")
        except DeadLink as error:
            dead.append(str(error))
    if dead:
        raise DeadLink("; ".join(dead))
    return list(table.values())


def _relinked(text: str, page: Path, place: Path, table: dict[Path, Path], folder: Path) -> str:
    def link(match: re.Match[str]) -> str:
        bang, text, target, anchor = match[1], match[2], match[3], match[4] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        source = Path(os.path.normpath(page.parent / target))
        source = MOVED.get(source, source)
        if page == FRONT and target.endswith(".md") and not (REPOSITORY / source).exists():
            return match[0]  # a page that the build writes; Sphinx fails if it does not
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

    return "".join(piece if is_code else _LINK.sub(link, piece) for is_code, piece in _fenced(text))


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
