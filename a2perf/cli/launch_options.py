"""The options of commands that execute runs: where, how many at the same time, with which resources, and which runs
start again. Each is declared once here; a command selects them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import click

from a2perf import terminal
from a2perf.launch.interface import LAUNCHERS, Launcher, get_launcher
from a2perf.launch.run_spec import Resources
from a2perf.submission.options import DURATION, parse_participant_args
from a2perf.submission.run_options import RunOptions

if TYPE_CHECKING:  # a single run needs neither
    from a2perf.launch.conductor import Conductor
    from a2perf.launch.preparation import Restart

_OPTIONS: Mapping[str, dict[str, Any]] = {
    "workers": {
        "type": click.IntRange(min=1), "default": 1, "show_default": True, "metavar": "N",
        "help": "Number of runs at the same time.",
    },
    "launcher": {
        "default": "local", "show_default": True, "metavar": "NAME",
        "help": f"Where runs execute: {', '.join(LAUNCHERS)}, or the launcher of an installed package.",
    },
    "launcher_option": {"multiple": True, "metavar": "K=V", "help": "Option of the launcher, repeatable."},
    "cpus": {"type": click.FloatRange(min=0, min_open=True), "metavar": "N", "help": "Processors of one run."},
    "gpus": {"type": click.IntRange(min=0), "default": 0, "metavar": "N", "help": "Graphics processors of one run."},
    "run_time_limit_s": {"type": DURATION, "metavar": "TIME", "help": "Wall time of one run: 90m, 2h, or seconds."},
    "force": {"is_flag": True, "help": "Archive existing runs and start from scratch."},
    "retry_failed": {"is_flag": True, "help": "Run failed runs again."},
    "retry_infrastructure": {
        "is_flag": True,
        "help": "Run again if the infrastructure failed after the participant had started; recorded in the run.",
    },
}  # fmt: skip


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
        return get_launcher(self.given["launcher"], **self.launcher_options())

    def launcher_options(self) -> dict[str, str]:
        """Returns the options of the launcher by name."""
        return parse_participant_args(",".join(self.given.get("launcher_option", ())))

    def for_many(self) -> dict[str, Any]:
        """Returns the keyword arguments of ``a2perf.submit`` for several runs."""
        names = ("launcher", "workers", "retry_infrastructure")
        return {"launcher_options": self.launcher_options(), **{name: self.given[name] for name in names}}

    def conductor(self, *, workers: int | None = None, live: bool = True) -> Conductor:
        """Returns the conductor, which shows progress on standard error."""
        from a2perf.launch.conductor import Conductor

        count = workers or self.given.get("workers") or 1
        return Conductor(self.launcher(), count, console=terminal.console(stderr=True), live=live)

    def resources(self, chosen: RunOptions | None = None) -> Resources:
        """Returns the resources of one run."""
        limits = chosen or RunOptions()
        return Resources(
            cpus=self.given.get("cpus"),
            memory_bytes=limits.get("memory_limit_bytes") or None,
            gpus=self.given.get("gpus", 0),
            wall_s=self.given.get("run_time_limit_s") or limits.get("run_time_limit_s"),
        )

    def restart(self) -> Restart:
        """Returns which runs start again."""
        from a2perf.launch.preparation import Restart

        return Restart(
            force=bool(self.given.get("force")),
            failed=bool(self.given.get("retry_failed")),
            infrastructure=bool(self.given.get("retry_infrastructure")),
        )
