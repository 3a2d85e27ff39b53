"""Data files by name and sha256 (interface; filled in below)."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SourceArchiveMember:
    """A file inside the source archive of a project on the package index.

    Attributes:
        project: the project's name on the index.
        version: the exact version.
        archive_sha256: checksum of the archive.
        member: path inside the archive below its top folder.
    """

    project: str
    version: str
    archive_sha256: str
    member: str


@dataclass(frozen=True)
class Asset:
    """One data file.

    Attributes:
        name: path-like name, ``"quadruped_locomotion/motions/dog_pace.txt"``.
        sha256: checksum of the file's bytes.
        source: where it can be fetched from.
        licence: SPDX identifier or a short statement of its terms.
        summary: one line for listings.
    """

    name: str
    sha256: str
    source: SourceArchiveMember
    licence: str
    summary: str = ""


def locate(asset: Asset) -> Path | None:
    """Returns the verified local file (A2PERF_DATA_DIR, then the user's cache), or None; never fetches."""
    raise NotImplementedError


def fetch(asset: Asset) -> Path:
    """Returns the verified local file, fetching it first where needed.

    Raises:
        AssetUnavailable: it is nowhere on this host and could not be fetched; says why and the ways to get it.
    """
    raise NotImplementedError
