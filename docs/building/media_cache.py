"""Keeps pictures and videos between builds: an environment is played again only if something that it shows changed.

A digest of the domain's code, the examples, the camera and the names of the data files on this machine names the folder
of an environment in the cache.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import click

from a2perf import assets
from a2perf.domains.registry import Domain, Environment, get_domain
from docs.building.environments import Film
from docs.building.pictures import Filmed
from docs.building.staging import REPOSITORY

_SUFFIXES = {".py", ".gin", ".json", ".toml", ".lock", ".npz", ".pb", ".txt"}
_RECORD = "filmed.json"


def cached(film: Film, cache: Path) -> Film:
    """Returns ``film`` with a cache in a folder. What could not be filmed is tried again by the next build."""

    def film_or_copy(domain: Domain, environment: Environment, media: Path) -> Filmed:
        here = cache / environment.id / _digest(domain.name)
        record = here / _RECORD
        if not record.is_file():
            click.echo(f"docs: playing {environment.id}")
            shutil.rmtree(cache / environment.id, ignore_errors=True)
            here.mkdir(parents=True)
            filmed = film(domain, environment, here)
            if not filmed.missing:
                # written last, so an interrupted build does not leave half a video behind
                record.write_text(json.dumps(asdict(filmed)), encoding="utf-8")
        else:
            filmed = Filmed(**json.loads(record.read_text(encoding="utf-8")))
        media.mkdir(parents=True, exist_ok=True)
        for path in here.iterdir():
            if path != record:
                shutil.copyfile(path, media / path.name)
        return filmed

    return film_or_copy


def digest_of(paths: Iterable[Path], *more: str) -> str:
    """Returns a digest of the names and contents of files of the repository, and of further text."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(REPOSITORY).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for text in more:
        digest.update(f"\0{text}".encode())
    return digest.hexdigest()[:16]


def sources_below(*names: str) -> list[Path]:
    """Returns the files, and the sources and data files of the folders, that paths of the repository name."""
    found: list[Path] = []
    for path in (REPOSITORY / name for name in names):
        if path.is_dir():
            found += [file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file()]
        elif path.is_file():
            found.append(path)
    return found


@functools.cache
def _digest(domain: str) -> str:
    code = (f"a2perf/domains/{domain}", "examples", "docs/building/pictures.py", "requirements.lock")
    return digest_of(sources_below(*code), *sorted(assets.available(get_domain(domain).assets)))
