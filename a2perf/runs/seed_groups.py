"""Which recorded runs are seeds of one another: the one rule of scores, reports, leaderboards and comparisons.

Runs are seeds of one another if they agree in every field of ``SeedKey``: the same version of the same algorithm on the
same task and view of it in the same mode, in environments with the same behaviour and arguments. An unknown value
equals only another unknown one, and an unknown environment none. Seed, trained policy, host, time and outcome do not
count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from a2perf.records import Manifest
from a2perf.runs.run import BUNDLE, IN_MEMORY, Run, RunFolder, RunIdentity

T = TypeVar("T")


class SeedKey(NamedTuple):
    """The values that seeds of one another share; sorting keys gives the order of reports.

    ``RunIdentity`` describes the other fields.

    Attributes:
        layout: layout on disk; numbers of different recorders are not pooled.
        alone: path of a run with an unreadable manifest or an unknown environment, which forms a separate group;
            otherwise ``""``.
    """

    domain: str
    task: str
    algorithm: str
    version: str
    fingerprint: str
    mode: str
    layout: str
    env_kwargs: str
    view: str
    alone: str


def seed_key(identity: RunIdentity, folder: RunFolder) -> SeedKey:
    """Returns the values that a run shares with its seeds."""
    return SeedKey(
        domain=identity.domain,
        task=identity.task,
        algorithm=identity.algorithm,
        version=identity.version,
        fingerprint=identity.fingerprint,
        mode=identity.mode,
        layout=folder.layout,
        env_kwargs=identity.env_kwargs,
        view=identity.view,
        alone=folder.label if identity.state == "unreadable" or not is_environment_known(identity, folder) else "",
    )


def units_of(policies: Sequence[str]) -> list[list[int]]:
    """Returns the independent units among runs: trained policies if there are several, else runs.

    Args:
        policies: ``RunIdentity.policy`` of each run.

    Returns:
        The indices of the runs of each unit, in the order of the runs.
    """
    found: dict[str, list[int]] = {}
    for index, policy in enumerate(policies):
        found.setdefault(policy or f"run {index}", []).append(index)
    return list(found.values()) if len(found) > 1 else [[index] for index in range(len(policies))]


def compared_key(run: Run) -> SeedKey:
    """Returns the values that a run of a comparison shares with its seeds, as its record names them."""
    record = run.record
    identity = replace(run.identity, algorithm=record.experiment, version=record.version, mode="")
    return seed_key(identity, run.folder)


def is_environment_known(identity: RunIdentity, folder: RunFolder) -> bool:
    """Returns whether a run names its task or environment; without one it is never averaged with other runs.

    Bundles and runs in memory know it: a bundle without one task is that of a domain.
    """
    return bool(identity.task) or folder.layout in (BUNDLE, IN_MEMORY.layout)


def ranked_task(manifest: Manifest) -> tuple[str, str, str]:
    """Returns what the results of a recorded run are compared on: task, arguments of the environment, and view.

    The task of a view is the one that it shows, and the arguments are without those of the view, as ``env_arguments``
    writes them. The view is ``""`` for the form in which the domain shows its tasks by default.
    """
    view = manifest.view
    if view is None:
        return manifest.task, env_arguments(manifest.env_kwargs), ""
    arguments = {name: value for name, value in manifest.env_kwargs.items() if name not in view.arguments}
    return view.task, env_arguments(arguments), view.name


def environment_names(groups: Iterable[Iterable[tuple[str, str]]]) -> dict[tuple[str, str], str]:
    """Returns a name for each environment and its arguments, which are part of it if a group of runs has several."""
    distinct = [set(group) for group in groups]
    several = {name for group in distinct for name, count in Counter(name for name, _ in group).items() if count > 1}
    return {
        (name, kwargs): f"{name} {kwargs or '{}'}" if name in several else name
        for name, kwargs in set().union(*distinct)
    }


def differing(keys: Iterable[SeedKey]) -> dict[str, set[str]]:
    """Returns the fields in which runs are not seeds of one another, each with its values."""
    columns = dict(zip(SeedKey._fields, map(set, zip(*keys, strict=True)), strict=False))
    return {name: values for name, values in columns.items() if len(values) > 1}


def env_arguments(env_kwargs: Mapping[str, Any]) -> str:
    """Returns the arguments of an environment as JSON with sorted keys: equal arguments give equal texts."""
    return json.dumps(env_kwargs, sort_keys=True, default=str) if env_kwargs else ""


def grouped(runs: Iterable[T], key: Callable[[T], SeedKey]) -> dict[SeedKey, list[T]]:
    """Returns runs grouped by key, in the order of the keys; within a group in the given order."""
    found: dict[SeedKey, list[T]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return {group: found[group] for group in sorted(found)}
