"""``a2perf protocol``: the rules and reference scores of a protocol, task by task."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
import msgspec

from a2perf.metrics import protocol as protocols
from a2perf.metrics.protocol import Protocol, ProtocolTask, Reference
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.argument("name", default=protocols.LATEST)
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
def protocol(name: str, tasks: tuple[str, ...], as_json: bool) -> int:
    """Show a protocol: budgets, seeds, evaluation, and the reference scores that normalise returns.

    NAME is the version; default: v2. TASK restricts the output to these tasks. `a2perf submit` runs a protocol.
    """
    found = protocols.load(name)
    chosen = [found.task(task) for task in tasks] or list(found.tasks.values())
    if as_json:
        document = msgspec.to_builtins(msgspec.structs.replace(found, tasks={task.name: task for task in chosen}))
        click.echo(json.dumps({**document, "sha256": protocols.sha256(name)}, indent=2))
        return 0
    if not tasks:
        _say_protocol(found, protocols.sha256(name))
    for task in chosen:
        _say_task(task, found.views_of(task.name), in_full=bool(tasks))
    if not tasks:
        click.echo(f"\na2perf protocol {name} {chosen[0].name} shows how the references of a task were measured")
    return 0


def _say_protocol(found: Protocol, digest: str) -> None:
    click.secho(f"protocol {found.name} (sha256 {digest[:12]}), frozen", bold=True)
    click.echo(click.wrap_text(found.summary, width=100))
    for track, words in found.tracks.items():
        click.echo(_indented(f"track {track}: {words}"))
    quick = found.quick
    click.echo(
        _indented(
            f"--quick: {quick.seeds} seeds, {quick.episodes} episodes, "
            f"{quick.train_time_limit_s:g} s of training; not rankable"
        )
    )
    for domain, generalization in found.generalization.items():
        click.echo(
            _indented(
                f"generalization of {domain}: trained on {generalization.trained_on}, {generalization.episodes} "
                f"episodes on each of {', '.join(generalization.tasks)}"
            )
        )


def _indented(text: str) -> str:
    return click.wrap_text(text, width=100, initial_indent="  ", subsequent_indent="    ")


def _say_task(task: ProtocolTask, views: Sequence[str], *, in_full: bool) -> None:
    click.echo()
    click.secho(f"{task.name}" + ("" if task.core else "  (not in the overall score)"), bold=True)
    kwargs = ", ".join(f"{key}={value!r}" for key, value in task.env_kwargs.items())
    click.echo(f"  {task.env_id}" + (f" with {kwargs}" if kwargs else "") + f", fingerprint {task.fingerprint[:12]}")
    if views:
        click.echo(f"  the same task in another view: {', '.join(views)}")
    budget, evaluation = task.budget, task.evaluation
    seeds = ", ".join(map(str, task.training_seeds))
    click.echo(f"  training: seeds {seeds}; at most {budget.steps:,} steps or {budget.energy_kwh:g} kWh")
    click.echo(f"  evaluation: {evaluation.episodes} episodes per seed, after {evaluation.warmup_calls} warm-up calls")
    for kind in ("random", "floor", "expert"):
        if kind == "floor" and kind not in task.references:
            continue
        reference = task.references.get(kind)
        click.echo(f"  {kind:6}  " + ("no stored score" if reference is None else _score(reference)))
        if reference is not None and in_full:
            click.echo(f"          {reference.policy}; seeds {', '.join(map(str, reference.seeds))}")
            click.echo(f"          {reference.command}")
    if in_full:
        for name, trivial in task.trivial.items():
            click.echo(
                f"  trivial: {name} {trivial.mean:.4g} [{trivial.low:.4g}, {trivial.high:.4g}], {trivial.n} episodes"
            )
        click.echo(f"  budget: {budget.reason}")
        if task.train_kwargs:
            click.echo(f"  while training: {', '.join(f'{key}={value!r}' for key, value in task.train_kwargs.items())}")
        click.echo(f"  seeds of the episodes: {evaluation.seeds} (sha256 {evaluation.seeds_sha256[:12]})")
    if task.has_references():
        levels = ", ".join(f"{level:g} = a return of {task.threshold_return(level):.4g}" for level in task.thresholds)
        click.echo(f"  thresholds: {levels}")


def _score(reference: Reference) -> str:
    if reference.exact:
        return f"{reference.mean:.4g} (exact)"
    return f"{reference.mean:.4g} [{reference.low:.4g}, {reference.high:.4g}], {reference.n} {reference.of}"
