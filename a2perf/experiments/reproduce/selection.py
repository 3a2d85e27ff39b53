"""The bundles to check: every evaluation in and below a folder, or a sample of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.records import Manifest
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.inventory import problems, read_manifest
from a2perf.runs.bundles.layout import bundle_path
from a2perf.runs.reading import read_run
from a2perf.runs.run import BUNDLE, Run, RunFolder
from a2perf.runs.stores.finding import find_runs
from a2perf.stranger_files import printable

CHECKED_MODES = ("inference", "generalization")
_SAMPLE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*")


@dataclass(frozen=True)
class RecordedBundle:
    """One bundle."""

    folder: RunFolder
    manifest: Manifest
    trained: RecordedBundle | None = None

    @property
    def path(self) -> Path:
        """Its path, which may lead into a packed file."""
        return self.folder.path

    @property
    def label(self) -> str:
        """Its path below the folder that was given."""
        return self.folder.label

    def read(self) -> Run:
        """Reads the run."""
        return read_run(self.folder)

    def forged(self) -> list[str]:
        """Returns what was changed after the run, in this bundle and in the one of its training run."""
        found = problems(files_of(self.path), self.manifest)
        if self.trained is not None:
            found += [f"training run: {problem}" for problem in self.trained.forged()]
        return found


def find_bundles(paths: Sequence[Path]) -> tuple[list[RecordedBundle], dict[str, str]]:
    """Returns the recorded evaluations in and below paths, and why others cannot be read, by label.

    Raises:
        UserError: a path does not exist, or nothing recorded lies in it.
        ConfigError: there is no evaluation of a2perf among the recorded runs.
    """
    found: list[RecordedBundle] = []
    broken: dict[str, str] = {}
    for folder in find_runs(paths):
        if folder.layout != BUNDLE or folder.path.name == "train":
            continue
        try:
            manifest = read_manifest(folder.path)
            if manifest.mode not in CHECKED_MODES:
                continue
            found.append(RecordedBundle(folder, manifest, _trained(folder)))
        except (UserError, OSError) as error:
            broken[folder.label] = getattr(error, "message", str(error))
    if not found and not broken:
        raise ConfigError(
            f"no evaluation in {', '.join(map(str, paths))}",
            hint="give a bundle of the mode inference or generalization, or a folder that holds some",
        )
    return found, broken


def of_entry(found: Sequence[RecordedBundle], submission: str, task: str) -> list[RecordedBundle]:
    """Returns the bundles of one leaderboard entry, all its seeds; an empty name accepts every one.

    Raises:
        ConfigError: the submission or task is unknown.
    """
    chosen = list(found)
    names: tuple[tuple[str, str, Callable[[RecordedBundle], str]], ...] = (
        ("submission", submission, lambda bundle: bundle.manifest.submission.name),
        ("task", task, lambda bundle: bundle.manifest.task),
    )
    for what, wanted, of in names:
        known = sorted({of(bundle) for bundle in chosen})
        if wanted and wanted not in known:
            raise ConfigError(
                f"--entry: no bundle of the {what} {wanted!r}{did_you_mean(wanted, known)}",
                hint=f"choose one of: {', '.join(map(printable, known))}",
            )
        chosen = [bundle for bundle in chosen if not wanted or of(bundle) == wanted]
    return chosen


def sample(
    found: Sequence[RecordedBundle], size: str | None, seed: int,
    repeatable: Callable[[RecordedBundle], bool] = lambda bundle: True,
) -> list[RecordedBundle]:  # fmt: skip
    """Returns a random sample, in the given order, of the bundles that can be repeated.

    If none can, the sample is of all bundles.

    Args:
        size: a share such as ``"10%"``, or a number of bundles; None for all.

    Raises:
        ConfigError: the size is neither, or is 0.
    """
    if size is None:
        return list(found)
    parsed = _SAMPLE.fullmatch(size)
    number = float(parsed[1]) if parsed else 0.0
    if parsed is None or number <= 0 or (parsed[2] and number > 100) or (not parsed[2] and number != int(number)):
        raise ConfigError(f"--sample {size!r} is not valid", hint="write a share, 10%, or a number of bundles, 5")
    count = max(1, round(number / 100 * len(found))) if parsed[2] else int(number)
    order = np.random.default_rng(seed).permutation(len(found)).tolist()
    able = itertools.islice((index for index in order if repeatable(found[index])), count)
    return [found[index] for index in sorted(able) or sorted(order[:count])]


def _trained(folder: RunFolder) -> RecordedBundle | None:
    path = bundle_path(folder.path.parent, "train")
    if files_of(path.parent).status("train/manifest.json") is None:
        return None
    label = f"{folder.label.rpartition('/')[0]}/train".lstrip("/")
    return RecordedBundle(RunFolder(BUNDLE, path, label), read_manifest(path))
