"""``python -m docs.building``: builds the site. Nothing is fetched from anywhere, and a warning is an error.

The sources of the site are staged beside it and may be looked at when Sphinx complains.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import click

from docs.building import (
    commands,
    environments,
    gin_parameters,
    metrics,
    navigation,
    schemas,
    staging,
    technical_report,
)
from docs.building.pictures import film

CONFIGURATION = Path(__file__).resolve().parents[1]


def sources(folder: Path, *, pictures: bool = True) -> None:
    """Writes all sources of the site into ``folder``, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = staging.stage(folder)
    reference = folder / "reference"
    commands.write(folder / "commands")
    gin_parameters.write(reference / "gin_parameters.md")
    metrics.write(reference / "metrics.md")
    schemas.write(reference / "file_schemas.md", reference / "schemas", reference / "run_record.md")
    technical_report.write(folder / "report", folder / "_static" / "report", make=pictures)
    media = folder / environments.MEDIA
    shown = environments.write(folder / "environments", media, film=film if pictures else None)
    for domain, figure in shown.items():
        _show(folder / "environments" / f"{domain}.md", figure)
    everything = {path.relative_to(folder) for path in folder.rglob("*.md")} | set(pages)
    front = folder / "index.md"
    front.write_text(
        f"{front.read_text(encoding='utf-8')}\n{navigation.contents(sorted(everything))}", encoding="utf-8"
    )
    shutil.copytree(CONFIGURATION / "style", folder / "_static", dirs_exist_ok=True)


def _show(page: Path, figure: str) -> None:
    """Puts a figure below the title of a page, where there is such a page."""
    if page.is_file():
        title, _, rest = page.read_text(encoding="utf-8").partition("\n")
        page.write_text(f"{title}\n\n{figure}\n{rest}", encoding="utf-8")


@click.command()
@click.option("-o", "--output", default="build/docs", type=click.Path(path_type=Path), help="Folder of the site.")
@click.option("--pictures/--no-pictures", default=True, help="Play the environments and film them.")
def main(output: Path, pictures: bool) -> None:
    """Builds the site."""
    from sphinx.cmd.build import build_main

    started = time.perf_counter()
    os.environ.setdefault("A2PERF_OFFLINE", "1")
    staged = output.with_name(f"{output.name}-sources")
    sources(staged, pictures=pictures)
    click.echo(f"docs: {sum(1 for _ in staged.rglob('*.md'))} pages in {time.perf_counter() - started:.0f} s")
    shutil.rmtree(output, ignore_errors=True)
    words = ["-b", "html", "-q", "-W", "--keep-going", "-c", str(CONFIGURATION), "-d", f"{staged}/.doctrees"]
    words += ["-D", f"html_static_path={(staged / '_static').resolve()}"]
    status = build_main([*words, str(staged), str(output)])
    click.echo(f"docs: {output}/index.html after {time.perf_counter() - started:.0f} s")
    raise SystemExit(status)


if __name__ == "__main__":
    main()
