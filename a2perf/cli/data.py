"""``a2perf data``: the files that are fetched rather than shipped, and each domain's own data commands."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import click

from a2perf import assets
from a2perf.assets import Asset
from a2perf.domains.registry import domains
from a2perf.errors import AssetUnavailable, ConfigError, did_you_mean
from a2perf.submission.options import normalised


class _DataGroup(click.Group):
    """The group below plus, under its own word, every command group that a domain names in ``data_commands``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *_domain_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in _domain_commands():
            return own
        module, _, attribute = _domain_commands()[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


def _domain_commands() -> dict[str, str]:
    return {word: reference for domain in domains().values() for word, reference in domain.data_commands.items()}


@click.group(cls=_DataGroup, context_settings=normalised())
def data() -> None:
    """Fetch, list and show data.

    Files are looked for in A2PERF_DATA_DIR, then in the cache (A2PERF_CACHE_DIR), and come from the
    package index or a public repository.
    """


@data.command(context_settings=normalised())
@click.argument("names", nargs=-1, metavar="[DOMAIN_OR_FILE]...")
@click.option("--quiet", is_flag=True, help="Say nothing when everything is here already.")
def fetch(names: tuple[str, ...], quiet: bool) -> int:
    """Fetch the files of domains, or single files; all of them when nothing is named."""
    wanted = _chosen(names)
    missing = [asset for asset in wanted if assets.locate(asset) is None]
    if not missing:
        if not quiet:
            click.echo(f"all {len(wanted)} files are here")
        return 0
    click.echo(f"fetching {len(missing)} files")
    assets.fetch_all(missing, progress=lambda asset, path: click.echo(f"  {asset.name}"))
    for terms in dict.fromkeys(asset.licence for asset in missing):
        click.echo(f"terms: {terms}")
    return 0


@data.command(name="list", context_settings=normalised())
@click.argument("names", nargs=-1, metavar="[DOMAIN_OR_FILE]...")
@click.option("--json", "as_json", is_flag=True, help="Print records as JSON.")
def list_files(names: tuple[str, ...], as_json: bool) -> int:
    """Show every file: whether it is here, what it is, and its terms."""
    wanted = _chosen(names)
    rows = [(asset, *_where(asset)) for asset in wanted]
    if as_json:
        records = [
            {
                "name": asset.name,
                "path": str(path) if path else None,
                "problem": problem,
                "sha256": asset.sha256,
                "licence": asset.licence,
                "summary": asset.summary,
            }
            for asset, path, problem in rows
        ]
        click.echo(json.dumps(records, indent=2))
        return 0
    width = max((len(asset.name) for asset in wanted), default=0)
    for asset, path, problem in rows:
        state = "here" if path else "WRONG CHECKSUM" if problem else "not here"
        click.echo(f"{asset.name:<{width}}  {state:<8}  {asset.summary} [{asset.licence}]")
    return 0


@data.command(context_settings=normalised())
@click.argument("name", required=False, metavar="[FILE]")
def path(name: str | None) -> int:
    """Print where a file lies, or the folder of the cache when none is named. Exit status 2 when it is not here."""
    if name is None:
        click.echo(str(assets.cache_dir() / "assets"))
        return 0
    (asset,) = _chosen([name])[:1]
    found = assets.locate(asset)
    if found is None:
        raise ConfigError(f"{asset.name} is not on this host", hint=f"a2perf data fetch {asset.name}")
    click.echo(str(found))
    return 0


def _chosen(names: tuple[str, ...] | list[str]) -> list[Asset]:
    """Returns the assets of the named domains and files, in the order of the domains."""
    every = {asset.name: (domain.name, asset) for domain in domains().values() for asset in domain.assets}
    for name in names:
        if name not in every and name not in domains():
            known = [*domains(), *every]
            raise ConfigError(
                f"{name!r} is neither a domain nor a file{did_you_mean(name, known)}",
                hint="`a2perf data list` shows every file",
            )
    return [asset for owner, asset in every.values() if not names or owner in names or asset.name in names]


def _where(asset: Asset) -> tuple[Path | None, str | None]:
    try:
        return assets.locate(asset), None
    except AssetUnavailable as error:
        return None, error.message
