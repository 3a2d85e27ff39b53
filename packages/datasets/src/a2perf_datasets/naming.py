"""Names and folders of datasets, as in Minari: ``<root>/<namespace>/<name>-v<version>/data``.

Standard library only.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from a2perf.errors import ConfigError, UserError, did_you_mean

DATA_FILE = "main_data.hdf5"
METADATA_FILE = "metadata.json"
RECORD_FILE = "a2perf.json"
"""The record of a2perf next to Minari's two files: policies, energy, hashes."""

VARIABLES = ("MINARI_DATASETS_PATH", "A2PERF_DATASETS_DIR")
_ID = re.compile(r"(?:(?P<namespace>[-_\w]+(?:/[-_\w]+)*)/)?(?P<name>[-_\w]+?)-v(?P<version>\d+)")


@dataclass(frozen=True)
class DatasetId:
    """A name such as ``domain/task/expert-v0``.

    Attributes:
        namespace: ``"domain/task"``, or empty.
        name: ``"expert"``.
        version: ``0``.
    """

    namespace: str
    name: str
    version: int

    @classmethod
    def parse(cls, text: str) -> DatasetId:
        """Reads a name.

        Raises:
            ConfigError: it is not of the form ``[namespace/]name-v<version>``.
        """
        match = _ID.fullmatch(text)
        if match is None:
            raise ConfigError(
                f"{text!r} is not a dataset name", hint="use `namespace/name-v0` with letters, digits, - and _"
            )
        return cls(match["namespace"] or "", match["name"], int(match["version"]))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.folder}" if self.namespace else self.folder

    @property
    def folder(self) -> str:
        """The last part of the name."""
        return f"{self.name}-v{self.version}"


def root_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """Returns the folder of all datasets: the given one, that of an environment variable, or that of the user."""
    for name in (given, *(os.environ.get(variable) for variable in VARIABLES)):
        if name:
            return Path(name).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data).expanduser().absolute() / "a2perf" / "datasets"


def dataset_folder(root: Path, name: DatasetId) -> Path:
    """Returns the folder of a dataset, which contains ``data``."""
    return root / name.namespace / name.folder


def all_ids(root: Path) -> list[str]:
    """Returns the names of the datasets below a root, sorted; hidden folders are left out."""
    places = (path.parents[1].relative_to(root) for path in root.rglob(f"data/{METADATA_FILE}"))
    return sorted(place.as_posix() for place in places if not any(part.startswith(".") for part in place.parts))


def is_dataset(given: str | os.PathLike[str]) -> bool:
    """Returns whether ``find`` looks for it: the folder of a dataset, or a name where no file or folder is."""
    path = Path(given).expanduser()
    if path.exists():
        return any((place / METADATA_FILE).is_file() for place in (path, path / "data"))
    return not path.is_absolute() and _ID.fullmatch(os.fspath(given)) is not None


def find(given: str | os.PathLike[str], root: Path) -> Path:
    """Returns the ``data`` folder of a dataset.

    Args:
        given: its name, or the path of its folder, of its ``data`` folder or of a file in that.

    Raises:
        UserError: the dataset does not exist.
    """
    path = Path(given).expanduser()
    for place in (path, path / "data", path.parent):
        if (place / METADATA_FILE).is_file() and (place != path.parent or path.is_file()):
            return place.absolute()
    text = os.fspath(given)
    if path.is_absolute() or path.exists() or _ID.fullmatch(text) is None:
        raise UserError(
            f"{text} is not a dataset: it has no {METADATA_FILE}",
            hint="give the name or the folder of a dataset (`a2perf datasets list`)",
        )
    place = dataset_folder(root, DatasetId.parse(text)) / "data"
    if (place / METADATA_FILE).is_file():
        return place
    known = all_ids(root)
    raise UserError(
        f"no dataset {text} in {root}{did_you_mean(text, known)}; it contains {', '.join(known) or 'none'}",
        hint=f"choose one of these, or another folder with the variable {VARIABLES[0]}",
    )
