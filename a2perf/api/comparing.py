"""``compare``: whether submissions or versions are better or worse than a baseline, per task and overall."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from a2perf.api.comparison import Comparison as Comparison
from a2perf.api.result import Result
from a2perf.errors import ConfigError, UserError, did_you_mean, names_text
from a2perf.metrics import registry
from a2perf.rlops.compare.comparison import REPETITIONS, compare_panels
from a2perf.rlops.compare.recorded_panels import choose_mode, is_curve, metric_named, panels_of
from a2perf.rlops.compare.recorded_runs import (
    named_after_content,
    other_groups,
    runs_named,
    unique_names,
    with_records,
)
from a2perf.rlops.compare.references import EPISODE_RETURN, read_references
from a2perf.rlops.compare.request import LAST, Group, Question, Request, groups_of_queries
from a2perf.rlops.compare.selection import select
from a2perf.rlops.compare.verdict import CONFIDENCE, Tolerance
from a2perf.rlops.filters import RunQuery, parse_experiment, parse_tag_expression
from a2perf.rlops.store import Store
from a2perf.rlops.tags import parse_date
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.run_record import RUN_FILE
from a2perf.runs.reading import read_runs
from a2perf.runs.run import Run
from a2perf.runs.stores.index import find_run_folders

if TYPE_CHECKING:
    import datetime

    from a2perf.metrics.definition import Metric
    from a2perf.metrics.protocol import ReferenceScale

_Item = tuple[Any, Run]
"""What the caller gave (a ``Result`` or a ``Run``), and the run in it."""
Selector: TypeAlias = "str | Callable[[Any], bool] | Sequence[Any] | Any"
"""A group: the name of a submission, a version or a tag; a function of a run; or runs."""


def compare(
    runs: Any,
    *,
    baseline: Selector,
    candidate: Selector | None = None,
    metric: str | Sequence[str] | None = None,
    mode: str | None = None,
    tasks: str | Sequence[str] | None = None,
    question: Question = "algorithm",
    gate: bool = False,
    tolerance: float = 0.05,
    tolerance_absolute: float = 0.0,
    tolerance_unseen: float = 0.2,
    confidence: float = CONFIDENCE,
    last: int = LAST,
    lower_is_better: Sequence[str] = (),
    references: Mapping[str, tuple[float, float]] | str | Path | None = None,
    experiment: str | None = None,
    as_of: str | datetime.datetime | None = None,
    repetitions: int = REPETITIONS,
) -> Comparison:
    """Compares submissions or versions with a baseline: better, worse or not separated, per task and overall.

    The score of a run is its mean episode return (inference, generalization), the mean of the last returns of its
    training curve, or ``metric``. A candidate is better or worse if the interval of the difference of the means
    excludes 0. Without a true difference each is wrong in at most 2.5 % of the tasks, however often more seeds are
    added and the result is read again; the result over all tasks is one test, which needs no correction for their
    number, and several candidates or metrics have Bonferroni's correction.

    The regression gate (``gate``) asks another question: a candidate is a REGRESSION if the whole interval lies below
    the tolerance, and PASSES if it lies above and the candidate has enough seeds. Anything else is INCONCLUSIVE, with a
    reason. Runs in environments with different fingerprints, and measured and estimated costs, are never judged
    against each other.

    Args:
        runs: ``Runs``, results, ``a2perf.runs.Run`` objects, or paths of runs or folders of runs. The path of an
            experiment store (``a2perf benchmark``) is compared as by ``a2perf rlops compare``.
        baseline: the group to compare with: the name of a submission; a version or its first characters; a tag; a
            function of a run that returns whether it belongs to the group; or runs. For a store also a filter such as
            ``"ppo?tag=latest"`` or a tag expression such as ``"v1;linux!draft"``.
        candidate: one group or a list of groups, as for ``baseline``; None for every other submission, or for every
            other version if the baseline is a version or a tag.
        metric: ``"returns"`` (default) or any metric of a run, such as ``"energy_gross"``; several for one judgement
            each. For a store the name of a logged value.
        mode: ``"inference"``, ``"generalization"`` or ``"train"``; None for the first that all groups have.
        tasks: the tasks to compare; None for all that the baseline and a candidate have. A candidate is judged on the
            tasks that it has runs on.
        question: ``"algorithm"`` (is the algorithm better? units are training seeds) or ``"policies"`` (are these
            trained policies better? units are the episodes that both sides played, in pairs).
        gate: show the verdicts of the regression gate in texts, tables and pages; ``Comparison.verdict`` always has it.
        tolerance: of the gate: largest acceptable loss, as a share of the baseline's mean.
        tolerance_absolute: the same in units of the score; the larger counts.
        tolerance_unseen: share of seeds that may fail undetected; it sets how many seeds a PASS needs.
        confidence: confidence level of the intervals, from 0.5 to below 1.
        last: number of last values of a training curve.
        lower_is_better: logged values of a store for which lower is better; the direction of metrics is known.
        references: scores of a floor (a trivial policy) and an expert by task, or a file of them, for aggregates over
            tasks; those of the protocol are known.
        experiment: an experiment of a store, used with tags.
        as_of: compare the runs that had the tags at this time.
        repetitions: bootstrap samples for the intervals of aggregates.

    Returns:
        The comparison; ``print`` it, ``plot`` it, ``write`` it, or convert it to a data frame.

    Raises:
        UserError: a group has no runs, there is one group only, or no candidate shares a task or the mode with the
            baseline. The message lists what exists.
        ConfigError: an option is not valid, or the metric is unknown.

    Example:
        >>> runs = a2perf.read_runs("results/recorded/small")
        >>> comparison = a2perf.compare(
        ...     runs, baseline="minimal", candidate="greedy_placer",
        ...     metric=["returns", "energy_gross"],
        ... )
        >>> comparison.to_pandas()[["task", "metric", "difference", "result"]].head(2)
             task        metric    difference  result
        0  ariane       returns  3.620298e-01  better
        1  ariane  energy_gross -4.961474e-07  not separated
    """
    names = _texts("metric", metric)
    tasks = None if tasks is None else _texts("tasks", tasks)
    settings = Request(
        groups=(),
        baseline=0,
        last=last,
        tolerance=Tolerance(tolerance, tolerance_absolute, tolerance_unseen),
        confidence=confidence,
        lower_is_better=frozenset(lower_is_better),
        as_of=parse_date(as_of) if isinstance(as_of, str) else as_of,
        gate=gate,
        question=question,
    )
    _check(settings, names)
    scales = _scales(references)
    if isinstance(runs, str | Path) and mode is None:
        found = _store_groups(Path(runs), baseline, candidate, names, experiment)
        if found is not None:
            store, groups, logged = found
            request = replace(settings, groups=groups, env_ids=None if tasks is None else tuple(tasks), metrics=logged)
            return compare_stored(store, request, references=scales, repetitions=repetitions)
    if experiment is not None or as_of is not None:
        raise UserError(
            "experiment= and as_of= need an experiment store and tags", hint="give the path of a store as runs"
        )
    chosen = _chosen_groups(_given_runs(runs), baseline, candidate, tasks)
    return _compare_recorded(settings, chosen, names, mode, tasks, scales, repetitions)


def _compare_recorded(
    settings: Request, chosen: Sequence[Group], names: Sequence[str], mode: str | None,
    tasks: Sequence[str] | None, scales: dict[str, ReferenceScale], repetitions: int,
) -> Comparison:  # fmt: skip
    metrics = [metric_named(name) for name in names or [EPISODE_RETURN]]
    chosen_mode, left_out = choose_mode({group.name: group.runs for group in chosen}, mode)
    request = replace(
        settings,
        groups=tuple(Group(one.name, RunQuery(experiment=one.name, text=str(one.query))) for one in chosen),
        axis="global_step" if any(is_curve(one, chosen_mode) for one in metrics) else "episode",
        lower_is_better=settings.lower_is_better | {one.name for one in metrics if one.direction == "min"},
        only_shared=True,
        score=_score_text(metrics, chosen_mode, settings.last),
    )
    panels, notices = panels_of(request, [group.runs for group in chosen], chosen_mode, metrics, tasks)
    notices = [left_out, *notices] if left_out else notices
    return Comparison(compare_panels(panels, request, notices=notices, references=scales, repetitions=repetitions))


def compare_stored(
    store: Store,
    request: Request,
    *,
    references: dict[str, ReferenceScale] | None = None,
    repetitions: int = REPETITIONS,
) -> Comparison:
    """Compares groups of runs of an experiment store, as ``a2perf rlops compare`` does.

    Reference scores by environment come before those of the protocol.

    Raises:
        UserError: nothing to compare; the message lists what exists.
    """
    is_of_logs = request.question == "algorithm" and not _names_costs(store, request.metrics)
    if request.baseline is None or is_of_logs:
        panels, notices = select(store, request)
        return Comparison(
            compare_panels(
                panels, request, notices=notices, store=str(store.path), references=references, repetitions=repetitions
            )
        )
    runs = [run for _, run in _given_runs(store.path)]
    chosen = []
    for at in (request.baseline, *request.candidates):
        group = request.groups[at]
        query = replace(group.query, states=())
        chosen.append(replace(group, runs=tuple(run for run in runs if query.matches(run.record))))
    settings, tasks = replace(request, baseline=0), request.env_ids
    return _compare_recorded(settings, chosen, request.metrics, None, tasks, dict(references or {}), repetitions)


def _given_runs(given: Any) -> list[_Item]:
    """Returns the runs in what ``compare`` was given.

    Raises:
        ConfigError: it holds something else than runs, results and paths, or nothing.
        UserError: a path does not exist, or holds no run.
    """
    # functions that select runs get a Result, also for runs that were given as a path, and a Run that was given
    given = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    in_memory = {id(one) for one in given if isinstance(one, Run)}
    return [(run if id(run) in in_memory else Result(run), run) for run in with_records(read_runs(given))]


def _chosen_groups(items: Sequence[_Item], baseline: Any, candidate: Any, tasks: Sequence[str] | None) -> list[Group]:
    """Returns the groups, the baseline first.

    Without a candidate these are all other groups that have one of the tasks, or share one with the baseline.

    Raises:
        UserError: a group has no runs, or it is the only group.
        ConfigError: a group is none of these.
    """
    runs = [run for _, run in items]
    first = _group(items, baseline, "baseline")
    if candidate is None:
        every = other_groups(runs, first)
        wanted = _tasks(first) if tasks is None else set(tasks)
        # all of them if none has one of the tasks, for the error that lists their tasks
        others = [group for group in every if _tasks(group) & wanted] or every
    elif isinstance(candidate, str) or callable(candidate) or _holds_runs(candidate):
        others = [_group(items, candidate, "candidate")]
    else:
        several = enumerate(candidate, start=1) if isinstance(candidate, Iterable) else [("", candidate)]
        others = [_group(items, one, f"candidate {place}".strip()) for place, one in several]
    runs_of = [frozenset(id(one) for one in group.runs) for group in others]
    for group, ids in zip(others, runs_of, strict=True):
        if runs_of.count(ids) > 1:
            raise UserError(f"the candidate {group.name} is given twice", hint="name each candidate once")
    if not others:
        raise UserError("no candidate was named", hint="leave candidate= out to compare every other group")
    return unique_names([first, *others])


def _tasks(group: Group) -> set[str]:
    found: set[str] = set()
    for one in group.runs:
        found |= {one.identity.task} if one.identity.task else set().union(*one.returns.values()) or {""}
    return found


def _group(items: Sequence[_Item], given: Any, role: str) -> Group:
    if isinstance(given, str):
        return runs_named([run for _, run in items], given)
    if callable(given):
        found = [run for item, run in items if given(item)]
        if not found:
            raise UserError(f"the {role} selects none of {len(items)} runs", hint="check the condition of the function")
        return named_after_content(found, role)
    return named_after_content([run for _, run in _given_runs(given)], role)


def _holds_runs(given: Any) -> bool:
    """Returns whether an object stands for one group: a result, a path, or a sequence of results."""
    if isinstance(given, Run | Result | Path):
        return True
    return isinstance(given, Sequence) and bool(given) and isinstance(given[0], Run | Result)


def _store_groups(
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
    if all(files_of(found).status(RUN_FILE) is None for _, found, *_ in find_run_folders(path)):
        return None
    store = Store(path)
    if _names_costs(store, metrics):
        return None
    values = store.metric_names(store.runs())
    logged = tuple(name for name in metrics if name in values or registry.meaning(name) != EPISODE_RETURN)
    queries = [_query(store, name, experiment) for name in names]
    return store, groups_of_queries(queries), logged


def _names_costs(store: Store, metrics: Sequence[str]) -> bool:
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
                hint=f"tags: {names_text(sorted(tags))}; experiments: {names_text(sorted(experiments))}",
            )
    return query


def _texts(name: str, given: str | Sequence[str] | None) -> list[str]:
    if isinstance(given, str):
        return [given]
    if given is not None and (not isinstance(given, Iterable) or not all(isinstance(one, str) for one in given)):
        raise ConfigError(f"{name}={given!r} is not valid", hint=f"give a name or a list of names as {name}")
    return list(given or ())


def _check(settings: Request, metrics: Sequence[str]) -> None:
    bounds = settings.tolerance
    if settings.question not in get_args(Question):
        raise ConfigError(
            f"question={settings.question!r} is not valid", hint=f"use one of {', '.join(get_args(Question))}"
        )
    if bounds.relative < 0 or bounds.absolute < 0 or not 0 < bounds.unseen <= 1:
        raise ConfigError(
            f"tolerance={bounds.relative:g}, tolerance_absolute={bounds.absolute:g} and "
            f"tolerance_unseen={bounds.unseen:g} are not valid together",
            hint="give tolerances of at least 0, and a share above 0 and at most 1 as tolerance_unseen",
        )
    if not 0.5 <= settings.confidence < 1:
        raise ConfigError(f"confidence={settings.confidence:g} is not a confidence level", hint="confidence=0.95")
    if settings.last < 1:
        raise ConfigError(f"last={settings.last} is not a number of values", hint="last=100")
    if bounds.absolute and len(metrics) > 1:
        raise ConfigError(
            "tolerance_absolute is in units of one metric, and there are several",
            hint="compare the metrics one by one, or use tolerance",
        )


def _scales(given: Mapping[str, tuple[float, float]] | str | Path | None) -> dict[str, ReferenceScale]:
    from a2perf.metrics.protocol import ReferenceScale

    if given is None:
        return {}
    if isinstance(given, str | Path):
        return read_references(Path(given))
    for task, pair in given.items():
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ConfigError(
                f"references of {task!r} are {pair!r}, not two different numbers",
                hint="give (score of a random policy, score of an expert)",
            )
    return {task: ReferenceScale(float(pair[0]), float(pair[1]), "given") for task, pair in given.items()}


def _score_text(metrics: Sequence[Metric], mode: str, last: int) -> str:
    parts = []
    for metric in metrics:
        if metric.name != EPISODE_RETURN:
            parts.append(metric.label.lower() if metric.name in registry.all_metrics() else metric.name)
        elif is_curve(metric, mode):
            parts.append(f"mean of the last {last} returns of a run")
        else:
            parts.append("mean episode return of a run")
    return ", ".join(parts)
