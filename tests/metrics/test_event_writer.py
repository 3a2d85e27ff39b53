"""Event files that a2perf writes itself, read back by its own reader and by TensorBoard's."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2perf.runs.event_files import read_event_file
from a2perf.runs.event_writer import EventWriter
from tests.metrics import event_bytes as made


def test_the_bytes_are_those_of_an_independent_writer(tmp_path: Path):
    with EventWriter(tmp_path) as writer:
        writer.scalar("Metrics/AverageReturn", 1.5, 300, wall_time=1.6e9)
        writer.scalar("b", -2.0, 0, wall_time=1.6e9)
    written = writer.path.read_bytes()
    expected = [
        made.record(made.event(300, made.simple("Metrics/AverageReturn", 1.5))),
        made.record(made.event(0, made.simple("b", -2.0))),
    ]
    assert written.endswith(b"".join(expected))


@given(
    points=st.lists(st.tuples(st.sampled_from("ab"), st.floats(width=32), st.integers(0, 2**62)), max_size=20),
)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, points: list[tuple[str, float, int]]):
    with EventWriter(tmp_path_factory.mktemp("events")) as writer:
        for tag, value, step in points:
            writer.scalar(tag, value, step)
    found = read_event_file(writer.path)
    assert found.problems == []
    for tag in {tag for tag, _, _ in points}:
        series = found.scalars[tag]
        assert series.steps.tolist() == [step for name, _, step in points if name == tag]
        for read, value in zip(series.values, [value for name, value, _ in points if name == tag], strict=True):
            assert read == value or (math.isnan(read) and math.isnan(value))


def test_values_can_be_read_while_the_file_is_open(tmp_path: Path):
    writer = EventWriter(tmp_path)
    writer.scalar("a", 1.0, 1)
    assert read_event_file(writer.path).scalars["a"].values.tolist() == [1.0]
    writer.close()
    writer.close()


def test_tensorboard_reads_it(tmp_path: Path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with EventWriter(tmp_path) as writer:
        for step in range(5):
            writer.scalar("a", step / 2, step * 10)
    accumulator = accumulators.EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert [(event.step, event.value) for event in accumulator.Scalars("a")] == [
        (step * 10, step / 2) for step in range(5)
    ]
