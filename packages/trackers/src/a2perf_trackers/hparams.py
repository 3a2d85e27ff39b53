"""The records of TensorBoard's HParams dashboard: start and end of each session, which is a run.

The dashboard finds all parameters and metrics in the sessions. Importing this module imports ``tensorboard``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.util import tensor_util

from a2perf_trackers.description import RunDescription, Scalar

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
    start = plugin_data_pb2.SessionStartInfo(
        group_name=trial_name(description), start_time_secs=description.started_s or 0.0
    )
    for name, value in description.params.items():
        _set(start.hparams[name], value)
    status = _STATUS.get(description.run.state, api_pb2.STATUS_UNKNOWN)
    end = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=description.ended_s or 0.0)
    began, ended = description.started_s or 0.0, description.ended_s or description.started_s or 0.0
    yield _event(_hparams(metadata.SESSION_START_INFO_TAG, session_start_info=start), began)
    yield _event(_text(summary_tag, description.summary()), began)
    yield _event(_hparams(metadata.SESSION_END_INFO_TAG, session_end_info=end), ended)


def trial_name(description: RunDescription) -> str:
    """Returns the name of a run in the dashboard; runs with the same name would be averaged."""
    return f"{description.name} ({description.digest[:_DIGITS]})"


def _set(target: Any, value: Scalar) -> None:
    """Sets a protocol buffer value; an integer becomes a double, which is the only number that HParams has."""
    if isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float):
        target.number_value = value
    else:
        target.string_value = value


def _hparams(tag: str, **content: Any) -> Any:
    data = plugin_data_pb2.HParamsPluginData(**content)
    value = summary_pb2.Summary.Value(
        tag=tag, metadata=metadata.create_summary_metadata(data), tensor=metadata.NULL_TENSOR
    )
    return summary_pb2.Summary(value=[value])


def _text(tag: str, text: str) -> Any:
    tensor = tensor_util.make_tensor_proto([text.encode()])
    described = text_metadata.create_summary_metadata(display_name=tag, description="")
    return summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, metadata=described, tensor=tensor)])


def _event(summary: Any, wall_time: float) -> bytes:
    encoded: bytes = event_pb2.Event(wall_time=wall_time, step=0, summary=summary).SerializeToString()
    return encoded
