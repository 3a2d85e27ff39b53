"""Sets of designs: the shipped ones of each level, and files in the format of one JSON array of designs per level."""

from __future__ import annotations

import functools
import gzip
import json
import zipfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from a2perf.domains.web_navigation import LEVELS
from a2perf.domains.web_navigation.sites.website import WebsiteDesign, checked_design
from a2perf.errors import ConfigError


@functools.cache
def shipped_designs(level: int) -> tuple[WebsiteDesign, ...]:
    """The designs of a level that come with the package.

    Raises:
        ConfigError: there is no such level.
    """
    _check_level(level)
    return unpack(shipped_record(level))


@functools.cache
def shipped_record(level: int) -> dict[str, Any]:
    """Returns the shipped set of a level with its record: seed, episodes, ``success`` and ``length`` per design.

    Raises:
        ConfigError: the file is missing.
    """
    try:
        data = resources.files("a2perf.domains.web_navigation") / "data"
        packed = (data / f"designs_{level:02d}.json.gz").read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"the designs of level {level} are missing", hint="install a2perf again") from error
    record: dict[str, Any] = json.loads(gzip.decompress(packed))
    return record


def pack(designs: Sequence[WebsiteDesign], about: dict[str, Any]) -> bytes:
    """Packs designs: names once, then per design the numbers of its primitives and their pages."""
    names = sorted({name for design in designs for name, _ in design.parts})
    numbers = {name: number for number, name in enumerate(names)}
    rows = [[[numbers[name] for name, _ in design.parts], [page for _, page in design.parts]] for design in designs]
    text = json.dumps({**about, "primitives": names, "designs": rows}, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), mtime=0)


def unpack(record: dict[str, Any]) -> tuple[WebsiteDesign, ...]:
    """Returns the designs of a packed set."""
    names = record["primitives"]
    designs = []
    for numbers, pages in record["designs"]:
        parts = tuple((names[number], page) for number, page in zip(numbers, pages, strict=True))
        designs.append(WebsiteDesign(max(pages) + 1, parts))
    return tuple(designs)


def load_designs(level: int, data_dir: str | Path | None) -> tuple[WebsiteDesign, ...]:
    """The designs of a level: shipped, or those of ``<data_dir>/<level, two digits>.json`` (or ``.json.zip``).

    Raises:
        ConfigError: there is no such level or file, or one of its designs is wrong.
    """
    _check_level(level)
    if data_dir is None:
        return shipped_designs(level)
    folder = Path(data_dir).expanduser()
    plain, packed = folder / f"{level:02d}.json", folder / f"{level:02d}.json.zip"
    try:
        if plain.is_file():
            given = json.loads(plain.read_text("utf-8-sig"))
        elif packed.is_file():
            with zipfile.ZipFile(packed) as archive:
                given = json.loads(archive.read(archive.namelist()[0]))
        else:
            raise ConfigError(
                f"{folder} has no designs of level {level}", hint=f"put {plain.name} there, or leave data_dir out"
            )
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ConfigError(f"the designs in {folder} cannot be read: {error}") from error
    return check_designs(given)


def check_designs(given: Any) -> tuple[WebsiteDesign, ...]:
    """Checks a list of designs.

    Raises:
        ConfigError: not a list, empty, or one design is invalid; the message names it.
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or not given:
        raise ConfigError(f"designs is {given!r}", hint="give a list with at least one design")
    checked = []
    for number, design in enumerate(given):
        try:
            checked.append(checked_design(design))
        except ConfigError as error:
            raise ConfigError(f"design {number}: {error.message}", hint=error.hint) from error
    return tuple(checked)


def _check_level(level: Any) -> None:
    if isinstance(level, bool) or level not in LEVELS:
        raise ConfigError(f"difficulty is {level!r}", hint=f"choose one of: {', '.join(map(str, LEVELS))}")
