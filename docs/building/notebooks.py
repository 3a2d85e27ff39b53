"""The notebooks of ``docs/notebooks``: executes them, and turns them with their outputs into pages of the site.

They are committed without outputs. An execution runs in a temporary folder with a copy of ``results``, so no output
shows a path of this machine. The pages are Markdown like all others: search, links, dark mode and the checks of
accessibility work on them. Every picture needs a text for readers who cannot see it: ``"alt": "..."`` in the metadata
of its cell.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import nbformat
from nbformat import NotebookNode

from docs.building.media_cache import digest_of, sources_below
from docs.building.staging import REPOSITORY

NOTEBOOKS = REPOSITORY / "docs" / "notebooks"
TIMEOUT_S = 300  # per cell
ALT = "alt"
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LOCAL_LINK = re.compile(r'<a href="(?![a-z]+:)[^"]*"[^>]*>(.*?)</a>', re.DOTALL)
_FENCE = "`" * 8  # longer than any fence inside an output
_VARIABLES = {
    "A2PERF_OFFLINE": "1",
    "COLUMNS": "80",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # as Jupyter sets it
    "NO_COLOR": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
_FOLDERS = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")


def sources() -> list[Path]:
    """Returns the notebooks."""
    return sorted(NOTEBOOKS.glob("*.ipynb"))


def read(path: Path) -> NotebookNode:
    """Reads a notebook.

    Raises:
        nbformat.ValidationError: it is not valid.
    """
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


# --- Execution --------------------------------------------------------------------------------------------------------


def execute(path: Path, folder: Path) -> NotebookNode:
    """Executes a notebook and returns it with its outputs.

    Args:
        path: the notebook; it is not changed.
        folder: an empty folder that stands for the repository: it gets a copy of ``results``, and the kernel runs in
            its ``docs/notebooks``.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell fails and has no tag ``raises-exception``.
    """
    from nbclient import NotebookClient

    notebook = read(path)
    work = folder / "docs" / "notebooks"
    work.mkdir(parents=True)
    if any("results" in cell.source for cell in notebook.cells if cell.cell_type == "code"):
        shutil.copytree(REPOSITORY / "results", folder / "results", ignore=shutil.ignore_patterns("__pycache__"))
    with _kernel_variables():
        client = NotebookClient(
            notebook,
            timeout=TIMEOUT_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(work)}},
            extra_arguments=["--log-level=ERROR"],  # not the warning that the kernel listens on the loopback interface
        )
        return client.execute()


@contextmanager
def _kernel_variables() -> Iterator[None]:
    """Keeps a kernel away from the settings of this user's Jupyter, and its files out of the user's folders."""
    with tempfile.TemporaryDirectory(prefix="a2perf-") as folder:
        given = {**_VARIABLES, **{name: str(Path(folder, name)) for name in _FOLDERS}}
        for name in _FOLDERS:
            Path(given[name]).mkdir()
        before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def executed(path: Path, cache: Path | None = None) -> NotebookNode:
    """Returns a notebook with its outputs: those of the last build if neither it nor the code changed."""
    record = None if cache is None else cache / "notebooks" / path.stem / f"{_digest(path)}.ipynb"
    if record is not None and record.is_file():
        return nbformat.read(record, as_version=4)
    click.echo(f"docs: executing {path.name}")
    with tempfile.TemporaryDirectory(prefix="a2perf-notebook-") as temporary:
        notebook = execute(path, Path(temporary))
    if record is not None:
        shutil.rmtree(record.parent, ignore_errors=True)
        record.parent.mkdir(parents=True)
        partial = record.with_suffix(".part")
        nbformat.write(notebook, partial)
        partial.replace(record)  # an interrupted build does not leave half a notebook behind
    return notebook


def _digest(path: Path) -> str:
    recorded = (REPOSITORY / "results" / "recorded").rglob("*.zip")
    return digest_of([path, Path(__file__), *sources_below("a2perf", "requirements.lock"), *recorded])


# --- Pages ------------------------------------------------------------------------------------------------------------


def pages(folder: Path, *, cache: Path | None = None, run: bool = True) -> dict[Path, str]:
    """Writes pictures and downloads of the notebooks, and returns their pages.

    Args:
        folder: the staged sources of the site.
        cache: a folder that keeps executed notebooks for the next build.
        run: whether to execute them; without, the pages have no outputs.

    Returns:
        Markdown by the path of the notebook in the repository.
    """
    downloads = folder / "_static" / "notebooks"
    downloads.mkdir(parents=True, exist_ok=True)
    found = {}
    for path in sources():
        shutil.copyfile(path, downloads / path.name)
        notebook = executed(path, cache) if run else read(path)
        text = page(notebook, path.stem, folder / "notebooks")
        title, _, rest = text.partition("\n")
        link = f'<p>This page is a notebook: <a href="../_static/notebooks/{path.name}" download>{path.name}</a>.</p>'
        found[path.relative_to(REPOSITORY)] = f"{title}\n\n{link}\n{rest}"
    return found


def page(notebook: NotebookNode, name: str, folder: Path) -> str:
    """Returns a notebook as Markdown and writes its pictures.

    Args:
        notebook: with or without outputs.
        name: the beginning of the names of its pictures.
        folder: gets the pictures.

    Raises:
        ValueError: a picture has no alternative text, or an output is of a kind that no page can show.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text, pictures = [], 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text.append(cell.source.strip())
            continue
        text.append(f"```python\n{cell.source.strip()}\n```")
        for output in _merged(cell.get("outputs", [])):
            if "image/png" in output.get("data", {}):
                pictures += 1
                picture = folder / f"{name}_{pictures}.png"
                picture.write_bytes(base64.b64decode(output.data["image/png"]))
                text.append(_picture(picture.name, cell, name))
            elif shown := _shown(output, name):
                text.append(shown)
    return "\n\n".join(text) + "\n"


def _merged(outputs: list[NotebookNode]) -> Iterator[NotebookNode]:
    """Yields outputs with the pieces of one stream as one; a kernel cuts them at any time."""
    open_stream: NotebookNode | None = None
    for output in outputs:
        if open_stream is not None and output.output_type == "stream" and output.name == open_stream.name:
            open_stream = NotebookNode({**open_stream, "text": open_stream.text + output.text})
            continue
        if open_stream is not None:
            yield open_stream
        open_stream = output if output.output_type == "stream" else None
        if open_stream is None:
            yield output
    if open_stream is not None:
        yield open_stream


def _picture(file: str, cell: NotebookNode, name: str) -> str:
    alt = " ".join(str(cell.metadata.get(ALT, "")).split())
    if not alt:
        first = cell.source.strip().splitlines()[-1]
        raise ValueError(f"{name}: the picture of `{first}` has no alternative text; add {json.dumps(ALT)} to the cell")
    return f":::{{container}} output picture\n```{{image}} {file}\n:alt: {alt}\n```\n:::"


def _shown(output: NotebookNode, name: str) -> str:
    """Returns an output as Markdown: HTML if there is some, else text."""
    if output.output_type == "stream":
        return _text(output.text)
    if output.output_type == "error":
        return _text("\n".join(output.traceback))
    data: dict[str, Any] = output.data
    if "text/html" in data:
        # files that the notebook wrote are not on the site; HTML in Markdown would end at its first empty line
        text = _LOCAL_LINK.sub(r"\1", data["text/html"])
        return f'{_FENCE}{{raw}} html\n<div class="output">{text}</div>\n{_FENCE}'
    if "text/latex" in data or "text/plain" in data:
        return _text(data.get("text/plain", data.get("text/latex")))
    raise ValueError(f"{name}: no page can show an output of {', '.join(data)}")


def _text(text: str) -> str:
    plain = _ESCAPE.sub("", text).rstrip()
    return f"{_FENCE}{{code-block}} text\n:class: output\n\n{plain}\n{_FENCE}" if plain.strip() else ""


# --- Notebooks as they are committed ----------------------------------------------------------------------------------


def cleared(notebook: NotebookNode) -> NotebookNode:
    """Returns a notebook without outputs, execution counts and the metadata that editors add."""
    cells = []
    for number, cell in enumerate(notebook.cells, start=1):
        kept = {name: cell.metadata[name] for name in (ALT, "tags") if name in cell.metadata}
        text = {"source": cell.source, "metadata": kept, "id": f"cell-{number:02}"}
        if cell.cell_type == "code":
            cells.append(nbformat.v4.new_code_cell(**text))
        else:
            cells.append(nbformat.v4.new_markdown_cell(**text))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


@click.command()
def main() -> None:
    """Remove outputs and execution counts from the notebooks, before a commit."""
    for path in sources():
        nbformat.write(cleared(read(path)), path)
        click.echo(str(path.relative_to(REPOSITORY)))


if __name__ == "__main__":
    main()
