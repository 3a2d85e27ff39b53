"""Groups of commands that installed distributions extend through the entry points of the group ``a2perf.commands``.

An entry point is named after its command, with dots between the words of a nested one (``export.wandb``). A command of
an earlier version, and one of a distribution that is not installed, end in one line that names the replacement.
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
    "data.netlist": "placement",
    "export.huggingface": "trackers",
    "export.mlflow": "trackers",
    "export.tensorboard": "trackers",
    "export.wandb": "trackers",
    "model": "agents",
    "serve": "serve",
}
"""The distribution ``packages/NAME`` that brings a command, by the words of the command, joined with dots."""
REMOVED = {
    "completion": 'eval "$(_A2PERF_COMPLETE=bash_source a2perf)", or zsh_source, fish_source',
    "competition.domains": "a2perf envs list; every domain of a2perf generates secret tasks",
    "model.serve-script": "python -m packages.agents.examples.scripted_model SCRIPT.json, in a checkout",
    "data.clips.show": "make the environment with clip=NAME and render_mode='rgb_array'",
    "data.websites.show": "make the environment with render_mode='rgb_array'",
    "export.attestation": "a2perf sign BUNDLE --key FILE, then a2perf verify BUNDLE",
    "data.netlists": "use `a2perf data netlist` of the distribution a2perf-placement",
    "data.path": "a2perf data list FILE --json",
    "datasets.validate": "a2perf validate DATASET",
    "images": "docker image ls, docker image prune --filter label=a2perf.content; a run builds its image",
    "perftest.run-all": "a2perf perftest run, without a test",
    "python-env.list": "a2perf python-env",
    "python-env.prune": "a2perf python-env --prune leftovers|all|AGE",
    "rlops.tags.history": "a2perf rlops tags list TAG",
}
"""What replaces a command of an earlier version, as the text of a hint; kept for one release."""
_TABLES = "a2perf.read_runs(FOLDER).to_pandas() and .episodes().to_pandas() are the tables of runs"
_NO_RECORDS = "leave it out: the files are described, and Minari reads their records"
_OVERALL = "the line `overall` aggregates over environments; see also a2perf.compare(...).groups.aggregates"
_CARD = "a2perf_trackers.huggingface.model_card(RUNS, library_name=..., tags=[...]) in Python"
_RETRY = "--retry failed, --retry infrastructure"
_LAUNCHER = "--launcher NAME:K=V,..., for example slurm:partition=batch,cpus=4,gpus=1"
_SCORE = "a2perf.time_to_result({submission: {workload: seconds}}) in Python; see docs/explanation/time_to_result.md"
_REMOVED_OPTIONS = {
    "": {"--retry-": _RETRY, "--launcher-option": _LAUNCHER, "--cpus": _LAUNCHER, "--gpus": _LAUNCHER},
    "benchmark": {"--slurm-": "--launcher slurm places the runs on a Slurm cluster"},
    "data netlist import": {"--pictures": "a2perf data netlist show DIR draws the clustered placement"},
    "data websites difficulty": {"--out": "python docs/environments/web_pictures.py, in a checkout, draws the plot"},
    "datasets combine": {"--merge": "leave it out: all parts are joined in one pass, with the same result"},
    "datasets generate": {"--call-timeout": "leave it out: a call of a policy may take 60 s"},
    "datasets inspect": {"--picture": "a2perf.open_dataset(NAME).plot().savefig(FILE)"},
    "datasets skill-levels": {"--call-timeout": "leave it out: a call of a policy may take 60 s"},
    "export croissant": {
        **dict.fromkeys(("--runs", "--output", "-o", "--name"), _TABLES),
        **dict.fromkeys(("--records", "--no-records"), _NO_RECORDS),
    },
    "export huggingface": {
        **dict.fromkeys(("--library", "--tag"), _CARD),
        "--dataset": "a2perf export croissant NAME describes a dataset; the hub reads croissant.json",
        "--every-metric": "a2perf score RUNS --json lists all metrics",
        "--push": "write the card with -o README.md, then: hf upload ORG/NAME README.md",
        "--private": "hf repos create ORG/NAME --private",
        "--pull-request": "write the card with -o README.md, then: hf upload ORG/NAME README.md --create-pr",
    },
    "export mlflow": {"--artifacts": "mlflow artifacts log-artifacts --run-id ID --local-dir BUNDLE/metrics"},
    "leaderboard": dict.fromkeys(
        ("--score", "--times", "--target", "--held-out", "--count-held-out", "--exact"), _SCORE
    ),
    "rlops compare": {
        "--filters": "--exp-name NAME --tags NEW OLD; or a2perf.compare(STORE, baseline='ppo', candidate='ppo_new')",
        "--pc.": "a2perf.compare(...).plot('curves') returns a matplotlib figure: set sizes and labels on it",
        "--rc.": _OVERALL,
        "--rliable": _OVERALL,
        "--scan-history": "leave it out: the whole history is always read",
        "--offline": "leave it out: the network is never used",
        "--rolling": "leave it out: points of curves are means of 100 values, or of a tenth of a short curve",
        "--check-empty-runs": "leave it out: an environment without runs is always an error",
        "--no-check-empty-runs": "--env-ids ENV... names the environments on which all groups have runs",
    },
}  # fmt: skip
"""What replaces an option of an earlier version, by the beginning of its flag, for a command or (``""``) for every."""


def removed_option(context: click.Context, flag: str) -> UserError | None:
    """Returns the error about an option of an earlier version; None about any other."""
    words = context.command_path.split()[1:] or ["run"]  # a2perf-launch
    for name in (" ".join(words), ""):
        for prefix, instead in _REMOVED_OPTIONS.get(name, {}).items():
            if flag.startswith(prefix):
                return UserError(f"the option {flag} was removed", hint=instead)
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
        if name in REMOVED:
            return UserError(f"{ctx.command_path} {word} was removed", hint=REMOVED[name])
        if name in BROUGHT_BY:
            return UserError(
                f"{ctx.command_path} {word} comes with the distribution a2perf-{BROUGHT_BY[name]}",
                hint=install_line(BROUGHT_BY[name]),
            )
        near = did_you_mean(word, self.list_commands(ctx))
        return UserError(f"there is no command {word!r}{near}", hint=f"{ctx.command_path} --help")


class LeafCommand(click.Command):
    """A command that was a group in an earlier version; it refuses the names of its former commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:  # noqa: D102
        instead = REMOVED.get(f"{self.name}.{args[0]}") if args else None
        if instead is not None:
            raise UserError(f"{ctx.command_path} {args[0]} was removed", hint=instead)
        return super().parse_args(ctx, args)


def refuse_removed(group: click.Group, prefix: str) -> None:
    """Adds hidden commands to a group that is not extensible: each refuses a command of an earlier version."""
    for name in (name for name in REMOVED if name.startswith(prefix)):

        def refuse(name: str = name, **_: object) -> None:
            raise UserError(f"a2perf {name.replace('.', ' ')} was removed", hint=REMOVED[name])

        words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
        settings = {"ignore_unknown_options": True}
        word = name.removeprefix(prefix)
        group.add_command(click.Command(word, settings, refuse, [words], hidden=True, add_help_option=False))


def distributions(prefix: str = "") -> dict[str, dict[str, str]]:
    """Returns the summaries of the installed commands by distribution and by the name of the command."""
    found: dict[str, dict[str, str]] = {}
    for name, point in _points(prefix).items():
        try:
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
    """Imports a command.

    Raises:
        ConfigError: the distribution is of another version than the core, or broken.
    """
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
