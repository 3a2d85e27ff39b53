"""Publishes the evidence of a competition: the secrets, the committed files, and the bundles of every run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from a2perf.experiments.competition.creation import write_tasks
from a2perf.experiments.competition.entrants import close, read_entrants
from a2perf.experiments.competition.records import COMMITMENT, ENTRANTS, EVALUATOR, REVEALED, SECRET, TERMS, Competition
from a2perf.experiments.competition.run_checks import UNPUBLISHED
from a2perf.experiments.competition.standings import OutcomeRecord, Standing
from a2perf.experiments.competition.verification import OUTCOMES, RESULTS, RUNS
from a2perf.runs.bundle import now
from a2perf.runs.inventory import find_bundles
from a2perf.storage import write_atomic, write_json, write_record
from a2perf.stranger_files import Kind, chunks, walk


def reveal(
    competition: Competition, folder: Path, outcomes: Sequence[OutcomeRecord] = (), standing: Standing | None = None
) -> None:
    """Writes all files that others need to check the results; ends the competition.

    Args:
        competition: the competition; loading it has verified its secrets.
        folder: output folder; an earlier reveal in it is replaced.
    """
    listed = close(competition) if read_entrants(competition).rounds else read_entrants(competition)
    listed.sha256 = listed.expected_sha256()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    write_record(folder / TERMS, competition.terms)
    write_record(folder / COMMITMENT, competition.commitment)
    write_record(folder / EVALUATOR, competition.evaluator)
    write_record(folder / SECRET, competition.secret)
    write_record(folder / ENTRANTS, listed)
    for path in competition.public.glob("*.gin"):
        write_atomic(folder / path.name, path.read_bytes())
    write_tasks(folder, competition.secret.tasks)
    if listed.rounds:
        write_json(folder / OUTCOMES, [msgspec.to_builtins(one) for one in outcomes])
        write_record(folder / RESULTS, standing or Standing())
        _publish_bundles(competition.runs, folder / RUNS)
    if not (competition.folder / REVEALED).exists():
        write_json(
            competition.folder / REVEALED, {"revealed_at": now(), "commitment": competition.commitment.commitment}
        )


def _publish_bundles(runs: Path, folder: Path) -> None:
    """Copies all bundles, including earlier attempts, without the entrant's files: artifacts, output, pictures."""
    for bundle in find_bundles(runs, archived=True):
        target = folder / bundle.relative_to(runs)
        target.mkdir(parents=True)
        for entry in walk(bundle):
            top = entry.path.partition("/")[0]
            if top in UNPUBLISHED or entry.path == ".lock":
                continue
            if entry.kind is Kind.FOLDER:
                (target / entry.path).mkdir()
            elif entry.kind is Kind.FILE:
                descriptor = entry.open()
                try:
                    with open(target / entry.path, "wb") as copy:
                        for piece in chunks(descriptor, entry.path, max_bytes=entry.status.st_size):
                            copy.write(piece)
                        os.fchmod(copy.fileno(), entry.status.st_mode & 0o777)
                finally:
                    os.close(descriptor)
