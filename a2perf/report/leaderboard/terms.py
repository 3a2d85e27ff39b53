"""The terms of a run: its protocol, its track, and violations of the protocol.

``a2perf submit`` leaves them as ``protocol.json`` above the bundles; runs without one were made under no protocol.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from a2perf.metrics import protocol
from a2perf.metrics.submitted import FILE, ProtocolRecord, read_submitted
from a2perf.report.leaderboard.safe_names import plain
from a2perf.runs.files import files_of
from a2perf.runs.inventory import MAX_MANIFEST_BYTES
from a2perf.runs.layout import MANIFEST

OPEN = "open"
_DEPTH = 8


@dataclass(frozen=True)
class Terms:
    """Protocol and track of a run.

    Attributes:
        protocol: its name, ``""`` for none; with a hash if its file differs from the known protocol of this name.
        track: the fixed budget: ``"fixed samples"``, ``"fixed energy"`` or ``"open"``.
        against: why these results do not count for the protocol: a reduced budget, changed bindings.
    """

    protocol: str = ""
    track: str = OPEN
    against: tuple[str, ...] = ()


@dataclass
class TermsReader:
    """Finds the terms of runs at or below a folder; each record is read once."""

    top: Path
    _known: dict[Path, ProtocolRecord | None] = field(default_factory=dict)

    def of(self, run: Path) -> tuple[Terms, list[str]]:
        """Returns the terms of a run and the reasons against it.

        The nearest record above the run counts, where it lists the run; none above the given folder does.
        """
        top = self.top.absolute()
        for folder in list(run.absolute().parents)[:_DEPTH]:
            if folder not in self._known:
                self._known[folder] = read_submitted(folder)
            record = self._known[folder]
            if record is not None:
                return _terms(record, run, folder)
            if folder == top:
                break
        return Terms(), []


def _terms(record: ProtocolRecord, run: Path, folder: Path) -> tuple[Terms, list[str]]:
    listed = record.entry_of(run.absolute(), folder)
    if listed is None:
        return Terms(), []
    name = plain(record.protocol, 40)
    if record.protocol not in protocol.names() or protocol.sha256(record.protocol) != record.protocol_sha256:
        name = f"{name} of hash {plain(record.protocol_sha256[:8])}"
    against = []
    manifest = files_of(run).read(MANIFEST, MAX_MANIFEST_BYTES)
    if listed.manifest_sha256 not in (None, hashlib.sha256(manifest).hexdigest()):
        against.append(f"{MANIFEST} is not the one that {FILE} names")
    # missing runs are found in the bundles; a task without references is listed with its plain returns
    paths = tuple(f"{entry.path}:" for entry in record.runs)
    reasons = [reason for reason in record.not_rankable if not reason.startswith((*paths, "no task has"))]
    return Terms(name, str(record.track).replace("_", " "), tuple(map(plain, reasons))), against
