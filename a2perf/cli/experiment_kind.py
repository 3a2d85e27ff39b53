"""``a2perf experiment``: runs a kind of experiment that an installed package adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a2perf.cli.experiment import run_specs
from a2perf.cli.launch_options import LaunchOptions, launch_options
from a2perf.errors import ConfigError
from a2perf.experiments.kinds import kind_names, plan_kind
from a2perf.submission.options import normalised


@click.command(name="experiment", context_settings=normalised())
@click.argument("kind", required=False, metavar="[KIND]")
@click.option("--root-dir", type=click.Path(path_type=Path), metavar="DIR",
              help="Folder of the experiment; default: runs/KIND.")  # fmt: skip
@click.option("-o", "--option", "given", multiple=True, metavar="K=V", help="Option of the kind, repeatable.")
@launch_options("workers", "launcher", "launcher_option", "force", "retry_failed", "retry_infrastructure")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def experiment(kind: str | None, root_dir: Path | None, given: tuple[str, ...], as_json: bool, **options: Any) -> int:
    r"""Run a kind of experiment from an installed package; without KIND, list the kinds.

    Run the same command again to resume it.

    \b
    Example:
      a2perf experiment sweep -o submission=my_agent -o values=1:3 --workers 2

    Exit status: 0 all runs finished, 1 some failed, 3 infrastructure, 130 interrupted.
    """
    if kind is None:
        names = kind_names()
        click.echo("\n".join(names) if names else "no installed package has a kind of experiment (a2perf.experiments)")
        return 0
    root = (root_dir or Path("runs") / kind).expanduser().absolute()
    specs = plan_kind(kind, root, _parsed(given))
    return run_specs(specs, root, LaunchOptions.taken_from(options), json_output=as_json)


def _parsed(given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier():
            raise ConfigError(f"-o {text!r} is not K=V", hint="write -o NAME=VALUE")
        if name in found:
            raise ConfigError(f"the option {name!r} is given twice", hint="give each option once")
        found[name] = value
    return found
