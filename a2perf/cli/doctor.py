"""``a2perf doctor``: what this host can do, what is missing, and how to install it."""

from __future__ import annotations

import json
import platform
import shutil
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path

import click

from a2perf import assets
from a2perf._version import __version__
from a2perf.api import host_probes
from a2perf.api.host_probes import Finding
from a2perf.errors import install_hint
from a2perf.submission.options import normalised
from a2perf.terminal import styled

_NAME_WIDTH = 32
_WIDEST = 100


@click.command(context_settings=normalised())
@click.option("--missing", is_flag=True, help="Show only what is missing, one line each.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def doctor(missing: bool, as_json: bool) -> int:
    """Show what this machine supports and what is missing. Always exits with 0.

    \b
    Examples:
      a2perf doctor             what is ready, what is missing and how to install it
      a2perf doctor --missing   the short form
    """  # noqa: D301
    findings = host_probes.every_finding()
    if as_json:
        report = {
            "host": _host(),
            "support": [asdict(row) for row in host_probes.support_here()],
            "matrix": [asdict(row) for row in host_probes.support_matrix()],
            "findings": [asdict(finding) for finding in findings],
        }
        click.echo(json.dumps(report, indent=2))
        return 0
    if missing:
        _print_short([finding for finding in findings if not finding.present])
    else:
        _print(_host(), findings)
    ready = [finding.name for finding in findings if finding.section == "domains" and finding.detail == "installed"]
    # in a checkout the program is in a virtual environment that may not be active; make finds it
    demo = "make demo" if Path("Makefile").is_file() and Path("a2perf/cli/demo.py").is_file() else "a2perf demo"
    click.echo(
        f"ready: {', '.join(ready)}; next: {demo}" if ready else f"ready: no domain; next: {install_hint('all')}"
    )
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
        "virtualisation": described.virtualization or "none detected",
        "cache": str(assets.cache_dir()),
        "data folder": str(assets.data_dir() or f"{assets.DATA_DIR_VARIABLE} is not set"),
    }


def _print(host: dict[str, str], findings: list[Finding]) -> None:
    click.echo("Machine")
    for name, value in host.items():
        _entry(f"  {name:<16}", value)
    rows = list(host_probes.support_here())
    tested = [row.part for row in rows if row.status == "tested"]
    _entry("  tested here     ", ", ".join(tested) or "nothing; `a2perf doctor --json` lists what is tested where")
    for row in rows:
        if row.status != "tested":
            _entry(f"  {row.status:<16}", f"{row.part}: {row.note}")
    click.echo("\nReady")
    section = ""
    for finding in (finding for finding in findings if finding.present):
        if finding.section != section:
            section = finding.section
            click.echo(f" {section}")
        _mark("✓", "+", fg="green")
        _named(finding)
    missing = [finding for finding in findings if not finding.present]
    click.echo("\nMissing, all optional" if missing else "\nNothing is missing")
    for finding in missing:
        _mark("✗", "-", fg="yellow")
        _named(finding)
        if finding.purpose:
            _entry("    For: ", finding.purpose)
        if finding.hint:
            _entry("    Hint: ", finding.hint)
    click.echo()


def _print_short(missing: list[Finding]) -> None:
    if missing:
        click.echo("missing, all optional (`a2perf doctor` explains them):")
    for finding in missing:
        _entry(f"  {finding.name}: ", finding.hint or f"not available on this machine ({finding.detail})")


def _mark(mark: str, ascii_mark: str, **style: str) -> None:
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    click.echo("  ", nl=False)
    styled(mark if encoding.startswith("utf") else ascii_mark, **style)


def _named(finding: Finding) -> None:
    """Prints name and detail behind a mark; a detail that does not fit beside the name stands below it."""
    label = f" {finding.name:<{_NAME_WIDTH}} "
    if 3 + len(label) + len(finding.detail) <= _width():
        click.echo(label + finding.detail)
    else:
        click.echo(label.rstrip())
        _entry("    ", finding.detail)


def _entry(label: str, text: str) -> None:
    """Prints a label and a text, wrapped between words; further lines start below the text."""
    width, below = max(_width(), len(label) + 20), " " * len(label)
    wrapped = textwrap.fill(text, width, initial_indent=label, subsequent_indent=below, break_on_hyphens=False)
    click.echo(wrapped or label)


def _width() -> int:
    return min(shutil.get_terminal_size().columns, _WIDEST)
