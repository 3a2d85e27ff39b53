"""MLflow: one MLflow run per recorded run, with parameters, metrics over steps and time, tags and a note.

Values are float64, as recorded. A tag holds the hash of the record, so a run that the experiment already has is not
logged again; a run that has continued since becomes another MLflow run. Needs the package ``mlflow-skinny`` or
``mlflow``.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from a2perf.metrics.values import Profile
from a2perf_trackers.description import RunDescription
from a2perf_trackers.exporting import ExportedRun, RunSource, export_each, runs_of
from a2perf_trackers.mlflow_store import (
    COMPLETE_TAG,
    DIGEST_TAG,
    HINT,
    MlflowExperiment,
    connected,
    file_store_allowed,
)

EXPERIMENT = "a2perf"

_MOST_METRICS, _MOST_PARAMS, _MOST_TAGS = 1000, 100, 100  # per batch
_MOST_PARAM_CHARACTERS, _MOST_TAG_CHARACTERS = 6000, 5000
_STATUS = {"failed": "FAILED", "interrupted": "KILLED", "unfinished": "RUNNING"}


def log_runs(
    runs: RunSource,
    *,
    tracking_uri: str | Path | None = None,
    experiment: str | None = None,
    profile: Profile = "corrected",
    trace: bool = True,
) -> list[ExportedRun]:
    """Logs recorded runs to MLflow.

    A run that the experiment already has is skipped.

    Args:
        runs: a ``Result``, ``Runs``, a path, or an iterable of these.
        tracking_uri: address of a server, a database (``sqlite:///mlflow.db``) or a folder; by default
            ``MLFLOW_TRACKING_URI`` or MLflow's own default.
        experiment: name of the MLflow experiment, by default ``"a2perf"``; created if it does not exist.
        profile: the formulas of the scores, ``"corrected"`` or ``"upstream"``.
        trace: include the samples of the trackers: power, memory and processor time.

    Returns:
        An entry per run, in the given order; ``run_id`` is the identifier of the MLflow run.

    Raises:
        MissingDependency: MLflow, or the package that its store needs, is not installed.
        UserError: no run was found, or MLflow refused one. Runs before it stay logged.

    Example:
        >>> import tempfile
        >>> from a2perf_trackers import mlflow
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     len(mlflow.log_runs("results/recorded/learning/minimal.zip", tracking_uri=folder))
        5
    """
    found = runs_of(runs)
    with file_store_allowed():
        store = connected(tracking_uri, experiment or EXPERIMENT)

        def write(description: RunDescription) -> ExportedRun:
            return _write(store, description)

        return export_each(found, "MLflow", write, hint=HINT, profile=profile, trace=trace)


def _write(store: MlflowExperiment, description: RunDescription) -> ExportedRun:
    run_id = store.logged.get(description.digest)
    is_new = run_id is None
    if run_id is None:
        if (left := store.incomplete.pop(description.digest, None)) is not None:
            store.client.delete_run(left)
        run_id = _create(store, description)
        store.logged[description.digest] = run_id
    return ExportedRun(description.run.key, description.name, run_id, store.place(run_id), is_new)


def _create(store: MlflowExperiment, description: RunDescription) -> str:
    client = store.client
    created = client.create_run(
        store.experiment_id,
        start_time=_milliseconds(description.started_s or 0.0),
        tags={DIGEST_TAG: description.digest},
        run_name=description.name,
    )
    run_id = str(created.info.run_id)
    try:
        _log_all(client, run_id, description)
        client.set_tag(run_id, COMPLETE_TAG, "yes")
        status = _STATUS.get(description.run.state, "FINISHED")
        if status == "RUNNING":
            client.update_run(run_id, status=status)
        else:
            ended = description.ended_s or description.started_s or 0.0
            client.set_terminated(run_id, status=status, end_time=_milliseconds(ended))
    except BaseException:
        with contextlib.suppress(Exception):  # the first error is the one to report
            client.delete_run(run_id)
        raise
    return run_id


def _log_all(client: Any, run_id: str, description: RunDescription) -> None:
    from mlflow.entities import Metric, Param, RunTag

    params = [Param(name, _cut(str(value), _MOST_PARAM_CHARACTERS)) for name, value in description.params.items()]
    tags = {
        "mlflow.note.content": _whole_lines(description.summary()),
        "a2perf.group": description.group,
        **description.tags,
        **_json_tags("a2perf.units", description.units()),
        **_json_tags("a2perf.provenance", description.provenance()),
    }
    run_tags = [RunTag(name, _cut(value, _MOST_TAG_CHARACTERS)) for name, value in tags.items()]
    for batch in _batches(params, _MOST_PARAMS):
        client.log_batch(run_id, params=batch)
    for batch in _batches(run_tags, _MOST_TAGS):
        client.log_batch(run_id, tags=batch)
    ended = _milliseconds(description.ended_s or description.started_s or 0.0)
    metrics = [Metric(name, value, ended, 0) for name, value in description.values().items()]
    for series in description.series:
        points: Any = zip(series.values.tolist(), series.times_s.tolist(), series.steps.tolist(), strict=True)
        metrics += [Metric(series.name, value, _milliseconds(moment), step) for value, moment, step in points]
    for batch in _batches(metrics, _MOST_METRICS):
        client.log_batch(run_id, metrics=batch)


def _batches(items: list[Any], most: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


def _json_tags(name: str, values: Mapping[str, str]) -> dict[str, str]:
    """Returns a mapping as JSON, in as many tags as the limit on their length requires."""
    pieces: list[dict[str, str]] = [{}]
    size = 2
    for key, value in values.items():
        added = len(json.dumps(key)) + len(json.dumps(value)) + 4
        if size + added > _MOST_TAG_CHARACTERS:
            pieces.append({})
            size = 2
        pieces[-1][key] = value
        size += added
    return {
        name if place == 0 else f"{name}.{place + 1}": json.dumps(piece) for place, piece in enumerate(pieces) if piece
    }


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _whole_lines(text: str) -> str:
    """Returns as many lines as a tag can hold."""
    return text if len(text) <= _MOST_TAG_CHARACTERS else text[:_MOST_TAG_CHARACTERS].rpartition("\n")[0]


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)
