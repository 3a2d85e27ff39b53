"""The numbers behind the pictures: rolling means, lines, and where reference scores come from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from a2perf.metrics import protocol
from a2perf.metrics.reference_scale import ReferenceScale
from a2perf.rlops.compare.comparison import compare
from a2perf.rlops.compare.curves import line_of, rolled
from a2perf.rlops.compare.figures import lines_of
from a2perf.rlops.compare.references import references_of
from a2perf.rlops.compare.request import Group, Request
from a2perf.rlops.compare.selection import GroupRuns, Panel, select
from a2perf.rlops.compare.tables import number
from a2perf.rlops.filters import RunQuery
from a2perf.rlops.store import Store
from a2perf.runs.store import RunCurve
from tests.rlops.compare.made_experiment import NEW, OLD

TASK = "dog_pace"


def curve(steps: list[float], values: list[float], times: list[float] | None = None) -> RunCurve:
    return RunCurve("r", np.array(steps, float), np.array(values, float), np.array(times or steps, float))


def cell(*curves: RunCurve) -> GroupRuns:
    return GroupRuns(curves=curves)


@pytest.fixture
def request_() -> Request:
    groups = tuple(Group(tag, RunQuery(tags=(tag,))) for tag in (NEW, OLD))
    return Request(groups, baseline=1)


def test_rolling_mean_is_that_of_the_last_values() -> None:
    assert rolled(np.array([1.0, 3.0, 5.0, 7.0]), 2).tolist() == [1.0, 2.0, 4.0, 6.0]
    assert rolled(np.array([1.0, 3.0]), 100).tolist() == [1.0, 2.0]


def test_line_is_the_mean_over_the_range_that_all_runs_share() -> None:
    line = line_of(cell(curve([0, 10], [0, 10]), curve([2, 8], [4, 4])))
    assert line is not None
    assert (line.x[0], line.x[-1]) == (2.0, 8.0)
    assert line.mean[[0, -1]] == pytest.approx([3.0, 6.0])
    assert line.std[[0, -1]] == pytest.approx([1.0, 2.0])
    assert line_of(cell(curve([0, 1], [0, 1]), curve([2, 3], [0, 1]))) is None
    assert line_of(cell()) is None


def test_line_against_time_has_its_unit_and_no_runs_without_times() -> None:
    timed, untimed = curve([1, 2], [5, 6], [0, 7200]), curve([1, 2], [9, 9], [float("nan")] * 2)
    line = line_of(cell(timed, untimed), time=True)
    assert line is not None
    assert line.x[-1] == 120.0
    assert line.mean[-1] == 6.0


def test_values_that_are_not_numbers_are_not_drawn() -> None:
    line = line_of(cell(curve([0, 1, 2], [1, float("nan"), 3])))
    assert line is not None
    assert np.isfinite(line.mean).all()
    assert (line.x[-1], line.mean[-1]) == (2.0, 3.0)


def test_selection_reads_scores_of_last_values(written_store: Path, request_: Request) -> None:
    panels, notices = select(Store(written_store), dataclasses.replace(request_, last=10))
    assert [panel.name for panel in panels] == ["HalfCheetah-v2", "Hopper-v2", "Walker2d-v2"]
    for panel in panels:
        for found in panel.cells:
            expected = [held.values[-10:].mean() for held in found.curves]
            assert found.scores == pytest.approx(np.array(expected))
            assert [run.seed for run in found.runs] == [1, 2, 3]
    assert notices == []
    assert len(lines_of(compare(Store(written_store), request_))) == 3


def test_references_of_the_protocol_belong_to_the_same_behaviour_only(written_store: Path) -> None:
    task = protocol.load().task(TASK)
    run = Store(written_store).runs()[0]

    def panel(env: str, fingerprint: str, metric: str = "inference/episode_return") -> Panel:
        runs = (dataclasses.replace(run, fingerprint=fingerprint),)
        return Panel(env, env, metric, (GroupRuns(runs), GroupRuns(runs)))

    for env in (task.name, task.env_id):
        found = references_of([panel(env, task.fingerprint)], {})[env]
        assert found.normalise([task.reference("floor").mean, task.reference("expert").mean]) == pytest.approx([0, 1])
        assert references_of([panel(env, "0" * 64)], {}) == {}
        assert references_of([panel(env, task.fingerprint, "losses/q")], {}) == {}
    own = {TASK: ReferenceScale(0.0, 2.0, "mine")}
    assert references_of([panel(TASK, "0" * 64)], own)[TASK].normalise(1.0) == 0.5
    # three tasks share this environment, so its name alone does not say which
    web = "WebNavigation-Difficulty-01-v0"
    assert references_of([panel(web, protocol.load().task("difficulty_level_1_num_websites_1").fingerprint)], {}) == {}


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [(8294.49, 1900.0, "8294"), (-0.98104, 0.02, "−0.9810"), (1.5, None, "1.500"), (0.0, None, "0.00"),
     (None, None, "–"), (float("nan"), 1.0, "–")],
)  # fmt: skip
def test_numbers_are_written_with_two_digits_of_their_spread(
    value: float | None, spread: float | None, text: str
) -> None:
    assert number(value, spread) == text
