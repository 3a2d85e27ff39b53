"""The bundles to check: every evaluation in and below a folder, or a sample of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.records import Manifest
from a2perf.runs.bundles.agreement import integrity
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.inventory import read_manifest
from a2perf.runs.bundles.layout import bundle_path
from a2perf.runs.reading import read_runs, run_at
from a2perf.runs.run import BUNDLE, Run, RunFolder
from a2perf.stranger_files import printable

CHECKED_MODES = ("inference", "generalization")
_SAMPLE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*")


def find_bundles(paths: Sequence[Path]) -> tuple[list[Run], dict[str, str]]:
    """Returns the recorded evaluations in and below paths, by label, and why others cannot be read.

    Raises:
        UserError: a path does not exist, or nothing recorded lies in it.
        ConfigError: there is no evaluation of a2perf among the recorded runs.
    """
    found: list[Run] = []
    broken: dict[str, str] = {}
    for run in sorted(read_runs(paths), key=lambda run: (run.folder.label, str(run.folder.path))):
        if run.folder.layout != BUNDLE or run.folder.path.name == "train":
            continue
        try:
            run.manifest = read_manifest(run.folder.path)  # alone: a sample does not read the other parts of every run
            if run.manifest.mode in CHECKED_MODES:
                trained_of(run)
                found.append(run)
        except (UserError, OSError) as error:
            broken[run.folder.label] = getattr(error, "message", str(error))
    if not found and not broken:
        raise ConfigError(
            f"no evaluation in {', '.join(map(str, paths))}",
            hint="give a bundle of the mode inference or generalization, or a folder that holds some",
        )
    return found, broken


def manifest_of(run: Run) -> Manifest:
    """Returns the manifest of a bundle, which ``find_bundles`` has read."""
    assert run.manifest is not None
    return run.manifest


def trained_of(run: Run) -> Run | None:
    """Returns the training run of an evaluation; None if its bundle is not there.

    Raises:
        UserError: its manifest cannot be read.
    """
    path = bundle_path(run.folder.path.parent, "train")
    if files_of(path.parent).status("train/manifest.json") is None:
        return None
    label = f"{run.folder.label.rpartition('/')[0]}/train".lstrip("/")
    trained = run_at(RunFolder(BUNDLE, path, label))
    trained.manifest = read_manifest(path)
    return trained


def forged(run: Run) -> list[str]:
    """Returns what was changed after the run, in this bundle and in the one of its training run."""
    found = integrity(files_of(run.folder.path), manifest_of(run))
    if (trained := trained_of(run)) is not None:
        found += [
            f"training run: {problem}" for problem in integrity(files_of(trained.folder.path), manifest_of(trained))
        ]
    return found


def of_entry(found: Sequence[Run], submission: str, task: str) -> list[Run]:
    """Returns the bundles of one leaderboard entry, all its seeds; an empty name accepts every one.

    Raises:
        ConfigError: the submission or task is unknown.
    """
    chosen = list(found)
    names: tuple[tuple[str, str, Callable[[Run], str]], ...] = (
        ("submission", submission, lambda bundle: manifest_of(bundle).submission.name),
        ("task", task, lambda bundle: manifest_of(bundle).task),
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
    found: Sequence[Run],
    size: str | None,
    seed: int,
    repeatable: Callable[[Run], bool] = lambda bundle: True,
) -> list[Run]:
    """Returns a random sample, in the given order, of the bundles that can be repeated; of all bundles if none can.

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
