"""The reader of event files against TensorBoard's own and on damaged files; the writer against both readers."""

from __future__ import annotations

import importlib
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2perf.runs.events import event_checksums
from a2perf.runs.events.event_writer import EventWriter
from tests.event_logs import event_files_below, read_event_file
from tests.metrics import event_bytes as made

RETURN = "Metrics/AverageReturn"


def written(folder: Path, data: bytes) -> Path:
    path = folder / "events.out.tfevents.1"
    path.write_bytes(data)
    return path


# --- checksums --------------------------------------------------------------------------------------------------------


def test_checksum_of_the_standard_vectors():
    # RFC 3720, appendix B.4, and the customary check value
    assert event_checksums.crc32c(b"123456789") == 0xE3069283
    assert event_checksums.crc32c(bytes(32)) == 0x8A9136AA
    assert event_checksums.crc32c(b"\xff" * 32) == 0x62A8AB43


# --- against TensorBoard ----------------------------------------------------------------------------------------------

floats = st.floats(width=32, allow_nan=True, allow_infinity=True)
steps = st.one_of(st.integers(0, 300), st.integers(0, 2**62), st.integers(-5, -1))
points = st.lists(
    st.tuples(steps, st.lists(st.tuples(st.sampled_from(["a", "loss", "é/x", RETURN]), floats), max_size=3)),
    max_size=40,
)


@given(points=points, as_tensor=st.booleans(), repeats=st.integers(1, 6))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_equals_tensorboard(tmp_path: Path, points, as_tensor: bool, repeats: int):
    protos = pytest.importorskip("tensorboard.compat.proto.event_pb2", reason="tensorboard is not installed")
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    data = [made.version()]
    for step, values in points * repeats:
        event = protos.Event(wall_time=1.5e9 + step % 97, step=step)
        for tag, value in values:
            entry = event.summary.value.add(tag=tag)
            if as_tensor:
                entry.tensor.dtype = 1
                entry.tensor.tensor_shape.SetInParent()
                if step % 2:
                    entry.tensor.tensor_content = struct.pack("<f", value)
                else:
                    entry.tensor.float_val.append(value)
            else:
                entry.simple_value = value
        data.append(made.record(event.SerializeToString()))
    path = written(tmp_path, b"".join(data))
    theirs = accumulator.EventAccumulator(
        str(path), size_guidance={"scalars": 0, "tensors": 0}, purge_orphaned_data=False
    ).Reload()
    found = read_event_file(path)
    assert found.problems == []
    assert found.records == len(data)
    assert sorted(found.scalars) == sorted(theirs.Tags()["tensors" if as_tensor else "scalars"])
    for tag, series in found.scalars.items():
        expected = theirs.Tensors(tag) if as_tensor else theirs.Scalars(tag)
        assert series.steps.tolist() == [point.step for point in expected]
        assert series.wall_times.tolist() == [point.wall_time for point in expected]
        values = [
            struct.unpack("<f", point.tensor_proto.tensor_content)[0]
            if as_tensor and point.tensor_proto.tensor_content
            else point.tensor_proto.float_val[0]
            if as_tensor
            else point.value
            for point in expected
        ]
        np.testing.assert_array_equal(series.values, np.array(values, np.float64))


# --- other contents ---------------------------------------------------------------------------------------------------


def test_both_encodings_and_several_values_an_event_keep_the_order_of_the_file(tmp_path: Path):
    data = made.version()
    for step in range(200):
        both = made.simple("a", step) + made.tensor("b", -step)
        data += made.record(made.event(step, both if step % 3 else made.tensor("b", -step)))
    found = read_event_file(written(tmp_path, data)).scalars
    assert found["a"].steps.tolist() == [step for step in range(200) if step % 3]
    assert found["b"].values.tolist() == [-step for step in range(200)]


def test_histograms_texts_and_images_are_passed_over(tmp_path: Path):
    image = made.message(1, made.message(1, b"picture") + made.message(4, bytes(20_000)))
    vector = made.message(
        1, made.message(1, b"v") + made.message(8, b"\x08\x01" + made.message(2, made.message(2, b"")))
    )
    data = made.version()
    for step in range(20):
        data += made.record(made.event(step, image)) + made.record(made.event(step, vector))
        data += made.record(made.event(step, made.simple("a", step)))
    found = read_event_file(written(tmp_path, data))
    assert found.problems == []
    assert list(found.scalars) == ["a"]
    assert found.scalars["a"].values.tolist() == list(range(20))


def test_integer_tensors_of_both_kinds(tmp_path: Path):
    def entry(content: bytes) -> bytes:
        return made.message(1, made.message(1, b"n") + made.message(8, content))

    data = b"".join(
        made.record(made.event(step + 1, entry(content)))
        for step, content in enumerate(
            [
                b"\x08\x09" + made.message(4, struct.pack("<q", -3)),
                b"\x08\x09" + made.message(10, made.varint(-7)),
                b"\x08\x03\x38" + made.varint(300),
            ]
        )
    )
    assert read_event_file(written(tmp_path, data)).scalars["n"].values.tolist() == [-3, -7, 300]


# --- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 3, 11, 20, 40])
def test_truncated_tail_is_reported_and_the_rest_is_read(tmp_path: Path, cut: int):
    whole = made.version() + made.curve(RETURN, range(100))
    last = (
        whole.rindex(made.curve(RETURN, range(100))[-30:])
        + 30
        - len(made.record(made.event(9900, made.simple(RETURN, 99))))
    )
    found = read_event_file(written(tmp_path, whole[:-cut]))
    assert found.scalars[RETURN].values.tolist() == list(range(99))
    (problem,) = found.problems
    assert (problem.kind, problem.offset) == ("truncated", last)
    assert found.end == last


def test_every_single_flipped_byte_is_noticed_and_costs_at_most_its_record(tmp_path: Path):
    records = [made.record(made.event(step + 1, made.simple("a", step))) for step in range(12)]
    data = b"".join(records)
    ends = np.cumsum([len(record) for record in records])
    for at in range(len(data)):
        hurt = int(np.searchsorted(ends, at, side="right"))
        found = read_event_file(written(tmp_path, data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]))
        series = found.scalars["a"]
        kept = [step for step in range(12) if step != hurt]
        assert series.values.tolist() == kept, at
        (problem,) = found.problems
        assert problem.offset == ends[hurt] - len(records[hurt])
        # a changed length can also promise more bytes than there are, but its own checksum then betrays it
        assert problem.kind == "corrupt"


def test_garbage_in_the_middle_is_passed_over(tmp_path: Path):
    garbage = np.random.default_rng(0).integers(0, 256, 100_000, np.uint8).tobytes()
    head, tail = made.curve("a", range(30)), made.curve("a", range(30, 60))
    found = read_event_file(written(tmp_path, head + garbage + tail))
    assert found.scalars["a"].values.tolist() == list(range(60))
    assert [(problem.kind, problem.offset) for problem in found.problems] == [("corrupt", len(head))]


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_never_raises_and_never_makes_a_value(tmp_path: Path, data: bytes):
    found = read_event_file(written(tmp_path, data))
    assert found.scalars == {}
    assert bool(found.problems) == bool(data)


@given(payload=st.binary(max_size=80), copies=st.integers(1, 6))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sound_records_of_arbitrary_payloads_never_raise(tmp_path: Path, payload: bytes, copies: int):
    found = read_event_file(written(tmp_path, made.record(payload) * copies))
    assert found.records == copies
    assert all(problem.kind == "corrupt" for problem in found.problems)


def test_small_windows_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    image = made.record(made.event(5, made.message(1, made.message(1, b"p") + made.message(4, bytes(5000)))))
    data = made.version() + made.curve("a", range(300)) + image + made.curve("b", range(300)) + b"\x07"
    path = written(tmp_path, data)
    whole = read_event_file(path)
    monkeypatch.setattr("a2perf.runs.events.event_files.WINDOW_BYTES", 777)
    pieces = read_event_file(path)
    assert pieces.problems == whole.problems
    assert (pieces.records, pieces.end) == (whole.records, whole.end)
    for tag in ("a", "b"):
        np.testing.assert_array_equal(pieces.scalars[tag].values, whole.scalars[tag].values)
        np.testing.assert_array_equal(pieces.scalars[tag].steps, whole.scalars[tag].steps)


def test_symbolic_links_are_not_followed(tmp_path: Path):
    (tmp_path / "inside").mkdir()
    written(tmp_path, made.curve("a", range(3)))
    (tmp_path / "inside" / "events.out.tfevents.link").symlink_to(tmp_path / "events.out.tfevents.1")
    assert event_files_below(tmp_path / "inside") == []


# --- the writer -------------------------------------------------------------------------------------------------------


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
