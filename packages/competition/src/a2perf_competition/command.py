"""``a2perf competition``: create a competition, run the entries, publish and verify the results."""

from __future__ import annotations

import functools
import json
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_type_hints

import click
import msgspec

import a2perf_competition as competitions
from a2perf import terminal
from a2perf.cli.experiment import print_failures, runs_table
from a2perf.cli.launch_options import LaunchOptions, launch_options
from a2perf.cli.shared_options import TRUSTED_KEYS, is_given
from a2perf.domains.competition_profile import competition_profile
from a2perf.domains.registry import get_domain
from a2perf.errors import ConfigError
from a2perf.launch import QueueEntry
from a2perf.runs.bundles.files import kind_at
from a2perf.runs.packed.packed_archive import packed_top
from a2perf.stranger_files import Kind
from a2perf.submission.options import normalised
from a2perf.submission.run_options import run_options
from a2perf_competition import Checked, CompetitionTerms, Entrants, check_reveal, close, enter_all, read_entrants
from a2perf_competition.draw import nonce_sha256
from a2perf_competition.entrants import PYTHON_ENVS
from a2perf_competition.folder_check import NONCE
from a2perf_competition.records import ENTRANTS
from a2perf_competition.site import publish_site

_TERMS = (
    *(name for name in CompetitionTerms.__struct_fields__ if name.endswith(("_s", "_bytes", "_limit", "_steps"))),
    *("nonces_required", "sandbox"),
)
"""Terms that ``init --set`` changes."""
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group(context_settings=normalised())
def competition() -> None:
    """Create a competition, run the entries, and publish the results.

    Tasks and seeds stay secret until the end. Their hash is published before anyone enters, and anyone can verify
    afterwards that they did not change.
    """


@competition.command(context_settings=normalised())
@click.argument("folder", type=_FOLDER, metavar="DIR")
@click.option("--domain", metavar="NAME", help="Domain of the tasks. Required without --profile.")
@click.option(
    "--profile",
    metavar="NAME",
    help="Kind of competition with its own tasks, limits and guide, such as macro_placement.",
)
@click.option(
    "--set",
    "assigned",
    multiple=True,
    metavar="NAME=VALUE",
    help=f"A further term ({', '.join(_TERMS)}), or a setting of the profile. Repeatable.",
)
@click.option(
    "--design",
    "designs",
    multiple=True,
    metavar="PATHS",
    help="With a profile: a further public task from your own data; repeatable.",
)
@click.option(
    "--references/--no-references",
    default=True,
    show_default=True,
    help="With a profile: compute what its reference entries reach.",
)
@click.option(
    "--audit",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE",
    help="What `a2perf audit TASK --json` printed of the public task; sealed with the terms.",
)
@click.option("--task", "public_task", metavar="NAME", help="The public task. Default: the first of the domain.")
@click.option("--held-out", type=int, default=3, show_default=True, help="Number of secret tasks to generate.")
@click.option("--name", metavar="TEXT", help="Name of the competition. Default: the name of DIR.")
@click.option("--episodes", type=int, default=10, show_default=True, help="Scored episodes per run.")
@click.option("--seed", "seeds", type=int, multiple=True, help="Root seed of the runs; repeatable. Default: 0, 1, 2.")
@click.option("--train/--no-train", default=True, show_default=True, help="Run train() of each entry first.")
def init(
    folder: Path,
    domain: str | None,
    profile: str | None,
    assigned: tuple[str, ...],
    designs: tuple[str, ...],
    references: bool,
    audit: Path | None,
    public_task: str | None,
    name: str | None,
    seeds: tuple[int, ...],
    **rest: Any,
) -> int:
    """Generate the secret tasks and seeds, and print the hash to publish first.

    Hand out DIR/public to the participants. Keep DIR/private secret.
    """
    name = name or folder.resolve().name
    terms, settings = _assignments(assigned)
    audited = None if audit is None else audit.read_bytes()
    if profile is not None:
        for option, used in (("--domain", domain), ("--task", public_task)):
            if used is not None:
                raise ConfigError(f"{option} together with --profile", hint=f"leave out {option}: the profile has one")
        given = {**{key: value for key, value in rest.items() if is_given(key)}, **terms}
        if seeds:
            given["seeds"] = list(seeds)
        made = competitions.create_from_profile(
            folder,
            competition_profile(profile),
            name,
            terms=given,
            settings=settings,
            designs=designs,
            references=references,
            audit=audited,
            progress=functools.partial(click.echo, err=True),
        )
    else:
        if domain is None:
            raise ConfigError("--domain is missing", hint="give --domain NAME, or --profile macro_placement")
        if settings or designs:
            unknown = f"--set {next(iter(settings))}" if settings else "--design"
            hint = f"add --profile NAME; terms without one are {', '.join(_TERMS)}"
            raise ConfigError(f"{unknown} belongs to a profile", hint=hint)
        known = get_domain(domain)
        made = competitions.create(
            folder,
            CompetitionTerms(
                name=name,
                domain=known.name,
                public_task=public_task or known.tasks[0].name,
                seeds=list(seeds or (0, 1, 2)),
                **rest,
                **terms,
            ),
            audit=audited,
        )
    click.echo(f"public:     {made.public}  (hand it out)")
    click.echo(f"private:    {made.private}  (keep it secret: {made.terms.held_out} tasks, salt)")
    click.echo(f"commitment: {made.commitment.commitment}  (publish it before anyone enters)")
    return 0


@competition.command(context_settings=normalised())
@click.argument("folder", type=_FOLDER, metavar="DIR")
@click.option(
    "--submission",
    "submissions",
    multiple=True,
    required=True,
    type=_FOLDER,
    metavar="DIR",
    help="Folder of an entry; repeatable.",
)
@click.option(
    "--python-env",
    type=click.Choice(PYTHON_ENVS),
    default="auto",
    show_default=True,
    help="Separate environments: for all entries, none, or those that need other packages.",
)
@run_options(
    "sandbox",
    "allow_weaker",
    sandbox={"help": "Sandbox level. Default: the level in the terms."},
    allow_weaker={"help": "Run although this host cannot enforce every guarantee. The site shows it."},
)
@launch_options("launcher", "workers", "retry")
@click.option(
    "--nonce",
    "nonces",
    multiple=True,
    metavar="TEXT",
    help="A nonce that an entrant reveals, see `a2perf competition nonce`; repeatable.",
)
@click.option("--close-only", is_flag=True, help="Close the list of entries, print its hash and run nothing yet.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as JSON.")
def run(
    folder: Path, submissions: tuple[Path, ...], nonces: tuple[str, ...], close_only: bool, as_json: bool, **given: Any
) -> int:
    """Run the entries on the public and the secret tasks.

    The first run closes the list of entries and draws the seeds from it and from the nonces of its entrants. Publish
    the hash of the list before that, with --close-only; entrants reveal their nonces afterwards. Rerun the command to
    resume. An invalid folder counts as a failure of its entry and does not affect the others.

    Exit status: 0 all runs finished, 1 a run failed, 3 infrastructure failure, 130 interrupted.
    """
    made = competitions.load(folder)
    launch = LaunchOptions.taken_from(given)
    given["allow_weaker"] = bool(given["allow_weaker"])
    entrants = Entrants(submissions=submissions, **given)
    if close_only:
        enter_all(made, entrants)
        listed = close(made)
        for entrant in listed.all():
            state = f"refused: {entrant.refused}" if entrant.refused else entrant.sha256
            click.echo(f"{entrant.number:>4}  {entrant.place}  {state}")
        click.echo(f"entrants: {listed.sha256}  (publish it, with {made.public / ENTRANTS})")
        return 0
    with launch.conductor(live=not as_json) as conductor:
        result = competitions.run(made, entrants, conductor, nonces=nonces, restart=launch.restart())
    click.echo(f"entrants: {read_entrants(made).sha256}", err=True)
    _show(result.entries, as_json)
    return result.exit_code


@competition.command(context_settings=normalised())
@click.argument("entry", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="ENTRY")
def nonce(entry: Path) -> int:
    """Write the hash of a random nonce into the folder of an entry, and print the nonce.

    Keep it until the list of entries was published, then give it to the organizer and to everybody else: the seeds
    depend on it, so nobody can try lists of entries until the seeds suit them. An entry without its nonce is refused.
    """
    if (entry / NONCE).exists():
        raise ConfigError(f"{entry / NONCE} exists: another nonce is committed", hint="remove it first")
    text = secrets.token_hex(32)
    (entry / NONCE).write_text(f"{nonce_sha256(text)}\n")
    click.echo(text)
    return 0


@competition.command(context_settings=normalised())
@click.argument("folder", type=_FOLDER, metavar="DIR")
@click.option("-o", "--output", "out", required=True, type=_FOLDER, metavar="DIR", help="Folder of the site.")
@TRUSTED_KEYS
@click.option("--organizer", default="", metavar="TEXT", help="Name of the organizer, shown on the site.")
@click.option(
    "--commitment-url",
    default="",
    metavar="URL",
    help="Address at which the commitment was published before anyone entered; linked on the site.",
)
@click.option("--yes", is_flag=True, help="Do not ask before the secrets are revealed.")
@click.option("--despite-problems", is_flag=True, help="Publish although checks failed. The site lists the problems.")
def publish(folder: Path, out: Path, trusted_keys: Path | None, commitment_url: str, yes: bool, **given: Any) -> int:
    """Check every run, reveal the secrets, and write the site: winner, standings, proof, leaderboard, reports.

    This ends the competition: nobody can enter afterwards. If a check fails, the exit status is 1 and nothing is
    published unless --despite-problems is given.
    """
    from a2perf.api.pages import show_line
    from a2perf.report.leaderboard.entries import Trust

    made = competitions.load(folder)
    if out.exists() and any(out.iterdir()) and not (out / "reveal").is_dir():
        raise ConfigError(f"{out} is not empty and holds no competition", hint="choose an empty folder with -o")
    if commitment_url and not commitment_url.startswith(("http://", "https://")):
        raise ConfigError(f"{commitment_url!r} is not an http(s) address", hint="--commitment-url https://...")
    if not yes:
        click.confirm(f"reveal the secrets of {made.terms.name!r} and end the competition?", abort=True)
    page, checked = publish_site(
        made, out, Trust.read(trusted_keys), commitment_url=commitment_url, progress=show_line, **given
    )
    _print_checked(checked)
    click.echo("nothing was published" if page is None else f"site: {page}")
    return 1 if checked.problems else 0


@competition.command(context_settings=normalised())
@click.argument("revealed", type=click.Path(path_type=Path), metavar="REVEAL")
@click.option("--commitment", metavar="HASH", help="The hash published before anyone entered.")
@click.option("--entrants", metavar="HASH", help="The hash of the list of entries, published when the list was closed.")
def verify(revealed: Path, commitment: str | None, entrants: str | None) -> int:
    """Verify a published competition from its bundles. REVEAL is the folder reveal of the site, or a packed file of it.

    Verifies the commitment, the list of entries, that each entry has every run or a recorded failure, that the runs
    used the committed tasks, the seeds that follow from commitment and list, and the weights that the entry's training
    run left, and the ranks. Measurements forged in all files are found only by a rerun (`a2perf run --seeds-from
    BUNDLE`), unpublished repetitions of code that is not deterministic by nothing. Exit status: 0 if every check
    passed, else 1.
    """
    top = packed_top(revealed)
    if kind_at(top.resolve()) is not Kind.FOLDER:
        raise ConfigError(f"{revealed} is not a folder or a packed file", hint="give the folder reveal of the site")
    inner = top / "reveal"
    checked = check_reveal(inner if kind_at(inner) is Kind.FOLDER else top, commitment, entrants)
    _print_checked(checked)
    if checked.problems:
        return 1
    for entrant in checked.standing.entrants:
        value = "-" if entrant.mean is None else f"{entrant.mean:.6g}"
        click.echo(f"{entrant.rank or '-':>4}  {entrant.place}  mean {value}, {entrant.attempts} start(s)")
    missing = [f"--{name}" for name, given in (("commitment", commitment), ("entrants", entrants)) if not given]
    hint = f" (add {' and '.join(missing)}: a hash stored beside the files proves nothing)" if missing else ""
    click.echo(f"SUCCESS: all files match the commitment{hint}")
    return 0


def _assignments(texts: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the terms, converted, and the settings of a profile as text."""
    terms: dict[str, Any] = {}
    settings: dict[str, str] = {}
    kinds = get_type_hints(CompetitionTerms)
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise ConfigError(f"--set {text} is not NAME=VALUE", hint="for example --set call_timeout_s=5")
        if name not in _TERMS:
            settings[name] = value
            continue
        try:
            terms[name] = msgspec.convert(value, kinds[name], strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(
                f"--set {text} is not valid: {error}", hint="limits are numbers without a unit"
            ) from error
    return terms, settings


def _print_checked(checked: Checked) -> None:
    for note in checked.notes:
        click.echo(f"note: {note}")
    for problem in checked.problems:
        click.echo(f"PROBLEM: {problem}")


def _show(entries: Sequence[QueueEntry], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([entry.as_json() for entry in entries], indent=2))
        return
    console = terminal.console(width=max(100, shutil.get_terminal_size().columns))
    console.print(runs_table(entries))
    print_failures(console, entries)
