"""MLflow: one MLflow run per recorded run, with parameters, metrics over steps and time, tags and a note.

Values are float64, as recorded. A tag holds the hash of the record, so a run that the experiment already has is not
logged again; a run that has continued since becomes another MLflow run. Needs the package ``mlflow-skinny`` or
``mlflow``.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from a2perf.assets import is_offline
from a2perf.errors import MissingDependency
from a2perf.metrics.values import Profile
from a2perf.runs.reading import AnyRuns, read_runs
from a2perf_trackers.description import RunDescription
from a2perf_trackers.exporting import ExportedRun, export_each, imported, tracker_error

EXPERIMENT = "a2perf"
_DIGEST_TAG, _COMPLETE_TAG = "a2perf.digest", "a2perf.complete"
_HINT = "check the tracking URI and your rights there"
_FILE_STORE = "MLFLOW_ALLOW_FILE_STORE"
_PAGE = 1000

_MOST_IN_BATCH = {"params": 100, "tags": 100, "metrics": 1000}
_MOST_PARAM_CHARACTERS, _MOST_TAG_CHARACTERS = 6000, 5000
_STATUS = {"failed": "FAILED", "interrupted": "KILLED", "unfinished": "RUNNING"}


def log_runs(
    runs: AnyRuns,
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
    found = read_runs(runs)
    with _file_store_allowed():
        store = _connected(tracking_uri, experiment or EXPERIMENT)

        def write(description: RunDescription) -> ExportedRun:
            return _write(store, description)

        return export_each(found, "MLflow", write, hint=_HINT, profile=profile, trace=trace)


def _write(store: _Experiment, description: RunDescription) -> ExportedRun:
    run_id = store.logged.get(description.digest)
    is_new = run_id is None
    if run_id is None:
        if (left := store.incomplete.pop(description.digest, None)) is not None:
            store.client.delete_run(left)
        run_id = _create(store, description)
        store.logged[description.digest] = run_id
    return ExportedRun(description.run.key, description.name, run_id, store.place(run_id), is_new)


def _create(store: _Experiment, description: RunDescription) -> str:
    client = store.client
    created = client.create_run(
        store.experiment_id,
        start_time=_milliseconds(description.started_s or 0.0),
        tags={_DIGEST_TAG: description.digest},
        run_name=description.name,
    )
    run_id = str(created.info.run_id)
    try:
        _log_all(client, run_id, description)
        client.set_tag(run_id, _COMPLETE_TAG, "yes")
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
    ended = _milliseconds(description.ended_s or description.started_s or 0.0)
    metrics = [Metric(name, value, ended, 0) for name, value in description.values().items()]
    for series in description.series:
        points: Any = zip(series.values.tolist(), series.times_s.tolist(), series.steps.tolist(), strict=True)
        metrics += [Metric(series.name, value, _milliseconds(moment), step) for value, moment, step in points]
    for kind, items in (("params", params), ("tags", run_tags), ("metrics", metrics)):
        most = _MOST_IN_BATCH[kind]
        for start in range(0, len(items), most):
            client.log_batch(run_id, **{kind: items[start : start + most]})


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


@dataclass
class _Experiment:
    """An experiment of an MLflow store.

    Attributes:
        incomplete: identifiers of MLflow runs that an interrupted export left, by digest.
    """

    client: Any
    uri: str
    experiment_id: str
    logged: dict[str, str] = field(default_factory=dict)
    incomplete: dict[str, str] = field(default_factory=dict)

    def place(self, run_id: str) -> str:
        """Returns the page of a run on a server; for other stores, their address."""
        if not self.uri.startswith(("http://", "https://")):
            return self.uri
        return f"{self.uri.rstrip('/')}/#/experiments/{self.experiment_id}/runs/{run_id}"


def _connected(tracking_uri: str | Path | None, experiment: str) -> _Experiment:
    """Returns an experiment of a store, which is created if it does not exist.

    Args:
        tracking_uri: address of the store; None for MLflow's own choice.

    Raises:
        MissingDependency: MLflow, or the package that its store needs, is not installed.
        UserError: the store refused it.
    """
    if is_offline():  # MLflow reports its use over the network, unless this is set before it is imported
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    tracking = imported("mlflow.tracking", "mlflow-skinny", "the export to MLflow needs", "mlflow")
    given = None if tracking_uri is None else str(tracking_uri)
    if given is not None and _is_path(given):
        given = os.path.abspath(given)  # MLflow writes the place of artifacts into its records
    try:
        client = tracking.MlflowClient(tracking_uri=given)
        found = client.get_experiment_by_name(experiment)
        experiment_id = client.create_experiment(experiment) if found is None else found.experiment_id
        store = _Experiment(client, given or str(client.tracking_uri), experiment_id)
        try:
            _find_logged(store)
        except Exception:  # the client raises the errors of its store, of many kinds
            if not _discard_unreadable(store):
                raise
            _find_logged(store)
    except ImportError as error:  # a database needs SQLAlchemy and Alembic, which mlflow-skinny does not bring
        raise MissingDependency(
            f"the MLflow store {given or 'of the default address'} needs the package {error.name}, "
            "which is not installed",
            hint="pip install mlflow, or give a folder as the tracking URI",
        ) from error
    except Exception as error:  # the client raises the errors of its store, of many kinds
        raise tracker_error("MLflow", f"the experiment {experiment!r}", error, _HINT) from error
    return store


def _find_logged(store: _Experiment) -> None:
    token = None
    while True:
        page = store.client.search_runs(
            [store.experiment_id], f"tags.`{_DIGEST_TAG}` LIKE '%'", max_results=_PAGE, page_token=token
        )
        for run in page:
            held = store.logged if _COMPLETE_TAG in run.data.tags else store.incomplete
            held[run.data.tags[_DIGEST_TAG]] = run.info.run_id
        token = page.token
        if not token:
            return


def _discard_unreadable(store: _Experiment) -> bool:
    """Deletes the incomplete runs of a store that is a folder; MLflow can restore them. Returns whether there were any.

    A killed export can leave an empty file of a metric, and MLflow then reads no run of the experiment.
    """
    folder = _folder_of(store.uri)
    if folder is None:
        return False
    left = [
        tags.parent.name
        for tags in folder.glob(f"{store.experiment_id}/*/tags")
        if (tags / _DIGEST_TAG).exists() and not (tags / _COMPLETE_TAG).exists()
    ]
    for run_id in left:
        store.client.delete_run(run_id)
    return bool(left)


@contextlib.contextmanager
def _file_store_allowed() -> Iterator[None]:
    """Lets MLflow use a folder as its store, which version 3.7 and later refuse without this variable."""
    if _FILE_STORE in os.environ:
        yield
        return
    os.environ[_FILE_STORE] = "true"
    try:
        yield
    finally:
        os.environ.pop(_FILE_STORE, None)


def _is_path(uri: str) -> bool:
    return uri not in ("", "databricks") and ":" not in uri


def _folder_of(uri: str) -> Path | None:
    """Returns the folder of a store; None if it is a server or a database."""
    if uri.startswith("file:"):
        return Path(url2pathname(urlsplit(uri).path))
    return Path(uri) if _is_path(uri) else None
