"""``a2perf submit``: a whole protocol for one submission, into one folder with a score and a citation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from a2perf.cli.launch_options import LaunchOptions, launch_options
from a2perf.domains.registry import get_domain
from a2perf.errors import ConfigError
from a2perf.experiments.protocol_plan import RUN_OPTIONS, SubmitRequest
from a2perf.experiments.submit import SUMMARY, earlier_tasks, exit_code, submit, summary_text
from a2perf.metrics import protocol as protocols
from a2perf.metrics.protocol import Protocol, Track
from a2perf.submission.options import normalised
from a2perf.submission.run_options import RunOptions, run_options


@click.command(name="submit", context_settings=normalised())
@click.argument("submission", type=click.Path(path_type=Path), metavar="SUBMISSION")
@click.option(
    "-o", "--output", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR",
    help="Folder of everything: bundles, protocol.json, summary.md.",
)  # fmt: skip
@click.option("--protocol", "name", default=protocols.LATEST, show_default=True, help="Version of the protocol.")
@click.option("--task", "tasks", multiple=True, metavar="T", help="Only this task; repeatable.")
@click.option("--domain", metavar="NAME", help="Only the core tasks of this domain.")
@click.option(
    "--track", type=click.Choice(get_args(Track)), default="open", show_default=True,
    help="Budget of a training: environment steps, energy, or none.",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="A reduced protocol for trying things out; marked as not rankable.")
@click.option("--generalization/--no-generalization", default=True, show_default=True)
@click.option("--participant-args", default="", metavar="K=V,...", help="Passed to train() and load_policy().")
@click.option("--gin-bindings", multiple=True, metavar="BINDING", help="For every run; makes it not rankable.")
@run_options(
    *RUN_OPTIONS,
    public_seeds={"help": "Evaluate on the episodes of the protocol's rule, which the submission can know; recorded."},
)
@launch_options(
    "launcher", "launcher_option", "workers", "retry_infrastructure",
    workers={"help": "Runs at the same time; more than one disturb each other's times and energies."},
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print protocol.json.")
def submit_command(
    submission: Path, folder: Path, name: str, tasks: tuple[str, ...], domain: str | None,
    gin_bindings: tuple[str, ...], as_json: bool, **given: Any,
) -> int:  # fmt: skip
    """Run a whole protocol: every task and seed is trained, evaluated, and scored against the stored references.

    Without --task and --domain these are all core tasks. The same command again resumes where it stopped; further
    tasks may join a folder later. A failed run stays failed and is counted.

    Exit status: 0 all runs finished, 1 the submission failed one, 2 usage or configuration, 3 infrastructure,
    130 interrupted.
    """
    found = protocols.load(name)
    wanted = {*_tasks(found, tasks, domain), *earlier_tasks(folder)}
    launch = LaunchOptions.taken_from(given)
    request = SubmitRequest(
        submission=submission.expanduser(),
        protocol=found,
        tasks=tuple(task for task in found.tasks if task in wanted),
        bindings=gin_bindings,
        options=RunOptions.taken_from(given),
        **given,
    )
    with launch.conductor(live=not as_json) as conductor:
        record, summary = submit(request, folder, conductor, restart=launch.restart())
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(record), indent=2).decode())
    else:
        click.echo(summary_text(record), nl=False)
        click.echo(f"\n{folder / SUMMARY}; report: a2perf report {folder} -o {folder / 'report'}")
    return exit_code(record, summary)


def _tasks(found: Protocol, tasks: tuple[str, ...], domain: str | None) -> list[str]:
    if tasks and domain is not None:
        raise ConfigError("--task and --domain are both given", hint="give one of them")
    if tasks:
        return [found.task(task).name for task in tasks]
    core = found.core_tasks()
    if domain is not None:
        only = get_domain(domain).name
        core = [task for task in core if task.domain == only]
        if not core:
            raise ConfigError(f"protocol {found.name} has no core task of {only}", hint="name tasks with --task")
    return [task.name for task in core]
