"""``a2perf python-env``: lists and deletes the Python environments of submissions."""

from __future__ import annotations

import json
import time

import click

from a2perf.cli.shared_options import size_text
from a2perf.errors import ConfigError
from a2perf.submission.evaluator.python_env.environments import (
    Listed,
    as_json,
    delete_environment,
    folder_of_environments,
    list_environments,
    prunable_environments,
)
from a2perf.submission.options import UnitOption, normalised

_AGE = UnitOption(
    "--prune",
    {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400},
    "leftovers, all, or a number and a unit: 12h, 30d, 4w",
)


@click.command(name="python-env", context_settings=normalised())
@click.option(
    "--prune",
    metavar="leftovers|all|AGE",
    help="Delete environments that no process uses: leftovers of interrupted builds; and all, or those not used for "
    "this time, such as 12h, 30d, 4w.",
)
@click.option("--yes", is_flag=True, help="Delete without asking for confirmation.")
@click.option("--json", "json_wanted", is_flag=True, help="Print the environments as JSON; with --prune the deleted.")
def python_env(prune: str | None, yes: bool, json_wanted: bool) -> int:
    """List or delete the Python environments of submissions.

    A run with `--python-env isolated` installs the submission's requirements.txt into an environment. Later runs with
    the same requirements use it again.
    """
    if prune is not None:
        return _prune(prune, yes, json_wanted)
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
    click.echo(f"{len(found)} environments, {size_text(total)}, in {folder_of_environments()}")
    return 0


def _prune(which: str, yes: bool, json_wanted: bool) -> int:
    if json_wanted and not yes:
        raise ConfigError("--json cannot ask before it deletes", hint="add --yes")
    age_s = None if which in ("leftovers", "all") else _AGE.convert(which, None, None)
    chosen = prunable_environments(age_s, every=which == "all")
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
    click.echo(f"deleted {len(deleted)}, {size_text(freed)} freed" + (f"; {kept} in use stay" if kept else ""))
    return 0


def _line(one: Listed) -> str:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.last_use))
    state = "in use" if one.in_use else "" if one.stamp else "incomplete"
    if one.stamp is None:
        return f"{one.path.name:<32.32}  {size_text(one.size_bytes):>8}  {used}  {state}"
    asked = one.stamp.made_of.get("requirements", [])
    wanted = ", ".join(str(word) for word in asked) if isinstance(asked, list) else ""
    return f"{one.stamp.key:<20}  {size_text(one.size_bytes):>8}  {used}  {state:<10}  {wanted or 'no requirements'}"
