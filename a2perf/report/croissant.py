"""Croissant 1.0 metadata as JSON-LD: context, files, fields, citation, and the whole document.

Specification: https://docs.mlcommons.org/croissant/docs/croissant-spec.html. Functions of plain values; offline
datasets and recorded runs are described with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from a2perf._version import PROJECT_URL
from a2perf.plain_text import plain_text
from a2perf.report.latex import latex_text

CROISSANT_FILE = "croissant.json"
CONFORMS_TO = ("http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0")
HDF5, JSON, PARQUET = "application/x-hdf5", "application/json", "application/x-parquet"
TEXT, BOOLEAN, INTEGER, FLOAT = "sc:Text", "sc:Boolean", "sc:Integer", "sc:Float"

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    **{
        name: f"cr:{name}"
        for name in (
            "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty", "fileSet",
            "format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet",
            "references", "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField",
            "transform",
        )
    },
    "a2perf": f"{PROJECT_URL}/",
}  # fmt: skip
"""The context of the specification; validators warn if one of its names is missing."""


def croissant(
    name: str, description: str, *, files: Sequence[Mapping[str, Any]], record_sets: Sequence[Mapping[str, Any]],
    responsible_ai: Mapping[str, Any], version: str = "1.0.0", cite_as: str = "", authors: Sequence[str] = (),
    published: str | None = None, license: str | None = None, url: str | None = None, keywords: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Returns a whole document; entries without a value are left out.

    Args:
        name: name of the dataset.
        description: one or two sentences.
        files: of ``file_object``.
        record_sets: of ``record_set``.
        responsible_ai: entries ``rai:...``.
        version: semantic version.
        cite_as: BibTeX entry.
        authors: names.
        published: date, ISO 8601.
        license: identifier of SPDX or URL.
        url: web page.
        keywords: further keywords.
        more: entries of other vocabularies.
    """
    document: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": list(CONFORMS_TO),
        "name": plain_text(name),
        "description": plain_text(description),
        "version": version,
        "citeAs": cite_as,
        "keywords": ["reinforcement learning", *keywords],
        "creator": [{"@type": "sc:Person", "name": plain_text(author)} for author in authors],
        "datePublished": published,
        "license": None if license is None else plain_text(license),
        "url": url,
        "isLiveDataset": False,
        **(more or {}),
        "distribution": list(files),
        "recordSet": list(record_sets),
        **responsible_ai,
    }
    return {key: value for key, value in document.items() if value not in (None, "", [])}


def file_object(name: str, encoding: str, description: str, *, size: int, sha256: str) -> dict[str, Any]:
    """Returns the entry of a file beside the document.

    Args:
        name: name of the file, which is also its id.
        encoding: media type.
        description: one sentence.
        size: bytes.
        sha256: 64 hexadecimal digits.
    """
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "description": description,
        "contentUrl": name,
        "contentSize": f"{size} B",
        "encodingFormat": encoding,
        "sha256": sha256,
    }


def record_set(
    name: str, description: str, fields: Sequence[Mapping[str, Any]], key: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns a set of records with equal fields.

    Args:
        name: name and id.
        description: one sentence.
        fields: of ``field``.
        key: names of the fields that identify a record.
    """
    found = {"@type": "cr:RecordSet", "@id": name, "name": name, "description": description, "field": list(fields)}
    keys = [{"@id": f"{name}/{part}"} for part in key]
    return found | ({"key": keys[0] if len(keys) == 1 else keys} if keys else {})


def field(
    records: str, name: str, kind: str, description: str, source: str, *, extract: Mapping[str, str] | None = None,
    repeated: bool = False, references: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Returns a field.

    Args:
        records: name of its record set.
        name: its name.
        kind: type, ``"sc:Integer"`` or ``"cr:Float32"``.
        description: meaning and unit.
        source: id of the file that holds it.
        extract: where in the file; by default the column of this name.
        repeated: whether a value is a list.
        references: id of the field of another record set that has the same values.
    """
    found: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": f"{records}/{name}",
        "name": name,
        "description": plain_text(description),
        "dataType": kind,
        "source": {"fileObject": {"@id": source}, "extract": dict(extract or {"column": name})},
    }
    found |= {"repeated": True} if repeated else {}
    return found | ({"references": {"field": {"@id": references}}} if references else {})


def citation(title: str, *, authors: Sequence[str] = (), year: str = "", note: str = "") -> str:
    """Returns a BibTeX entry; every text is escaped for LaTeX."""
    key = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
    lines = [
        f"title = {{{latex_text(title)}}}",
        *([f"author = {{{' and '.join(latex_text(name) for name in authors)}}}"] if authors else []),
        *([f"year = {{{year}}}"] if year.isdecimal() else []),
        f"howpublished = {{{PROJECT_URL}}}",
        *([f"note = {{{note}}}"] if note else []),
    ]
    return f"@misc{{{key},\n  " + ",\n  ".join(lines) + "\n}"
