"""``a2perf model``: usage, transcripts and redaction of recorded calls to a language model."""

from __future__ import annotations

import json
from pathlib import Path

import click
import msgspec

from a2perf.cli.extensible import ExtensibleGroup
from a2perf.errors import UserError
from a2perf.records import RunState
from a2perf.runs import read_runs
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.runs.bundles.inventory import read_manifest, record_files
from a2perf.runs.bundles.layout import MODEL_CALLS, MODEL_USAGE
from a2perf.runs.signing import bundles_of
from a2perf.storage import read_record, write_atomic
from a2perf.stranger_files import printable
from a2perf.submission.options import normalised
from a2perf_agents.calls import redact_journal
from a2perf_agents.errors import error_lines
from a2perf_agents.record import ModelUsage


class _ModelGroup(ExtensibleGroup):
    prefix = "model."


@click.group(cls=_ModelGroup, context_settings=normalised())
def model() -> None:
    """Show or redact calls to a language model."""


@model.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
def usage(runs: tuple[str, ...], as_json: bool) -> None:
    """Show calls, tokens, cost and budgets of recorded runs."""
    found = {bundle: read_record(bundle / MODEL_USAGE, ModelUsage) for bundle in _with_calls(runs)}
    if as_json:
        click.echo(json.dumps({str(path): msgspec.to_builtins(record) for path, record in found.items()}, indent=2))
        return
    for path, record in found.items():
        models = ", ".join(map(printable, record.models))
        click.echo(f"{printable(str(path))}: {'replay of ' if record.replay_of else ''}{models}")
        for line in _lines(record):
            click.echo(f"  {line}")


@model.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
def redact(runs: tuple[str, ...]) -> None:
    """Remove the contents of requests and answers from recorded runs.

    Hashes, tokens, costs and times stay. The runs can no longer be replayed, and a signature has to be made again.
    """
    for bundle in _with_calls(runs):
        click.echo(f"{printable(str(bundle))}: removed the contents of {_redacted(bundle)} calls")


@model.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The page, HTML.")
def transcript(runs: tuple[str, ...], output: Path) -> None:
    """Write the questions and answers of recorded runs to a page."""
    from a2perf_agents.transcript_page import transcript_page

    write_atomic(output, transcript_page(read_runs(_with_calls(runs))))
    click.echo(f"transcript: {output}")


def _redacted(bundle: Path) -> int:
    """Removes the contents from the calls of a bundle, and records the journal's new hash in the manifest.

    Returns:
        The number of calls.

    Raises:
        UserError: the run has not ended, or made no calls.
    """
    manifest = read_manifest(bundle)
    if manifest.state in (RunState.RUNNING, RunState.INTERRUPTED):
        raise UserError(
            f"the run in {bundle} has not ended ({manifest.state.value}); resuming it needs the recorded answers",
            hint="run the same command again until the run ends, then redact it",
        )
    count = redact_journal(bundle / MODEL_CALLS)
    record_files(bundle, manifest)
    write_manifest(bundle, manifest)
    return count


def _with_calls(runs: tuple[str, ...]) -> list[Path]:
    found = [Path(bundle) for bundle in bundles_of(runs)]
    calling = [bundle for bundle in found if (bundle / MODEL_USAGE).is_file()]
    if not calling:
        raise UserError(
            f"none of the {len(found)} recorded runs used a language model",
            hint="give the folder of a run that was started with --model",
        )
    return calling


def _lines(record: ModelUsage) -> list[str]:
    total = record.total
    lines = [
        f"{total.calls} calls, {total.answered} answered, {total.served} from a record, {total.refused} refused",
        f"{total.tokens_in} tokens in, {total.tokens_out} tokens out",
    ]
    if total.calls_without_usage:
        lines.append(f"tokens of {total.calls_without_usage} answers: unknown")
    if total.cost is not None:
        lines.append(f"cost: {total.cost:.6g} {printable(record.currency)}")
    if total.first_token is not None:
        lines.append(f"time to the first token: {total.first_token.median_s:.3f} s (median)")
    lines += map(printable, error_lines(total))
    lines += [
        f"budget of {name}: {use.used:.6g} of {use.limit:.6g} used, {use.refused} refused"
        for name, use in record.budgets.items()
    ]
    return lines
