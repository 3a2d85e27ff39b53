"""``CompetitionProfile``: the tasks, limits and pages of a kind of competition, for ``a2perf competition init``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.domains.registry import HeldOutTask, domains, load_attribute
from a2perf.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class ProfileSetting:
    """A setting of a profile, ``--set NAME=VALUE``.

    Attributes:
        default: its default; a value on the command line gets the type of the default.
    """

    default: bool | int | float | str
    help: str


@dataclass(frozen=True)
class CompetitionProfile:
    """A kind of competition.

    Attributes:
        name: the name that ``--profile`` takes.
        public_task: the domain's task that everybody tries first.
        terms: defaults of ``CompetitionTerms`` by field.
        arguments: settings -> arguments of the environment of every task.
        public_tasks: settings -> further public tasks, those with data on this host.
        held_out: (number, seed, settings) -> secret tasks.
        import_design: (source, folder) -> writes the data files of an organizer's own design and returns its name.
        design_task: (name, folder, settings) -> the task of such a design.
        references: (environment's id and arguments, settings) -> return of each reference entry by its name.
        template: template of a submission, a name that ``a2perf init --template`` takes.
        guide: (name of the competition, settings, results of the references by task) -> Markdown for participants.
    """

    name: str
    domain: str
    summary: str
    public_task: str
    terms: Mapping[str, Any]
    settings: Mapping[str, ProfileSetting]
    arguments: Callable[[Mapping[str, Any]], dict[str, Any]]
    public_tasks: Callable[[Mapping[str, Any]], Sequence[HeldOutTask]]
    held_out: Callable[[int, int, Mapping[str, Any]], Sequence[HeldOutTask]]
    import_design: Callable[[str, Path], str]
    design_task: Callable[[str, Path, Mapping[str, Any]], HeldOutTask]
    references: Callable[[str, Mapping[str, Any], Mapping[str, Any]], dict[str, float]]
    template: str
    guide: Callable[[str, Mapping[str, Any], Mapping[str, Mapping[str, float]]], str]

    def settled(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Returns all settings, those that are given converted to the type of their default.

        Raises:
            ConfigError: a name is unknown, or a value is not of the type.
        """
        found: dict[str, Any] = {name: setting.default for name, setting in self.settings.items()}
        for name, text in given.items():
            if name not in found:
                raise ConfigError(
                    f"{name!r} is not a setting of the profile {self.name}{did_you_mean(name, found)}",
                    hint=f"choose one of: {', '.join(found)}",
                )
            kind = type(found[name])
            try:
                found[name] = _BOOLEANS[text.lower()] if kind is bool else kind(text)
            except (ValueError, KeyError):
                raise ConfigError(
                    f"{name}={text} is not a{'n' if kind is int else ''} {kind.__name__}",
                    hint=f"for example --set {name}={found[name]}",
                ) from None
        return found


_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


def competition_profile(name: str) -> CompetitionProfile:
    """Returns the profile of a name.

    Raises:
        ConfigError: no domain has such a profile.
    """
    known = {key: reference for domain in domains().values() for key, reference in domain.competition_profiles.items()}
    if name not in known:
        raise ConfigError(
            f"{name!r} is not a competition profile{did_you_mean(name, known)}",
            hint=f"choose one of: {', '.join(known)}" if known else "no distribution brings one",
        )
    profile: CompetitionProfile = load_attribute(known[name])
    return profile
