"""Recorded runs with their records, and the groups that names of submissions, versions and tags stand for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from a2perf.errors import UserError, did_you_mean, names_text
from a2perf.rlops.compare.request import Group
from a2perf.rlops.filters import RunQuery
from a2perf.rlops.tags import TagJournal
from a2perf.runs.bundles.run_record import TAGS_FILE, StoredRun
from a2perf.runs.run import BUNDLE, Run
from a2perf.runs.stores.index import read_run_folder

_STORE_DEPTH = 8
"""A run lies at most so many folders below the journal of its store."""
_FEWEST_HASH_DIGITS = 4
_HASH_DIGITS = 10


def versions_of(run: Run) -> tuple[str, ...]:
    """Returns the names of its version of the code: the folder's name in a store, the hash of the submission."""
    return tuple(dict.fromkeys(name for name in (run.record.version, run.identity.version) if name))


def version_of(run: Run) -> str:
    """Returns its version for people; ``"unknown version"`` without one."""
    return run.record.version or run.identity.version[:_HASH_DIGITS] or "unknown version"


def with_records(runs: Sequence[Run]) -> list[Run]:
    """Gives runs their records; the record of a run without a bundle holds what is known."""
    labels = Counter(run.folder.label for run in runs)
    for place, run in enumerate(runs):
        label = run.folder.label
        run.record = _record(run, f"run {place}" if not label else str(run.folder.path) if labels[label] > 1 else label)
    for run, tags in zip(runs, _current_tags([run.record for run in runs]), strict=True):
        run.record.tags = tags
    return list(runs)


def runs_named(runs: Sequence[Run], name: str) -> Group:
    """Returns the group of runs that a name stands for: a submission, a version (or its first digits), or a tag.

    Raises:
        UserError: nothing has this name, or several things have it.
    """
    meanings = {kind: found for kind, of in _KINDS.items() if (found := [one for one in runs if name in of(one)])}
    if not meanings:
        by_prefix = _by_prefix(runs, name)
        if by_prefix:
            meanings = {"version": by_prefix}
    distinct = {tuple(map(id, found)) for found in meanings.values()}
    if len(distinct) > 1:
        kinds = ", ".join(f"a {kind} of {len(found)} runs" for kind, found in meanings.items())
        raise UserError(f"{name!r} means {kinds}", hint="pass the runs themselves, such as runs.where(algorithm=...)")
    if not meanings:
        every = {kind: sorted({text for one in runs for text in of(one)}) for kind, of in _KINDS.items()}
        every["version"] = sorted({version_of(one) for one in runs})
        near = did_you_mean(name, [text for texts in every.values() for text in texts])
        listed = "; ".join(f"{kind}s: {names_text(texts)}" for kind, texts in every.items() if texts)
        raise UserError(
            f"no run is of the submission, version or tag {name!r}{near}", hint=f"names that exist: {listed}"
        )
    kind, found = next(iter(meanings.items()))
    return Group(name, RunQuery(text=f"{kind} {name}"), tuple(found))


def named_after_content(runs: Sequence[Run], otherwise: str) -> Group:
    """Returns runs that were given one by one, under the name of their submission if they have only one."""
    algorithms = {one.algorithm for one in runs}
    name = algorithms.pop() if len(algorithms) == 1 else otherwise
    return Group(name or otherwise, RunQuery(text=f"{len(runs)} runs"), tuple(runs))


def other_groups(runs: Sequence[Run], baseline: Group) -> list[Group]:
    """Returns the groups that a baseline is compared with if no candidate is named.

    Beside a submission these are the other submissions. Beside anything else they are the other versions of its
    submissions, or the other submissions if it has only one version.

    Raises:
        UserError: the baseline holds all runs.
    """
    taken = {id(one) for one in baseline.runs}
    rest = [one for one in runs if id(one) not in taken]
    ours = {one.algorithm for one in baseline.runs}
    versions = [one for one in rest if one.algorithm in ours]
    if baseline.query.text.startswith("submission ") or not versions:
        found = _split(rest, lambda one: one.algorithm, "submission")
    else:
        found = _split(versions, version_of, "version")
    if not found:
        raise UserError(
            f"there is one group, {baseline.name}: nothing to compare it with",
            hint="read the runs of a second submission or version too",
        )
    return found


def unique_names(groups: Sequence[Group]) -> list[Group]:
    """Returns groups with names that differ: groups of one name get their version, or a number."""
    found: list[Group] = []
    counts = Counter(group.name for group in groups)
    for group in groups:
        name = group.name
        if counts[name] > 1:
            versions = {version_of(one) for one in group.runs}
            name = f"{name} {versions.pop()}" if len(versions) == 1 else name
        if any(other.name == name for other in found):
            name = f"{name} ({sum(other.name.startswith(name) for other in found) + 1})"
        found.append(replace(group, name=name))
    return found


_KINDS: dict[str, Callable[[Run], Iterable[str]]] = {
    "submission": lambda one: (one.algorithm,),
    "version": versions_of,
    "tag": lambda one: one.record.tags,
}


def _by_prefix(runs: Sequence[Run], name: str) -> list[Run]:
    """Returns the runs of the version that begins with a name.

    Raises:
        UserError: several versions do.
    """
    if len(name) < _FEWEST_HASH_DIGITS:
        return []
    found = [one for one in runs if any(version.startswith(name) for version in versions_of(one))]
    versions = {version_of(one) for one in found}
    if len(versions) > 1:
        listed = names_text(sorted(versions))
        raise UserError(f"{len(versions)} versions begin with {name!r}: {listed}", hint="give more of its characters")
    return found


def _split(runs: Sequence[Run], key: Callable[[Run], str], kind: str) -> list[Group]:
    found: dict[str, list[Run]] = {}
    for one in runs:
        found.setdefault(key(one), []).append(one)
    return [Group(name, RunQuery(text=f"{kind} {name}"), tuple(found[name])) for name in sorted(found)]


def _record(run: Run, label: str) -> StoredRun:
    identity = run.identity
    if run.folder.layout == BUNDLE:
        bundle = run.folder.path
        stored = read_run_folder(bundle.parent, label, (bundle.name,))
    else:
        stored = StoredRun(
            run_id=label, path=run.folder.path, experiment=run.algorithm, env_id=identity.task, seed=identity.seed,
            version=identity.version[:_HASH_DIGITS], state=identity.state,
            wall_s=run.wall_clock_s, source=run.folder.layout,
            env_kwargs=identity.env_kwargs, view=identity.view,
        )  # fmt: skip
    return msgspec.structs.replace(
        stored,
        experiment=run.algorithm,
        env_id=identity.task,
        fingerprint=identity.fingerprint,
        config={**stored.config, "domain": identity.domain, "task": identity.task},
    )


def _current_tags(records: Sequence[StoredRun]) -> list[list[str]]:
    """Returns the tags of runs: those at creation, with the changes in the journals of their stores."""
    has_journal: dict[Path, bool] = {}
    members: dict[Path, dict[int, str]] = {}
    for place, record in enumerate(records):
        for folder in record.path.parents[:_STORE_DEPTH]:
            if folder not in has_journal:
                has_journal[folder] = (folder / TAGS_FILE).is_file()
            if has_journal[folder]:
                members.setdefault(folder, {})[place] = os.path.relpath(record.path, folder)
                break
    tags = [record.tags for record in records]
    for store, names in members.items():
        own = {name: records[place].tags for place, name in names.items()}
        current = TagJournal(store / TAGS_FILE).applied(own)
        for place, name in names.items():
            tags[place] = current[name]
    return tags
