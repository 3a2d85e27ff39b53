"""Trackers of installed packages."""

from __future__ import annotations

import csv
import sys
from importlib import metadata
from pathlib import Path

import pytest

from a2perf.metrics.trackers.sampler import Sampler
from a2perf.metrics.trackers.tick import GROUP, Tick
from tests.waiting import Child


class Processes:
    """Counts the processes of the tree."""

    name = "count"
    columns: tuple[str, ...] = ("tree_processes",)

    def start(self) -> None: ...

    def attach(self) -> None: ...

    def sample(self, tick: Tick) -> None:
        if tick.tree is not None:
            tick.values["tree_processes"] = tick.tree.processes

    def stop(self) -> None: ...


class Taken(Processes):
    columns = ("elapsed_s",)


class Raises(Processes):
    name, columns = "raises", ("never",)

    def sample(self, tick: Tick) -> None:
        raise RuntimeError("no device")


def _installed(monkeypatch: pytest.MonkeyPatch, *classes: type) -> None:
    points = [
        metadata.EntryPoint(kind.__name__.lower(), f"{kind.__module__}:{kind.__name__}", GROUP) for kind in classes
    ]
    monkeypatch.setattr("a2perf.plugins.entry_points", lambda group: points if group == GROUP else [])


def test_column_of_an_installed_tracker_is_in_the_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _installed(monkeypatch, Processes, Taken, Raises, int)
    child = Child([sys.executable, "-c", "import time; time.sleep(0.6)"])
    sampler = Sampler(tmp_path, interval_s=0.2)
    sampler.attach(child.pid)
    child.wait(300)
    sampler.stop()
    rows = list(csv.DictReader((tmp_path / "system_trace.csv").open(newline="")))
    assert "1" in [row["tree_processes"] for row in rows]
    assert all(row["never"] == "" for row in rows)
    failures = {failure.tracker: failure.error for failure in sampler.failures}
    assert failures["raises"] == "RuntimeError: no device"
    assert "the column 'elapsed_s' is taken" in failures["taken"]
    assert "no method start()" in failures["int"]
