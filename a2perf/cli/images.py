"""``a2perf images``: lists, builds and removes the images of the docker launcher."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from a2perf.submission.options import normalised


@click.group(context_settings=normalised())
def images() -> None:
    """List, build and remove the images of the docker launcher."""


@images.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print records as JSON.")
def list_images(as_json: bool) -> int:
    """List images, newest first."""
    from a2perf.launch import images as store

    found = store.listed(store.connect()[1])
    if as_json:
        click.echo(json.dumps([asdict(image) for image in found], indent=2))
        return 0
    for image in found:
        mark = "in use by this checkout" if image.current else "outdated"
        click.echo(f"{image.name:<50}{image.size_bytes / 1e6:>8.0f} MB  {image.created[:19]}  {mark}")
    if not found:
        click.echo("no image was built on this engine")
    return 0


@images.command()
@click.argument("domain")
def build(domain: str) -> int:
    """Build the image of DOMAIN if it does not exist, and print its name."""
    from a2perf.domains.registry import get_domain
    from a2perf.launch import images as store

    click.echo(store.ensure(store.connect()[1], get_domain(domain).name))
    return 0


@images.command()
@click.option("--all", "everything", is_flag=True, help="Remove the images of this checkout too.")
def prune(everything: bool) -> int:
    """Remove outdated images."""
    from a2perf.launch import images as store

    gone = store.prune(store.connect()[1], everything=everything)
    for image in gone:
        click.echo(f"removed {image.name}")
    click.echo(f"{len(gone)} images removed")
    return 0
