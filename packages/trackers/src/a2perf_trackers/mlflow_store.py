"""Stores of MLflow: a server, a database or a folder, and what an experiment in one already holds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from a2perf.assets import is_offline
from a2perf.errors import MissingDependency
from a2perf_trackers.exporting import install_line, tracker_error

DIGEST_TAG, COMPLETE_TAG = "a2perf.digest", "a2perf.complete"
HINT = "check the tracking URI and your rights there"
_FILE_STORE = "MLFLOW_ALLOW_FILE_STORE"
_PAGE = 1000


@dataclass
class MlflowExperiment:
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


def connected(tracking_uri: str | Path | None, experiment: str) -> MlflowExperiment:
    """Returns an experiment of a store, which is created if it does not exist.

    Args:
        tracking_uri: address of the store; None for MLflow's own choice.

    Raises:
        MissingDependency: MLflow, or the package that its store needs, is not installed.
        UserError: the store refused it.
    """
    if is_offline():  # MLflow reports its use over the network, unless this is set before it is imported
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise MissingDependency(
            "the export to MLflow needs the package mlflow-skinny, which is not installed",
            hint=install_line("mlflow"),
        ) from error
    given = None if tracking_uri is None else str(tracking_uri)
    if given is not None and _is_path(given):
        given = os.path.abspath(given)  # MLflow writes the place of artifacts into its records
    try:
        client = MlflowClient(tracking_uri=given)
        found = client.get_experiment_by_name(experiment)
        experiment_id = client.create_experiment(experiment) if found is None else found.experiment_id
        store = MlflowExperiment(client, given or str(client.tracking_uri), experiment_id)
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
        raise tracker_error("MLflow", f"the experiment {experiment!r}", error, HINT) from error
    return store


def _find_logged(store: MlflowExperiment) -> None:
    token = None
    while True:
        page = store.client.search_runs(
            [store.experiment_id], f"tags.`{DIGEST_TAG}` LIKE '%'", max_results=_PAGE, page_token=token
        )
        for run in page:
            held = store.logged if COMPLETE_TAG in run.data.tags else store.incomplete
            held[run.data.tags[DIGEST_TAG]] = run.info.run_id
        token = page.token
        if not token:
            return


def _discard_unreadable(store: MlflowExperiment) -> bool:
    """Deletes the incomplete runs of a store that is a folder; MLflow can restore them. Returns whether there were any.

    A killed export can leave an empty file of a metric, and MLflow then reads no run of the experiment.
    """
    folder = _folder_of(store.uri)
    if folder is None:
        return False
    left = [
        tags.parent.name
        for tags in folder.glob(f"{store.experiment_id}/*/tags")
        if (tags / DIGEST_TAG).exists() and not (tags / COMPLETE_TAG).exists()
    ]
    for run_id in left:
        store.client.delete_run(run_id)
    return bool(left)


@contextlib.contextmanager
def file_store_allowed() -> Iterator[None]:
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
