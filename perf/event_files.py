"""Reading TensorBoard event files, beside TensorBoard's own EventAccumulator in the same run.

    python perf/event_files.py [--json] [--files 30] [--points 10000]

Every file holds two tags of that many points; simple values as PyTorch and Stable-Baselines3 write them, and tensors as
TensorFlow does. Times are processor seconds of this process, best of several where short: EventAccumulator without size
limits, this package's reader with and without the payloads' checksums, and its cache. A second table reads files of one
and of ten times the points, to show that the cost is linear.
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from a2perf.runs.bundles.files import BundleFiles
from a2perf.runs.events.event_checksums import crc32c
from a2perf.runs.events.log_files import LogKind, reader_of
from a2perf.runs.events.series_cache import SeriesCache
from tests.event_logs import read_event_file

TAGS = ("Metrics/AverageReturn", "Metrics/AverageEpisodeLength")


def record(payload: bytes) -> bytes:
    def stored(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(payload))
    return length + stored(length) + payload + stored(payload)


def write_file(path: Path, points: int, *, tensor: bool) -> None:
    """Writes one event file with two tags, encoded by ``tensorboard`` and not by this package."""
    from tensorboard.compat.proto.event_pb2 import Event

    with path.open("wb") as stream:
        stream.write(record(Event(wall_time=1.6e9, file_version="brain.Event:2").SerializeToString()))
        for index in range(points):
            for tag in TAGS:
                event = Event(wall_time=1.6e9 + 0.1 * index, step=100 * index)
                value = event.summary.value.add(tag=tag)
                if tensor:
                    value.tensor.dtype = 1
                    value.tensor.tensor_shape.SetInParent()
                    value.tensor.tensor_content = struct.pack("<f", 0.3 * index)
                else:
                    value.simple_value = 0.3 * index
                stream.write(record(event.SerializeToString()))


def best(action: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return min(times)


def compare(files: list[Path], cache_folder: Path) -> dict[str, float]:
    """Processor seconds for all files by reader."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def accumulator() -> None:
        for path in files:
            EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0}).Reload()

    def ours() -> None:
        for path in files:
            assert len(read_event_file(path).scalars) == len(TAGS)

    def cached() -> None:
        cache = SeriesCache(cache_folder)
        for path in files:
            folder = BundleFiles(path.parent)
            status = folder.status(path.name)
            assert status is not None
            log = cache.read(folder, status, reader_of(folder, path.name, LogKind.EVENTS))
            assert len([log.read(name) for name in log.names]) == len(TAGS)

    return {
        "EventAccumulator": best(accumulator, 1),
        "reader": best(ours, 3),
        "filling the cache": best(cached, 1),
        "from the cache": best(cached, 5),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--files", type=int, default=30)
    parser.add_argument("--points", type=int, default=10_000)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, tensor in (("simple value", False), ("tensor", True)):
            base = root / name.replace(" ", "_")
            base.mkdir()
            files = [base / f"events.out.tfevents.{index:03d}" for index in range(options.files)]
            write_file(files[0], options.points, tensor=tensor)
            for path in files[1:]:
                shutil.copyfile(files[0], path)
            seconds = compare(files, base / "cache")
            results[name] = {
                "megabytes": sum(path.stat().st_size for path in files) / 1e6,
                "points": 2 * options.files * options.points,
                "seconds": seconds,
                "ratio": {reader: seconds["EventAccumulator"] / value for reader, value in seconds.items()},
            }
        large = root / "events.out.tfevents.large"
        write_file(large, 10 * options.points, tensor=False)
        small = root / "simple_value" / "events.out.tfevents.000"
        one, ten = (best(lambda path=path: read_event_file(path), 5) for path in (small, large))
        results["linear"] = {"seconds of 1x": one, "seconds of 10x": ten, "ratio": ten / one}
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for name in ("simple value", "tensor"):
        found = results[name]
        print(f"\n{name}: {options.files} files, {found['points']:,} points, {found['megabytes']:.1f} MB")
        print(f"{'reader':32}{'s':>9}{'k points/s':>12}{'ratio':>9}")
        for reader, seconds in found["seconds"].items():
            rate = found["points"] / seconds / 1e3
            print(f"{reader:32}{seconds:9.3f}{rate:12.0f}{found['ratio'][reader]:9.1f}")
    linear = results["linear"]
    print(f"\n1x {linear['seconds of 1x']:.4f} s, 10x {linear['seconds of 10x']:.4f} s: {linear['ratio']:.1f} times")


if __name__ == "__main__":
    main()
