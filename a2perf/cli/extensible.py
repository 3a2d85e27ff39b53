"""Groups of commands that installed distributions extend through the entry points of the group ``a2perf.commands``.

An entry point is named after its command, with dots between the words of a nested one (``export.wandb``). A command of
a distribution that is not installed ends in one line that names the distribution.
"""

from __future__ import annotations

import functools
from importlib import metadata

import click

from a2perf._version import __version__
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.plugins import entry_points, install_line

GROUP = "a2perf.commands"
BROUGHT_BY = {
    "audit": "audit",
    "competition": "competition",
    "data.netlist": "placement",
    "datasets": "datasets",
    "export.croissant": "datasets",
    "export.huggingface": "trackers",
    "export.mlflow": "trackers",
    "export.tensorboard": "trackers",
    "export.wandb": "trackers",
    "host": "competition",
    "model": "agents",
    "references": "audit",
    "serve": "serve",
}
"""The distribution ``packages/NAME`` that brings a command, by the words of the command, joined with dots."""
SUMMARIES = {
    "audit": "Attack environments and their scores with policies that should not win.",
    "competition": "Create a competition, run the entries, and publish the results.",
    "datasets": "Make, combine, list and inspect offline datasets.",
    "host": "Host a competition: take entries from a mailbox, run them, and write their pages.",
    "model": "Show or redact calls to a language model.",
    "references": (
        "Measure the scores that normalise returns of an environment: 0 is the best trivial policy, 1 the expert."
    ),
    "serve": "Serve environments to clients in other processes.",
}
"""The lines of the help for commands of distributions: the help imports none of them."""


OF_OPENRLBENCHMARK = {
    "benchmark": {"--slurm-": "--launcher slurm places the runs on a Slurm cluster"},
    "rlops compare": {
        "--filters": "--exp-name NAME --tags NEW OLD; or a2perf.compare(STORE, baseline='ppo', candidate='ppo_new')",
        "--pc.": "a2perf.compare(...).plot('curves') returns a matplotlib figure: set sizes and labels on it",
        "--rc.": "the line `overall` aggregates over environments; `a2perf report` shows interquartile means",
        "--rliable": "the line `overall` aggregates over environments; `a2perf report` shows interquartile means",
        "--scan-history": "leave it out: the whole history is always read",
        "--offline": "leave it out: the network is never used",
        "--rolling": "leave it out: points of curves are means of 100 values, or of a tenth of a short curve",
        "--check-empty-runs": "leave it out: an environment without runs is always an error",
        "--no-check-empty-runs": "--env-ids ENV... names the environments on which all groups have runs",
    },
}
"""What replaces options of CleanRL and openrlbenchmark, by command and by the beginning of the flag."""


def instead_of(context: click.Context, flag: str) -> UserError | None:
    """Returns the error about an option that other tools have; None about any other option."""
    for prefix, hint in OF_OPENRLBENCHMARK.get(" ".join(context.command_path.split()[1:]), {}).items():
        if flag.startswith(prefix):
            return UserError(f"{context.command_path} does not take {flag}", hint=hint)
    return None


class ExtensibleGroup(click.Group):
    """A group that shows and calls the commands of installed distributions after its own.

    Attributes:
        prefix: the words of this group, joined with dots, and a dot; ``""`` at the top.
    """

    prefix = ""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: D102
        return [*super().list_commands(ctx), *_points(self.prefix)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: D102
        point = _points(self.prefix).get(cmd_name)
        return super().get_command(ctx, cmd_name) if point is None else _load(point)

    def resolve_command(  # noqa: D102
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and not ctx.resilient_parsing:
            word = ctx.token_normalize_func(args[0]) if ctx.token_normalize_func else args[0]
            if self.get_command(ctx, word) is None:
                raise self._absent(ctx, word)
        return super().resolve_command(ctx, args)

    def _absent(self, ctx: click.Context, word: str) -> UserError:
        name = self.prefix + word
        if name in BROUGHT_BY:
            return UserError(
                f"{ctx.command_path} {word} comes with the distribution a2perf-{BROUGHT_BY[name]}",
                hint=install_line(BROUGHT_BY[name]),
            )
        names = self.list_commands(ctx)
        groups = {name: group for name in names if isinstance(group := self.get_command(ctx, name), click.Group)}
        within = next((name for name, group in groups.items() if group.get_command(ctx, word)), None)
        near = f"; did you mean '{within} {word}'?" if within else did_you_mean(word, names)
        return UserError(f"there is no command {word!r}{near}", hint=f"{ctx.command_path} --help")


def distributions() -> dict[str, dict[str, str]]:
    """Returns the summaries of the installed commands by distribution and by the name of the command."""
    found: dict[str, dict[str, str]] = {}
    for name, point in _points("").items():
        try:
            if point.dist is not None and point.dist.name == f"a2perf-{BROUGHT_BY.get(name)}":
                check_version(point.dist)
                summary = SUMMARIES[name]
            else:
                summary = _load(point).get_short_help_str(200)
        except UserError as error:
            summary = error.message
        found.setdefault(point.dist.name if point.dist else point.module, {})[name] = summary
    return found


@functools.cache
def _points(prefix: str) -> dict[str, metadata.EntryPoint]:
    named = {point.name: point for point in entry_points(GROUP) if point.name.startswith(prefix)}
    below = {name.removeprefix(prefix): named[name] for name in sorted(named)}
    return {name: point for name, point in below.items() if "." not in name}


def _load(point: metadata.EntryPoint) -> click.Command:
    """Imports a command."""
    if point.dist is not None and point.dist.name in {f"a2perf-{name}" for name in BROUGHT_BY.values()}:
        check_version(point.dist)
    try:
        command = point.load()
    except Exception as error:  # anything can happen while the code of another package runs
        raise ConfigError(
            f"the command {point.name.replace('.', ' ')} cannot be loaded from {point.value}: {error}",
            hint=f"reinstall or remove the package {point.dist.name if point.dist else point.module}",
        ) from error
    if not isinstance(command, click.Command):
        raise ConfigError(f"{point.value} is not a click command", hint=f"the group {GROUP} names click commands")
    return command


def check_version(distribution: metadata.Distribution) -> None:
    """Checks that a distribution of this repository has the version of the core.

    Raises:
        ConfigError: it has another version.
    """
    if distribution.version != __version__:
        name = distribution.name
        raise ConfigError(
            f"{name} {distribution.version} is installed, and a2perf is {__version__}",
            hint=install_line(name.removeprefix("a2perf-")),
        )
