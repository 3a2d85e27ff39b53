"""``python -m docs.building``: builds the site. Nothing is fetched; a warning of Sphinx or a dead link is an error.

The staged sources stay beside the site, to look up the lines that Sphinx complains about. A second build plays only the
environments that changed and renders only the pages that changed.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
import time
from pathlib import Path

import click

from docs.building import (
    attacks,
    audits,
    commands,
    environments,
    gin_parameters,
    leaderboard,
    links,
    media_cache,
    metrics,
    navigation,
    notebooks,
    python_api,
    schemas,
    staging,
)
from docs.building.markdown import with_tables
from docs.building.pictures import film

CONFIGURATION = Path(__file__).resolve().parents[1]
_NOT_STATIC = shutil.ignore_patterns("templates", "search_order.js")  # Sphinx reads these itself
_STRIP = "<!-- strip -->"


def sources(folder: Path, *, pictures: bool = True, cache: Path | None = None) -> None:
    """Writes all sources of the site.

    Args:
        folder: emptied first.
        pictures: whether to play the environments, execute the notebooks and write the leaderboard.
        cache: a folder that keeps pictures and executed notebooks for the next build; None makes all of them.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = staging.stage(folder, notebooks.pages(folder, cache=cache, run=pictures))
    reference = folder / "reference"
    commands.write(folder / "commands")
    gin_parameters.write(reference / "gin_parameters.md")
    python_api.write(reference / "python_api.md")
    metrics.write(reference / "metrics.md")
    schemas.write(reference / "file_schemas.md", reference / "schemas", reference / "run_record.md")
    if pictures:
        leaderboard.write(folder / "results.md", folder / "_static" / "leaderboard", cache or folder.with_name("kept"))
    generated = {
        "reference/attacks": attacks.block,
    }
    for name, make in generated.items():
        page = folder / f"{name}.md"
        page.write_text(with_tables(page.read_text(encoding="utf-8"), make), encoding="utf-8")
    camera = film if cache is None else media_cache.cached(film, cache)
    media = folder / environments.MEDIA
    environments.write(folder / "environments", media, film=camera if pictures else None)
    audits.write(folder / "environments")
    everything = {path.relative_to(folder) for path in folder.rglob("*.md") if _is_page(path, folder)} | set(pages)
    front = folder / "index.md"
    text = front.read_text(encoding="utf-8").replace(_STRIP, _strip(folder / "_static"))
    front.write_text(f"{text}\n{navigation.contents(sorted(everything))}", encoding="utf-8")
    shutil.copytree(CONFIGURATION / "style", folder / "_static", dirs_exist_ok=True, ignore=_NOT_STATIC)
    shutil.copyfile(CONFIGURATION / "pictures" / "report.png", folder / "_static" / "preview.png")


def _is_page(path: Path, folder: Path) -> bool:
    return path.relative_to(folder).parts[0] != "_static"


def _strip(static: Path) -> str:
    """Copies the moving pictures of the front page and returns the HTML that shows them side by side."""
    figures = []
    for name, caption in (
        ("quadruped", "Quadruped locomotion"),
        ("web", "Web navigation"),
        ("circuit", "Circuit training"),
    ):
        picture = CONFIGURATION / "pictures" / f"strip_{name}.webp"
        if picture.is_file():
            static.mkdir(exist_ok=True)
            shutil.copyfile(picture, static / picture.name)
            figures.append(
                f'<figure><img src="_static/{picture.name}" alt="{caption}: an agent at work">'
                f"<figcaption>{caption}</figcaption></figure>"
            )
    return f'<div class="strip">{"".join(figures)}</div>\n' if figures else ""


def _synchronize(source: Path, target: Path) -> bool:
    """Makes ``target`` equal to ``source``; Sphinx recognizes unchanged files by their time, so they keep it.

    Returns:
        Whether files were removed or the front page, with the tables of contents, changed.
    """
    target.mkdir(parents=True, exist_ok=True)
    everything = not _same(source / "index.md", target / "index.md")
    for path in sorted(target.rglob("*"), reverse=True):
        original = source / path.relative_to(target)
        if path.is_dir() and not original.is_dir():
            path.rmdir()
        elif not path.is_dir() and not original.is_file():
            path.unlink()
            everything = True
    for path in source.rglob("*"):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir(exist_ok=True)
        elif not _same(path, copy):
            shutil.copyfile(path, copy)
    return everything


def _same(path: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(path, other, shallow=False)


def render(staged: Path, doctrees: Path, output: Path, *, strict: bool = True) -> int:
    """Renders staged sources with Sphinx.

    Args:
        staged: what ``sources`` wrote.
        doctrees: Sphinx's folder for the next build.
        output: folder of the site.
        strict: whether a warning is an error.

    Returns:
        The exit status of Sphinx.
    """
    from sphinx.cmd.build import build_main

    arguments = ["-b", "html", "-q", *(["-W", "--keep-going"] if strict else [])]
    arguments += ["-c", str(CONFIGURATION), "-d", str(doctrees)]
    arguments += ["-D", f"html_static_path={(staged / '_static').resolve()}"]
    return build_main([*arguments, str(staged), str(output)])


@click.command()
@click.option("-o", "--output", default="build/docs", type=click.Path(path_type=Path), help="Folder of the site.")
@click.option(
    "--pictures/--no-pictures", default=True, help="Play the environments and film them, and execute the notebooks."
)
def main(output: Path, pictures: bool) -> None:
    """Builds the site."""
    started = time.perf_counter()

    def progress(text: str) -> None:
        click.echo(f"docs: {text} ({time.perf_counter() - started:.0f} s)")

    os.environ.setdefault("A2PERF_OFFLINE", "1")
    staged, doctrees, cache = (output.with_name(f"{output.name}-{part}") for part in ("sources", "doctrees", "media"))
    if pictures:
        progress("1/2 writing pages, playing environments, executing notebooks; two minutes, later builds seconds")
    with tempfile.TemporaryDirectory(prefix="a2perf-docs-") as temporary:
        fresh = Path(temporary, "sources")
        sources(fresh, pictures=pictures, cache=cache)
        # every page shows the table of contents, and Sphinx leaves the pages of removed sources behind
        if _synchronize(fresh, staged):
            shutil.rmtree(doctrees, ignore_errors=True)
            shutil.rmtree(output, ignore_errors=True)
    progress(
        f"2/2 rendering {sum(1 for _ in staged.rglob('*.md'))} pages; half a minute, later builds only the changed ones"
    )
    status = render(staged, doctrees, output)
    found = links.check(output) if status == 0 else None
    if found is not None and found.dead:
        click.echo("\n".join(["docs: dead links", *found.dead]), err=True)
        status = 1
    progress(f"open {output}/index.html" if status == 0 else "failed, see above")
    raise SystemExit(status)


if __name__ == "__main__":
    main()
