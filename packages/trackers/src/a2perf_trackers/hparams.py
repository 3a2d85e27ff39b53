"""The records of TensorBoard's HParams dashboard: start and end of each session, which is a run.

The dashboard finds all parameters and metrics in the sessions. Importing this module imports ``tensorboard``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.text.summary_v2 import text_pb

from a2perf_trackers.description import RunDescription

_STATUS = {
    "finished": api_pb2.STATUS_SUCCESS,
    "recorded": api_pb2.STATUS_SUCCESS,
    "failed": api_pb2.STATUS_FAILURE,
    "interrupted": api_pb2.STATUS_FAILURE,
    "unfinished": api_pb2.STATUS_RUNNING,
}
_DIGITS = 8


def session(description: RunDescription, summary_tag: str) -> Iterator[bytes]:
    """Yields the events of a run: its summary, start and end."""
    began = description.started_s or 0.0
    yield _event(hparams_pb(description.params, trial_name(description), began), began)
    yield _event(text_pb(summary_tag, description.summary()), began)
    status = _STATUS.get(description.run.state, api_pb2.STATUS_UNKNOWN)
    end = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=description.ended_s or 0.0)
    summary = summary_pb2.Summary()
    summary.value.add(
        tag=metadata.SESSION_END_INFO_TAG,
        metadata=metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(session_end_info=end)),
        tensor=metadata.NULL_TENSOR,
    )
    yield _event(summary, description.ended_s or began)


def trial_name(description: RunDescription) -> str:
    """Returns the name of a run in the dashboard; runs with the same name would be averaged."""
    return f"{description.name} ({description.digest[:_DIGITS]})"


def _event(summary: Any, wall_time: float) -> bytes:
    encoded: bytes = event_pb2.Event(wall_time=wall_time, step=0, summary=summary).SerializeToString()
    return encoded
