"""What a comparison says of its runs beside the numbers: what is left out, doubtful or different between the sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from a2perf.errors import UserError
from a2perf.rlops.compare.panel import GroupRuns, Panel
from a2perf.rlops.compare.request import Group, Request
from a2perf.runs.run import Run
from a2perf.runs.seed_groups import compared_key, differing

_MOST_NAMED = 5
ADVICE = "run both versions interleaved, on the same seeds and hosts"
_SHORT = 0.9
"""A run that ends before this share of the longest of its panel is mentioned."""


def shared_runs(request: Request, finished: Sequence[dict[str, list[Run]]]) -> list[str]:
    """Finds runs that a candidate and the baseline have in common.

    Raises:
        UserError: they are the same runs.
    """
    if request.baseline is None:
        return []
    ids = [{run.name for runs in found.values() for run in runs} for found in finished]
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


def changed_conditions(request: Request, finished: Sequence[dict[str, list[Run]]]) -> list[str]:
    """Names the conditions in which candidates and the baseline were run differently."""
    if request.baseline is None:
        return []
    runs = [[run for found in by_env.values() for run in found] for by_env in finished]
    said = []
    for at in request.candidates:
        names = f"{request.groups[at].name} and {request.groups[request.baseline].name}"
        seen, before = (
            {run.identity.view or "the default" for run in found} for found in (runs[at], runs[request.baseline])
        )
        if seen and before and seen != before:
            views = f"{', '.join(sorted(seen))} against {', '.join(sorted(before))}"
            said.append(f"{names}: different views of a task ({views}). Episodes and rewards are the same")
        for env in sorted(set(finished[at]) & set(finished[request.baseline])):
            kwargs = [
                {run.identity.env_kwargs for run in found[env]} - {""}
                for found in (finished[at], finished[request.baseline])
            ]
            if all(kwargs) and kwargs[0] != kwargs[1]:
                listed = " against ".join(", ".join(sorted(of_group)) for of_group in kwargs)
                said.append(f"{names} on {env}: different arguments of the environment ({listed})")
        if differ := differences(runs[at], runs[request.baseline]):
            said.append(f"{names}: {'; '.join(differ)}. Scores cannot show what this changes: {ADVICE}")
    return said


def differences(candidate: Sequence[Run], baseline: Sequence[Run]) -> list[str]:
    """Describes how the conditions of two groups of runs differ; values that no run recorded count as equal."""
    differences = []
    hosts = [{run.execution.host for run in runs if run.execution.host} for runs in (candidate, baseline)]
    if all(hosts) and hosts[0] != hosts[1]:
        differences.append(f"hosts differ ({_named(hosts[0])} against {_named(hosts[1])})")
    days = [
        {run.execution.started_at[:10] for run in runs if run.execution.started_at} for runs in (candidate, baseline)
    ]
    if all(days) and not days[0] & days[1]:
        differences.append(f"no day has runs of both ({_named(days[0])} against {_named(days[1])})")
    pythons = [{run.execution.python for run in runs if run.execution.python} for runs in (candidate, baseline)]
    if all(pythons) and pythons[0] != pythons[1]:
        differences.append(f"Python differs ({_named(pythons[0])} against {_named(pythons[1])})")
    versions = []
    for runs in (candidate, baseline):
        recorded = [run.execution.packages for run in runs if run.execution.packages]
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


def notices_of(group: Group, env: str, runs: Sequence[Run], unfinished: Sequence[Run], cell: GroupRuns) -> list[str]:
    """Returns warnings about the runs of one group on one environment."""
    where = f"{group.name} on {env}"
    said = []
    if unfinished:
        states = ", ".join(f"{count} {state}" for state, count in sorted(Counter(r.state for r in unfinished).items()))
        said.append(f"{where}: left out {states}")
    if cell.without:
        said.append(f"{where}: {cell.without} of {len(runs)} runs do not have the metric")
    mixed = differing(compared_key(run) for run in cell.runs)
    versions = sorted(mixed.get("version", set()) - {""})
    if len(versions) > 1:
        said.append(f"{where}: mixes {len(versions)} versions of the code: {', '.join(versions[:5])}")
    if "view" in mixed:
        said.append(f"{where}: mixes runs with {len(mixed['view'])} different views of the task")
    seeded = [run for run in cell.runs if run.record.seed is not None]
    seeds = Counter((compared_key(run), run.identity.policy, run.record.seed) for run in seeded)
    twice = sorted({str(seed) for (_, _, seed), count in seeds.items() if count > 1})
    if twice:
        said.append(f"{where}: several runs have the seed {', '.join(twice)}")
    policies = {run.identity.policy for run in cell.runs}
    if len(policies) == 1 and "" not in policies:
        said.append(f"{where}: 1 trained policy, which says nothing about other trained policies of the algorithm")
    diverged = int(np.count_nonzero(~np.isfinite(cell.scores)))
    if diverged:
        said.append(f"{where}: {diverged} of {len(cell.runs)} runs end in values that are not finite")
    return said


def short_runs(panel: Panel, request: Request) -> list[str]:
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
            "is the mean of the whole curve"
        )
    return said


def _named(values: set[str]) -> str:
    ordered = sorted(values)
    return ", ".join(ordered[:_MOST_NAMED]) + (", ..." if len(ordered) > _MOST_NAMED else "")
