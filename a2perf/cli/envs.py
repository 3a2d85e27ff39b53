"""``a2perf envs``: the environments by id, without importing any of their dependencies."""

from __future__ import annotations

import json

import click

from a2perf.domains.availability import needed_command
from a2perf.domains.registry import Domain, Environment, Task, domains
from a2perf.submission.options import normalised


@click.group(context_settings=normalised())
def envs() -> None:
    """List the environments."""


@envs.command(name="list", context_settings=normalised())
@click.option("--domain", "only", metavar="NAME", help="Show this domain only.")
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
    width = max((len(name) for domain in chosen for name in _names(domain)), default=0)
    for domain in chosen:
        click.echo(f"{domain.title} ({domain.name})")
        for environment in domain.environments:
            needed = needed_command(domain, environment) or environment.required_arguments
            click.echo(f"  {environment.id:<{width}}  {needed or 'ready'}")
            for task in _tasks(domain, environment):
                if not task.view_of:
                    click.echo(f"    {task.name:<{width - 2}}  {task.title or task.name}")
                for view in domain.views_of(task.name):
                    click.echo(f"      {view.name:<{width - 4}}  {view.title or view.name}")
        click.echo()
    click.echo("Tasks are indented below their environment, and views below their task. Use as")
    click.echo("  gymnasium.make(ENVIRONMENT)  or  a2perf run --domain DOMAIN --task TASK")
    return 0


def _tasks(domain: Domain, environment: Environment) -> list[Task]:
    return [task for task in domain.tasks if task.env_id == environment.id]


def _names(domain: Domain) -> list[str]:
    return [one.id for one in domain.environments] + [f"  {task.name}" for task in domain.tasks]


def _rows(domain: Domain) -> list[dict[str, str]]:
    """Returns one record per id; an environment that serves several tasks names them all."""
    rows = []
    for environment in domain.environments:
        tasks = ", ".join(task.name for task in _tasks(domain, environment))
        for name in (environment.id, *environment.aliases):
            rows.append({"id": name, "domain": domain.name, "tasks": tasks, "summary": environment.summary})
    return rows
