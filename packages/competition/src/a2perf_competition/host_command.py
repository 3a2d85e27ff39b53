"""``a2perf host``: run a competition from a folder, for weeks."""

from __future__ import annotations

from pathlib import Path

import click

from a2perf.errors import UserError
from a2perf.submission.options import normalised

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


class _RunByDefault(click.Group):
    """A group that runs ``run`` if the first word is not one of its commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


@click.group(cls=_RunByDefault, context_settings=normalised())
def host() -> None:
    """Host a competition: take entries from a mailbox, run them, and write their pages.

    `a2perf host FOLDER` is short for `a2perf host run FOLDER`.
    """


@host.command(context_settings=normalised())
@click.argument("folder", type=_FOLDER, metavar="FOLDER")
@click.option("--once", is_flag=True, help="End when every entry is settled or waits for a later time.")
def run(folder: Path, once: bool) -> int:
    """Work until a signal. FOLDER/cup is a competition, FOLDER/host.toml holds the settings.

    Entrants move folders or archives to FOLDER/inbox/ENTRANT/. FOLDER/site holds the pages for a web server. Started
    again after any interruption, the command continues.
    """
    from a2perf_competition.host import supervise

    return supervise(folder.resolve(), once=once)


@host.command(context_settings=normalised())
@click.argument("folder", type=_FOLDER, metavar="FOLDER")
@click.argument("what", type=click.Choice(["rerun", "withdraw"]))
@click.argument("entry", metavar="ENTRY")
@click.option("--reason", required=True, metavar="TEXT", help="For the history of the entry.")
def order(folder: Path, what: str, entry: str, reason: str) -> int:
    """Run a settled entry again, or withdraw one. The host obeys in its next turn."""
    from a2perf_competition.host import write_order

    write_order(folder, entry, what, reason)
    return 0


@host.command(context_settings=normalised())
@click.argument("bundle", type=_FOLDER, metavar="BUNDLE")
def check(bundle: Path) -> int:
    """List tasks, image and score of a Codabench or EvalAI bundle, and what of it is not supported."""
    from a2perf_competition.bundles import read_bundle

    found = read_bundle(bundle)
    for task in found.tasks:
        click.echo(f"task: {task.phase}, {task.name}: {', '.join(task.parts)}")
    click.echo(f"image: {found.image or 'none'}")
    click.echo(f"score: {found.metric or 'none'}, {'smaller' if found.ascending else 'larger'} is better")
    for note in found.notes:
        click.echo(f"not supported: {note}")
    return 0


@host.command(context_settings=normalised())
@click.argument("bundle", type=_FOLDER, metavar="BUNDLE")
@click.argument("submission", type=_FOLDER, metavar="SUBMISSION")
@click.option(
    "-o", "--output", "out", required=True, type=click.Path(path_type=Path), help="Folder of logs and scores."
)
@click.option("--python", type=click.Path(exists=True, path_type=Path), help="Interpreter instead of the image.")
def score(bundle: Path, submission: Path, out: Path, python: Path | None) -> int:
    """Evaluate a submission on every task of a bundle, confined. Exit status 1 if a task gave no scores."""
    from a2perf_competition.bundles import evaluate, python_of, read_bundle

    found = read_bundle(bundle)
    interpreter = python or python_of(found)
    status = 0
    for number, task in enumerate(found.tasks):
        try:
            scores = evaluate(task, submission.resolve(), (out / str(number)).resolve(), interpreter)
            click.echo(f"{task.phase}, {task.name}: {', '.join(f'{key} {value:.6g}' for key, value in scores.items())}")
        except UserError as error:
            status = 1
            click.echo(f"{task.phase}, {task.name}: failed: {error.message}")
    return status


_FILE = click.Path(exists=True, path_type=Path)


@host.command(context_settings=normalised())
@click.argument("archive", type=click.Path(file_okay=False, path_type=Path), metavar="ARCHIVE")
@click.argument("runs", nargs=-1, required=True, type=_FILE, metavar="RUN...")
@click.option(
    "--submission", "submissions", multiple=True, type=_FOLDER, help="Folder that the runs executed; repeatable."
)
def archive(archive: Path, runs: tuple[Path, ...], submissions: tuple[Path, ...]) -> int:
    """Pack finished runs into an archive, a git repository with a chain of hashes."""
    from a2perf_competition.archive import add

    for row in add(archive.resolve(), runs, submissions):
        click.echo(f"{row.path}: {row.text}")
    return 0


@host.command(context_settings=normalised())
@click.argument("archive", type=_FOLDER, metavar="ARCHIVE")
@click.option("--share", default="10%", show_default=True, metavar="SIZE", help="How many to draw: 10%, or a number.")
@click.option("--key", type=_FILE, metavar="FILE", help="Private key that signs the verdicts.")
@click.option("--head", default="", metavar="HASH", help="Last line of the chain that you noted earlier.")
@click.option(
    "-o", "--output", "out", required=True, type=click.Path(path_type=Path), help="Folder of the repetitions."
)
def confirm(archive: Path, share: str, key: Path | None, head: str, out: Path) -> int:
    """Repeat a drawn share of an archive and append the verdicts. Exit status 1 if a row is false or damaged."""
    from a2perf_competition.archive import confirm as repeat
    from a2perf_competition.archive import heads

    found, problems = repeat(archive.resolve(), share, key, out.resolve(), head=head)
    for path, problem in problems.items():
        click.echo(f"{path}: {problem}")
    if found is not None:
        click.echo(str(found))
    click.echo(f"head: {heads(archive.resolve())[-1]}")
    is_false = found is not None and not {"REFUTED", "REFUSED"}.isdisjoint(found.counts)
    return 1 if problems or is_false else 0


@host.command(context_settings=normalised())
@click.argument("archive", type=_FOLDER, metavar="ARCHIVE")
@click.option("--trusted-keys", required=True, type=_FILE, help="Public keys; verdicts of others do not count.")
@click.option("-o", "--output", "out", required=True, type=click.Path(path_type=Path), help="Folder to write.")
def board(archive: Path, trusted_keys: Path, out: Path) -> int:
    """Write the leaderboard of an archive, with who repeated which row, and when."""
    from a2perf_competition.archive import board as write

    click.echo(write(archive.resolve(), out, trusted_keys))
    return 0
