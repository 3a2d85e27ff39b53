"""The path of an experiment store as ``compare`` takes it: tag expressions, filters and names of experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from a2perf.errors import UserError, did_you_mean
from a2perf.metrics import registry
from a2perf.rlops.compare.recorded_runs import names_text
from a2perf.rlops.compare.references import EPISODE_RETURN
from a2perf.rlops.compare.request import Group, groups_of_queries
from a2perf.rlops.filters import RunQuery, parse_experiment, parse_tag_expression
from a2perf.rlops.store import Store
from a2perf.runs.files import files_of
from a2perf.runs.index import find_run_folders
from a2perf.runs.run_record import RUN_FILE


def store_groups(
    path: Path, baseline: Any, candidate: Any, metrics: Sequence[str], experiment: str | None
) -> tuple[Store, tuple[Group, ...], tuple[str, ...]] | None:
    """Returns the store, the groups to compare with the baseline first, and the logged metrics.

    None if the path is not an experiment store, the groups are not named by texts, or a metric is one of recorded runs:
    the runs are then read one by one.

    Raises:
        UserError: a name is neither a tag nor an experiment of the store, or a filter cannot be read.
    """
    several = isinstance(candidate, Sequence) and not isinstance(candidate, str)
    names = [baseline, *(candidate if several else [candidate])]
    if not all(isinstance(name, str) for name in names) or not path.exists():
        return None
    if all(files_of(found.path).status(RUN_FILE) is None for found in find_run_folders(path)):
        return None
    store = Store(path)
    if names_costs(store, metrics):
        return None
    values = store.metric_names(store.runs())
    logged = tuple(name for name in metrics if name in values or registry.meaning(name) != EPISODE_RETURN)
    queries = [_query(store, name, experiment) for name in names]
    return store, groups_of_queries(queries), logged


def names_costs(store: Store, metrics: Sequence[str]) -> bool:
    """Returns whether a metric is one of recorded runs, such as ``"energy"``, and not a value that runs logged."""
    meant = [name for name in metrics if registry.meaning(name) not in (None, EPISODE_RETURN)]
    return bool(meant) and not set(meant).issubset(store.metric_names(store.runs()))


def _query(store: Store, text: str, experiment: str | None) -> RunQuery:
    experiments = {run.experiment for run in store.runs()}
    if "=" in text or text in experiments:
        return parse_experiment(text)
    query = replace(parse_tag_expression(text), experiment=experiment)
    tags = store.tag_names()
    for tag in query.tags:
        if tag not in tags:
            raise UserError(
                f"{text!r} is neither a tag nor an experiment of {store.path}"
                f"{did_you_mean(tag, [*tags, *experiments])}",
                hint=f"tags: {names_text(tags)}; experiments: {names_text(experiments)}",
            )
    return query
