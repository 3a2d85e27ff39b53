"""``rlops.json``: what a run is a run of, beside the bundles of its modes.

The record is written once, before the run starts, so that a run that was killed at once is still known. What changes
later lies elsewhere: the state in the bundles' manifests, the tags in the store's journal.
"""

from __future__ import annotations

import ast
import getpass
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from a2perf.records import SCHEMA, Record
from a2perf.runs import layout

RUN_FILE = layout.RUN_RECORD
TAGS_FILE = layout.TAG_JOURNAL
MODES = ("command", *layout.MODES, "imported")
"""Bundles that a run of a store may have: those of a submission, of a plain command, of an import."""


class AutotagRecord(Record, kw_only=True):
    """Which version of the code ran.

    Attributes:
        tag: the tag of the run, ``describe`` with a mark of uncommitted changes.
        describe: what ``git describe --tags`` said, ``no-tag-<count>-g<sha>`` without tags, or
            ``no-git-<content hash>`` outside version control.
        sha: the full commit, None outside version control.
        dirty: whether there were uncommitted or untracked files.
        diff_sha256: hash over the uncommitted changes and untracked files; None when clean.
        branch: the branch, None when detached or outside version control.
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
        experiment: name of the experiment, by default the script's or submission's name.
        env_id: the environment.
        seed: the seed, None when an imported run does not say.
        tags: the tags that the run was born with; later changes are in the store's journal.
        user: who started it.
        config: what it was configured with; words of a command line as Python values.
        source: ``"command"``, ``"submission"``, or what it was imported from.
        command: the words that were run, for a person.
        version: the version folder's name.
        autotag: the version of the code, where known.
        created_at: ISO 8601 in UTC.
        wall_s: of an imported run, from its first to its last logged value.
        notes: what a reader should know.
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
    """Returns the user's name, empty where the system has none for this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def folder_name(text: str) -> str:
    """Returns a name for a folder: letters, digits and ``._-=@`` stay, the rest becomes ``_``; never hidden."""
    return re.sub(r"[^\w.\-=@]", "_", text).lstrip(".") or "_"


def config_of(words: Sequence[str]) -> dict[str, Any]:
    """Reads flags off a command line: ``--learning-rate 3e-4`` becomes ``{"learning_rate": 0.0003}``.

    A flag followed by another flag is true. Words that are Python literals become values, others stay text; only what
    follows the first flag counts.
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
    """Returns the number, truth value or list that a text spells, or the text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {"true": True, "false": False}.get(text, text)
    return value if isinstance(value, int | float | bool | str | list) or value is None else text
