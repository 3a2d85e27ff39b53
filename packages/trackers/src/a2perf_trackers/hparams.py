"""The records of TensorBoard's HParams dashboard: the experiment, and start and end of each session.

A session is a run. The experiment lists all parameters with their values, and all metrics. It is one event file at the
top of the log folder; later exports extend it. Importing this module imports ``tensorboard``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.util import tensor_util

from a2perf.metrics.registry import all_metrics
from a2perf.runs.event_writer import EventWriter
from a2perf_trackers.description import RunDescription, Scalar

_SUFFIX = "a2perf-hparams"
_STATUS = {
    "finished": api_pb2.STATUS_SUCCESS,
    "recorded": api_pb2.STATUS_SUCCESS,
    "failed": api_pb2.STATUS_FAILURE,
    "interrupted": api_pb2.STATUS_FAILURE,
    "unfinished": api_pb2.STATUS_RUNNING,
}
_DIGITS = 8
_MOST_VALUES = 100
"""Most values of a text parameter that the dashboard offers as a filter."""


class HParamsExperiment:
    """The parameters and metrics of the runs of one log folder."""

    def __init__(self) -> None:
        self._params: dict[str, list[Scalar]] = {}
        self._metrics: dict[str, str] = {}

    def add(self, description: RunDescription) -> None:
        """Adds the parameters and metrics of a run."""
        for name, value in description.params.items():
            self._add_value(name, value)
        for number in description.numbers:
            unit = f" [{number.quantity.unit}]" if number.quantity.unit else ""
            self._metrics.setdefault(number.name, f"{number.label}{unit}")

    def session(self, description: RunDescription, summary_tag: str) -> Iterator[bytes]:
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

    def write(self, folder: Path) -> None:
        """Writes the experiment at the top of a log folder; replaces that of an earlier export and keeps its content.

        Raises:
            OSError: the folder cannot be written.
        """
        earlier = sorted(folder.glob(f"events.out.tfevents.*.{_SUFFIX}"))
        for path in earlier:
            for experiment in _experiments(path):
                self._take(experiment)
        infos = [self._info(name, values) for name, values in self._params.items()]
        metrics = [
            api_pb2.MetricInfo(name=api_pb2.MetricName(group="", tag=tag), display_name=tag, description=label)
            for tag, label in sorted(self._metrics.items(), key=_place)
        ]
        experiment = api_pb2.Experiment(name="a2perf", hparam_infos=infos, metric_infos=metrics)
        with EventWriter(folder, _SUFFIX) as writer:
            writer.event(_event(_hparams(metadata.EXPERIMENT_TAG, experiment=experiment), 0.0))
        for path in earlier:
            path.unlink(missing_ok=True)

    def _add_value(self, name: str, value: Scalar) -> None:
        values = self._params.setdefault(name, [])
        if value not in values:
            values.append(value)

    def _take(self, experiment: Any) -> None:
        """Adds the content of an earlier experiment."""
        for info in experiment.hparam_infos:
            self._params.setdefault(info.name, [])
            if info.HasField("domain_interval"):
                self._add_value(info.name, info.domain_interval.min_value)
                self._add_value(info.name, info.domain_interval.max_value)
            for value in info.domain_discrete.values:
                kind = value.WhichOneof("kind")
                if kind is not None:
                    self._add_value(info.name, getattr(value, kind))
        for metric in experiment.metric_infos:
            self._metrics.setdefault(metric.name.tag, metric.description)

    def _info(self, name: str, values: list[Scalar]) -> Any:
        info = api_pb2.HParamInfo(name=name)
        if all(isinstance(value, bool) for value in values):
            info.type = api_pb2.DATA_TYPE_BOOL
        elif all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            info.type = api_pb2.DATA_TYPE_FLOAT64
            info.domain_interval.min_value = min(map(float, values))
            info.domain_interval.max_value = max(map(float, values))
            return info
        else:
            info.type = api_pb2.DATA_TYPE_STRING
        if len(values) <= _MOST_VALUES:
            for value in values:
                _set(info.domain_discrete.values.add(), value)
        return info


def trial_name(description: RunDescription) -> str:
    """Returns the name of a run in the dashboard; runs with the same name would be averaged."""
    return f"{description.name} ({description.digest[:_DIGITS]})"


def _place(metric: tuple[str, str]) -> int:
    """Returns the place of a metric in the order of the registry, which the dashboard keeps; others come last."""
    names = list(all_metrics())
    name = metric[0].rpartition("/")[2]
    return names.index(name) if name in names else len(names)


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


def _experiments(path: Path) -> Iterator[Any]:
    for data in RawEventFileLoader(str(path)).Load():
        for value in event_pb2.Event.FromString(data).summary.value:
            if value.tag == metadata.EXPERIMENT_TAG:
                yield metadata.parse_experiment_plugin_data(value.metadata.plugin_data.content)
