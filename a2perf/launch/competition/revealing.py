"""Reveals the secrets, and proves what was promised: they are those of the hash, and every run used them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from a2perf.errors import UserError
from a2perf.launch.competition.founding import task_files
from a2perf.launch.competition.records import (
    COMMITMENT,
    METHOD,
    REVEALED,
    SECRET,
    TERMS,
    Commitment,
    Competition,
    Secret,
    Terms,
    commitment_of,
)
from a2perf.records import Manifest, RunState
from a2perf.storage import read_record, write_json, write_record
from a2perf.submission.bundle import integrity, now


def reveal(competition: Competition, folder: Path) -> None:
    """Writes terms, commitment, secrets and secret tasks where everybody can check them; ends the competition.

    Args:
        competition: whose secrets; they were verified when it was loaded.
        folder: gets the files.
    """
    write_record(folder / TERMS, competition.terms)
    write_record(folder / COMMITMENT, competition.commitment)
    write_record(folder / SECRET, competition.secret)
    for task in competition.secret.tasks:
        task_file, seeds_file, _ = task_files(folder, task.name)
        held_out = {"name": task.name, "env_id": task.env_id, "kwargs": task.kwargs, "told": task.told}
        write_json(task_file, held_out)
        seeds_file.write_text("".join(f"{seed}\n" for seed in task.seeds), encoding="utf-8")
    if not (competition.folder / REVEALED).exists():
        write_json(
            competition.folder / REVEALED, {"revealed_at": now(), "commitment": competition.commitment.commitment}
        )


def check_reveal(folder: Path, commitment: str | None = None) -> list[str]:
    """Checks revealed secrets against the hash that was published first.

    Args:
        folder: what ``reveal`` wrote.
        commitment: the hash as it was published then; the one in the folder proves nothing by itself.

    Returns:
        Every problem found, in words; empty when everything fits.
    """
    try:
        terms, secret = read_record(folder / TERMS, Terms), read_record(folder / SECRET, Secret)
        stated = read_record(folder / COMMITMENT, Commitment)
    except UserError as error:
        return [error.message]
    problems = []
    found = commitment_of(terms, secret)
    if found != stated.commitment:
        problems.append(f"{TERMS} and {SECRET} give {found}, but {COMMITMENT} says {stated.commitment}")
    if commitment is not None and found != commitment:
        problems.append(f"{TERMS} and {SECRET} give {found}, but {commitment} was published first")
    if stated.method != METHOD:
        problems.append(f"{COMMITMENT} names another method: {stated.method}")
    for task in secret.tasks:
        file = task_files(folder, task.name)[0]
        if file.is_file() and msgspec.json.decode(file.read_bytes()).get("kwargs") != task.kwargs:
            problems.append(f"{file.name} is not the task of {SECRET}")
    return problems


def check_runs(competition: Competition) -> dict[str, list[str]]:
    """Checks that every finished run on the secret tasks used the committed tasks and seeds, and was not changed.

    Returns:
        The problems of each bundle that has any, by its path below the folder of runs.
    """
    seeds = {task.name: task.seeds for task in competition.secret.tasks}
    seeds[competition.terms.public_task] = competition.secret.public_seeds
    kwargs = {task.name: task.kwargs for task in competition.secret.tasks}
    found: dict[str, list[str]] = {}
    for path in sorted(competition.runs.glob("*/*/seed_*/*/manifest.json")):
        if "attic" in path.parts:
            continue
        label = str(path.parent.relative_to(competition.runs))
        try:
            manifest = read_record(path, Manifest)
        except UserError as error:
            found[label] = [error.message]
            continue
        problems = integrity(path.parent, manifest)
        if manifest.mode == "inference" and manifest.state is RunState.FINISHED:
            if manifest.seeds.get("episodes") != seeds.get(manifest.task, [None])[: competition.terms.episodes]:
                problems.append("its episodes were not played with the committed seeds")
            if manifest.task in kwargs and manifest.env_kwargs != kwargs[manifest.task]:
                problems.append("its environment was not the committed task")
        if problems:
            found[label] = problems
    return found
