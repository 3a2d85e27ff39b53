"""Croissant metadata of a dataset, ``croissant.json`` beside its files, built with the package ``mlcroissant``.

It lists the files with their hashes. Croissant has no reader for HDF5, so it describes no records; Minari reads them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from a2perf._version import PROJECT_URL
from a2perf.errors import ConfigError, MissingDependency
from a2perf.plain_text import plain_text
from a2perf.report.latex import latex_text
from a2perf.storage import json_text, sha256_of, write_atomic
from a2perf_datasets import naming
from a2perf_datasets.reader import OfflineDataset

CROISSANT_FILE = "croissant.json"
_FILES = {
    naming.DATA_FILE: ("application/x-hdf5", "All episodes, one HDF5 group per episode, in the layout of Minari."),
    naming.METADATA_FILE: ("application/json", "Spaces, environment and counts, for Minari."),
    naming.RECORD_FILE: ("application/json", "Policies, energy, seeds and hashes, recorded by a2perf."),
}


def write_croissant(data: OfflineDataset, *, license: str | None = None, url: str | None = None) -> Path:
    """Writes ``croissant.json`` into the ``data`` folder of a dataset.

    Args:
        license: identifier of SPDX or URL; by default the entry ``license`` of ``metadata.json``, if any.

    Returns:
        The path of ``croissant.json``.

    Raises:
        ConfigError: the folder cannot be written.
        MissingDependency: mlcroissant is not installed.

    Example:
        >>> from a2perf_datasets import open_dataset
        >>> from a2perf_datasets.croissant import write_croissant
        >>> write_croissant(open_dataset("datasets/toys/boxes/made-v0"), license="CC-BY-4.0").name
        'croissant.json'
    """
    path = data.path / CROISSANT_FILE
    try:
        document = _metadata(data, license, url).to_json()
        document["@context"]["a2perf"] = f"{PROJECT_URL}/"
        write_atomic(path, json_text(document | {"a2perf:steps": data.step_count}))
    except ModuleNotFoundError as error:
        message = "Croissant metadata needs the package mlcroissant, which is not installed"
        raise MissingDependency(message, hint="pip install mlcroissant") from error
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        raise ConfigError(message, hint="copy the dataset to a writable folder") from error
    return path


def _metadata(data: OfflineDataset, license: str | None, url: str | None) -> Any:
    import mlcroissant as mlc

    given = plain_text(str(data.metadata.get("description") or "")).strip().rstrip(".")
    counts = f"{data.episode_count} episodes with {data.step_count} steps of the environment {plain_text(data.env_id)}."
    names = data.metadata.get("author") or []
    authors = [plain_text(str(name)) for name in ([names] if isinstance(names, str) else names)]
    terms, version = license or data.metadata.get("license"), re.search(r"-v(\d+)$", data.id)
    year = str(data.record.get("made_at") or "")[:4]
    lines = [f"title = {{{latex_text(data.id)}}}", f"howpublished = {{{PROJECT_URL}}}"]
    lines += [f"author = {{{' and '.join(map(latex_text, authors))}}}"] if authors else []
    lines += [f"year = {{{year}}}"] if year.isdecimal() else []
    lines += [f"note = {{SHA-256 of the episodes {data.content_sha256}}}"] if data.content_sha256 else []
    return mlc.Metadata(
        name=data.id,
        description=f"{given}. {counts}" if given else counts,
        version=f"{version[1] if version else 0}.0.0",
        cite_as=f"@misc{{{re.sub('[^a-z0-9]+', '_', data.id.lower()).strip('_')},\n  " + ",\n  ".join(lines) + "\n}",
        keywords=["reinforcement learning", "offline reinforcement learning", "imitation learning", "minari"],
        creators=[mlc.Person(name=author) for author in authors],
        date_published=data.record.get("made_at"),
        license=[plain_text(str(terms))] if terms else None,
        url=url,
        distribution=[
            mlc.FileObject(
                id=name,
                name=name,
                description=meaning,
                content_url=name,
                encoding_formats=[encoding],
                content_size=f"{(data.path / name).stat().st_size} B",
                sha256=sha256_of(data.path / name),
            )
            for name, (encoding, meaning) in _FILES.items()
            if (data.path / name).is_file()
        ],
    )
