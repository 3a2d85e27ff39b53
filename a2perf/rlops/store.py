"""The experiment store with its tags: which runs a query means, and what exists when it means none.

The journal of tags is the truth beside the bundles; ``runs.store`` reads the runs themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from a2perf.errors import UserError, did_you_mean, names_text
from a2perf.rlops.filters import RunQuery
from a2perf.rlops.tags import TagJournal
from a2perf.runs.bundles.run_record import TAGS_FILE
from a2perf.runs.run import Run
from a2perf.runs.stores.store import RunStore

_MOST_NAMES = 20


class Store(RunStore):
    """A folder of runs with the tags that they were born with and have been given since; errors as ``RunStore``."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        super().__init__(path, create=create)
        self.tags = TagJournal(self.path / TAGS_FILE)

    def runs(self, query: RunQuery | None = None) -> list[Run]:
        """Returns the runs that a query means, by experiment, environment, version and seed."""
        known = super().runs()
        tags = self.tags.applied({run.name: run.record.tags for run in known})
        for run in known:
            run.record = msgspec.structs.replace(run.record, tags=tags[run.name])
        return known if query is None else [run for run in known if query.matches(run)]

    def select(self, query: RunQuery) -> list[Run]:
        """Returns the runs that match a query, at least one.

        Raises:
            UserError: there is none; the message names the part of the query without a match and lists what exists.
        """
        known = self.runs()
        found = [run for run in known if query.matches(run)]
        if not found:
            raise _nothing(query, known, self.path)
        return found

    def tag_names(self) -> dict[str, int]:
        """Returns every tag with the number of runs that have it."""
        return dict(sorted(Counter(tag for run in self.runs() for tag in run.record.tags).items()))

    def born_with(self, tag: str) -> list[str]:
        """Returns the runs that had a tag from their start."""
        return [run.name for run in super().runs() if tag in run.record.tags]


def unknown_tag(tag: str, known: Sequence[str]) -> UserError:
    """Returns the error for a tag that no run has; it lists what exists."""
    return _unknown("has the tag", tag, "tags", known)


def _unknown(relation: str, name: str, kind: str, known: Sequence[str]) -> UserError:
    return UserError(f"no run {relation} {name!r}{did_you_mean(name, known)}", hint=_existing(kind, known))


def _nothing(query: RunQuery, known: Sequence[Run], path: Path) -> UserError:
    """Returns the error that names the part of a query without a match and lists what exists."""
    if not known:
        return UserError(
            f"the store {path} holds no runs", hint="fill it with `a2perf benchmark` or `a2perf rlops import`"
        )
    records = [run.record for run in known]
    parts: tuple[tuple[str, str, Sequence[str | None], set[str]], ...] = (
        ("has the tag", "tags", query.tags, {tag for record in records for tag in record.tags}),
        ("is of the experiment", "experiments", [query.experiment], {record.experiment for record in records}),
        ("is on", "environments", query.env_ids or (), {record.env_id for record in records}),
        ("is by", "users", [query.user], {record.user for record in records}),
        ("is configured with", "keys", [*query.config], {key for record in records for key in record.config}),
    )
    for relation, kind, wanted, held in parts:
        for name in wanted:
            if name is not None and name not in held:
                return _unknown(relation, name, kind, sorted(held))
    for key, values in query.config.items():
        held = {str(record.config[key]) for record in records if key in record.config}
        if not any(str(value) in held for value in values):
            given = " or ".join(map(str, values))
            return UserError(f"no run has {key} = {given}", hint=_existing(f"values of {key}", sorted(held)))
    anyhow = replace(query, states=())
    fitting = [run for run in known if anyhow.matches(run)]
    if fitting:
        states = Counter(run.state for run in fitting)
        found = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        where = f" on {', '.join(query.env_ids)}" if query.env_ids else ""
        return UserError(
            f"no run that fits {query}{where} is {' or '.join(query.states)} ({found})", hint="finish them first"
        )
    return UserError(
        f"each part of {query} fits some run, but no run fits them all",
        hint="`a2perf rlops tags list` shows which runs have which tags",
    )


def _existing(what: str, names: Sequence[str]) -> str:
    return f"{what} that exist: {names_text(names, _MOST_NAMES)}" if names else f"there are no {what}"
