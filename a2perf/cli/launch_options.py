"""The options of commands that execute runs: where, how many at the same time, with which resources, and which runs
start again. Each is declared once here; a command selects them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import click

from a2perf import terminal
from a2perf.launch.interface import LAUNCHERS, Launcher, get_launcher
from a2perf.launch.run_spec import Resources
from a2perf.submission.options import DURATION, parse_participant_args
from a2perf.submission.run_options import RunOptions

if TYPE_CHECKING:  # a single run needs neither
    from a2perf.launch.conductor import Conductor
    from a2perf.launch.preparation import Restart


class ChosenLauncher(NamedTuple):
    """The value of ``--launcher``: a launcher, its options, and the processors of one run."""

    name: str
    options: Mapping[str, str]
    cpus: float | None = None
    gpus: int = 0


class _LauncherType(click.ParamType[ChosenLauncher]):
    """``NAME[:K=V,...]``; the keys ``cpus`` and ``gpus`` are resources of one run if the command passes them on."""

    name = "launcher"

    def __init__(self, *, with_resources: bool) -> None:
        self._with_resources = with_resources

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ChosenLauncher:
        name, _, words = str(value).partition(":")
        options = parse_participant_args(words, "--launcher")
        if not self._with_resources:
            return ChosenLauncher(name, options)
        cpus: Any = options.pop("cpus", None)
        gpus: Any = options.pop("gpus", 0)
        number, count = click.FloatRange(min=0, min_open=True), click.IntRange(min=0)
        return ChosenLauncher(
            name, options, None if cpus is None else number.convert(cpus, param, ctx), count.convert(gpus, param, ctx)
        )


_WHERE = f"Where runs execute: {', '.join(LAUNCHERS)}, or the launcher of an installed package; and its options"
_OPTIONS: Mapping[str, dict[str, Any]] = {
    "workers": {
        "type": click.IntRange(min=1),
        "default": 1,
        "show_default": True,
        "metavar": "N",
        "help": "Number of runs at the same time.",
    },
    "launcher": {
        "type": _LauncherType(with_resources=False),
        "default": "local",
        "show_default": True,
        "metavar": "NAME[:K=V,...]",
        "help": f"{_WHERE}.",
    },
    "run_time_limit_s": {"type": DURATION, "metavar": "TIME", "help": "Wall time of one run: 90m, 2h, or seconds."},
    "force": {"is_flag": True, "help": "Archive existing runs and start from scratch."},
    "retry": {
        "type": click.Choice(("failed", "infrastructure")),
        "multiple": True,
        "help": "Run failed runs again, or those that the infrastructure failed after the participant had started; "
        "recorded in the run. Repeatable.",
    },
}
WITH_RESOURCES = {
    "type": _LauncherType(with_resources=True),
    "help": f"{_WHERE}, with cpus and gpus of one run: slurm:partition=batch,cpus=4.",
}
"""Changes of ``--launcher`` for a command that passes on the resources of one run."""


def launch_options(*names: str, **changes: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Returns a decorator that adds options to a click command.

    Args:
        changes: by option, arguments of ``click.option`` that differ for this command.
    """

    def add(function: Any) -> Any:
        for name in reversed(names or tuple(_OPTIONS)):
            flag = f"--{name.replace('_', '-')}"
            function = click.option(flag, name, **{**_OPTIONS[name], **changes.get(name, {})})(function)
        return function

    return add


@dataclass(frozen=True)
class LaunchOptions:
    """The options of this module that a command was given."""

    given: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def taken_from(cls, parameters: dict[str, Any]) -> Self:
        """Takes the options out of the parameters of a click command."""
        return cls({name: parameters.pop(name) for name in _OPTIONS if name in parameters})

    def launcher(self) -> Launcher:
        """Returns the launcher."""
        return get_launcher(self.given["launcher"].name, **self.given["launcher"].options)

    def for_many(self) -> dict[str, Any]:
        """Returns the keyword arguments of ``a2perf.submit`` for several runs."""
        chosen = self.given["launcher"]
        retried = "infrastructure" in self.given["retry"]
        return {
            "launcher": chosen.name,
            "launcher_options": chosen.options,
            "retry_infrastructure": retried,
            "workers": self.given["workers"],
        }

    def conductor(self, *, workers: int | None = None, live: bool = True) -> Conductor:
        """Returns the conductor, which shows progress on standard error."""
        from a2perf.launch.conductor import Conductor

        count = workers or self.given.get("workers") or 1
        return Conductor(self.launcher(), count, console=terminal.console(stderr=True), live=live)

    def resources(self, chosen: RunOptions | None = None) -> Resources:
        """Returns the resources of one run."""
        limits, place = chosen or RunOptions(), self.given.get("launcher") or ChosenLauncher("local", {})
        return Resources(
            cpus=place.cpus,
            memory_bytes=limits.get("memory_limit_bytes") or None,
            gpus=place.gpus,
            wall_s=self.given.get("run_time_limit_s") or limits.get("run_time_limit_s"),
        )

    def restart(self) -> Restart:
        """Returns which runs start again."""
        from a2perf.launch.preparation import Restart

        retried = self.given.get("retry", ())
        return Restart(
            force=bool(self.given.get("force")),
            failed="failed" in retried,
            infrastructure="infrastructure" in retried,
        )
