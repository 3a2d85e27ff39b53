"""The text of a dataset card in Markdown, from Croissant metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from a2perf.plain_text import markdown_block, markdown_text
from a2perf.report.tables import Column, Table, Text, to_markdown

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"),
          (10_000_000, "1M<n<10M"), (100_000_000, "10M<n<100M"), (1_000_000_000, "100M<n<1B"))  # fmt: skip


def dataset_card_text(document: Mapping[str, Any]) -> str:
    """Returns the Markdown below the metadata of a card; every text of the document is escaped.

    Args:
        document: Croissant metadata that ``a2perf.datasets.croissant`` wrote; missing entries are left out.
    """
    parts = [f"# {markdown_text(str(document.get('name') or 'Dataset'))}"]
    parts.append(markdown_text(str(document.get("description") or "")))
    for record_set in _objects(document.get("recordSet")):
        parts += [f"## Fields of {markdown_text(str(record_set.get('name')))}", to_markdown(_fields(record_set))]
    parts += ["## Files", to_markdown(_files(document))]
    if citation := str(document.get("citeAs") or ""):
        parts += ["## Citation", markdown_block(citation)]
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def size_category(records: int) -> str:
    """Returns the size of a dataset as the hub names it, ``"1K<n<10K"``."""
    return next((name for limit, name in _SIZES if records < limit), "n>1B")


def _fields(record_set: Mapping[str, Any]) -> Table:
    columns = tuple(Column(key=title.lower(), title=title) for title in ("Field", "Type", "Description"))
    rows = tuple(
        (
            Text(text=str(field.get("name"))),
            Text(text=str(field.get("dataType")).partition(":")[2] + (" list" if field.get("repeated") else "")),
            Text(text=str(field.get("description") or "")),
        )
        for field in _objects(record_set.get("field"))
    )
    return Table(name="fields", caption="Fields", columns=columns, rows=rows)


def _files(document: Mapping[str, Any]) -> Table:
    columns = tuple(Column(key=title.lower(), title=title) for title in ("File", "Size", "SHA-256", "Content"))
    rows = tuple(
        tuple(Text(text=str(file.get(name) or "")) for name in ("name", "contentSize", "sha256", "description"))
        for file in _objects(document.get("distribution"))
    )
    return Table(name="files", caption="Files", columns=columns, rows=rows)


def _objects(value: object) -> Sequence[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
