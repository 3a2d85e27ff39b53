"""How a submission describes itself: title, kind, authors and link.

A submission puts them into ``a2perf.toml`` in its folder, and new bundles record them in their manifest. For bundles
recorded without them, ``submissions.toml`` in a folder above the bundles has one table per submission, with the same
keys. Both are text of strangers: bounded here when read, escaped where shown.
"""

from __future__ import annotations

import functools
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from a2perf.errors import UserError, did_you_mean
from a2perf.plain_text import plain_text
from a2perf.records import SubmissionInfo
from a2perf.runs.packed.packed_archive import packed_place
from a2perf.runs.run import RunFolder
from a2perf.stranger_files import read_file, read_regular_file

FILE, FALLBACK_FILE = "a2perf.toml", "submissions.toml"
KINDS = ("random", "scripted", "search", "pre-trained", "imitation", "learned", "language-model")
"""How a submission gets its policy: ``imitation`` learns from demonstrations, ``learned`` from its own episodes."""

_MAX_BYTES, _MAX_FALLBACK_BYTES = 16 << 10, 1 << 20
_MOST_CHARACTERS = {"title": 60, "link": 300, "framework": 60, "summary": 300, "code": 64, "policy": 64}
_MOST_AUTHORS, _MOST_AUTHOR_CHARACTERS = 20, 80
_LISTS = {
    "authors": ("names", '"Ada Lovelace"', _MOST_AUTHORS, _MOST_AUTHOR_CHARACTERS),
    "weights": ("files", '"policy.pt"', 100, 300),
}
_LONGEST_TITLE = 120
_KEYS = ("title", "kind", "authors", "link", "framework", "summary", "weights", "code", "policy")
_DEPTH = 8


def read_submission_info(folder: Path) -> SubmissionInfo | None:
    """Returns what the ``a2perf.toml`` of a submission says; None without the file, ``UserError`` if it is invalid."""
    if not os.path.lexists(folder / FILE):
        return None
    return _info(_parsed(read_regular_file(folder, FILE, max_bytes=_MAX_BYTES), FILE), FILE)


def info_of(
    folder: RunFolder, recorded: SubmissionInfo | None, name: str, models: Sequence[str] = ()
) -> tuple[SubmissionInfo, list[str]]:
    """Returns the description of a run's submission, and why a ``submissions.toml`` could not be read.

    The description in the run's manifest counts first. Language models become part of the title.
    """
    info, problems = (bounded(recorded), []) if recorded is not None else _described_above(folder, name)
    if info.title and models:
        info = msgspec.structs.replace(info, title=f"{info.title} ({', '.join(models)})"[:_LONGEST_TITLE])
    return info, problems


def _described_above(folder: RunFolder, name: str) -> tuple[SubmissionInfo, list[str]]:
    """Returns what the nearest ``submissions.toml`` above a run says about a submission."""
    for above in list(Path(os.path.abspath(folder.path)).parents)[:_DEPTH]:
        file = above / FALLBACK_FILE
        if packed_place(above) is not None or not file.is_file():  # a packed file describes no submission
            continue
        try:
            status = file.stat()
            return _cached(file, status.st_mtime_ns, status.st_size).get(name, SubmissionInfo()), []
        except (UserError, OSError) as error:
            return SubmissionInfo(), [f"{FALLBACK_FILE}: {error.message if isinstance(error, UserError) else error}"]
    return SubmissionInfo(), []


def bounded(info: SubmissionInfo) -> SubmissionInfo:
    """Returns a description from a manifest within the bounds of ``a2perf.toml``; invalid values become empty."""
    texts = {key: _line(getattr(info, key))[:most] for key, most in _MOST_CHARACTERS.items()}
    return SubmissionInfo(
        title=texts["title"],
        kind=info.kind if info.kind in KINDS else "",
        authors=[_line(author)[:_MOST_AUTHOR_CHARACTERS] for author in info.authors[:_MOST_AUTHORS]],
        link=info.link if len(info.link) <= _MOST_CHARACTERS["link"] and _is_link(info.link) else "",
        framework=texts["framework"],
        summary=texts["summary"],
    )


def described_submissions(file: Path) -> dict[str, SubmissionInfo]:
    """Returns the descriptions in a ``submissions.toml`` by name; an invalid one is a ``UserError``."""
    tables = _parsed(read_file(file, max_bytes=_MAX_FALLBACK_BYTES), FALLBACK_FILE)
    found = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UserError(f"{name!r} is not a table", hint=f"write [{name}] and its keys below")
        found[name] = _info(table, f"{FALLBACK_FILE}, [{name}]")
    return found


@functools.lru_cache(maxsize=64)
def _cached(file: Path, modified_ns: int, size: int) -> Mapping[str, SubmissionInfo]:
    return described_submissions(file)  # time and size are part of the key, so an edited file is read again


def _parsed(content: bytes, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # ValueError: bad TOML or not UTF-8
        raise UserError(
            f"{name} is not valid TOML: {error}", hint=f"correct {name}; keys: {', '.join(_KEYS)}"
        ) from error


def _info(table: Mapping[str, Any], where: str) -> SubmissionInfo:
    for key in table:
        if key not in _KEYS:
            raise UserError(
                f"{where} has an unknown key {key[:40]!r}{did_you_mean(key[:40], _KEYS)}",
                hint=f"valid keys: {', '.join(_KEYS)}",
            )
    values: dict[str, Any] = {}
    for key, most in _MOST_CHARACTERS.items():
        if key in table:
            values[key] = _text(table[key], f"{where}: {key}", most)
    if values.get("link") and not _is_link(values["link"]):
        raise UserError(f"{where}: link is not an http(s) address", hint='link = "https://..."')
    if "kind" in table:
        if table["kind"] not in KINDS:
            raise UserError(
                f"{where}: unknown kind {str(table['kind'])[:40]!r}", hint=f"valid kinds: {', '.join(KINDS)}"
            )
        values["kind"] = table["kind"]
    for key, (items, example, most, characters) in _LISTS.items():
        if key in table:
            given = table[key]
            if not isinstance(given, list) or len(given) > most:
                raise UserError(f"{where}: {key} is not a list of at most {most} {items}", hint=f"{key} = [{example}]")
            values[key] = [_text(item, f"{where}: {key}", characters) for item in given]
    return SubmissionInfo(**values)


def _text(value: Any, where: str, most: int) -> str:
    if not isinstance(value, str):
        raise UserError(f"{where} is not a string", hint="put the text into double quotes")
    line = _line(value)
    if len(line) > most:
        raise UserError(f"{where} has {len(line)} characters; at most {most} are allowed", hint="shorten it")
    return line


def _line(text: str) -> str:
    return " ".join(plain_text(text).split())


def _is_link(text: str) -> bool:
    address = text.partition("://")
    return (
        address[0] in ("http", "https")
        and bool(address[2])
        and text.isascii()
        and not any(sign.isspace() or sign in "\"'<>\\`" for sign in text)
    )
