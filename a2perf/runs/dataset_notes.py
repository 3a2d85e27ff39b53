"""Reads the notes of a training run about the offline datasets that it used and their cost.

``a2perf.open_dataset`` writes the notes into the artifacts of the run. The participant can change them like
everything there, so they are bounded in size, checked field by field, and count as claims.
"""

from __future__ import annotations

import math

import msgspec

from a2perf.runs.bundles.files import BundleFiles
from a2perf.runs.bundles.layout import ARTIFACTS
from a2perf.runs.bundles.layout import DATASET_NOTES as FOLDER
from a2perf.stranger_files import Kind, StrangerFileError

_MAX_NOTES = 100
_MAX_BYTES = 2**20


class Energy(msgspec.Struct, kw_only=True, frozen=True):
    """An amount of energy and how it is known.

    Attributes:
        provenance: ``"measured"``, ``"estimated"``, ``"mixed"``, ``"given"`` (by the user), ``"none"`` (nothing was
            trained) or ``"unknown"``.
    """

    kwh: float | None = None
    provenance: str = "unknown"
    method: str = ""


class DatasetNote(msgspec.Struct, kw_only=True, frozen=True):
    """One dataset that a training run used.

    Attributes:
        content_sha256: hash of its episodes.
        samples: number of different transitions that were used.
        checkpoint_kwh: energy of training each policy behind it.
        per_sample_kwh: energy of generating it and of training the policies, over its steps.
    """

    dataset_id: str
    content_sha256: str = ""
    samples: int = 0
    checkpoint_kwh: list[float | None] = msgspec.field(default_factory=list)
    per_sample_kwh: float | None = None
    generation: Energy = Energy()
    training: Energy = Energy()

    @property
    def kwh(self) -> float | None:
        """Energy of the samples that were used; None if it is unknown or the noted values are impossible."""
        if self.per_sample_kwh is None or not _is_amount(self.per_sample_kwh) or not 0 <= self.samples < 2**63:
            return None
        return self.per_sample_kwh * self.samples

    @property
    def provenance(self) -> str:
        """``"estimated"``: the note is a claim of the participant, even if it states that its numbers are measured."""
        return "estimated"

    def problems(self) -> list[str]:
        """Returns the fields with impossible values: energies and counts are finite and not negative."""
        amounts = {
            "per_sample_kwh": [self.per_sample_kwh],
            "checkpoint_kwh": self.checkpoint_kwh,
            "generation.kwh": [self.generation.kwh],
            "training.kwh": [self.training.kwh],
        }
        wrong = [name for name, values in amounts.items() if not all(kwh is None or _is_amount(kwh) for kwh in values)]
        return [*wrong, *(["samples"] if not 0 <= self.samples < 2**63 else [])]


def read_notes(files: BundleFiles) -> tuple[list[DatasetNote], list[str]]:
    """Returns the notes of a training run by file name, and the problems of unreadable ones."""
    top = f"{ARTIFACTS}/{FOLDER}"
    found: list[DatasetNote] = []
    conditions: list[str] = []
    names = []
    try:
        for entry in files.entries(top):
            status = entry.status
            if status.kind is Kind.FILE and status.name.endswith(".json") and status.path == f"{top}/{status.name}":
                names.append(status.path)
    except StrangerFileError as error:
        conditions.append(error.message)
    for name in names[:_MAX_NOTES]:
        try:
            note = msgspec.json.decode(files.read(name, _MAX_BYTES), type=DatasetNote)
        except StrangerFileError as error:
            conditions.append(f"{name} could not be read: {error.message.removeprefix(f'{name} ')}")
            continue
        except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
            conditions.append(f"{name} could not be read: {error}")
            continue
        if wrong := note.problems():
            conditions.append(f"{name} has impossible values: {', '.join(wrong)}; left out")
            continue
        found.append(note)
        if note.generation.provenance == "measured" or note.training.provenance == "measured":
            conditions.append(f"{name}: energy claimed by the participant, not measured here")
    if len(names) > _MAX_NOTES:
        conditions.append(f"{top} holds {len(names)} notes, of which {_MAX_NOTES} were read")
    return found, conditions


def _is_amount(kwh: float) -> bool:
    return math.isfinite(kwh) and kwh >= 0
