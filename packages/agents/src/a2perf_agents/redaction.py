"""Removes the contents of a recorded run's calls to a language model; hashes, counts and times stay."""

from __future__ import annotations

from pathlib import Path

from a2perf.errors import UserError
from a2perf.records import RunState
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.runs.bundles.inventory import read_manifest, record_files
from a2perf.runs.bundles.layout import MODEL_CALLS
from a2perf_agents.calls import redact_journal


def redact_bundle(bundle: Path) -> int:
    """Redacts the journal of a bundle and records its new hash in the manifest; a signature has to be made again.

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
