"""What a comparison says of its runs beside the numbers: what is left out, doubtful or different between the sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from a2perf.errors import UserError
from a2perf.rlops.compare.panel import GroupRuns, Panel
from a2perf.rlops.compare.request import Group, Request
from a2perf.runs.run import Execution, Run
from a2perf.runs.seed_groups import compared_key, differing

_MOST_NAMED = 5
ADVICE = "run both versions interleaved, on the same seeds and hosts"
_SHORT = 0.9
"""A run that ends before this share of the longest of its panel is mentioned."""


def between_sides(request: Request, finished: Sequence[dict[str, list[Run]]]) -> list[str]:
    """Names the runs that candidates share with the baseline, and the conditions in which they were run differently.

    Raises:
        UserError: a candidate has the same runs as the baseline.
    """
    if request.baseline is None:
        return []
    theirs = finished[request.baseline]
    before = [run for runs in theirs.values() for run in runs]
    baseline = request.groups[request.baseline].name
    said = []
    for at in request.candidates:
        name, ours = request.groups[at].name, finished[at]
        runs = [run for found in ours.values() for run in found]
        ids, others = ({run.name for run in side} for side in (runs, before))
        if both := ids & others:
            if ids == others:
                raise UserError(
                    f"{name} and {baseline} are the same {len(both)} runs",
                    hint="a2perf rlops tags list shows which runs have which tags",
                )
            said.append(f"{len(both)} runs belong to both {name} and {baseline}")
        names = f"{name} and {baseline}"
        views = [{run.identity.view or "the default" for run in side} for side in (runs, before)]
        if all(views) and views[0] != views[1]:
            said.append(f"{names}: different views of a task ({_against(views)}). Episodes and rewards are the same")
        for env in sorted(set(ours) & set(theirs)):
            kwargs = [{run.identity.env_kwargs for run in side[env]} - {""} for side in (ours, theirs)]
            if all(kwargs) and kwargs[0] != kwargs[1]:
                said.append(f"{names} on {env}: different arguments of the environment ({_against(kwargs)})")
        if differ := differences(runs, before):
            said.append(f"{names}: {'; '.join(differ)}. Scores cannot show what this changes: {ADVICE}")
    return said


def differences(candidate: Sequence[Run], baseline: Sequence[Run]) -> list[str]:
    """Describes how the conditions of two groups of runs differ; values that no run recorded count as equal."""

    def of_both(value: Callable[[Execution], str]) -> list[set[str]]:
        return [{value(run.execution) for run in runs} - {""} for runs in (candidate, baseline)]

    differences = []
    hosts = of_both(lambda execution: execution.host)
    if all(hosts) and hosts[0] != hosts[1]:
        differences.append(f"hosts differ ({_against(hosts)})")
    days = of_both(lambda execution: execution.started_at[:10])
    if all(days) and not days[0] & days[1]:
        differences.append(f"no day has runs of both ({_against(days)})")
    pythons = of_both(lambda execution: execution.python)
    if all(pythons) and pythons[0] != pythons[1]:
        differences.append(f"Python differs ({_against(pythons)})")
    recorded = [[run.execution.packages for run in runs if run.execution.packages] for runs in (candidate, baseline)]
    if all(recorded):
        changed = []
        for name in sorted({name for side in recorded for packages in side for name in packages}):
            versions = [{packages.get(name, "missing") for packages in side} for side in recorded]
            if versions[0] != versions[1]:
                changed.append(f"{name} {_against(versions)}")
        if changed:
            more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
            differences.append(f"packages differ ({'; '.join(changed[:_MOST_NAMED])}{more})")
    return differences


def notices_of(group: Group, env: str, runs: Sequence[Run], unfinished: Sequence[Run], cell: GroupRuns) -> list[str]:
    """Returns warnings about the runs of one group on one environment."""
    said = []
    if unfinished:
        states = ", ".join(f"{count} {state}" for state, count in sorted(Counter(r.state for r in unfinished).items()))
        said.append(f"left out {states}")
    if cell.without:
        said.append(f"{cell.without} of {len(runs)} runs do not have the metric")
    mixed = differing(compared_key(run) for run in cell.runs)
    versions = sorted(mixed.get("version", set()) - {""})
    if len(versions) > 1:
        said.append(f"mixes {len(versions)} versions of the code: {', '.join(versions[:5])}")
    if "view" in mixed:
        said.append(f"mixes runs with {len(mixed['view'])} different views of the task")
    seeded = [run for run in cell.runs if run.record.seed is not None]
    seeds = Counter((compared_key(run), run.identity.policy, run.record.seed) for run in seeded)
    if twice := sorted({str(seed) for (_, _, seed), count in seeds.items() if count > 1}):
        said.append(f"several runs have the seed {', '.join(twice)}")
    policies = {run.identity.policy for run in cell.runs}
    if len(policies) == 1 and "" not in policies:
        said.append("1 trained policy, which says nothing about other trained policies of the algorithm")
    if diverged := int(np.count_nonzero(~np.isfinite(cell.scores))):
        said.append(f"{diverged} of {len(cell.runs)} runs end in values that are not finite")
    return [f"{group.name} on {env}: {text}" for text in said]


def short_runs(panel: Panel, request: Request) -> list[str]:
    """Returns warnings about runs of a panel that end early or have few values."""
    said = []
    ends = [[float(c.steps[-1]) if c.steps.size else 0.0 for c in cell.curves] for cell in panel.cells]
    longest = max((end for row in ends for end in row), default=0.0)
    for group, row in zip(request.groups, ends, strict=True):
        if short := sum(end < _SHORT * longest for end in row):
            said.append(
                f"{group.name} on {panel.name}: {short} of {len(row)} runs end before {100 * _SHORT:g} % of the "
                f"longest ({min(row):g} of {longest:g} steps)"
            )
    counts = [curve.values.size for cell in panel.cells for curve in cell.curves]
    if whole := sum(1 < count <= request.last for count in counts):
        said.append(
            f"{panel.name}: {whole} of {len(counts)} runs have no more than {request.last} values; their score "
            "is the mean of the whole curve"
        )
    return said


def _against(sides: Sequence[set[str]]) -> str:
    shown = (sorted(values) for values in sides)
    return " against ".join(", ".join(one[:_MOST_NAMED]) + (", ..." if len(one) > _MOST_NAMED else "") for one in shown)
