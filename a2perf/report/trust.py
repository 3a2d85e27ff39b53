"""Chips beside a result that qualify it: seeds, confinement, hashes, noise, estimates, failures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from a2perf.metrics.scores import SeedGroup
from a2perf.plain_text import plain_text
from a2perf.report.provenance import noise
from a2perf.report.score_tables import ESTIMATED
from a2perf.runs.run import Run

Tone = Literal["good", "plain", "warn", "bad"]
FEWEST_SEEDS = 3
"""Below, intervals are missing or so wide that ranks mean little."""


@dataclasses.dataclass(frozen=True)
class Chip:
    """A short remark with a longer explanation for a tooltip."""

    text: str
    tone: Tone
    detail: str


def chips_of(groups: Sequence[SeedGroup]) -> tuple[Chip, ...]:
    """Returns the chips of one submission on one task."""
    held = list({id(run): run for group in groups for run in group.runs}.values())
    chips = [_failures(held), _seeds(groups[0]), _confinement(held), _hashes(held), _noisy(held), _estimated(groups)]
    chips.append(_reproduced(held))
    return tuple(chip for chip in chips if chip is not None)


def _failures(runs: Sequence[Run]) -> Chip | None:
    bad = [run for run in runs if run.state not in ("finished", "recorded")]
    if not bad:
        return None
    states = ", ".join(dict.fromkeys(run.state for run in bad))
    detail = "; ".join(f"{run.key}: {run.state}" for run in bad[:4])
    return Chip(f"{len(bad)} of {len(runs)} runs {states}", "bad", detail)


def _seeds(group: SeedGroup) -> Chip:
    count = len(group.runs)
    if count == 1:
        return Chip("1 seed", "warn", "One run: no interval, and no claim about other seeds")
    tone: Tone = "warn" if count < FEWEST_SEEDS else "plain"
    return Chip(f"{count} seeds", tone, "Independent runs behind the score; the interval is over them")


def _confinement(runs: Sequence[Run]) -> Chip:
    levels = {
        run.manifest.sandbox.level for run in runs if run.manifest is not None and run.manifest.sandbox is not None
    }
    if not levels or any(run.manifest is None or run.manifest.sandbox is None for run in runs):
        return Chip("confinement unknown", "warn", "The runs do not record how the submission's process was confined")
    if levels <= {"none", "process"}:
        return Chip("not isolated", "warn", "The submission's process could read and write all files of the user")
    return Chip(f"sandbox: {', '.join(sorted(levels))}", "plain", "How the submission's process was confined")


def _hashes(runs: Sequence[Run]) -> Chip:
    if any(run.changed for run in runs):
        return Chip("files changed", "bad", "Recorded files differ from the hashes in the manifest: do not trust them")
    if any(run.manifest is None for run in runs):
        return Chip("no hashes", "warn", "These runs come without a manifest, so changes cannot be noticed")
    return Chip("hashes ok", "good", "All recorded files match the hashes in the manifest")


def _reproduced(runs: Sequence[Run]) -> Chip | None:
    """Returns the verdicts of repeating the evaluations; a verdict without a trusted signature is a plain chip."""
    evaluations = [run for run in runs if run.mode != "train"]
    marks = [run.reproduction for run in evaluations if run.reproduction is not None]
    if not marks:
        return None
    refuted = [mark for mark in marks if mark.verdict == "REFUTED"]
    confirmed = [mark for mark in marks if mark.verdict == "CONFIRMED"]
    shown = max(refuted or confirmed or marks, key=lambda mark: mark.text)
    count = len(refuted or confirmed or marks)
    text = shown.text if len(evaluations) == 1 else f"{count} of {len(evaluations)} {shown.text}"
    tone: Tone = "bad" if refuted else "plain" if confirmed else "warn"
    return Chip(plain_text(text), tone, plain_text(f"a2perf reproduce: {shown.detail}"))


def _noisy(runs: Sequence[Run]) -> Chip | None:
    reasons = {reason for run in runs for reason in noise(run)}
    if not reasons:
        return None
    return Chip("noisy host", "warn", plain_text(f"Timings are unreliable: {'; '.join(sorted(reasons))}"))


def _estimated(groups: Sequence[SeedGroup]) -> Chip | None:
    energies = [group.scores.get("energy_gross") for group in groups]
    kinds = {value.provenance for value in energies if value is not None and value.value is not None}
    if not kinds & ESTIMATED.keys():
        return None
    return Chip("energy estimated", "plain", "A model computed the energy; no instrument measured it")
