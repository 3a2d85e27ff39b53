"""``a2perf rlops``: compare versions, tag runs, import logs. Without a verb the words are those of ``compare``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from a2perf.cli.compare import compare_command
from a2perf.cli.shared_options import OLD_WANDB_OPTIONS, STORE, Words, WordsCommand, several
from a2perf.errors import UserError, command_line
from a2perf.submission.options import normalised

if TYPE_CHECKING:
    from a2perf.rlops.store import Store
    from a2perf.runs.run import Run

_QUESTION = "Are you sure you want to proceed? (y/n)"
_WHICH_RUNS = several(
    click.option("--source-tag", metavar="TAG", help="Select the runs with this tag."),
    click.option(
        "--filters",
        cls=Words,
        metavar="FILTER...",
        help="Restrict to runs matching any of these filters, e.g. 'ppo?tag=a'.",
    ),
    click.option("--env-ids", cls=Words, metavar="ENV...", help="Restrict to runs on these environments."),
    STORE,
)
_CHANGE = several(
    click.option("--reason", default="", metavar="TEXT", help="Reason, kept in the journal."),
    click.option("--yes", "-y", is_flag=True, help="Change without asking."),
)


@click.command("tags", cls=WordsCommand, context_settings=normalised())
@click.argument("action", type=click.Choice(("add", "remove", "list")))
@click.argument("tag", required=False)
@_WHICH_RUNS
@_CHANGE
def tags(action: Literal["add", "remove", "list"], tag: str | None, **options: Any) -> int:
    """Add a tag to runs, remove it, or list tags; `list TAG` shows every change of a tag.

    By convention `latest` marks the accepted version: after a merge, add it to the runs of the new source tag and
    remove it from those of the old one. Exit status: 0 done, 1 not confirmed, 2 an unknown tag or another wrong word.
    """
    if action == "list":
        return _list(tag, options)
    if tag is None:
        words = command_line("a2perf", "rlops", "tags", action)
        raise UserError(f"{action} changes one tag now", hint=f"{words} TAG --source-tag TAG")
    return _change(action, tag, options)


@click.command("rlops-tags", cls=WordsCommand, context_settings=normalised())
@click.option("--add", metavar="TAG", help="Add this tag to the runs.")
@click.option("--remove", metavar="TAG", help="Remove this tag from the runs.")
@click.option("--list", "list_tags", is_flag=True, help="List the tags.")
@click.option("--history", metavar="TAG", help="List every change of a tag.")
@_WHICH_RUNS
@_CHANGE
@OLD_WANDB_OPTIONS
def rlops_tags(**options: Any) -> int:
    """Add a tag to runs, remove it, or list tags: the earlier form of `a2perf rlops tags`.

    Exit status: 0 done, 1 not confirmed, 2 an unknown tag or another wrong word.
    """
    chosen = [name for name in ("add", "remove", "list_tags", "history") if options[name]]
    if len(chosen) != 1:
        raise UserError("give one of --add, --remove, --list and --history", hint="see a2perf rlops tags --help")
    if options["list_tags"] or options["history"]:
        return _list(options["history"], options)
    return _change("add" if options["add"] else "remove", options[chosen[0]], options)


def _list(tag: str | None, options: dict[str, Any]) -> int:
    store = _store(options)
    if tag is None:
        return _say_tags(store, _chosen(store, options))
    if _selecting(options):
        raise UserError("the changes of a tag are those of all runs", hint="give the tag alone, or leave it out")
    return _say_history(store, tag)


def _change(action: Literal["add", "remove"], tag: str, options: dict[str, Any]) -> int:
    from a2perf.rlops.tags import check_tag

    store = _store(options)
    check_tag(tag)
    if not _selecting(options):
        raise UserError(f"--{action} {tag} of which runs?", hint="give --source-tag TAG, --filters or --env-ids")
    runs = _chosen(store, options)
    assert runs is not None
    changed = [run.name for run in runs if (tag in run.record.tags) != (action == "add")]
    preposition = "to" if action == "add" else "from"
    click.echo(f"{action} {tag} {preposition} {len(changed)} of {len(runs)} run(s):")
    for run in runs:
        if run.name in changed:
            after = {*run.record.tags, tag} if action == "add" else {*run.record.tags} - {tag}
            click.echo(f"  {run.name} ({run.state}): {_listed(run.record.tags)} -> {_listed(after)}")
        else:
            click.echo(f"  {run.name} ({run.state}): {_listed(run.record.tags)}, as it is")
    if not changed:
        click.echo("nothing to change")
        return 0
    if not options["yes"] and not _confirmed():
        click.echo("nothing was changed")
        return 1
    store.tags.change(tag, changed, action=action, reason=options["reason"], source_tag=options["source_tag"])
    click.echo(f"{len(changed)} run(s) changed; {command_line('a2perf', 'rlops', 'tags', 'list', tag)} shows it")
    return 0


def _store(options: dict[str, Any]) -> Store:
    from a2perf.rlops.store import Store
    from a2perf.runs.stores.store import store_folder

    return Store(store_folder(options["store"]))


def _selecting(options: dict[str, Any]) -> bool:
    return bool(options["source_tag"] or options["filters"] or options["env_ids"])


def _chosen(store: Store, options: dict[str, Any]) -> list[Run] | None:
    """Returns the runs that the options select, in any state; None without a selecting option."""
    from a2perf.rlops.filters import RunQuery, parse_experiment

    if not _selecting(options):
        return None
    queries = [parse_experiment(word) for word in options["filters"]] or [RunQuery()]
    found: dict[str, Run] = {}
    for query in queries:
        tags = (*query.tags, options["source_tag"]) if options["source_tag"] else query.tags
        wanted = replace(query, tags=tags, env_ids=options["env_ids"] or None, states=())
        found.update({run.name: run for run in store.select(wanted)})
    return list(found.values())


def _say_tags(store: Store, chosen: list[Run] | None) -> int:
    runs = store.runs() if chosen is None else chosen
    counted = Counter(tag for run in runs for tag in run.record.tags)
    if not counted:
        click.echo(f"no tags in {store.path}")
        return 0
    width = max(len(tag) for tag in counted)
    for tag, count in sorted(counted.items()):
        where = sorted({run.record.experiment for run in runs if tag in run.record.tags})
        click.echo(f"{tag:<{width}}  {count:>5} run(s)  {', '.join(where)}")
    return 0


def _say_history(store: Store, tag: str) -> int:
    from a2perf.rlops.store import unknown_tag

    born, names = store.born_with(tag), list(store.tag_names())
    changes = store.tags.history(tag)
    if not changes and not born and tag not in names:
        raise unknown_tag(tag, names)
    if born:
        click.echo(f"{len(born)} run(s) were born with {tag}")
    for change in changes:
        source = f" by source tag {change.source_tag}" if change.source_tag else ""
        reason = f": {change.reason}" if change.reason else ""
        when = change.time.isoformat(timespec="seconds")
        verb = "added to" if change.action == "add" else "removed from"
        click.echo(f"{when}  {change.user}  {verb} {len(change.runs)} run(s){source}{reason}")
    return 0


def _confirmed() -> bool:
    try:
        answer = click.prompt(_QUESTION, prompt_suffix=": ")
    except click.Abort:  # no terminal, no answer
        click.echo("")
        return False
    return str(answer).strip().lower() in ("y", "yes")


def _listed(tags: Iterable[str]) -> str:
    return ", ".join(sorted(tags)) or "no tags"


@click.command("import", context_settings=normalised())
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FOLDER_OR_FILE...")
@click.option("--format", "kind", metavar="NAME", help="tensorboard, csv, wandb or sb3. Default: all.")
@click.option("--exp-name", "experiment", metavar="NAME", help="Name of the experiment. Default: from the run.")
@click.option("--env-id", metavar="ENV", help="The environment. Default: from the run.")
@click.option("--seed", type=int, help="The seed. Default: from the run.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag the runs; repeatable.")
@STORE
def import_command(paths: tuple[Path, ...], kind: str | None, store: str | None, **given: Any) -> int:
    """Copy recorded runs of other tools into the experiment store.

    Found are folders of TensorBoard event files, Stable-Baselines3 logs (progress.csv, monitor.csv), runs of Weights &
    Biases (run-ID.wandb, or history.jsonl with the rows of wandb.Api().run(...).scan_history(), and config.json), and
    CSV files with a column of steps, also of several runs that columns env_id, exp_name and seed tell apart. Importing
    a run again changes nothing.
    """
    from a2perf.rlops.store import Store
    from a2perf.rlops.tags import check_tag
    from a2perf.runs.stores.importing import find_imports, import_run
    from a2perf.runs.stores.store import store_folder

    for tag in given["tags"]:
        check_tag(tag)
    target = Store(store_folder(store), create=True)
    found = find_imports(paths, kind)
    if given["seed"] is not None and len(found) > 1:
        raise UserError(f"--seed is for one run, {len(found)} were found", hint="import them one by one")
    problems: list[str] = []
    for item in found:
        try:
            done = import_run(target.path, item, **given)
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


class _CompareByDefault(click.Group):
    """A group that runs ``compare`` if the command line begins with an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [str(compare_command.name), *args]
        return super().parse_args(ctx, args)


@click.group(cls=_CompareByDefault, commands=[compare_command, tags, import_command], context_settings=normalised())
def rlops() -> None:
    """Compare groups of runs and judge a change, tag runs, import logs of other tools.

    `a2perf rlops OPTIONS` is short for `a2perf rlops compare OPTIONS`.
    """
