"""``a2perf validate``, ``sign``, ``verify``, ``pack`` and ``unpack``: files of recorded runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click
import platformdirs

from a2perf.cli.shared_options import DATASETS_PATH, size_text
from a2perf.errors import ConfigError, MissingDependency, UserError
from a2perf.runs.bundles.bundle import validate as problems_of
from a2perf.runs.packed import signing
from a2perf.stranger_files import Kind, printable
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.argument("names", nargs=-1, required=True, metavar="RUN|DATASET...")
@DATASETS_PATH
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def validate(names: tuple[str, ...], datasets_path: str | None, as_json: bool) -> int:
    """Check the files of recorded runs and datasets; print SUCCESS or every problem.

    RUN is a bundle or a folder with bundles, DATASET the name or the folder of a dataset. Exits with 1 if there are
    problems.
    """
    from a2perf.datasets import naming, open_dataset
    from a2perf.datasets.validation import problems_of as problems_of_dataset

    found: dict[str, list[str]] = {}
    for name in names:
        if naming.is_dataset(name):
            found[name] = problems_of_dataset(open_dataset(name, datasets_path))
        else:
            found |= {str(bundle): problems_of(bundle) for bundle in signing.bundles_of([name])}
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for path, problems in found.items():
            click.echo(f"{printable(path)}: {'SUCCESS' if not problems else 'INVALID'}")
            for problem in problems:
                click.echo(f"  {problem}")
    return 1 if any(found.values()) else 0


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, metavar="BUNDLE...")
@click.option("--key", "key_file", type=click.Path(path_type=Path), metavar="FILE", help="Private key.")
@click.option("--new-key", "new_key_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Create the key pair FILE and FILE.pub first.")  # fmt: skip
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
@click.argument("runs", nargs=-1, required=True, metavar="BUNDLE...")
@click.option("--trusted-keys", type=click.Path(exists=True, path_type=Path), metavar="DIR|FILE",
              help="Trusted public keys. Default: the folder trusted_keys of the user's configuration.")  # fmt: skip
@click.option("--any-key", is_flag=True,
              help="Accept any key: proves that nothing changed since signing, not who signed.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def verify(runs: tuple[str, ...], trusted_keys: Path | None, any_key: bool, as_json: bool) -> int:
    """Verify recorded runs: every file, the signature, and the signer's key.

    BUNDLE is a bundle or a folder with bundles. Exits with 1 if a check fails.
    """
    trusted = None if any_key else signing.trusted_keys(trusted_keys or _default_folder())
    verdicts = {str(bundle): signing.verify(bundle, trusted) for bundle in signing.bundles_of(runs)}
    if as_json:
        click.echo(json.dumps({path: dataclasses.asdict(verdict) for path, verdict in verdicts.items()}, indent=2))
    else:
        for path, verdict in verdicts.items():
            by = f" by {verdict.signer}" if verdict.signer else ""
            signed = f"SIGNED{by} (key {verdict.key_id}, {verdict.signed_at})"
            click.echo(f"{printable(path)}: {'INVALID' if verdict.problems else signed}")
            for problem in verdict.problems:
                click.echo(f"  {problem}")
    return 1 if any(verdict.problems for verdict in verdicts.values()) else 0


def _default_folder() -> Path:
    folder = Path(platformdirs.user_config_dir("a2perf", appauthor=False)) / "trusted_keys"
    if not folder.is_dir():
        raise ConfigError(
            f"no trusted keys: {folder} does not exist",
            hint="put the signers' .pub files there, give --trusted-keys, or accept any signer with --any-key",
        )
    return folder


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("-o", "--output", "out", type=click.Path(path_type=Path), metavar="FILE",
              help="Packed file, a .zip. Default: beside RUN, if there is only one.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def pack(runs: tuple[Path, ...], out: Path | None, force: bool) -> int:
    """Pack finished runs into one file.

    RUN is a bundle, the root folder of a run, or a folder of runs; it does not change. Commands that read recorded runs
    accept the packed file instead of the folder. Hashes and signatures stay valid. Unfinished runs are refused.
    """
    from a2perf.runs.packed.pack import pack as pack_runs
    from a2perf.runs.packed.packed_archive import opened_archive

    target = pack_runs(runs, out, force=force)
    archive = opened_archive(target)
    files = [member.size for member in archive.members.values() if member.kind is Kind.FILE]
    click.echo(
        f"{len(files)} file(s), {size_text(sum(files))}, packed into {size_text(target.stat().st_size)}: {target}"
    )
    return 0


@click.command(context_settings=normalised())
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", "out", type=click.Path(path_type=Path), metavar="DIR",
              help="Folder of the runs. Default: the folder of FILE.")  # fmt: skip
def unpack(file: Path, out: Path | None) -> int:
    """Unpack a file that `a2perf pack` made.

    Every file is restored byte for byte under its original name. Existing folders are never changed.
    """
    from a2perf.runs.packed.pack import unpack as unpack_runs

    for folder in unpack_runs(file, out if out is not None else file.parent):
        click.echo(printable(str(folder)))
    return 0
