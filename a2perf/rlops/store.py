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
    """A folder of runs with the tags that they were born with and have been given since.

    Raises:
        UserError: it does not exist, or is not a folder.
    """

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
    return UserError(f"no run has the tag {tag!r}{did_you_mean(tag, known)}", hint=_existing("tags", known))


def _nothing(query: RunQuery, known: Sequence[Run], path: Path) -> UserError:
    """Returns the error that names the part of a query without a match and lists what exists."""
    if not known:
        return UserError(
            f"the store {path} holds no runs", hint="fill it with `a2perf benchmark` or `a2perf rlops import`"
        )
    tags = sorted({tag for run in known for tag in run.record.tags})
    for tag in query.tags:
        if tag not in tags:
            return unknown_tag(tag, tags)
    experiments = sorted({run.record.experiment for run in known})
    if query.experiment is not None and query.experiment not in experiments:
        return UserError(
            f"no run is of the experiment {query.experiment!r}{did_you_mean(query.experiment, experiments)}",
            hint=_existing("experiments", experiments),
        )
    envs = sorted({run.record.env_id for run in known})
    for env in query.env_ids or ():
        if env not in envs:
            return UserError(f"no run is on {env!r}{did_you_mean(env, envs)}", hint=_existing("environments", envs))
    users = sorted({run.record.user for run in known})
    if query.user is not None and query.user not in users:
        return UserError(f"no run is by {query.user!r}", hint=_existing("users", users))
    for key, values in query.config.items():
        held = sorted({str(run.record.config[key]) for run in known if key in run.record.config})
        if not held:
            keys = sorted({name for run in known for name in run.record.config})
            return UserError(
                f"no run is configured with {key!r}{did_you_mean(key, keys)}", hint=_existing("keys", keys)
            )
        if not any(str(value) in held for value in values):
            given = " or ".join(str(value) for value in values)
            return UserError(f"no run has {key} = {given}", hint=_existing(f"values of {key}", held))
    anyhow = replace(query, states=())
    fitting = [run for run in known if anyhow.matches(run)]
    if fitting:
        states = Counter(run.state for run in fitting)
        words = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        where = f" on {', '.join(query.env_ids)}" if query.env_ids else ""
        return UserError(
            f"no run that fits {query}{where} is {' or '.join(query.states)} ({words})", hint="finish them first"
        )
    return UserError(
        f"each part of {query} fits some run, but no run fits them all",
        hint="`a2perf rlops tags list` shows which runs have which tags",
    )


def _existing(what: str, names: Sequence[str]) -> str:
    return f"{what} that exist: {names_text(names, _MOST_NAMES)}" if names else f"there are no {what}"
