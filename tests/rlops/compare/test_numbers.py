"""The numbers behind the pictures: curves, and where reference scores come from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from a2perf.metrics import protocol
from a2perf.metrics.protocol import ReferenceScale
from a2perf.report.learning import pooled_over_runs
from a2perf.rlops.compare.comparison import compare_panels
from a2perf.rlops.compare.figures import curves_of
from a2perf.rlops.compare.groups import in_store
from a2perf.rlops.compare.panel import GroupRuns, Panel
from a2perf.rlops.compare.panels import panels_of
from a2perf.rlops.compare.references import references_of
from a2perf.rlops.compare.request import Group, Request
from a2perf.rlops.compare.tables import number
from a2perf.rlops.filters import RunQuery
from a2perf.rlops.store import Store
from tests.rlops.compare.made_experiment import NEW, OLD

TASK = "dog_pace"


@pytest.fixture
def request_(written_store: Path) -> Request:
    groups = [Group(tag, RunQuery(tags=(tag,))) for tag in (NEW, OLD)]
    return Request(in_store(Store(written_store), groups), baseline=1)


def test_curves_are_the_mean_over_runs_with_the_interval_of_the_reports(request_: Request) -> None:
    compared = compare_panels(panels_of(request_, [None])[0], request_)
    drawn = curves_of(compared)
    assert [panel_ for panel_, _, _ in drawn] == list(compared.panels)
    for panel_, lines, _ in drawn:
        for cell_, line in zip(panel_.cells, lines, strict=True):
            assert line.mean is not None
            assert [name for name, _, _ in line.runs] == ["seed 1", "seed 2", "seed 3"]
            pooled = pooled_over_runs([(held.steps, held.values) for held in cell_.curves])
            assert pooled is not None
            for drawn, expected in zip((line.x, line.mean, line.low, line.high), pooled, strict=True):
                np.testing.assert_array_equal(drawn, expected)


def test_selection_reads_scores_of_last_values(request_: Request) -> None:
    panels, notices = panels_of(dataclasses.replace(request_, last=10), [None])
    assert [panel.name for panel in panels] == ["HalfCheetah-v2", "Hopper-v2", "Walker2d-v2"]
    for panel in panels:
        for found in panel.cells:
            expected = [held.values[-10:].mean() for held in found.curves]
            assert found.scores == pytest.approx(np.array(expected))
            assert [run.record.seed for run in found.runs] == [1, 2, 3]
    assert notices == []


def test_references_of_the_protocol_belong_to_the_same_behaviour_only(written_store: Path) -> None:
    task = protocol.load().task(TASK)
    run = Store(written_store).runs()[0]

    def panel(env: str, fingerprint: str, metric: str = "inference/episode_return") -> Panel:
        runs = (dataclasses.replace(run, identity=dataclasses.replace(run.identity, fingerprint=fingerprint)),)
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
    [
        (8294.49, 1900.0, "8294"),
        (-0.98104, 0.02, "−0.9810"),
        (1.5, None, "1.500"),
        (0.0, None, "0.00"),
        (None, None, "–"),
        (float("nan"), 1.0, "–"),
    ],
)
def test_numbers_are_written_with_two_digits_of_their_spread(
    value: float | None, spread: float | None, text: str
) -> None:
    assert number(value, spread) == text
