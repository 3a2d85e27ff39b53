"""``a2perf python-env``: lists and prunes the environments that were made for submissions."""

from __future__ import annotations

import json
import re
import time

import click

from a2perf.errors import ConfigError
from a2perf.submission.evaluator.python_env.environments import (
    Listed,
    as_json,
    delete_environment,
    folder_of_environments,
    list_environments,
)
from a2perf.submission.options import normalised

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@click.group(name="python-env", context_settings=normalised())
def python_env() -> None:
    """List and prune the environments that were made for submissions.

    A run with `--python-env isolated` makes one of the submission's requirements.txt and uses it again as long as
    nothing that it is made of changes.
    """


@python_env.command(name="list", context_settings=normalised())
@click.option("--json", "json_wanted", is_flag=True, help="Print records as JSON.")
def list_command(json_wanted: bool) -> int:
    """Show every environment: key, size, last use, and what it was made of."""
    found = list_environments()
    if json_wanted:
        click.echo(json.dumps(as_json(found), indent=2))
        return 0
    if not found:
        click.echo(f"no environments in {folder_of_environments()}")
        return 0
    for one in found:
        click.echo(_line(one))
    total = sum(one.size_bytes for one in found)
    click.echo(f"{len(found)} environments, {_size(total)}, in {folder_of_environments()}")
    return 0


@python_env.command(context_settings=normalised())
@click.option("--older-than", metavar="AGE", help="Those not used for that long: 12h, 30d, 4w.")
@click.option("--all", "every", is_flag=True, help="All of them.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "json_wanted", is_flag=True, help="Print what was deleted as JSON; needs --yes.")
def prune(older_than: str | None, every: bool, yes: bool, json_wanted: bool) -> int:
    """Delete environments; one that a process uses stays.

    What interrupted builds left always goes. Without --older-than or --all nothing else does.
    """
    if json_wanted and not yes:
        raise ConfigError("--json cannot ask before it deletes", hint="add --yes")
    limit = None if older_than is None else time.time() - _age_s(older_than)
    chosen = [
        one for one in list_environments() if one.stamp is None or every or (limit is not None and one.last_use < limit)
    ]
    if chosen and not yes:
        for one in chosen:
            click.echo(_line(one))
        click.confirm(f"delete {len(chosen)} environments?", abort=True)
    deleted = [one for one in chosen if not one.in_use and delete_environment(one.path)]
    if json_wanted:
        click.echo(json.dumps(as_json(deleted), indent=2))
        return 0
    freed = sum(one.size_bytes for one in deleted)
    kept = len(chosen) - len(deleted)
    click.echo(f"deleted {len(deleted)}, {_size(freed)} freed" + (f"; {kept} in use stay" if kept else ""))
    return 0


def _age_s(given: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", given.strip())
    if found is None:
        raise ConfigError(f"--older-than {given!r} is not an age", hint="write a number and a unit: 12h, 30d, 4w")
    return float(found[1]) * _UNITS_S[found[2]]


def _line(one: Listed) -> str:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.last_use))
    state = "in use" if one.in_use else "" if one.stamp else "incomplete"
    if one.stamp is None:
        return f"{one.path.name:<32.32}  {_size(one.size_bytes):>8}  {used}  {state}"
    asked = one.stamp.made_of.get("requirements", [])
    wanted = ", ".join(str(word) for word in asked) if isinstance(asked, list) else ""
    return f"{one.stamp.key:<20}  {_size(one.size_bytes):>8}  {used}  {state:<10}  {wanted or 'nothing of its own'}"


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
