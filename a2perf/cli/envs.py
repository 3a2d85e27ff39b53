"""``a2perf envs``: the environments by id, without importing any of their dependencies."""

from __future__ import annotations

import importlib.util
import json

import click

from a2perf.domains.registry import Domain, domains
from a2perf.submission.options import normalised


@click.group(context_settings=normalised())
def envs() -> None:
    """List the environments."""


@envs.command(name="list", context_settings=normalised())
@click.option("--domain", "only", metavar="NAME", help="Of this domain alone.")
@click.option("--json", "as_json", is_flag=True, help="Print records as JSON.")
def list_environments(only: str | None, as_json: bool) -> int:
    """Show every registered id with its task, and whether what it needs is installed."""
    if only is not None:
        from a2perf.domains.registry import get_domain

        chosen = [get_domain(only)]
    else:
        chosen = list(domains().values())
    rows = [row for domain in chosen for row in _rows(domain)]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return 0
    width = max((len(row["id"]) for row in rows), default=0)
    for domain in chosen:
        missing = missing_modules(domain)
        needs = f"  (not installed: pip install 'a2perf[{domain.extra}]')" if missing else ""
        click.echo(f"{domain.title}{needs}")
        for row in rows:
            if row["domain"] == domain.name:
                click.echo(f"  {row['id']:<{width}}  {row['summary']}")
    return 0


def missing_modules(domain: Domain) -> list[str]:
    """Returns the modules that a domain needs and that are not installed; imports none of them."""
    return [name for name in domain.requires if importlib.util.find_spec(name) is None]


def _rows(domain: Domain) -> list[dict[str, str]]:
    """Returns one record per id; an environment that serves several tasks names them all."""
    rows = []
    for environment in domain.environments:
        tasks = ", ".join(task.name for task in domain.tasks if task.env_id == environment.id)
        for name in (environment.id, *environment.aliases):
            rows.append({"id": name, "domain": domain.name, "tasks": tasks, "summary": environment.summary})
    return rows
