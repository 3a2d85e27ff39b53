"""``a2perf export attestation``: signed in-toto attestations of recorded runs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from a2perf.errors import ConfigError, MissingDependency, UserError
from a2perf.stranger_files import printable
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, required=True, metavar="BUNDLE...")
@click.option(
    "--key", required=True, type=click.Path(path_type=Path), metavar="FILE",
    help="Private key that `a2perf sign --new-key` created.",
)  # fmt: skip
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path), metavar="DIR",
    help="Folder of the files. Default: beside each bundle.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the files as JSON.")
def attestation(runs: tuple[str, ...], key: Path, folder: Path | None, as_json: bool) -> int:
    """Write signed in-toto attestations of recorded runs.

    \b
    Example:
      a2perf export attestation runs/my_agent --key my.key

    BUNDLE is a bundle or a folder with bundles. The file <bundle>.intoto.jsonl holds the scores with their provenance
    and the test result of the run, for tools that read in-toto statements in DSSE envelopes; `a2perf verify` checks it.
    Unfinished and changed bundles are refused; the exit status is then 1.
    """  # noqa: D301
    from a2perf.exporters.attestation import attest, attestation_path
    from a2perf.runs.signing import bundles_of

    made: dict[str, str | None] = {}
    for bundle in bundles_of(runs):
        file = None if folder is None else folder / "_".join(attestation_path(bundle).parts[-3:])
        try:
            made[str(bundle)] = str(attest(bundle, key, output=file))
        except (ConfigError, MissingDependency):  # the key is wrong, so no bundle can be attested
            raise
        except UserError as error:
            made[str(bundle)] = None
            click.echo(f"{printable(str(bundle))}: NOT ATTESTED: {error.message}", err=True)
        else:
            if not as_json:
                click.echo(f"{printable(str(bundle))}: {printable(str(made[str(bundle)]))}")
    if as_json:
        click.echo(json.dumps(made, indent=2))
    return 1 if None in made.values() else 0
