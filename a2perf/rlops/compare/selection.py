"""From groups to numbers: the runs, curves and scores of every group on every environment.

Notices report what is left out or doubtful: unfinished runs, runs without the metric, mixed versions of the code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from a2perf.arrays import Values
from a2perf.errors import UserError, did_you_mean
from a2perf.rlops.compare.request import Group, Request
from a2perf.rlops.store import Store
from a2perf.runs.bundles.run_record import StoredRun
from a2perf.runs.series import Series
from a2perf.runs.stores.seed_groups import differing, environment_names, stored_key

_MOST_NAMED = 5
ADVICE = "run both versions interleaved, on the same seeds and hosts"
ENDED_BADLY = ("failed", "killed", "interrupted", "unreadable")
_SHORT = 0.9
"""A run that ends before this share of the longest of its panel is mentioned."""


@dataclass(frozen=True)
class RunScore:
    """The score of one run.

    Attributes:
        curve: the values behind it: of the training curve, by episode, or the score alone.
        score: NaN if the run diverged.
        provenance: ``"measured"``, ``"estimated"`` or ``"recorded"``.
    """

    curve: Series
    score: float
    provenance: str


@dataclass(frozen=True)
class GroupRuns:
    """The runs of one group on one environment.

    Attributes:
        curves: of each, in the order of steps.
        scores: mean of the last values of each, shape ``(runs,)``; NaN if a run diverged.
        failed: number of matching runs that did not finish or do not have the metric.
        provenance: of each score, ``"measured"``, ``"estimated"`` or ``"recorded"``; empty if all are recorded.
        episodes: mean score of the runs that played an episode, by its seed; empty if training seeds are compared.
    """

    runs: tuple[StoredRun, ...] = ()
    curves: tuple[Series, ...] = field(default=(), repr=False)
    scores: Values = field(default_factory=lambda: np.empty(0))
    failed: int = 0
    provenance: tuple[str, ...] = ()
    episodes: Mapping[int, float] = field(default_factory=dict, repr=False)

    @property
    def wall_s(self) -> list[float]:
        """Wall times of the runs that say, in seconds."""
        return [run.wall_s for run in self.runs if run.wall_s is not None]


@dataclass(frozen=True)
class Panel:
    """One metric on one environment, of all groups.

    Attributes:
        name: the environment, with the metric if several are compared.
        unit: of the scores; empty for the unit of the reward.
    """

    name: str
    env: str
    metric: str
    cells: tuple[GroupRuns, ...]
    unit: str = ""

    @property
    def is_estimated(self) -> bool:
        """Returns whether the scores are estimates of a model."""
        return "estimated" in {kind for cell in self.cells for kind in cell.provenance}

    def fingerprints(self) -> set[str]:
        """Returns the known fingerprints of the environment; more than one are never compared."""
        return {run.fingerprint for cell in self.cells for run in cell.runs if run.fingerprint}


def select(store: Store, request: Request) -> tuple[list[Panel], list[str]]:
    """Reads what a comparison needs.

    Raises:
        UserError: a group, an environment or a metric has no runs; the message lists what exists.
    """
    known = store.runs(as_of=request.as_of)
    notices: list[str] = []
    finished: list[dict[str, list[StoredRun]]] = []
    lost: list[dict[str, list[StoredRun]]] = []
    every = [[run for run in known if replace(group.query, states=()).matches(run)] for group in request.groups]
    names = environment_names([(run.env_id, run.env_kwargs) for run in runs] for runs in every)
    for group, meant in zip(request.groups, every, strict=True):
        if not any(run.state in group.query.states for run in meant):
            store.select(group.query, as_of=request.as_of)  # raises and lists what exists
        finished.append(_by_env(names, [run for run in meant if run.state in group.query.states]))
        lost.append(_by_env(names, [run for run in meant if run.state not in group.query.states]))
    notices += shared_runs(request, finished)
    notices += changed_conditions(request, finished)
    envs = _environments(request, finished, names)
    _check(store, request, envs, finished)
    metrics = request.metrics or (None,)
    read = [_scores(store, group, finished[at], envs, metrics, request.last) for at, group in enumerate(request.groups)]
    panels = []
    for env in envs:
        for place, metric in enumerate(metrics):
            cells = []
            for at, group in enumerate(request.groups):
                runs, unfinished = finished[at].get(env, []), lost[at].get(env, [])
                cells.append(cell_of(runs, unfinished, read[at][place]))
                notices += notices_of(group, env, runs, unfinished, cells[-1]) if place == 0 else []
            used = Counter(curve.name for cell in cells for curve in cell.curves)
            name = metric or (used.most_common(1)[0][0] if used else "episode return")
            if metric is None and len(used) > 1:
                notices.append(f"{env}: the return is logged under different names: {', '.join(sorted(used))}")
            panels.append(Panel(env if len(metrics) == 1 else f"{env}, {name}", env, name, tuple(cells)))
            notices += short_runs(panels[-1], request)
    return panels, list(dict.fromkeys(notices))


def shared_runs(request: Request, finished: Sequence[dict[str, list[StoredRun]]]) -> list[str]:
    """Finds runs that a candidate and the baseline have in common.

    Raises:
        UserError: they are the same runs.
    """
    if request.baseline is None:
        return []
    ids = [{run.run_id for runs in found.values() for run in runs} for found in finished]
    said = []
    for at in request.candidates:
        name, other = request.groups[at].name, request.groups[request.baseline].name
        both = ids[at] & ids[request.baseline]
        if both and ids[at] == ids[request.baseline]:
            raise UserError(
                f"{name} and {other} are the same {len(both)} runs",
                hint="a2perf rlops tags list shows which runs have which tags",
            )
        if both:
            said.append(f"{len(both)} runs belong to both {name} and {other}")
    return said


def changed_conditions(request: Request, finished: Sequence[dict[str, list[StoredRun]]]) -> list[str]:
    """Names the conditions in which candidates and the baseline were run differently."""
    if request.baseline is None:
        return []
    runs = [[run for found in by_env.values() for run in found] for by_env in finished]
    said = []
    for at in request.candidates:
        names = f"{request.groups[at].name} and {request.groups[request.baseline].name}"
        seen, before = ({run.view or "the default" for run in found} for found in (runs[at], runs[request.baseline]))
        if seen and before and seen != before:
            views = f"{', '.join(sorted(seen))} against {', '.join(sorted(before))}"
            said.append(f"{names}: different views of a task ({views}). Episodes and rewards are the same")
        for env in sorted(set(finished[at]) & set(finished[request.baseline])):
            kwargs = [
                {run.env_kwargs for run in found[env]} - {""} for found in (finished[at], finished[request.baseline])
            ]
            if all(kwargs) and kwargs[0] != kwargs[1]:
                listed = " against ".join(", ".join(sorted(of_group)) for of_group in kwargs)
                said.append(f"{names} on {env}: different arguments of the environment ({listed})")
        if differ := differences(runs[at], runs[request.baseline]):
            said.append(f"{names}: {'; '.join(differ)}. Scores cannot show what this changes: {ADVICE}")
    return said


def differences(candidate: Sequence[StoredRun], baseline: Sequence[StoredRun]) -> list[str]:
    """Describes how the conditions of two groups of runs differ; values that no run recorded count as equal."""
    differences = []
    hosts = [{run.host for run in runs if run.host} for runs in (candidate, baseline)]
    if all(hosts) and hosts[0] != hosts[1]:
        differences.append(f"hosts differ ({_named(hosts[0])} against {_named(hosts[1])})")
    days = [{run.started_at[:10] for run in runs if run.started_at} for runs in (candidate, baseline)]
    if all(days) and not days[0] & days[1]:
        differences.append(f"no day has runs of both ({_named(days[0])} against {_named(days[1])})")
    pythons = [{run.python for run in runs if run.python} for runs in (candidate, baseline)]
    if all(pythons) and pythons[0] != pythons[1]:
        differences.append(f"Python differs ({_named(pythons[0])} against {_named(pythons[1])})")
    versions = []
    for runs in (candidate, baseline):
        recorded = [run.packages for run in runs if run.packages]
        known = {name for packages in recorded for name in packages}
        versions.append({name: {packages.get(name, "missing") for packages in recorded} for name in known})
    if all(versions):
        changed = [
            f"{name} {_named(versions[0].get(name, {'missing'}))} against {_named(versions[1].get(name, {'missing'}))}"
            for name in sorted(versions[0].keys() | versions[1].keys())
            if versions[0].get(name) != versions[1].get(name)
        ]
        if changed:
            more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
            differences.append(f"packages differ ({'; '.join(changed[:_MOST_NAMED])}{more})")
    return differences


def _named(values: set[str]) -> str:
    ordered = sorted(values)
    return ", ".join(ordered[:_MOST_NAMED]) + (", ..." if len(ordered) > _MOST_NAMED else "")


def _by_env(names: Mapping[tuple[str, str], str], runs: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    found: dict[str, list[StoredRun]] = {}
    for run in runs:
        found.setdefault(names[run.env_id, run.env_kwargs], []).append(run)
    return found


def _environments(
    request: Request, finished: Sequence[dict[str, list[StoredRun]]], names: Mapping[tuple[str, str], str]
) -> tuple[str, ...]:
    """Returns the environments that are compared; if none are named, every one that any group has runs on.

    Raises:
        UserError: an environment is named twice.
    """
    if request.env_ids is None:
        return tuple(sorted({env for found in finished for env in found}))
    if twice := [env for env, count in Counter(request.env_ids).items() if count > 1]:
        raise UserError(f"--env-ids names {', '.join(twice)} more than once", hint="name each environment once")
    # an environment with several sets of arguments has one name per set
    named_as = {env: sorted(name for (of, _), name in names.items() if of == env) for env in request.env_ids}
    return tuple(name for env in request.env_ids for name in named_as[env] or [env])


def _check(store: Store, request: Request, envs: Sequence[str], finished: Sequence[dict[str, list[StoredRun]]]) -> None:
    for group, found in zip(request.groups, finished, strict=True):
        for env in envs:
            if env not in found:
                if request.env_ids is not None:
                    store.select(replace(group.query, env_ids=(env,)), as_of=request.as_of)
                raise UserError(
                    f"{group.name} has no finished run on {env}{did_you_mean(env, found)}",
                    hint=f"it has runs on {', '.join(sorted(found))}; name them with --env-ids",
                )


def _scores(
    store: Store,
    group: Group,
    finished: dict[str, list[StoredRun]],
    envs: Sequence[str],
    metrics: Sequence[str | None],
    last: int,
) -> list[dict[str, RunScore]]:
    """Returns the scores of a group by run, one mapping per metric."""
    runs = [run for env in envs for run in finished.get(env, [])]
    found = []
    for metric in metrics:
        curves = store.curves(runs, metric)
        if runs and not curves:
            names = store.metric_names(runs)
            missing = "the return under a usual name" if metric is None else f"the metric {metric!r}"
            raise UserError(
                f"no run of {group.name} has {missing}{did_you_mean(metric or '', names)}",
                hint=f"metrics that exist: {', '.join(names)}; name one with --metric"
                if names
                else "these runs logged no values; see a2perf rlops import for what is read",
            )
        ordered = {run_id: _ordered(curve) for run_id, curve in curves.items()}
        found.append({
            run_id: RunScore(curve, float(np.mean(curve.values[-last:])), "recorded")
            for run_id, curve in ordered.items()
            if curve.values.size
        })  # fmt: skip
    return found


def _ordered(curve: Series) -> Series:
    known = np.isfinite(curve.steps)
    if known.all() and bool((np.diff(curve.steps) >= 0).all()):
        return curve
    order = np.flatnonzero(known)[np.argsort(curve.steps[known], kind="stable")]
    return Series(curve.name, curve.source, curve.steps[order], curve.values[order], curve.elapsed_s()[order])


def cell_of(done: Sequence[StoredRun], unfinished: Sequence[StoredRun], scores: Mapping[str, RunScore]) -> GroupRuns:
    """Returns the scored runs of one group on one environment, given the scores by run."""
    held = [run for run in done if run.run_id in scores]
    found = [scores[run.run_id] for run in held]
    failed = sum(run.state in ENDED_BADLY for run in unfinished) + len(done) - len(held)
    values = np.array([one.score for one in found], np.float64)
    return GroupRuns(
        tuple(held), tuple(one.curve for one in found), values, failed, tuple(one.provenance for one in found)
    )


def notices_of(
    group: Group, env: str, runs: Sequence[StoredRun], unfinished: Sequence[StoredRun], cell: GroupRuns
) -> list[str]:
    """Returns warnings about the runs of one group on one environment."""
    where = f"{group.name} on {env}"
    said = []
    if unfinished:
        states = ", ".join(f"{count} {state}" for state, count in sorted(Counter(r.state for r in unfinished).items()))
        said.append(f"{where}: left out {states}")
    if len(cell.runs) < len(runs):
        said.append(f"{where}: {len(runs) - len(cell.runs)} of {len(runs)} runs do not have the metric")
    mixed = differing(stored_key(run) for run in cell.runs)
    versions = sorted(mixed.get("version", set()) - {""})
    if len(versions) > 1:
        said.append(f"{where}: mixes {len(versions)} versions of the code: {', '.join(versions[:5])}")
    if "view" in mixed:
        said.append(f"{where}: mixes runs with {len(mixed['view'])} different views of the task")
    seeds = Counter((stored_key(run), run.seed) for run in cell.runs if run.seed is not None)
    twice = sorted({str(seed) for (_, seed), count in seeds.items() if count > 1})
    if twice:
        said.append(f"{where}: several runs have the seed {', '.join(twice)}")
    diverged = int(np.count_nonzero(~np.isfinite(cell.scores)))
    if diverged:
        said.append(f"{where}: {diverged} of {len(cell.runs)} runs end in values that are not finite")
    return said


def short_runs(panel: Panel, request: Request, option: str = "--metric-last-n-average-window") -> list[str]:
    """Returns warnings about runs of a panel that end early or have few values."""
    said = []
    ends = [[float(c.steps[-1]) if c.steps.size else 0.0 for c in cell.curves] for cell in panel.cells]
    longest = max((end for row in ends for end in row), default=0.0)
    for group, row in zip(request.groups, ends, strict=True):
        short = sum(end < _SHORT * longest for end in row)
        if short:
            said.append(
                f"{group.name} on {panel.name}: {short} of {len(row)} runs end before {100 * _SHORT:g} % of the "
                f"longest ({min(row):g} of {longest:g} steps)"
            )
    counts = [curve.values.size for cell in panel.cells for curve in cell.curves]
    whole = sum(1 < count <= request.last for count in counts)
    if whole:
        said.append(
            f"{panel.name}: {whole} of {len(counts)} runs have no more than {request.last} values; their score "
            f"is the mean of the whole curve, see {option}"
        )
    return said
