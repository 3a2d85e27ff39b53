"""``a2perf doctor``: what this host can do, what is missing, and how to install it."""

from __future__ import annotations

import json
import platform
import sys
import textwrap
from dataclasses import asdict

import click

from a2perf import assets
from a2perf._version import __version__
from a2perf.cli import host_probes
from a2perf.cli.finding import Finding
from a2perf.submission.options import normalised
from a2perf.terminal import styled

_WIDTH = 100


@click.command(context_settings=normalised())
@click.option("--missing", is_flag=True, help="Name only what is missing, in one line each.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def doctor(missing: bool, as_json: bool) -> int:
    """Say what this host can do and what it lacks. The exit status is 0 whatever is found."""
    findings = host_probes.every_finding()
    if missing:
        absent = [finding for finding in findings if not finding.present]
        if absent:
            click.echo("optional parts that are missing here, and what they are for:")
        for finding in absent:
            hint = f" [{finding.hint}]" if finding.hint else ""
            click.echo(f"  {finding.name}: {finding.detail}; for {finding.purpose}{hint}")
        ready = [finding.name for finding in findings if finding.section == "domains" and finding.detail == "installed"]
        click.echo(f"ready: {', '.join(ready) or 'no domain'}")
        return 0
    host = _host()
    if as_json:
        report = {
            "host": host,
            "support": [asdict(row) for row in host_probes.support_here()],
            "matrix": [asdict(row) for row in host_probes.support_matrix()],
            "findings": [asdict(finding) for finding in findings],
        }
        click.echo(json.dumps(report, indent=2))
        return 0
    _print(host, findings)
    return 0


def _host() -> dict[str, str]:
    from a2perf.metrics.trackers.host import describe_host

    described = describe_host()
    memory = f"{described.memory_bytes / 2**30:.1f} GiB"
    return {
        "a2perf": f"{__version__} on {platform.python_implementation()} {platform.python_version()}",
        "interpreter": sys.executable,
        "system": described.os,
        "processor": f"{described.cpu_model}, {described.cpu_usable} of {described.cpu_count} usable",
        "memory": memory,
        "virtualisation": described.virtualization or "none seen",
        "cache": str(assets.cache_dir()),
        "data folder": str(assets.data_dir() or f"none ({assets.DATA_DIR_VARIABLE} is not set)"),
    }


def _print(host: dict[str, str], findings: list[Finding]) -> None:
    click.echo("host")
    for name, value in host.items():
        click.echo(f"  {name:<16}{value}")
    click.echo("support of this system, processor and Python")
    rows = list(host_probes.support_here())
    for row in rows:
        click.echo(f"  {row.part:<24}{row.status:<10}{row.note}")
    if not rows:
        click.echo("  not known; `a2perf doctor --json` shows the whole matrix")
    section = ""
    for finding in findings:
        if finding.section != section:
            section = finding.section
            click.echo(section)
        lines = textwrap.wrap(finding.detail, _WIDTH, break_on_hyphens=False) or [""]
        click.echo("  ", nl=False)
        styled("yes" if finding.present else "no ", fg="green" if finding.present else "yellow")
        click.echo(f" {finding.name:<36}{lines[0]}")
        for line in lines[1:]:
            click.echo(" " * 42 + line)
        if not finding.present:
            click.echo(f"      for {finding.purpose}" + (f"; hint: {finding.hint}" if finding.hint else ""))
