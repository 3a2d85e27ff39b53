"""``a2perf images``: lists, builds and removes the images of the docker launcher."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from a2perf.cli.extensible import LeafCommand
from a2perf.submission.options import normalised


@click.command(cls=LeafCommand, context_settings=normalised())
@click.option("--build", metavar="DOMAIN", help="Build the image of DOMAIN if it does not exist, and print its name.")
@click.option(
    "--prune", type=click.Choice(("outdated", "all")),
    help="Remove images: those of older content, or those of this checkout too.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the images as JSON.")
def images(build: str | None, prune: str | None, as_json: bool) -> int:
    """List the images of the docker launcher, newest first; with an option, build or remove them."""
    from a2perf.domains.registry import get_domain
    from a2perf.launch import images as store

    if build is not None and prune is not None:
        raise click.UsageError("--build and --prune exclude each other")
    if build is not None:
        domain = get_domain(build).name
        click.echo(store.ensure(store.connect()[1], domain))
        return 0
    client = store.connect()[1]
    found = store.listed(client) if prune is None else store.prune(client, everything=prune == "all")
    if as_json:
        click.echo(json.dumps([asdict(image) for image in found], indent=2))
        return 0
    for image in found:
        mark = "removed" if prune else "in use by this checkout" if image.current else "outdated"
        click.echo(f"{image.name:<50}{image.size_bytes / 1e6:>8.0f} MB  {image.created[:19]}  {mark}")
    if prune is not None:
        click.echo(f"{len(found)} images removed")
    elif not found:
        click.echo("no image was built on this engine")
    return 0
