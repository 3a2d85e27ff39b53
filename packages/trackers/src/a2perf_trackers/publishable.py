"""Which files of a bundle an exporter may copy to another place.

Secret seeds stay on the machine that evaluated: a manifest with keyed seeds holds the keys of its run, and the records
of episodes hold the seed of each. Under the same secret all submissions get the same episodes, so one published seed
would reveal the evaluation of the others. Logs and artifacts belong to the participant and are never copied.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from a2perf.records import PUBLIC_SEEDS, Manifest
from a2perf.runs import layout
from a2perf.runs.bundle_reading import BundleReader
from a2perf.runs.run import BUNDLE, Run

SEEDS_FROM_FILE = "file"
"""Value of ``Manifest.seeds["evaluation"]`` of a run with the seeds of an organizer's file."""

_MEASURED = (".json", ".csv", ".npz")
_PICTURES = (".png", ".mp4", ".gif")


def has_public_seeds(manifest: Manifest) -> bool:
    """Returns whether everybody can derive the seeds of a run from its root seed."""
    scheme = manifest.seeds.get("scheme", PUBLIC_SEEDS)
    return scheme == PUBLIC_SEEDS and manifest.seeds.get("evaluation") != SEEDS_FROM_FILE


def publishable_files(run: Run) -> list[str]:
    """Returns the files of a run that may be published, as paths below its bundle, sorted.

    These are measurements and media; with public seeds also the manifest, the gin configuration and the episodes.

    Args:
        run: read from a bundle. Runs of other layouts have no publishable files, since nobody lists their content.
    """
    if run.folder.layout != BUNDLE or run.manifest is None:
        return []
    reader = BundleReader(run.folder.files(), run.manifest)
    found = [*reader.below(layout.METRICS, _MEASURED), *reader.below(layout.MEDIA, _PICTURES)]
    if has_public_seeds(run.manifest):
        found += [name for name in (layout.CONFIG, layout.EARLIER_CONFIG, layout.SIGNATURE) if reader.listed(name)]
        found.append(layout.MANIFEST)
    else:
        found = [name for name in found if name.rpartition("/")[2] != layout.ROLLOUTS_FILE]
    return sorted(dict.fromkeys(found))


def copy_publishable(run: Run, folder: Path) -> list[Path]:
    """Copies the publishable files of a run, also out of a packed file.

    Args:
        folder: receives the files at their paths below the bundle.

    Returns:
        The copies, in the order of ``publishable_files``.

    Raises:
        StrangerFileError: a file vanished or was replaced since the run was read.
        OSError: a copy cannot be written.
    """
    files = run.folder.files()
    copies = []
    for name in publishable_files(run):
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        with files.open(name) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        copies.append(copy)
    return copies
