"""The groups of runs that names stand for: queries of a store, submissions, versions and tags of recorded runs."""

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
from a2perf.rlops.store import Store
from a2perf.rlops.tags import TagJournal
from a2perf.runs.bundles.run_record import TAGS_FILE, ExperimentRun
from a2perf.runs.foreign.foreign_layouts import logged_config
from a2perf.runs.reading import run_at
from a2perf.runs.run import BUNDLE, Execution, Run, RunFolder
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
    """Gives runs names, records and current tags; the record of a run without a bundle holds what is known."""
    labels = Counter(run.folder.label for run in runs)
    for place, run in enumerate(runs):
        label = run.folder.label
        other = f"run {place}" if not label else str(run.folder.path) if labels[label] > 1 else label
        run.name = vars(run).get("name") or other  # not run.name, which would read the files of the run
        _set_record(run)
    for run, tags in zip(runs, _current_tags(runs), strict=True):
        run.record.tags = tags
    return list(runs)


def in_store(store: Store, groups: Sequence[Group]) -> tuple[Group, ...]:
    """Returns groups with the runs of a store, in any state, that their queries mean.

    Raises:
        UserError: a group has no finished run; the message lists what exists.
    """
    known = store.runs()
    found = []
    for group in groups:
        if not any(group.query.matches(run) for run in known):
            store.select(group.query)  # raises and lists what exists
        every = replace(group.query, states=())
        found.append(replace(group, runs=tuple(run for run in known if every.matches(run))))
    return tuple(found)


def bundles_of(group: Group) -> Group:
    """Returns a group of runs of a store with their bundles, which hold what the index does not."""
    bundles = [
        run_at(RunFolder(BUNDLE, run.folder.path / mode, f"{run.name}/{mode}", root=run.name))
        for run in group.runs
        for mode in run.logs
    ]
    return replace(group, runs=_in_order(with_records(bundles)))


def _in_order(runs: Sequence[Run]) -> tuple[Run, ...]:
    return tuple(sorted(runs, key=lambda run: (run.record.version, run.record.seed or 0, run.name)))


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
    return _named(name, f"{kind} {name}", found)


def named_after_content(runs: Sequence[Run], otherwise: str) -> Group:
    """Returns runs that were given one by one, under the name of their submission if they have only one."""
    algorithms = {one.algorithm for one in runs}
    name = algorithms.pop() if len(algorithms) == 1 else otherwise
    return _named(name or otherwise, f"{len(runs)} runs", runs)


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
        found = _split(rest, "submission", lambda one: [one.algorithm])
    else:
        found = _split(versions, "version", lambda one: [version_of(one)])
    if not found:
        raise UserError(
            f"there is one group, {baseline.name}: nothing to compare it with",
            hint="read the runs of a second submission or version too",
        )
    return sorted(found, key=lambda group: group.name)


def groups_by(runs: Sequence[Run], by: str | None, paths: Sequence[str]) -> list[Group]:
    """Returns the groups that a property of runs tells apart.

    Args:
        by: ``"path"`` (one of ``paths``), ``"submission"``, ``"version"``, ``"tag"``, or a key of the configuration;
            None for the first of path, submission and version that tells groups apart.

    Raises:
        UserError: all runs are in one group.
    """
    kinds: dict[str, Callable[[Run], Iterable[str]]] = {
        "path": lambda run: [path for path in paths if run.folder.path.is_relative_to(os.path.abspath(path))],
        **_KINDS,
        "version": lambda run: [version_of(run)],
    }
    chosen = {kind: kinds[kind] for kind in ("path", "submission", "version")}
    if by is not None:
        chosen = {by: kinds.get(by, lambda run: [str(run.record.config.get(by, f"without {by}"))])}
    for kind, names_of in chosen.items():
        found = _split(runs, kind, names_of)
        if len(found) > 1:
            return sorted(found, key=lambda group: paths.index(group.name)) if kind == "path" else found
    keys = sorted({key for run in runs for key in run.record.config})
    raise UserError(
        f"{len(runs)} runs are in one group{f' by {by!r}{did_you_mean(by, [*kinds, *keys])}' if by else ''}",
        hint=f"tell groups apart by {names_text([*kinds, *keys])}",
    )


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
        found.append(_named(name, group.query.text, group.runs))
    return found


def _named(name: str, text: str, runs: Sequence[Run]) -> Group:
    return Group(name, RunQuery(experiment=name, text=text), _in_order(runs))


_KINDS: dict[str, Callable[[Run], Iterable[str]]] = {
    "submission": lambda one: (one.algorithm,),
    "version": versions_of,
    "tag": lambda one: one.record.tags,
}


def _by_prefix(runs: Sequence[Run], name: str) -> list[Run]:
    """Returns the runs of the version that begins with a name."""
    if len(name) < _FEWEST_HASH_DIGITS:
        return []
    found = [one for one in runs if any(version.startswith(name) for version in versions_of(one))]
    versions = {version_of(one) for one in found}
    if len(versions) > 1:
        listed = names_text(sorted(versions))
        raise UserError(f"{len(versions)} versions begin with {name!r}: {listed}", hint="give more of its characters")
    return found


def _split(runs: Sequence[Run], kind: str, names_of: Callable[[Run], Iterable[str]]) -> list[Group]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        for name in names_of(run):
            found.setdefault(name, []).append(run)
    return [_named(name, f"{kind} {name}", held) for name, held in found.items()]


def _set_record(run: Run) -> None:
    identity = run.identity
    if run.folder.layout == BUNDLE:
        bundle = run.folder.path
        entry = read_run_folder(bundle.parent, run.name, (bundle.name,))
        run.record = msgspec.structs.replace(entry.record, experiment=run.algorithm, env_id=identity.task)
        run.execution = entry.execution
    else:
        run.record = ExperimentRun(
            experiment=run.algorithm,
            env_id=identity.task,
            seed=identity.seed,
            version=identity.version[:_HASH_DIGITS],
            source=run.folder.layout,
            config=logged_config(run.folder),
        )
        run.execution = Execution(wall_s=run.wall_clock_s)


def _current_tags(runs: Sequence[Run]) -> list[list[str]]:
    """Returns the tags of runs: those at creation, with the changes in the journals of their stores."""
    has_journal: dict[Path, bool] = {}
    members: dict[Path, dict[int, str]] = {}
    for place, run in enumerate(runs):
        path = run.folder.path.parent if run.folder.layout == BUNDLE else run.folder.path
        for folder in path.parents[:_STORE_DEPTH]:
            if folder not in has_journal:
                has_journal[folder] = (folder / TAGS_FILE).is_file()
            if has_journal[folder]:
                members.setdefault(folder, {})[place] = os.path.relpath(path, folder)
                break
    tags = [run.record.tags for run in runs]
    for store, names in members.items():
        own = {name: runs[place].record.tags for place, name in names.items()}
        current = TagJournal(store / TAGS_FILE).applied(own)
        for place, name in names.items():
            tags[place] = current[name]
    return tags
