"""``rlops.json``: what was asked of a run, stored beside the bundles of its modes.

The record is written once, before the run starts, because a run that is killed at once must still be listed. Data that
changes later is stored elsewhere: the state in the bundles' manifests, the tags in the store's journal.
"""

from __future__ import annotations

import ast
import getpass
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from a2perf.records import SCHEMA, Record
from a2perf.runs.bundles import layout

RUN_FILE = layout.RUN_RECORD
TAGS_FILE = layout.TAG_JOURNAL
MODES = (layout.PROGRAM_MODES[0], *layout.MODES, layout.PROGRAM_MODES[1])
"""Bundles of a run in a store: of a submission, of a plain command, of an import."""


class AutotagRecord(Record, kw_only=True):
    """The version of the code that ran.

    Attributes:
        tag: the tag of the run, ``describe`` with a mark of uncommitted changes.
        describe: the output of ``git describe --tags``, ``no-tag-<count>-g<sha>`` without tags, or
            ``no-git-<content hash>`` outside version control.
        pull_request: ``pr-<n>``, None when there is none.
        source: how the pull request was found: a variable's name, ``"network"`` or ``""``.
    """

    tag: str
    describe: str
    sha: str | None = None
    dirty: bool = False
    diff_sha256: str | None = None
    branch: str | None = None
    pull_request: str | None = None
    source: str = ""


class ExperimentRun(Record, kw_only=True):
    """``rlops.json`` of a run.

    Attributes:
        tags: the tags at creation; later changes are in the store's journal.
        config: its configuration; arguments of a command line as Python values.
        source: ``"command"``, ``"submission"``, or what it was imported from.
        created_at: ISO 8601 in UTC.
        wall_s: of an imported run, from its first to its last logged value.
        packages: versions of the packages that the command's Python has, by lower-case name; empty when unknown.
    """

    schema: int = SCHEMA
    experiment: str
    env_id: str
    seed: int | None = None
    tags: list[str] = msgspec.field(default_factory=list)
    user: str = ""
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    source: str = "command"
    command: list[str] = msgspec.field(default_factory=list)
    version: str = ""
    autotag: AutotagRecord | None = None
    created_at: str = ""
    wall_s: float | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    packages: dict[str, str] = msgspec.field(default_factory=dict)


def user_name() -> str:
    """Returns the user's name; ``""`` if the system has none for this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def folder_name(text: str) -> str:
    """Returns a name for a folder: letters, digits and ``._-=@`` stay, the rest becomes ``_``; never hidden."""
    return re.sub(r"[^\w.\-=@]", "_", text).lstrip(".") or "_"


def config_of(words: Sequence[str]) -> dict[str, Any]:
    """Reads flags off a command line: ``--learning-rate 3e-4`` becomes ``{"learning_rate": 0.0003}``.

    A flag followed by another flag is true. Arguments that are Python literals become values, others stay text.
    Arguments before the first flag are ignored.
    """
    found: dict[str, Any] = {}
    name: str | None = None
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            name = name.replace("-", "_")
            found[name] = literal(value) if equals else True
            if equals:
                name = None
        elif name is not None:
            given = literal(word)
            if found[name] is True:
                found[name] = given
            elif isinstance(found[name], list):
                found[name].append(given)
            else:
                found[name] = [found[name], given]
    return found


def literal(text: str) -> Any:
    """Returns a text as number, truth value or list, or unchanged if it is none of these."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {"true": True, "false": False}.get(text, text)
    return value if isinstance(value, int | float | bool | str | list) or value is None else text
