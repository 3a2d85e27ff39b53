"""The data files that environments need and that are not shipped: find, list and fetch them by domain or name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from a2perf import assets
from a2perf.assets import Asset
from a2perf.domains.registry import domains
from a2perf.errors import AssetUnavailable, ConfigError, did_you_mean


class DataFile(NamedTuple):
    """A data file and its state on this machine.

    Attributes:
        path: the verified local file; None if it is missing or damaged.
        problem: why a file in the data folder cannot be used; None if nothing is wrong.
    """

    asset: Asset
    path: Path | None
    problem: str | None

    def as_json(self) -> dict[str, Any]:
        """Returns the file as a JSON object."""
        return {
            "name": self.asset.name,
            "path": str(self.path) if self.path else None,
            "problem": self.problem,
            "sha256": self.asset.sha256,
            "licence": self.asset.licence,
            "summary": self.asset.summary,
        }


def find_assets(names: Sequence[str] = ()) -> list[Asset]:
    """Returns the files of domains or single files, in the order of the domains.

    Args:
        names: names of domains and files; all files by default.

    Raises:
        ConfigError: a name is neither a domain nor a file.
    """
    every = {asset.name: (domain.name, asset) for domain in domains().values() for asset in domain.assets}
    for name in names:
        if name not in every and name not in domains():
            known = [*domains(), *every]
            raise ConfigError(
                f"{name!r} is neither a domain nor a file{did_you_mean(name, known)}",
                hint="`a2perf data list` shows every file",
            )
    return [asset for owner, asset in every.values() if not names or owner in names or asset.name in names]


def list_files(names: Sequence[str] = ()) -> list[DataFile]:
    """Returns the files of domains or single files with their states.

    Args:
        names: names of domains and files; all files by default.

    Raises:
        ConfigError: a name is neither a domain nor a file.
    """
    found = []
    for asset in find_assets(names):
        try:
            found.append(DataFile(asset, assets.locate(asset), None))
        except AssetUnavailable as error:
            found.append(DataFile(asset, None, error.message))
    return found


def fetch_missing(
    names: Sequence[str] = (),
    *,
    started: Callable[[int], None] = lambda count: None,
    progress: Callable[[Asset, Path], None] = lambda asset, path: None,
) -> list[Asset]:
    """Fetches the files that are missing on this machine and verifies them.

    Args:
        names: names of domains and files; all files by default.
        started: called with the number of missing files before the first one is fetched.
        progress: called with each fetched file and its path.

    Returns:
        The files that were missing.

    Raises:
        ConfigError: a name is neither a domain nor a file.
        AssetUnavailable: a file could not be fetched or has another checksum.
    """
    missing = [asset for asset in find_assets(names) if assets.locate(asset) is None]
    if missing:
        started(len(missing))
        assets.fetch_all(missing, progress=progress)
    return missing
