"""Finds the recorded runs in and below given paths.

Layouts: bundles of a2perf, formats of installed packages (``formats``), the folders of the earlier public platform,
logs of Stable-Baselines3 and other trainers (event files, ``progress.csv``, ``monitor.csv``), and
single CSV files.
Symbolic links are never followed. Runs in a packed file are found as if the file was unpacked beside itself; only
``files_of`` understands their paths.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from a2perf.errors import UserError
from a2perf.plain_text import plain_text
from a2perf.runs import formats
from a2perf.runs.bundles.files import files_of, folders_of, kind_at
from a2perf.runs.bundles.inventory import hash_files, is_bundle, read_manifest
from a2perf.runs.bundles.layout import (
    EARLIER_FILES,
    LOCK,
    MANIFEST,
    METRICS,
    MODES,
    PROGRAM_MODES,
    SCORES,
    WRITTEN_ELSEWHERE,
    is_archived,
)
from a2perf.runs.events.log_files import NAMES_OF_LOGS, is_trainer_log, writer_children
from a2perf.runs.events.mlflow_files import NAME as MLFLOW
from a2perf.runs.events.wandb_files import SUFFIX as WANDB_SUFFIX
from a2perf.runs.foreign.foreign_layouts import mirrored_name, own_logs
from a2perf.runs.foreign.tables_of_runs import runs_of_table
from a2perf.runs.packed.packed_archive import packed_place, packed_top, unpacked_path
from a2perf.runs.run import BUNDLE, EARLIER, LOGS, TABLE, RunFolder
from a2perf.storage import MAX_JSON_BYTES, parse_json
from a2perf.stranger_files import Kind


def find_runs(paths: Sequence[Path]) -> list[RunFolder]:
    """Finds all runs in and below the given folders and files, in a stable order and each once.

    Raises:
        UserError: a path does not exist, there is no run, or a format of a package failed.
    """
    found: dict[str, RunFolder] = {}
    for given in paths:
        if packed_place(given) is None and not given.exists():
            raise UserError(f"{given} does not exist", hint="give a run, or a folder that holds runs")
        for run in below(given):
            found.setdefault(run.key, run)
    for path in _copied(found.values()):
        del found[path]
    names = {run.path.name for run in found.values() if run.layout == LOGS}
    # a trainer that logs to its folder and, under the name of the folder, to Weights & Biases
    found = {path: run for path, run in found.items() if mirrored_name(run) not in names}
    if not found:
        failed = formats.problems().items()
        broken = "".join(f"; the run format {name} could not be loaded ({why})" for name, why in failed)
        looked_for = ", ".join([MANIFEST, *NAMES_OF_LOGS, *formats.run_formats()])
        raise UserError(
            f"nothing recorded in {', '.join(str(path) for path in paths)}{broken}{_nearest(paths)}",
            hint=f"looked for {looked_for}; a table is given by itself",
        )
    return named_uniquely(found.values())


def _nearest(paths: Sequence[Path]) -> str:
    """Returns the file that is most like one that is read, or a table, as the end of an error; ``""`` without one."""
    below = [Path(folder) / name for top in paths for folder, _, names in folders_of(top) for name in names]
    near = {name: get_close_matches(path.name, NAMES_OF_LOGS, 1, 0.7) for path in below if (name := str(path))}
    if found := next(((name, match[0]) for name, match in near.items() if match), None):
        return f"; nearest to {found[1]} is {found[0]}"
    return next((f"; nearest is the table {path}" for path in below if path.suffix == ".csv"), "")


def named_uniquely(found: Iterable[RunFolder]) -> list[RunFolder]:
    """Returns runs in a stable order with unique labels and roots; runs of several searches can share theirs."""
    runs = sorted(found, key=lambda run: (run.label, str(run.path)))
    if len({run.label for run in runs}) < len(runs):  # two folders given on one command line can hold the same names
        relative = _relative([run.path for run in runs])
        runs = [dataclasses.replace(run, label=label) for run, label in zip(runs, relative, strict=True)]
    # a root is named by its path below the given folder, or below all runs if that is not unique
    paths = [Path(os.path.abspath(run.path)) for run in runs]
    roots = [path.parent if run.layout == BUNDLE else path for path, run in zip(paths, runs, strict=True)]
    names = [
        (run.label.rpartition("/")[0] or unpacked_path(path).parent.name) if run.layout == BUNDLE else run.label
        for path, run in zip(paths, runs, strict=True)
    ]
    if len(set(zip(names, roots, strict=True))) > len(set(names)):
        names = _relative(roots, above=True)
    return [dataclasses.replace(run, root=plain_text(name)) for run, name in zip(runs, names, strict=True)]


def fingerprint_of(run: RunFolder) -> str:
    """Returns a hash over the names, sizes and times of a run's files; their content is not read."""
    digest = hashlib.sha256(f"{run.layout}\0{os.path.abspath(run.path)}\0{run.label}\0{run.links}\0{run.part}".encode())
    if run.layout in (LOGS, TABLE):  # also files in other folders, of children of a writer
        states = [run.files().status(log) for log in own_logs(run)]
        digest.update(str([(state.path, state.size, state.stamp) for state in states if state is not None]).encode())
    if run.is_file:
        status = run.path.stat()
        digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    elif run.layout == BUNDLE:
        digest.update(run.files().fingerprint().encode())
    else:
        digest.update(run.files().fingerprint((LOCK, SCORES), folders=False).encode())
    if run.layout in formats.run_formats():
        digest.update(formats.run_formats()[run.layout].stamp().encode())
    return digest.hexdigest()


def _copied(found: Iterable[RunFolder]) -> list[str]:
    """Returns the keys of a program's own logs of which the bundle of the program holds a copy: they are one run."""
    runs = list(found)
    programs = [run for run in runs if run.layout == BUNDLE and run.path.name in PROGRAM_MODES]
    logs = [run for run in runs if run.layout in (LOGS, TABLE)] if programs else []
    if not logs:
        return []
    held: set[tuple[str, str]] = set()
    for program in programs:
        try:
            files = program.files()
            hashes = read_manifest(program.path).files or hash_files(program.path)
            if files.status(WRITTEN_ELSEWHERE) is not None:
                written = parse_json(files.read(WRITTEN_ELSEWHERE, MAX_JSON_BYTES), WRITTEN_ELSEWHERE)
                hashes = hashes | written if isinstance(written, dict) else hashes
        except (UserError, OSError, ValueError):
            continue
        held |= {(name.rpartition("/")[2], value) for name, value in hashes.items() if isinstance(value, str)}
    names = {name for name, _ in held}

    def is_held(run: RunFolder, log: str) -> bool:
        name = log.rpartition("/")[2]
        if name not in names:
            return False
        try:
            with run.files().open(log) as stream:
                return (name, hashlib.file_digest(cast("Any", stream), "sha256").hexdigest()) in held
        except (UserError, OSError):
            return False

    copied = [run for run in logs if all(is_held(run, log) for log in own_logs(run))]
    return [run.key for run in copied]


def _of_table(file: Path, label: str) -> Iterator[RunFolder]:
    """Yields each run of a table."""
    run = RunFolder(TABLE, file, label, is_file=True)
    parts = runs_of_table(file)
    for part in parts:
        yield dataclasses.replace(run, label=f"{label}/{plain_text(part)}" if len(parts) > 1 else label, part=part)
    if not parts:
        yield run


def below(given: Path, *, tables: bool = False) -> Iterator[RunFolder]:
    """Yields the runs in and below a folder, or of a file.

    Args:
        tables: also tables in folders, and pass over a file that is not a run.
    """
    if packed_place(given) is None and given.is_file():
        if (found := formats.format_of_file(given.name)) is not None:
            yield RunFolder(found.name, given, given.name, is_file=True)
        elif is_trainer_log(given.name):
            run = RunFolder(TABLE, given, given.parent.name or given.name, is_file=True)
            # it stands for all of its kind in its folder, such as 0.monitor.csv and 1.monitor.csv: one run
            yield dataclasses.replace(run, path=given.parent / next(iter(own_logs(run)), given.name))
        elif given.suffix == ".csv":
            yield from _of_table(given, given.name)
        elif not tables:
            raise UserError(
                f"{given} is not a recorded run", hint="give a folder, an event file or a file that ends in .csv"
            )
        return
    top = packed_top(Path(os.path.abspath(given)))
    shown_top = unpacked_path(top)
    for folder, names, others in folders_of(top):
        path = Path(folder)
        others[:] = [name for name in others if not name.startswith(".")]
        names[:] = sorted(name for name in names if not is_archived(path / name) and not name.startswith("."))
        shown = unpacked_path(path)
        label = shown.relative_to(shown_top).as_posix() if path != top else shown.name
        if is_bundle(path):
            names.clear()
            others.clear()
            yield RunFolder(BUNDLE, path, label)
            continue
        modes = [name for name in (*MODES, *PROGRAM_MODES) if name in names and is_bundle(path / name)]
        if modes:
            # the files in metrics/ of a run root duplicate its bundles
            names[:] = [name for name in names if name != METRICS]
            continue
        for name in sorted(others) if tables else ():
            if name.endswith(".csv") and not is_trainer_log(name) and kind_at(path / name) is Kind.FILE:
                yield from _of_table(path / name, f"{label}/{name}")
        links = tuple(sorted(name for name in [*names, *others] if kind_at(path / name) is Kind.LINK))
        if (found := formats.format_of(others)) is not None:
            names.clear()
            others.clear()
            yield RunFolder(found.name, path, label, links)
            continue
        if packed_place(path) is None:
            for name in sorted(others):
                if (found := formats.format_of_file(name)) is not None and kind_at(path / name) is Kind.FILE:
                    yield RunFolder(found.name, path / name, name if path == top else f"{label}/{name}", is_file=True)
        if METRICS in names and any(files_of(path).status(f"{METRICS}/{name}") for name in EARLIER_FILES):
            names.clear()
            others.clear()
            yield RunFolder(EARLIER, path, label, links)
        elif any(is_trainer_log(name) and (name != MLFLOW or METRICS in names) for name in others):
            children = writer_children(path, names, others)
            names[:] = [name for name in names if name not in children]
            if any(name.endswith(WANDB_SUFFIX) for name in others):
                names.clear()  # the folders below hold copies of the run's files
            yield RunFolder(LOGS, path, label, links)


def _relative(paths: Sequence[Path], *, above: bool = False) -> list[str]:
    """Returns paths relative to their common folder, as if packed files were unpacked if that is unique.

    Args:
        above: take the common folder of the parents, which no path can equal.
    """
    real = [Path(os.path.abspath(path)) for path in paths]
    shown = [unpacked_path(path) for path in real]
    chosen = shown if len(set(shown)) == len(set(real)) else real
    common = os.path.commonpath([path.parent for path in chosen] if above else chosen)
    return [os.path.relpath(path, common) for path in chosen]
