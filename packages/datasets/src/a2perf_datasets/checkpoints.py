"""Finds the checkpoints in the artifacts of training runs, with the energy spent on each.

Known layouts are those of TF-Agents (``policies/checkpoints/policy_checkpoint_<step>``), of Stable-Baselines3
(``checkpoints/..._<step>.zip``) and folders that look like finished artifacts (``policies/step_<step>/``,
``checkpoints/<...step>/``); any other layout needs a pattern. The energy of a checkpoint is the energy of the training
run in proportion to the checkpoint's number, as on the earlier platform.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from a2perf.errors import UserError, command_line, names_text
from a2perf.records import Manifest
from a2perf.runs.bundles.bundle import submission_difference
from a2perf.runs.bundles.bundle_reader import BundleReader
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.inventory import MAX_MANIFEST_BYTES, find_bundles, manifest_in
from a2perf.runs.bundles.layout import ARTIFACTS, MANIFEST, TRACKING
from a2perf.runs.dataset_notes import Energy
from a2perf.runs.packed.packed_archive import packed_place
from a2perf.runs.tracking_record import read_tracking
from a2perf.submission.evaluator.submitted.folder_content import identify_submission
from a2perf_datasets.collection import energy_in_report
from a2perf_datasets.plan import PlannedPolicy

_NUMBER = re.compile(r"(\d+)(?=\D*$)")
_LAYOUTS: tuple[tuple[str, str | None], ...] = (
    ("policies/checkpoints/policy_checkpoint_*", "checkpoint"),
    ("policies/step_*/", None),
    ("checkpoints/**/*_*.zip", "file"),
    ("checkpoints/*/", None),
)
"""Pattern relative to the artifacts, and the participant argument for the checkpoint; None uses ``ROOT_DIR``."""


@dataclass(frozen=True)
class Training:
    """A finished training run: its root folder, which contains ``train``, and the hash of its manifest's file."""

    root: Path
    manifest: Manifest
    sha256: str
    energy: Energy

    @property
    def artifacts(self) -> Path:
        """The folder of its artifacts."""
        return self.root / "train" / ARTIFACTS

    @property
    def name(self) -> str:
        """The last folders of its root, such as ``dog_pace/seed_3``."""
        return "/".join(self.root.parts[-2:])


def find_trainings(given: Sequence[Path]) -> list[Training]:
    """Finds the training runs in folders, each once, ordered by path.

    Raises:
        UserError: a folder does not exist or contains none.
    """
    found: dict[Path, Training] = {}
    for folder in given:
        if packed_place(folder) is not None:
            raise UserError(
                f"{folder} is packed; policies are loaded from files", hint=command_line("a2perf", "unpack", folder)
            )
        if not folder.is_dir():
            raise UserError(
                f"{folder} does not exist", hint="give the --root-dir of a training run, or a folder of several"
            )
        trained = [path for path in find_bundles(folder) if path.name == "train" and path != folder]
        here = [path.parent for path in trained if path.is_dir()]  # skips those inside packed files
        if not here:
            raise UserError(f"{folder} contains no training run", hint="give the --root-dir of a run in mode train")
        for root in here:
            found.setdefault(root.absolute(), _training(root.absolute()))
    return [found[root] for root in sorted(found)]


def find_checkpoints(
    training: Training, pattern: str | None = None, argument: str | None = None
) -> tuple[list[PlannedPolicy], list[str]]:
    """Finds the checkpoints of one training run, ordered by number; ``with_submission`` completes them.

    Args:
        pattern: pattern relative to the artifacts; by default the known layouts.
        argument: the participant argument that gets the path of a matching file or folder. Without it a folder becomes
            the policy's ``ROOT_DIR``, and a file's path is passed as ``checkpoint``.

    Returns:
        The checkpoints, and remarks for the user.

    Raises:
        UserError: the pattern matches nothing.
    """
    layouts = _LAYOUTS if pattern is None else ((pattern, argument),)
    for layout, name in layouts:
        paths = _numbered(training.artifacts, layout)
        if paths:
            energies = _energies(training, [number for _, number in paths])
            return [
                _checkpoint(training, path, number, energy, name, given=pattern is not None)
                for (path, number), energy in zip(paths, energies, strict=True)
            ], []
    if pattern is not None:
        folder = training.artifacts
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        raise UserError(
            f"nothing in {folder} matches {pattern!r} and has a number in its name",
            hint=f"choose a pattern for these files: {names_text(names) or 'nothing'}",
        )
    return [_policy(training, "", 1, training.energy, training.artifacts, {})], [
        f"{training.name} has no checkpoints; its final policy is used"
    ]


def with_submission(
    training: Training, policies: Sequence[PlannedPolicy], given: Path | None, extra: Mapping[str, str]
) -> tuple[list[PlannedPolicy], list[str]]:
    """Returns policies of a training run with the submission that loads them, by default the recorded one, and remarks.

    Raises:
        UserError: the submission's folder does not exist any more.
    """
    folder = given or Path(training.manifest.submission.path)
    if not (folder / "inference.py").is_file():
        raise UserError(
            f"the submission {folder} of {training.name} does not exist", hint="give its folder with --submission DIR"
        )
    now = identify_submission(folder, root=training.root)
    changed = submission_difference(training.manifest.submission, now)
    return [
        msgspec.structs.replace(
            policy,
            submission=str(folder.absolute()),
            submission_sha256=now.sha256,
            participant_args={**policy.participant_args, **extra},
        )
        for policy in policies
    ], [] if changed is None else [f"{training.name} was trained with other code: {changed}"]


def _training(root: Path) -> Training:
    files = files_of(root / "train")
    manifest = manifest_in(files)
    report = BundleReader(files, manifest).tracking(TRACKING) or read_tracking(manifest.tracking)
    digest = hashlib.sha256(files.read(MANIFEST, MAX_MANIFEST_BYTES)).hexdigest()
    return Training(root, manifest, digest, energy_in_report(report))


def _numbered(artifacts: Path, layout: str) -> list[tuple[Path, int]]:
    only_folders = layout.endswith("/")
    found = []
    for path in artifacts.glob(layout.rstrip("/")):
        relative = path.relative_to(artifacts)
        match = _NUMBER.search(path.stem if path.is_file() else path.name)
        hidden = any(part.startswith(".") for part in relative.parts)
        if match is not None and not hidden and not (only_folders and not path.is_dir()):
            found.append((relative, int(match.group(1))))
    return sorted(found, key=lambda entry: (entry[1], str(entry[0])))


def _energies(training: Training, numbers: Sequence[int]) -> list[Energy]:
    total, highest = training.energy, max(numbers)
    if total.kwh is None or highest <= 0:  # behaviour cloning takes no environment steps: all numbers are 0
        return [total] * len(numbers)
    return [
        Energy(
            kwh=total.kwh * number / highest,
            provenance=total.provenance,
            method=f"share of the training by number; {total.method}",
        )
        for number in numbers
    ]


def _checkpoint(
    training: Training, path: Path, number: int, energy: Energy, argument: str | None, *, given: bool
) -> PlannedPolicy:
    place = training.artifacts / path
    text = path.as_posix()
    if argument is None and place.is_dir():
        return _policy(training, text, number, energy, place, {})
    name = argument or "checkpoint"
    value = str(number) if name == "checkpoint" and not given else text
    return _policy(training, text, number, energy, training.artifacts, {name: value})


def _policy(
    training: Training, path: str, number: int, energy: Energy, root_dir: Path, arguments: dict[str, str]
) -> PlannedPolicy:
    return PlannedPolicy(
        name=f"{training.name}/{path or 'final policy'}",
        submission="",
        root_dir=str(root_dir),
        participant_args={**training.manifest.participant_args, **arguments},
        checkpoint=path,
        number=number,
        training=training.sha256,
        training_name=training.name,
        training_energy=energy,
    )
