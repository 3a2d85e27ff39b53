"""The request of a comparison: groups of runs, environments, metrics and tolerance.

``--exp-name E --tags T1 T2`` makes a group of each tag.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from a2perf.errors import UserError, did_you_mean
from a2perf.rlops.compare.verdict import CONFIDENCE, Tolerance
from a2perf.rlops.filters import RunQuery, parse_tag_expression
from a2perf.runs.store import DEFAULT_AXIS

ACCEPTED = "latest"
"""The tag of the accepted version, by convention."""
LAST = 100


@dataclass(frozen=True)
class Group:
    """Runs that are set against those of other groups.

    Attributes:
        name: what it is called, unique in its comparison.
        query: which runs.
        env_ids: its environments, in the order in which they are paired; None for those that there are.
        metrics: names of the metrics in this group, by position; empty for the usual name of the return.
        xaxis: what its curves run over.
    """

    name: str
    query: RunQuery
    env_ids: tuple[str, ...] | None = None
    metrics: tuple[str, ...] = ()
    xaxis: str = DEFAULT_AXIS


@dataclass(frozen=True)
class Request:
    """A comparison that is asked for.

    Attributes:
        groups: at least one; all have the same number of metrics, and of environments where they name them.
        baseline: place of the group that the others are judged against; None when there is only one.
        last: a run's score is the mean of so many last logged values.
        tolerance: what a candidate may lose.
        confidence: mass of the intervals.
        lower_is_better: metrics of which less is better.
        check_empty_runs: an environment without runs is an error.
        as_of: tags are taken as they were then.
        only_shared: judge a candidate only on the environments that it has runs on; else it is inconclusive there.
        score: how the score of a run is computed, in words; empty for the mean of its last values.
        gate: show the verdicts of the regression gate.
    """

    groups: tuple[Group, ...]
    baseline: int | None
    last: int = LAST
    tolerance: Tolerance = field(default_factory=Tolerance)
    confidence: float = CONFIDENCE
    lower_is_better: frozenset[str] = frozenset()
    check_empty_runs: bool = True
    as_of: datetime.datetime | None = None
    only_shared: bool = False
    score: str = ""
    gate: bool = False

    def score_text(self) -> str:
        """Returns how the score of a run is computed."""
        return self.score or f"mean of the last {self.last} values"

    @property
    def candidates(self) -> list[int]:
        """Places of the groups that are judged."""
        return [] if self.baseline is None else [at for at in range(len(self.groups)) if at != self.baseline]


def groups_of_tags(
    experiment: str | None, tags: Sequence[str], env_ids: Sequence[str], metrics: Sequence[str] = ()
) -> tuple[Group, ...]:
    """Returns one group for each tag expression, all of one experiment.

    Args:
        experiment: its name; None for any.
        tags: ``a;b!c;d?user`` each; none is one group of all runs.
        env_ids: the environments; none for all.
        metrics: names of the metrics.

    Raises:
        UserError: an expression is empty or given twice.
    """
    envs = tuple(env_ids) or None
    queries = [replace(parse_tag_expression(tag), experiment=experiment) for tag in tags]
    if not queries:
        queries = [RunQuery(experiment=experiment, text=experiment or "all runs")]
    return _named([Group("", query, envs, tuple(metrics)) for query in queries])


def groups_of_queries(
    queries: Sequence[RunQuery], env_ids: tuple[str, ...] | None = None, metrics: tuple[str, ...] = ()
) -> tuple[Group, ...]:
    """Returns one group per query, all with the same environments and metrics.

    Raises:
        UserError: a query is given twice.
    """
    return _named([Group("", query, env_ids, metrics) for query in queries])


def choose_baseline(groups: Sequence[Group], given: str | None) -> int | None:
    """Returns the place of the group that the others are judged against.

    It is the one that is named; else the one that asks for the tag ``latest``; else the last. None for one group alone.

    Raises:
        UserError: no group is called so.
    """
    if given is not None:
        named = [at for at, group in enumerate(groups) if given in (group.name, group.query.text, *group.query.tags)]
        if len(named) != 1:
            names = [group.name for group in groups]
            raise UserError(
                f"--baseline {given!r} means {len(named)} of the groups{did_you_mean(given, names)}",
                hint=f"name one of: {', '.join(names)}",
            )
        if len(groups) == 1:
            raise UserError("--baseline needs a second group", hint="give two --tags")
        return named[0]
    if len(groups) < 2:
        return None
    accepted = [at for at, group in enumerate(groups) if ACCEPTED in group.query.tags]
    return accepted[0] if len(accepted) == 1 else len(groups) - 1


def _named(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Gives each group a name: its legend, else what was written; experiments that differ go first."""
    names = [" ".join((group.query.legend or str(group.query)).split()) for group in groups]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"the group {name!r} is given twice", hint="tell groups apart by tags, or by cl=LEGEND")
    return tuple(replace(group, name=name) for group, name in zip(groups, names, strict=True))
