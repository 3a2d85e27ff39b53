"""The options of every run: flags of the commands that start runs, and of the evaluator process.

An option is declared once, with its setting in ``settings``. Only ``--trust-submission-config`` belongs to the loading
of gin files and not to a setting. A command adds the flags with ``run_options`` and passes them on as one
``RunOptions``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Self

import click

from a2perf.submission.options import DURATION, SIZE
from a2perf.submission.run_services import RunService, run_services
from a2perf.submission.settings import NEUTRAL, Submission

_TRUST = "trust_submission_config"


@dataclass(frozen=True)
class RunOption:
    """One option.

    Attributes:
        kind: annotated type of the setting; ``"bool"`` makes a flag without a value.
        takes_value: whether a boolean flag may also have a value.
    """

    name: str
    help: str
    kind: str
    metavar: str | None = None
    one_run: bool = False
    takes_value: bool = False

    @property
    def flag(self) -> str:
        """The flag, ``"--python-env"``."""
        return f"--{self.name.replace('_', '-')}"

    def declare(self, function: Any, **changes: Any) -> Any:
        """Adds the option to a click command; its default is ``None`` or ``()``.

        Args:
            changes: arguments of ``click.option`` for this command: ``help``, ``type``, ``show_default``.
        """
        given: dict[str, Any] = {"help": self.help, "default": None, "metavar": self.metavar}
        if self.takes_value:
            given |= {"type": bool, "is_flag": False, "flag_value": True}
        elif self.kind == "bool":
            given |= {"is_flag": True}
        elif self.kind.startswith("Sequence"):
            given |= {"multiple": True}
        elif self.name.endswith(("_bytes", "_s")):
            given |= {"type": SIZE if self.name.endswith("_bytes") else DURATION}
        elif self.kind.startswith("int"):
            given |= {"type": int}
        elif self.kind.startswith("float"):
            given |= {"type": float}
        return click.option(self.flag, self.name, **{**given, **changes})(function)

    def words(self, value: Any) -> list[str]:
        """Returns the words of a command line that give this value."""
        if self.takes_value:
            return [f"{self.flag}={value}"]
        if self.kind == "bool":
            return [self.flag] if value else []
        values = value if isinstance(value, list | tuple) else [value]
        return [word for one in values for word in (self.flag, str(one))]


def _declared() -> Iterator[RunOption]:
    yield from _options_of(Submission)
    yield from service_options()
    yield RunOption(
        _TRUST,
        "Let gin evaluate files inside the submission, which executes what they import. Only for your own code.",
        kind="bool",
    )


def _options_of(settings: type[Submission] | type[RunService]) -> Iterator[RunOption]:
    for entry in fields(settings):
        if "help" in entry.metadata:
            declared = {name: value for name, value in entry.metadata.items() if name != "path"}
            yield RunOption(entry.name, kind=str(entry.type), **declared)


def service_options() -> list[RunOption]:
    """Returns the options that the services of installed packages add."""
    return [option for service in run_services() for option in _options_of(service)]


OPTIONS: Mapping[str, RunOption] = MappingProxyType({one.name: one for one in _declared()})
"""Every option by name."""

TRUST_FLAG = OPTIONS[_TRUST].flag
"""The flag that lets gin evaluate a submission's gin file."""


_NEUTRAL_FLAGS = {"--verbosity", *(one.flag for name, one in OPTIONS.items() if name in NEUTRAL)}


def identity_words(flags: Sequence[str]) -> list[str]:
    """Returns the flags of the evaluator's command line that can change a number or a claim of a run."""
    kept: list[str] = []
    words = iter(flags)
    for word in words:
        if word in _NEUTRAL_FLAGS:
            next(words, None)
        elif word == OPTIONS["concurrent_episodes"].flag:  # as in the bundle: one at a time, or several
            kept += [word, "1" if next(words, "1") == "1" else "N"]
        else:
            kept.append(word)
    return kept


def run_options(
    *names: str, without: tuple[str, ...] = (), one_run: bool = False, **changes: Mapping[str, Any]
) -> Callable[[Any], Any]:
    """Returns a decorator that adds options to a click command.

    Args:
        changes: by option name, arguments of ``click.option`` for this command.
    """
    chosen = names or [name for name, one in OPTIONS.items() if (one_run or not one.one_run) and name not in without]

    def add(function: Any) -> Any:
        for name in reversed(chosen):
            function = OPTIONS[name].declare(function, **changes.get(name, {}))
        return function

    return add


@dataclass(frozen=True)
class RunOptions:
    """The options given for a run or for every run of an experiment; the gin file decides about the others."""

    given: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.given) - set(OPTIONS)):
            raise TypeError(f"{unknown[0]!r} is not an option of every run")
        present = {
            name: value
            for name, option in OPTIONS.items()
            if (value := self.given.get(name)) not in (None, "", (), [])
            and (value is not False or option.takes_value)  # otherwise there is no --name=False
        }
        object.__setattr__(self, "given", MappingProxyType(present))

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Returns options by name; ``None``, ``""``, ``()`` and a flag's ``False`` mean "not given"."""
        return cls(given)

    @classmethod
    def taken_from(cls, parameters: dict[str, Any]) -> Self:
        """Takes the options out of the parameters of a click command."""
        return cls({name: parameters.pop(name) for name in OPTIONS if name in parameters})

    def with_(self, **given: Any) -> Self:
        """Returns a copy with these options changed; ``None`` removes one."""
        return type(self)({**self.given, **given})

    def get(self, name: str) -> Any:
        """Returns the value of an option, or ``None`` if it was not given."""
        return self.given.get(name)

    @property
    def trusts_submission(self) -> bool:
        """Whether gin evaluates a submission's gin file."""
        return bool(self.given.get(_TRUST))

    def settings(self) -> dict[str, Any]:
        """Returns the keyword arguments of ``Submission``."""
        of_services = {one.name for one in service_options()}
        found = {name: value for name, value in self.given.items() if name != _TRUST and name not in of_services}
        return {**found, "services": self.services()} if of_services & set(self.given) else found

    def services(self) -> tuple[RunService, ...]:
        """Returns the services that the options, or the gin configuration in force, ask for."""
        made = []
        for kind in run_services():
            names = {one.name for one in _options_of(kind)} & set(self.given)
            made.append(kind(**{name: self.given[name] for name in names}))
        return tuple(service for service in made if service.is_wanted())

    def words(self) -> tuple[str, ...]:
        """Returns the flags of the evaluator's command line."""
        return tuple(word for name, value in self.given.items() for word in OPTIONS[name].words(value))
