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
from a2perf.rlops.compare.comparison import compare_panels
from a2perf.rlops.compare.groups import (
    bundles_of,
    groups_by,
    in_store,
    named_after_content,
    other_groups,
    runs_named,
    unique_names,
    with_records,
)
from a2perf.rlops.compare.panels import asked_of_episodes, choose_mode, panels_of
from a2perf.rlops.compare.references import read_references, scales_of
from a2perf.rlops.compare.request import ACCEPTED, LAST, Group, Question, Request, groups_of_queries
from a2perf.rlops.compare.scores import (
    EPISODE_RETURN,
    OF_EPISODES,
    Compared,
    is_curve,
    logged_values,
    metric_named,
    name_of,
)
from a2perf.rlops.compare.verdict import CONFIDENCE, Tolerance
from a2perf.rlops.filters import RunQuery, parse_experiment, parse_tag_expression
from a2perf.rlops.store import Store
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.run_record import RUN_FILE
from a2perf.runs.reading import read_runs
from a2perf.runs.run import Run
from a2perf.runs.stores.index import find_run_folders

if TYPE_CHECKING:
    from a2perf.metrics.definition import Metric
    from a2perf.metrics.protocol import ReferenceScale

_Item = tuple[Any, Run]
"""What the caller gave (a ``Result`` or a ``Run``), and the run in it."""
Selector: TypeAlias = "str | Callable[[Any], bool] | Sequence[Any] | Any"
"""A group: the name of a submission, a version or a tag; a function of a run; or runs."""


def compare(
    runs: Any,
    *,
    baseline: Selector | None = None,
    candidate: Selector | None = None,
    by: str | None = None,
    metric: str | Sequence[str] | None = None,
    mode: str | None = None,
    tasks: str | Sequence[str] | None = None,
    question: Question | None = None,
    gate: bool = False,
    tolerance: float = 0.05,
    tolerance_absolute: float = 0.0,
    tolerance_unseen: float = 0.2,
    confidence: float = CONFIDENCE,
    last: int = LAST,
    lower_is_better: Sequence[str] = (),
    references: Mapping[str, tuple[float, float]] | str | Path | None = None,
    experiment: str | None = None,
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
            ``"ppo?tag=latest"`` or a tag expression such as ``"v1;linux!draft"``. None for the group ``latest``, or the
            first one.
        candidate: one group or a list of groups, as for ``baseline``; None for every other submission, or for every
            other version if the baseline is a version or a tag.
        by: what tells groups apart: ``"path"``, ``"submission"``, ``"version"``, ``"tag"`` or a key of the
            configuration. None with a baseline for any of the first four; else for the first one that tells groups
            apart.
        metric: ``"returns"`` (default) or any metric of a run, such as ``"energy_gross"``; several for one judgement
            each. For a store the name of a logged value.
        mode: ``"inference"``, ``"generalization"`` or ``"train"``; None for the first that all groups have.
        tasks: the tasks to compare; None for all that the baseline and a candidate have. A candidate is judged on the
            tasks that it has runs on.
        question: ``"seeds"`` (is the algorithm better? units are training seeds) or ``"episodes"`` (are these trained
            policies better? units are the episodes that both sides played, in pairs). None for episodes if evaluations
            share some and a side has too few seeds, else for seeds.
        gate: show the verdicts of the regression gate in texts, tables and pages; ``Comparison.verdict`` always has it.
        tolerance: of the gate: largest acceptable loss, as a share of the baseline's mean.
        tolerance_absolute: the same in units of the score; the larger counts.
        tolerance_unseen: share of seeds that may fail undetected; it sets how many seeds a PASS needs.
        confidence: confidence level of the intervals, from 0.5 to below 1.
        last: number of last values of a training curve.
        lower_is_better: logged values of a store for which lower is better; the direction of metrics is known.
        references: scores of a floor (a trivial policy) and an expert by task, or a file of them, as a scale for all
            tasks; those of the protocol are known.
        experiment: an experiment of a store, used with tags.

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
             task        metric  difference  result
        0  ariane       returns    0.355516  better
        1  ariane  energy_gross   -0.000001   worse
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
        gate=gate,
        question=question or "seeds",
    )
    _check(settings, names)
    if isinstance(references, str | Path):
        scales = read_references(Path(references))
    else:
        scales = scales_of(references or {}, "references")
    words: list[Any] = [baseline]
    words += candidate if isinstance(candidate, Sequence) and not isinstance(candidate, str) else [candidate]
    is_named = by is None and len(words) > 1 and all(isinstance(word, str) for word in words)
    store = _store_at(runs) if mode is None and is_named else None
    if store is None and experiment is not None:
        raise UserError("experiment= needs an experiment store and tags", hint="give the path of a store as runs")
    if store is not None:
        groups = groups_of_queries([_query(store, word, experiment) for word in words])
    else:
        given = [runs] if isinstance(runs, str | Path) or not isinstance(runs, Iterable) else list(runs)
        paths = [str(one) for one in given if isinstance(one, str | Path)]
        items = _given_runs(given)
        if by is None and len(paths) > 1 and str(baseline) in paths:
            by = "path"
        if by is None and baseline is not None:
            groups = tuple(_chosen_groups(items, baseline, candidate, tasks))
        else:
            groups = _picked(groups_by([run for _, run in items], by, paths), baseline, candidate)
    request = replace(settings, groups=groups, env_ids=None if tasks is None else tuple(tasks), metrics=tuple(names))
    return compare_groups(request, store=store, mode=mode, references=scales, choose_question=question is None)


def compare_groups(
    request: Request,
    *,
    store: Store | None = None,
    mode: str | None = None,
    references: Mapping[str, ReferenceScale] | None = None,
    choose_question: bool = False,
) -> Comparison:
    """Compares the groups of a request: what ``compare`` and ``a2perf rlops compare`` do.

    Args:
        store: where the queries of the groups select runs; None for groups that hold their runs.
        mode: as for ``compare``.
        references: reference scores by environment, which come before those of the protocol.
        choose_question: decide by the data between training seeds and shared episodes.

    Raises:
        UserError: nothing to compare; the message lists what exists.
    """
    metrics: Sequence[Compared] | None = None
    if store is not None:
        request = replace(request, groups=in_store(store, request.groups))
        if request.baseline is None or request.question == "seeds":
            metrics = logged_values(request)
        if metrics is None:
            request = replace(request, groups=tuple(map(bundles_of, request.groups)))
    notices = []
    if metrics is None:
        metrics = chosen = [metric_named(name) for name in request.metrics or [EPISODE_RETURN]]
        mode, left_out = choose_mode(request.groups, mode)
        notices = [left_out] if left_out else []
        request = replace(
            request,
            axis="global_step" if any(is_curve(metric, mode) for metric in chosen) else "episode",
            lower_is_better=request.lower_is_better | {one.name for one in chosen if one.direction == "min"},
            only_shared=True,
            score=_score_text(chosen, mode, request.last),
        )
        if choose_question and all(name_of(metric) in OF_EPISODES for metric in chosen):
            request = asked_of_episodes(request, mode)
    panels, said = panels_of(request, metrics, mode or "")
    return Comparison(
        compare_panels(
            panels,
            request,
            notices=[*notices, *said],
            store="" if store is None else str(store.path),
            references=dict(references or {}),
        )
    )


def _given_runs(given: Any) -> list[_Item]:
    """Returns the runs in what ``compare`` was given."""
    # functions that select runs get a Result, also for runs that were given as a path, and a Run that was given
    given = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    in_memory = {id(one) for one in given if isinstance(one, Run)}
    return [(run if id(run) in in_memory else Result(run), run) for run in with_records(read_runs(given))]


def _chosen_groups(items: Sequence[_Item], baseline: Any, candidate: Any, tasks: Sequence[str] | None) -> list[Group]:
    """Returns the groups, the baseline first.

    Without a candidate these are all other groups that have one of the tasks, or share one with the baseline.
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


def _picked(groups: Sequence[Group], baseline: Any, candidate: Any) -> tuple[Group, ...]:
    """Returns the groups that are named, the baseline first: ``latest`` or the first one if none is named."""
    by_name = {group.name: group for group in groups}
    first = (ACCEPTED if ACCEPTED in by_name else groups[0].name) if baseline is None else str(baseline)
    others = [name for name in by_name if name != first] if candidate is None else _texts("candidate", candidate)
    for name in (first, *others):
        if name not in by_name:
            raise UserError(
                f"there is no group {name!r}{did_you_mean(name, by_name)}", hint=f"groups: {names_text(list(by_name))}"
            )
    return tuple(by_name[name] for name in (first, *others))


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


def _store_at(given: Any) -> Store | None:
    """Returns the experiment store at a path; None if it is none."""
    if not isinstance(given, str | Path) or not Path(given).exists():
        return None
    found = find_run_folders(Path(given))
    is_store = any(files_of(path).status(RUN_FILE) is not None for _, path, *_ in found)
    return Store(Path(given)) if is_store else None


def _query(store: Store, text: str, experiment: str | None) -> RunQuery:
    experiments = {run.record.experiment for run in store.runs()}
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
