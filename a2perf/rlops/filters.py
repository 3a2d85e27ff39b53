"""Filters that select runs, parsed into one typed query.

A tag expression, ``a;b!c;d?user``, has the tags a and b but not c and d, and is by that user. An experiment filter,
``ppo?tag=a&tag=b&user=u&cl=Legend&learning_rate=0.1``, names an experiment and values of its configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from a2perf.errors import UserError
from a2perf.runs.bundles.run_record import literal
from a2perf.runs.run import Run

FINISHED = ("finished",)


@dataclass(frozen=True)
class RunQuery:
    """A condition on runs; every part that is given must hold.

    Attributes:
        config: for each configuration key the values of which it has one.
    """

    experiment: str | None = None
    tags: tuple[str, ...] = ()
    without_tags: tuple[str, ...] = ()
    user: str | None = None
    config: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    env_ids: tuple[str, ...] | None = None
    states: tuple[str, ...] = FINISHED
    legend: str | None = None
    text: str = ""

    def matches(self, run: Run) -> bool:
        """Returns whether a run matches."""
        record = run.record
        if self.states and run.state not in self.states:
            return False
        if self.experiment is not None and self.experiment != record.experiment:
            return False
        if self.env_ids is not None and record.env_id not in self.env_ids:
            return False
        if not {*self.tags} <= {*record.tags} or not {*self.without_tags}.isdisjoint(record.tags):
            return False
        if self.user is not None and self.user != record.user:
            return False
        return all(
            key in record.config and any(_same(record.config[key], wanted) for wanted in values)
            for key, values in self.config.items()
        )

    def __str__(self) -> str:
        return self.text or self.legend or ", ".join([self.experiment or "any experiment", *self.tags])


def parse_experiment(word: str) -> RunQuery:
    r"""Reads one ``experiment?tag=..&user=..&cl=..&key=value``.

    ``tag`` may be repeated, all must be there; any other key is one of the configuration, and of its values one must be
    there. ``\n`` in ``cl`` is a line break.

    Raises:
        UserError: there is no name, or a part is not ``key=value``.
    """
    name, _, rest = word.strip().partition("?")
    if not word.strip():
        raise UserError("a filter is empty", hint="begin with the name of an experiment, as in 'ppo?tag=latest'")
    if not name:
        raise UserError(
            f"the filter {word!r} names no experiment; a shared part such as '?we=..' was removed",
            hint="leave the shared part out, and begin with the name of an experiment, as in 'ppo?tag=latest'",
        )
    tags: list[str] = []
    config: dict[str, list[Any]] = {}
    single: dict[str, str] = {}
    try:
        pairs = parse_qsl(rest, keep_blank_values=True, strict_parsing=bool(rest))
    except ValueError as error:
        raise UserError(
            f"the filter {word!r} cannot be read ({error})", hint="write name?key=value&key=value"
        ) from error
    for key, value in pairs:
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
        legend=legend.replace("\\n", "\n") if legend is not None else None,
        text=word.strip(),
    )


def parse_tag_expression(text: str) -> RunQuery:
    """Reads a tag expression, ``a;b!c;d?user``.

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


def _tags(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tag.strip() for tag in text.split(";") if tag.strip()))


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted or str(found) == str(wanted)
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return float(found) == float(wanted)
    return str(found) == str(wanted)
