"""``a2perf validate``, ``sign``, ``pack`` and ``unpack``: files of recorded runs."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import platformdirs

from a2perf.cli.shared_options import size_text
from a2perf.errors import ConfigError, MissingDependency, UserError
from a2perf.plugins import install_line, load_plugin, plugin_names
from a2perf.runs import signing
from a2perf.runs.bundles.bundle import validate as problems_of
from a2perf.runs.signing import SignatureVerdict
from a2perf.stranger_files import Kind, printable
from a2perf.submission.options import normalised

VALIDATORS = "a2perf.validators"
"""Entry points: functions that return the problems of a thing by its name or folder; None if it is not theirs."""


@click.command(context_settings=normalised())
@click.argument("names", nargs=-1, required=True, metavar="RUN|DATASET...")
@click.option(
    "--signed-by",
    metavar="KEYS",
    help="Check the signatures too. KEYS is a file or folder of trusted public keys, `trusted` for the folder "
    "trusted_keys of the user's configuration, or `any`: proves that nothing changed since signing, not who signed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def validate(names: tuple[str, ...], signed_by: str | None, as_json: bool) -> int:
    """Check the files of recorded runs and datasets, and signatures; print SUCCESS, SIGNED or every problem.

    RUN is a bundle or a folder with bundles, DATASET the name or the folder of a dataset (with
    a2perf-datasets). Exits with 1 if there are problems.
    """
    checks = [load_plugin(VALIDATORS, one, "validator", gives="problems") for one in plugin_names(VALIDATORS)]
    trusted = None if signed_by in (None, "any") else signing.trusted_keys(_key_files(str(signed_by)))
    found: dict[str, SignatureVerdict] = {}
    for name in names:
        other = next((problems for check in checks if (problems := check(name)) is not None), None)
        if other is not None:
            found[name] = SignatureVerdict([*other, *(["only recorded runs are signed"] if signed_by else [])])
            continue
        for bundle in _bundles_of(name, checks):
            found[str(bundle)] = signing.verify(bundle, trusted) if signed_by else SignatureVerdict(problems_of(bundle))
    if as_json:
        answers = {path: dataclasses.asdict(one) if signed_by else one.problems for path, one in found.items()}
        click.echo(json.dumps(answers, indent=2))
        return 1 if any(one.problems for one in found.values()) else 0
    for path, one in found.items():
        signed = f"SIGNED{f' by {one.signer}' if one.signer else ''} (key {one.key_id}, {one.signed_at})"
        click.echo(f"{printable(path)}: {'INVALID' if one.problems else signed if signed_by else 'SUCCESS'}")
        for problem in one.problems:
            click.echo(f"  {problem}")
    return 1 if any(one.problems for one in found.values()) else 0


def _bundles_of(name: str, checks: Sequence[Callable[..., object]]) -> list[Path]:
    try:
        return signing.bundles_of([name])
    except ConfigError as error:
        if checks or not re.search(r"-v\d+/?$", name):
            raise
        raise ConfigError(
            f"{error.message}, and datasets are checked by the distribution a2perf-datasets",
            hint=install_line("datasets"),
        ) from error


def _key_files(given: str) -> Path:
    folder = Path(platformdirs.user_config_dir("a2perf", appauthor=False)) / "trusted_keys"
    place = folder if given == "trusted" else Path(given)
    if not place.exists():
        raise ConfigError(
            f"no trusted keys: {place} does not exist",
            hint="give a file or folder of .pub files with --signed-by, or accept any signer: --signed-by any",
        )
    return place


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, metavar="BUNDLE...")
@click.option("--key", "key_file", type=click.Path(path_type=Path), metavar="FILE", help="Private key.")
@click.option(
    "--new-key",
    "new_key_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Create the key pair FILE and FILE.pub first.",
)
def sign(runs: tuple[str, ...], key_file: Path | None, new_key_file: Path | None) -> int:
    """Sign recorded runs with an Ed25519 key.

    \b
    Examples:
      a2perf sign --new-key my.key
      a2perf sign runs/my_agent --key my.key

    BUNDLE is a bundle or a folder with bundles. Unfinished and changed bundles are not signed; the exit status is then
    1.
    """  # noqa: D301
    if new_key_file is not None:
        if key_file is not None:
            raise ConfigError("--key and --new-key are both given", hint="give one of them")
        public = signing.new_key(new_key_file)
        click.echo(f"private key: {new_key_file} (keep it secret)\npublic key:  {public}")
        key_file = new_key_file
        if not runs:
            return 0
    if key_file is None or not runs:
        raise ConfigError(
            "a bundle and a key are needed", hint="`a2perf sign BUNDLE --key FILE`, or `a2perf sign --new-key FILE`"
        )
    refused = 0
    for bundle in signing.bundles_of(runs):
        try:
            made = signing.sign(bundle, key_file)
        except (ConfigError, MissingDependency):  # the key is wrong, so no bundle can be signed
            raise
        except UserError as error:
            refused += 1
            click.echo(f"{printable(str(bundle))}: NOT SIGNED: {error.message}", err=True)
        else:
            click.echo(f"{printable(str(bundle))}: signed, manifest {made.statement.manifest_sha256[:16]}")
    return 1 if refused else 0


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Packed file, a .zip. Default: beside RUN, if there is only one.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def pack(runs: tuple[Path, ...], out: Path | None, force: bool) -> int:
    """Pack finished runs into one file.

    RUN is a bundle, the root folder of a run, or a folder of runs; it does not change. Commands that read recorded runs
    accept the packed file instead of the folder. Hashes and signatures stay valid. Unfinished runs are refused.
    """
    from a2perf.runs.pack import pack as pack_runs
    from a2perf.runs.packed.packed_archive import packed_members

    target = pack_runs(runs, out, force=force)
    files = [member.size for member in packed_members(target) if member.kind is Kind.FILE]
    click.echo(
        f"{len(files)} file(s), {size_text(sum(files))}, packed into {size_text(target.stat().st_size)}: {target}"
    )
    return 0


@click.command(context_settings=normalised())
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the runs. Default: the folder of FILE.",
)
def unpack(file: Path, out: Path | None) -> int:
    """Unpack a file that `a2perf pack` made.

    Every file is restored byte for byte under its original name. Existing folders are never changed.
    """
    from a2perf.runs.packed.packed_archive import unpack as unpack_runs

    for folder in unpack_runs(file, out if out is not None else file.parent):
        click.echo(printable(str(folder)))
    return 0
