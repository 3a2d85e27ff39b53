"""Filters that select runs: the two languages of earlier comparison tools, parsed into one typed query.

First generation: ``a;b!c;d?user`` has the tags a and b but not c and d, and is by that user. Second generation: a query
string for all groups, ``?we=..&wpn=..&ceik=env_id&cen=exp_name&metric=..&xaxis=..``, and one for each experiment,
``ppo?tag=a&tag=b&user=u&cl=Legend&learning_rate=0.1``. Entity (``we``) and project (``wpn``) name a place on a hosted
service; a store is one place, so they are kept for the record and select nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from a2perf.errors import UserError, did_you_mean
from a2perf.runs.run_record import literal
from a2perf.runs.store import DEFAULT_AXIS
from a2perf.runs.stored_run import StoredRun

FINISHED = ("finished",)
_GROUP_KEYS = {
    "we": "entity of the hosted service",
    "wpn": "project of the hosted service",
    "ceik": "configuration key of the environment id",
    "cen": "configuration key of the experiment's name",
    "metric": "metric",
    "metrics": "metric, repeatable",
    "xaxis": "horizontal axis",
}


@dataclass(frozen=True)
class RunQuery:
    """A condition on runs; every part that is given must hold.

    Attributes:
        experiment: name of the experiment.
        tags: tags that the run has, all of them.
        without_tags: tags of which it has none.
        user: who started it.
        config: for each configuration key the values of which it has one.
        env_ids: environments of which it is on one; None for any.
        env_key: configuration key that holds the environment id.
        experiment_key: configuration key that holds the experiment's name.
        states: states of which it is in one; empty for any.
        legend: what the group is called in a figure.
        text: the filter as it was written.
    """

    experiment: str | None = None
    tags: tuple[str, ...] = ()
    without_tags: tuple[str, ...] = ()
    user: str | None = None
    config: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    env_ids: tuple[str, ...] | None = None
    env_key: str = "env_id"
    experiment_key: str = "exp_name"
    states: tuple[str, ...] = FINISHED
    legend: str | None = None
    text: str = ""

    def matches(self, run: StoredRun) -> bool:
        """Returns whether a run matches."""
        if self.states and run.state not in self.states:
            return False
        if self.experiment is not None and self.experiment != experiment_of(run, self.experiment_key):
            return False
        if self.env_ids is not None and env_of(run, self.env_key) not in self.env_ids:
            return False
        if not run.tags.issuperset(self.tags) or not run.tags.isdisjoint(self.without_tags):
            return False
        if self.user is not None and self.user != run.user:
            return False
        return all(
            key in run.config and any(_same(run.config[key], wanted) for wanted in values)
            for key, values in self.config.items()
        )

    def __str__(self) -> str:
        return self.text or self.legend or ", ".join([self.experiment or "any experiment", *self.tags])


@dataclass(frozen=True)
class FilterGroup:
    """What one ``--filters`` says: the shared part and one query for each experiment.

    Attributes:
        entity: place on a hosted service; selects nothing here.
        project: as ``entity``.
        env_key: configuration key of the environment id.
        experiment_key: configuration key of the experiment's name.
        metrics: metrics to compare; empty when none was named.
        xaxis: what curves are drawn against.
        queries: one for each experiment, in the order given.
    """

    entity: str | None = None
    project: str | None = None
    env_key: str = "env_id"
    experiment_key: str = "exp_name"
    metrics: tuple[str, ...] = ()
    xaxis: str = DEFAULT_AXIS
    queries: tuple[RunQuery, ...] = ()


def parse_filters(words: Sequence[str]) -> FilterGroup:
    """Reads the words of one ``--filters``.

    Args:
        words: the shared query string, ``?we=...``, then one ``experiment?...`` or more; the shared one may be absent.

    Raises:
        UserError: a filter is empty, misspelt, or there is none for an experiment.
    """
    given = [word.strip() for word in words]
    if not given or any(not word for word in given):
        raise UserError("a filter is empty", hint="write --filters '?metric=charts/episodic_return' 'ppo?tag=latest'")
    shared = given.pop(0) if given[0].startswith("?") else "?"
    values: dict[str, list[str]] = {}
    for key, value in _pairs(shared[1:], shared):
        if key not in _GROUP_KEYS:
            raise UserError(
                f"{key!r} in the filter {shared!r} is not known{did_you_mean(key, _GROUP_KEYS)}",
                hint="its keys are " + ", ".join(f"{name} ({words})" for name, words in _GROUP_KEYS.items()),
            )
        values.setdefault(key, []).append(value)
    if not given:
        raise UserError(f"the filter {shared!r} names no experiment", hint="add one such as 'ppo?tag=latest'")
    last = {key: found[-1] for key, found in values.items()}
    env_key, experiment_key = last.get("ceik", "env_id"), last.get("cen", "exp_name")
    return FilterGroup(
        entity=last.get("we"),
        project=last.get("wpn"),
        env_key=env_key,
        experiment_key=experiment_key,
        metrics=tuple(dict.fromkeys([*values.get("metric", []), *values.get("metrics", [])])),
        xaxis=last.get("xaxis", DEFAULT_AXIS),
        queries=tuple(parse_experiment(word, env_key=env_key, experiment_key=experiment_key) for word in given),
    )


def parse_experiment(word: str, *, env_key: str = "env_id", experiment_key: str = "exp_name") -> RunQuery:
    r"""Reads one ``experiment?tag=..&user=..&cl=..&key=value``.

    ``tag`` may be repeated, all must be there; any other key is one of the configuration, and of its values one must be
    there. ``\n`` in ``cl`` is a line break.

    Raises:
        UserError: there is no name, or a part is not ``key=value``.
    """
    name, _, rest = word.strip().partition("?")
    if not name:
        raise UserError(f"the filter {word!r} names no experiment", hint="begin with its name, as in 'ppo?tag=latest'")
    tags: list[str] = []
    config: dict[str, list[Any]] = {}
    single: dict[str, str] = {}
    for key, value in _pairs(rest, word):
        if not value:
            raise UserError(f"{key!r} in the filter {word!r} has no value", hint=f"write {key}=value or leave it out")
        if key == "tag":
            tags.append(value)
        elif key in ("user", "cl"):
            single[key] = value
        else:
            config.setdefault(key, []).append(literal(value))
    legend = single.get("cl")
    return RunQuery(
        experiment=name,
        tags=tuple(dict.fromkeys(tags)),
        user=single.get("user"),
        config={key: tuple(values) for key, values in config.items()},
        env_key=env_key,
        experiment_key=experiment_key,
        legend=legend.replace("\\n", "\n") if legend is not None else None,
        text=word.strip(),
    )


def parse_tag_expression(text: str) -> RunQuery:
    """Reads the first generation's ``a;b!c;d?user``.

    Raises:
        UserError: nothing is asked for, or a sign is used twice.
    """
    wanted, _, user = text.strip().partition("?")
    wanted, _, unwanted = wanted.partition("!")
    if "!" in unwanted or "?" in user or "!" in user:
        raise UserError(
            f"the tag filter {text!r} cannot be read",
            hint="write a;b!c;d?user: with the tags a and b, without c and d, by user",
        )
    has, has_not = _tags(wanted), _tags(unwanted)
    if not has and not has_not and not user:
        raise UserError("a tag filter is empty", hint="name a tag, as in --tags latest")
    return RunQuery(tags=has, without_tags=has_not, user=user.strip() or None, text=text.strip())


def env_of(run: StoredRun, key: str) -> str:
    """Returns the environment of a run, by the configuration key that holds it."""
    return run.env_id if key == "env_id" else str(run.config.get(key, run.env_id))


def experiment_of(run: StoredRun, key: str) -> str:
    """Returns the experiment's name of a run, by the configuration key that holds it."""
    return run.experiment if key == "exp_name" else str(run.config.get(key, run.experiment))


def _tags(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tag.strip() for tag in text.split(";") if tag.strip()))


def _pairs(text: str, whole: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text))
    except ValueError as error:
        raise UserError(
            f"the filter {whole!r} cannot be read ({error})", hint="write name?key=value&key=value"
        ) from error


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted or str(found) == str(wanted)
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return float(found) == float(wanted)
    return str(found) == str(wanted)
