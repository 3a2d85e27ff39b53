"""Chips beside a result that qualify it: seeds, confinement, hashes, noise, estimates, failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from a2perf.metrics.scores import SeedGroup
from a2perf.metrics.system import energy_gross
from a2perf.plain_text import plain_text
from a2perf.report.numbers_text import ESTIMATED
from a2perf.report.tables import Text
from a2perf.runs.run import Run, noise

Tone = Literal["good", "plain", "warn", "bad"]
FEWEST_SEEDS = 3
"""Below, intervals are missing or so wide that ranks mean little."""


def chips_of(groups: Sequence[SeedGroup]) -> Iterator[Text]:
    """Yields the chips of one submission on one task."""
    runs = list({id(run): run for group in groups for run in group.runs}.values())
    if bad := [run for run in runs if run.state not in ("finished", "recorded")]:
        states = ", ".join(dict.fromkeys(run.state for run in bad))
        yield _chip(
            f"{len(bad)} of {len(runs)} runs {states}", "bad", "; ".join(f"{r.key}: {r.state}" for r in bad[:4])
        )
    if (count := len(groups[0].data.units)) == 1:
        yield _chip("1 seed", "warn", "One run: no interval, and no claim about other seeds")
    else:
        tone: Tone = "warn" if count < FEWEST_SEEDS else "plain"
        kind = "trained policies" if len(set(groups[0].policies)) > 1 else "seeds"
        yield _chip(f"{count} {kind}", tone, "Independent runs behind the score; the interval is over them")
    if all(run.is_log for run in runs):
        return
    sandboxes = [None if run.manifest is None else run.manifest.sandbox for run in runs]
    levels = {sandbox.level for sandbox in sandboxes if sandbox is not None}
    if None in sandboxes:
        yield _chip("confinement unknown", "warn", "The runs do not record how the submission's process was confined")
    elif levels <= {"none", "process"}:
        yield _chip("not isolated", "warn", "The submission's process could read and write all files of the user")
    else:
        yield _chip(f"sandbox: {', '.join(sorted(levels))}", "plain", "How the submission's process was confined")
    if any(run.changed for run in runs):
        yield _chip("files changed", "bad", "Recorded files differ from the hashes in the manifest: do not trust them")
    elif any(run.manifest is None for run in runs):
        yield _chip("no hashes", "warn", "These runs come without a manifest, so changes cannot be noticed")
    else:
        yield _chip("hashes ok", "good", "All recorded files match the hashes in the manifest")
    if reasons := {reason for run in runs for reason in noise(run)}:
        yield _chip("noisy host", "warn", plain_text(f"Unreliable times and energies: {'; '.join(sorted(reasons))}"))
    energies = [group.scores.get(energy_gross.name) for group in groups]
    if {one.provenance for one in energies if one is not None and one.value is not None} & ESTIMATED.keys():
        yield _chip("energy estimated", "plain", "A model computed the energy; no instrument measured it")
    yield from _reproduced([run for run in runs if run.mode != "train"])


def _reproduced(evaluations: Sequence[Run]) -> Iterator[Text]:
    """Yields the verdicts of repeating the evaluations; a verdict without a trusted signature is a plain chip."""
    marks = [run.reproduction for run in evaluations if run.reproduction is not None]
    if not marks:
        return
    refuted = [mark for mark in marks if mark.verdict == "REFUTED"]
    confirmed = [mark for mark in marks if mark.verdict == "CONFIRMED"]
    shown = max(refuted or confirmed or marks, key=lambda mark: mark.text)
    count = len(refuted or confirmed or marks)
    text = shown.text if len(evaluations) == 1 else f"{count} of {len(evaluations)} {shown.text}"
    tone: Tone = "bad" if refuted else "plain" if confirmed else "warn"
    yield _chip(plain_text(text), tone, plain_text(f"a2perf reproduce: {shown.detail}"))


def _chip(text: str, tone: Tone, detail: str) -> Text:
    """Returns a short remark with a longer explanation for a tooltip."""
    return Text(text=text, state=tone, hint=detail)
