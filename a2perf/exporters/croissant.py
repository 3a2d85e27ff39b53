"""Croissant metadata of recorded runs: tables of runs and episodes as Parquet files, described by ``croissant.json``.

Offline datasets are described by ``a2perf.datasets.croissant``. Seeds of episodes that are secret and paths of this
machine are left out. Needs the package ``pyarrow`` (extra ``frames``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from a2perf.errors import ConfigError, MissingDependency, UserError, command_line, install_hint
from a2perf.exporters.given_runs import runs_of
from a2perf.exporters.publishable import has_public_seeds
from a2perf.plain_text import plain_text
from a2perf.report.croissant import (
    BOOLEAN,
    CROISSANT_FILE,
    INTEGER,
    PARQUET,
    TEXT,
    citation,
    croissant,
    field,
    file_object,
    record_set,
)
from a2perf.report.numbers_text import rounded
from a2perf.report.provenance import noise
from a2perf.report.run_sections import counted
from a2perf.report.score_tables import ESTIMATED_MARK
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import recorded
from a2perf.storage import json_text, sha256_of, write_atomic

if TYPE_CHECKING:
    import pyarrow

_LOCAL = ("bundle",)
"""Columns with paths of this machine."""
_SECRET = ("episode_seed",)
"""Columns that are left out if the seeds of a run are secret: one seed reveals the evaluation of others."""
_DESCRIPTIONS = {"runs": "One record per run.", "episodes": "One record per episode of a run."}


class ArrowSource(Protocol):
    """A table of ``a2perf``, such as that of ``Runs.episodes()``."""

    def to_arrow(self) -> pyarrow.Table:
        """Returns the table with units and descriptions in the metadata of its fields."""


class RecordedRuns(ArrowSource, Protocol):
    """Runs of ``a2perf.read_runs``."""

    def __iter__(self) -> Any:
        """Yields the runs."""

    def episodes(self) -> ArrowSource:
        """Returns all episodes."""


def write_runs_croissant(
    runs: RecordedRuns, folder: str | Path, *, name: str, description: str = "", license: str | None = None,
    url: str | None = None, authors: Sequence[str] = (), published: str | None = None, version: str = "1.0.0",
) -> Path:  # fmt: skip
    """Writes the tables of recorded runs as Parquet files, and their Croissant metadata.

    Args:
        runs: runs of ``a2perf.read_runs``.
        folder: receives ``runs.parquet``, ``episodes.parquet`` and ``croissant.json``; existing ones are replaced.
        name: name of the dataset.
        description: one sentence; by default the numbers of runs, submissions and tasks.
        license: identifier of SPDX or URL.
        url: web page of the dataset.
        authors: names.
        published: date, ISO 8601; by default the end of the last run.
        version: semantic version.

    Returns:
        The path of ``croissant.json``.

    Raises:
        UserError: no run was found, or one was changed after it ended.
        ConfigError: the folder cannot be written.
        MissingDependency: the package ``pyarrow`` is not installed.

    Example:
        >>> import a2perf
        >>> from a2perf.exporters.croissant import write_runs_croissant
        >>> runs = a2perf.read_runs("results/recorded/learning")
        >>> write_runs_croissant(runs, "published", name="learning", license="Apache-2.0")
        PosixPath('published/croissant.json')
    """
    parquet = _library()
    given: Iterable[Any] = runs
    found = runs_of(given)
    for run in found:
        if run.changed:
            raise UserError(
                f"the run {run.key} was changed after it ended",
                hint=command_line("a2perf", "validate", run.folder.path),
            )
    public = all(run.manifest is None or has_public_seeds(run.manifest) for run in found)
    hidden = _LOCAL if public else (*_LOCAL, *_SECRET)
    place = Path(folder)
    tables = {"runs": runs.to_arrow(), "episodes": runs.episodes().to_arrow()}
    files, record_sets = [], []
    try:
        place.mkdir(parents=True, exist_ok=True)
        for title, table in tables.items():
            kept = table.select([column for column in table.column_names if column not in hidden])
            if not kept.num_rows:
                continue
            path = place / f"{title}.parquet"
            parquet.write_table(kept, path)
            text = _DESCRIPTIONS[title]
            files.append(file_object(path.name, PARQUET, text, size=path.stat().st_size, sha256=sha256_of(path)))
            fields = [_field(title, path.name, column) for column in kept.schema]
            record_sets.append(record_set(title, text, fields))
        ends = [attempt.finished_at for run in found if run.manifest for attempt in run.manifest.attempts]
        date = published or max((end for end in ends if end), default=None)
        document = croissant(
            name, description or _counts(found), files=files, record_sets=record_sets,
            responsible_ai=_responsible_ai(found), version=version, authors=authors, published=date, license=license,
            url=url, keywords=("benchmark results", "energy"),
            cite_as=citation(name, authors=authors, year=(date or "")[:4]),
        )  # fmt: skip
        write_atomic(place / CROISSANT_FILE, json_text(document))
    except OSError as error:
        raise ConfigError(
            f"{place} cannot be written: {error.strerror or error}", hint="choose a writable folder"
        ) from error
    return place / CROISSANT_FILE


def _field(records: str, file: str, column: pyarrow.Field) -> dict[str, Any]:
    given = {key.decode(): value.decode() for key, value in (column.metadata or {}).items()}
    parts = [given.get("description") or column.name.replace("_", " ")]
    parts += [f"unit {given['unit']}"] if given.get("unit") else []
    parts += [given["provenance"]] if given.get("provenance") else []
    parts += [f"provenance in {given['provenance_column']}"] if given.get("provenance_column") else []
    name = plain_text(column.name)
    return field(records, name, _kind(column), "; ".join(parts), file, extract={"column": column.name})


def _kind(column: pyarrow.Field) -> str:
    name = str(column.type)
    kinds = {"double": "cr:Float64", "float": "cr:Float32", "bool": BOOLEAN}
    return kinds.get(name) or (INTEGER if name.startswith(("int", "uint")) else TEXT)


def _counts(runs: Sequence[Run]) -> str:
    submissions = {run.algorithm for run in runs}
    tasks = {run.identity.task for run in runs if run.identity.task}
    text = f"{counted(len(runs), 'run')} of {counted(len(submissions), 'submission')}"
    return f"{text} on {counted(len(tasks), 'task')}, recorded by a2perf."


def _responsible_ai(runs: Sequence[Run]) -> dict[str, Any]:
    manifests = [run.manifest for run in runs if run.manifest is not None]
    versions = sorted({manifest.a2perf_version for manifest in manifests})
    levels = sorted({manifest.sandbox.level for manifest in manifests if manifest.sandbox is not None})
    hosts = sorted({str(m.host["cpu_model"]) for m in manifests if m.host.get("cpu_model")})
    starts = sorted(m.attempts[0].started_at for m in manifests if m.attempts)
    noisy = sum(bool(noise(run)) for run in runs)
    failed = sum(run.state not in ("finished", "recorded") for run in runs)
    estimated = sum(run.tracking.energy.quality == "estimated" for run in runs)
    collection = [
        f"a2perf {', '.join(versions)} ran submissions." if versions else "The runs were recorded by other tools.",
        "In evaluations a2perf owned environments, seeds, rewards and clock; submissions chose actions.",
        f"Sandbox: {', '.join(levels)}." if levels else "",
        f"Processors: {', '.join(hosts)}." if hosts else "",
    ]
    found = {
        "rai:dataCollection": plain_text(" ".join(part for part in collection if part)),
        "rai:dataCollectionType": ["Software Collection", "Experiments"],
        "rai:dataCollectionTimeframe": [starts[0], starts[-1]] if starts else None,
        "rai:dataCollectionMissingData": f"{failed} of {counted(len(runs), 'run')} did not finish; their episodes are "
        "incomplete. Unknown numbers are null.",
        "rai:dataBiases": ["Submissions, tasks and seeds were chosen by the people who recorded the runs."],
        "rai:dataLimitations": [
            "Times and energies depend on the host: compare them only between runs of one host.",
            f"Other processes disturbed the timings of {noisy} of {counted(len(runs), 'run')}.",
            f"The energy of {estimated} of {counted(len(runs), 'run')} is an estimate of a model.",
            "All environments are simulations.",
        ],
        "rai:dataUseCases": [
            "Comparison of algorithms",
            "Study of reliability and of energy",
            "Reproduction of results",
        ],
        "rai:dataSocialImpact": _impact(runs),
        "rai:personalSensitiveInformation": ["None, except for names of submissions, which their authors chose."],
        "rai:dataReleaseMaintenancePlan": "A corrected formula or a new run gets a new version. The bundles of the "
        "runs hold a manifest of hashes.",
    }
    return {name: value for name, value in found.items() if value is not None}


def _impact(runs: Sequence[Run]) -> str:
    known = [recorded(run.tracking.energy.gross_kwh) for run in runs]
    energies = [energy for energy in known if energy is not None]
    if not energies:
        return "The energy of the runs was not recorded."
    number = rounded(sum(energies), "kWh")
    mark = f"{ESTIMATED_MARK} " if any(run.tracking.energy.quality == "estimated" for run in runs) else ""
    return (
        f"Energy of {len(energies)} of {counted(len(runs), 'run')}: {mark}{number.value} {number.unit}. "
        "Reuse of the results saves it."
    )


def _library() -> Any:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "tables of runs need the package pyarrow, which is not installed", hint=install_hint("frames")
        ) from error
    return parquet
