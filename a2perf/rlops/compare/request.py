"""The request of a comparison: groups of runs, environments, metrics and tolerance.

``--exp-name E --tags T1 T2`` makes a group of each tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from a2perf.errors import UserError, did_you_mean
from a2perf.rlops.compare.verdict import CONFIDENCE, Tolerance
from a2perf.rlops.filters import RunQuery, parse_tag_expression
from a2perf.runs.run import Run
from a2perf.runs.series import FINAL_VALUES

ACCEPTED = "latest"
"""The tag of the accepted version, by convention."""
LAST = FINAL_VALUES
Question = Literal["seeds", "episodes"]
"""Whether scores of training seeds are compared, or of episodes that fixed policies of both sides played, in pairs."""


@dataclass(frozen=True)
class Group:
    """Runs that are set against those of other groups.

    Attributes:
        query: how the runs were named; it selects them in a store.
    """

    name: str
    query: RunQuery
    runs: tuple[Run, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Request:
    """A comparison that is asked for.

    Attributes:
        last: a run's score is the mean of so many last logged values.
        only_shared: judge a candidate only on the environments that it has runs on; else it is inconclusive there.
        score: how the score of a run is computed, in words; empty for the mean of its last values.
        question_reason: why the data decided on the question; empty if the caller did.
    """

    groups: tuple[Group, ...]
    baseline: int | None
    env_ids: tuple[str, ...] | None = None
    metrics: tuple[str, ...] = ()
    axis: str = "global_step"
    last: int = LAST
    tolerance: Tolerance = field(default_factory=Tolerance)
    confidence: float = CONFIDENCE
    lower_is_better: frozenset[str] = frozenset()
    only_shared: bool = False
    score: str = ""
    gate: bool = False
    question: Question = "seeds"
    question_reason: str = ""

    @property
    def question_text(self) -> str:
        """The question that a comparison answers."""
        asked = "this algorithm (units: training seeds)"
        if self.question == "episodes":
            asked = "these policies (units: shared episodes, in pairs)"
        return f"{asked}, {self.question_reason}" if self.question_reason else asked

    def score_text(self) -> str:
        """Returns how the score of a run is computed."""
        return self.score or f"mean of the last {self.last} values"

    @property
    def candidates(self) -> list[int]:
        """Places of the groups that are judged."""
        return [] if self.baseline is None else [at for at in range(len(self.groups)) if at != self.baseline]


def groups_of_tags(experiment: str | None, tags: Sequence[str]) -> tuple[Group, ...]:
    """Returns one group for each tag expression, all of one experiment.

    Raises:
        UserError: an expression is empty or given twice.
    """
    queries = [replace(parse_tag_expression(tag), experiment=experiment) for tag in tags]
    if not queries:
        queries = [RunQuery(experiment=experiment, text=experiment or "all runs")]
    return groups_of_queries(queries)


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


def groups_of_queries(queries: Sequence[RunQuery]) -> tuple[Group, ...]:
    """Returns one group per query, named by its legend or by the query as it was written.

    Raises:
        UserError: a query is given twice.
    """
    names = [" ".join((query.legend or str(query)).split()) for query in queries]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"the group {name!r} is given twice", hint="tell groups apart by tags, or by cl=LEGEND")
    return tuple(Group(name, query) for name, query in zip(names, queries, strict=True))
