"""``a2perf sign`` and ``a2perf verify``: signatures of recorded runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click
import platformdirs

from a2perf.errors import ConfigError, MissingDependency, UserError
from a2perf.runs import signing
from a2perf.stranger_files import printable
from a2perf.submission.options import normalised


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
@click.argument("runs", nargs=-1, required=True, metavar="BUNDLE...")
@click.option(
    "--trusted-keys", type=click.Path(exists=True, path_type=Path), metavar="DIR|FILE",
    help="Trusted public keys. Default: the folder trusted_keys of the user's configuration.",
)  # fmt: skip
@click.option(
    "--any-key", is_flag=True, help="Accept any key: proves that nothing changed since signing, not who signed."
)
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
