"""``a2perf rlops import``: logs of other tools into the experiment store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a2perf.errors import UserError
from a2perf.submission.options import normalised


@click.command("import", context_settings=normalised())
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FOLDER_OR_FILE...")
@click.option("--format", "kind", metavar="NAME", help="tensorboard, csv, wandb or sb3. Default: all.")
@click.option("--exp-name", metavar="NAME", help="Name of the experiment. Default: from the run.")
@click.option("--env-id", metavar="ENV", help="The environment. Default: from the run.")
@click.option("--seed", type=int, help="The seed. Default: from the run.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag the runs; repeatable.")
@click.option("--store", metavar="DIR", help="Experiment store. Default: $A2PERF_STORE, otherwise ./runs.")
def import_command(paths: tuple[Path, ...], kind: str | None, tags: tuple[str, ...], **options: Any) -> int:
    """Copy recorded runs of other tools into the experiment store.

    Found are folders of TensorBoard event files, Stable-Baselines3 logs (progress.csv, monitor.csv), histories of
    Weights & Biases (history.jsonl with the rows of wandb.Api().run(...).scan_history(), and config.json), and CSV
    files with a column of steps, also of several runs that columns env_id, exp_name and seed tell apart. Importing a
    run again changes nothing.
    """
    from a2perf.rlops.store import Store
    from a2perf.rlops.tags import check_tag
    from a2perf.runs.foreign_logs import find_imports
    from a2perf.runs.importers import import_run
    from a2perf.runs.store import store_folder

    for tag in tags:
        check_tag(tag)
    store = Store(store_folder(options["store"]), create=True)
    found = find_imports(paths, kind)
    if options["seed"] is not None and len(found) > 1:
        raise UserError(f"--seed is for one run, {len(found)} were found", hint="import them one by one")
    problems: list[str] = []
    for item in found:
        try:
            done = import_run(
                store.path,
                item,
                experiment=options["exp_name"],
                env_id=options["env_id"],
                seed=options["seed"],
                tags=tags,
            )
        except UserError as error:
            problems.append(str(error))
            continue
        verb = "imported" if done.new else "already there"
        click.echo(f"{verb} ({done.source}, {done.metrics} metrics): {done.run_id}")
        for condition in done.conditions:
            click.echo(f"  ! {condition}")
    if problems:
        raise UserError(f"{len(problems)} of {len(found)} runs could not be imported:\n" + "\n".join(problems))
    return 0
