"""Series of runs: scores, reports and comparisons read the same points, whatever was logged how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from a2perf.metrics.scores import score_runs
from a2perf.rlops.store import Store
from a2perf.runs import Run, find_runs, read_run
from a2perf.runs.bundles.files import BundleFiles
from a2perf.runs.bundles.inventory import record_files
from a2perf.runs.bundles.process_identity import ProcessIdentity
from a2perf.runs.events.log_files import find_logs
from a2perf.runs.seed_groups import SeedKey, differing, seed_key
from a2perf.runs.series import RETURN_TAGS, Series, SeriesReader, kept_points, read_returns
from a2perf.runs.stores.store import read_curve
from a2perf.storage import write_record
from tests.rlops import made_runs

RETURN = "rollout/ep_rew_mean"
Points = Sequence[tuple[int, float]]
KILLED: Points = [(step, float(step)) for step in range(100)]
RESUMED: Points = [(step, 20.0) for step in range(50, 100)]


def events(folder: Path, name: str, series: Mapping[str, Points], *, wall: float = 1.6e9) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"events.out.tfevents.{name}").write_bytes(made_runs.events(series, wall=wall))


def one_event_file(artifacts: Path) -> None:
    events(artifacts, "1", {RETURN: [*KILLED, *RESUMED]})


def two_event_files(artifacts: Path) -> None:
    events(artifacts, "2", {RETURN: RESUMED}, wall=1.7e9)
    events(artifacts, "9", {RETURN: KILLED})


def progress_table(artifacts: Path) -> None:
    rows = "".join(f"{step},{value}\n" for step, value in [*KILLED, *RESUMED])
    (artifacts / "progress.csv").write_text(f"time/total_timesteps,{RETURN}\n{rows}")


def recorded(top: Path, write: Callable[[Path], None], **changes: object) -> tuple[Run, Series | None]:
    """Records a training run; returns what the scores read of it and what a comparison reads."""
    bundle = top / "ppo" / "task" / "seed_1" / "train"
    (bundle / "artifacts").mkdir(parents=True)
    write(bundle / "artifacts")
    manifest = made_runs.manifest("train")
    for name, value in changes.items():
        setattr(manifest, name, value)
    record_files(bundle, manifest)
    write_record(bundle / "manifest.json", manifest)
    (folder,) = find_runs([top])
    store = Store(top)
    (stored,) = store.runs()
    return read_run(folder), read_curve(stored)


@pytest.mark.parametrize("write", [one_event_file, two_event_files, progress_table])
def test_a_resume_discards_what_it_overwrote_for_every_reader(tmp_path: Path, write: Callable[[Path], None]) -> None:
    run, curve = recorded(tmp_path, write)
    assert run.curve is not None
    assert curve is not None
    assert float(np.mean(run.curve.values[-50:])) == 20.0
    assert float(np.mean(curve.values[-50:])) == 20.0
    np.testing.assert_array_equal(run.curve.steps, np.arange(100))
    np.testing.assert_array_equal(run.curve.values, curve.values)
    assert run.curve.restarts == ((99.0, 50.0),)
    assert "the step counter went back 1 time(s); 50 points from before a restart are left out" in run.conditions


def test_upstream_formulas_score_the_resumed_curve_too(tmp_path: Path) -> None:
    recorded(tmp_path, two_event_files)
    (group,) = score_runs([tmp_path], "upstream", cached=False)["groups"]
    assert group["scores"]["LowerCVarOnAcross"]["per_run"] == [20.0]


def test_a_later_restart_discards_an_earlier_resume() -> None:
    steps = np.array([0.0, 10, 20, 30, 20, 30, 40, 10, 20])
    kept, restarts = kept_points(steps)
    assert np.flatnonzero(kept).tolist() == [0, 7, 8]
    assert restarts == ((30.0, 20.0), (40.0, 10.0))


def test_session_that_begins_at_the_last_step_writes_it_again() -> None:
    kept, restarts = kept_points(np.array([0.0, 10, 10, 10, 20]), [3])
    assert np.flatnonzero(kept).tolist() == [0, 3, 4]
    assert restarts == ((10.0, 10.0),)
    assert kept_points(np.array([0.0, 10, 10, 20]))[0].all()  # several environments of one writer


def test_one_order_of_return_tags(tmp_path: Path) -> None:
    def write(artifacts: Path) -> None:
        events(artifacts, "1", {"charts/episodic_return": [(1, 1.0), (2, 2.0)], "Metrics/AverageReturn": [(1, 7.0)]})

    run, curve = recorded(tmp_path, write)
    assert run.curve is not None
    assert curve is not None
    assert (run.curve.name, curve.name) == ("Metrics/AverageReturn", "Metrics/AverageReturn")
    assert (run.curve.values.tolist(), curve.values.tolist()) == ([7.0], [7.0])
    assert RETURN_TAGS.index("Metrics/AverageReturn") < RETURN_TAGS.index("charts/episodic_return")


def test_kinds_of_files_count_in_one_order(tmp_path: Path) -> None:
    def write(artifacts: Path) -> None:
        (artifacts / "evaluation.csv").write_text("step,return\n1,5\n")
        (artifacts / "monitor.csv").write_text('#{"t_start": 1.0}\nr,l,t\n4.0,10,0.5\n')
        (artifacts / "progress.csv").write_text("step,return\n1,3\n")
        events(artifacts, "1", {"reward": [(1, 1.0)]})

    run, curve = recorded(tmp_path, write)
    assert run.curve is not None
    assert curve is not None
    assert (run.curve.values.tolist(), curve.values.tolist()) == ([1.0], [1.0])
    artifacts = run.folder.path / "artifacts"
    found = []
    for name in ("events.out.tfevents.1", "progress.csv", "monitor.csv", "evaluation.csv"):
        series, _ = read_returns(SeriesReader(find_logs(BundleFiles(run.folder.path))))
        assert series is not None
        found.append(series.values.tolist())
        (artifacts / name).unlink()
    assert found == [[1.0], [3.0], [4.0], [5.0]]


@pytest.mark.parametrize(("folders", "apart_s"), [("ab", 0.0), ("aa", 0.0), ("ab", 1e6)])
def test_writers_at_the_same_time_or_in_different_folders_are_averaged(
    tmp_path: Path, folders: str, apart_s: float
) -> None:
    for number, folder in enumerate(folders):
        curve = {RETURN: [(0, 1.0), (10, 3.0 + number)]}
        events(tmp_path / "artifacts" / folder, str(number), curve, wall=1.6e9 + apart_s * number)
    series, notes = read_returns(SeriesReader(find_logs(BundleFiles(tmp_path))))
    assert series is not None
    assert (series.steps.tolist(), series.values.tolist(), notes) == ([0, 10], [1.0, 3.5], [])


def test_file_that_the_manifest_does_not_list_is_read_by_nobody(tmp_path: Path) -> None:
    run, _ = recorded(tmp_path, progress_table)
    events(run.folder.path / "artifacts", "added", {RETURN: [(1, 1e6)]})
    store = Store(tmp_path)
    curve = read_curve(store.runs()[0])
    again = read_run(run.folder)
    assert again.curve is not None
    assert curve is not None
    assert again.changed
    assert (again.curve.values.max(), curve.values.max()) == (49.0, 49.0)


def test_arguments_of_the_environment_tell_groups_of_seeds_apart(tmp_path: Path) -> None:
    one, _ = recorded(tmp_path / "one", one_event_file, env_kwargs={"b": 1, "a": [2]})
    same, _ = recorded(tmp_path / "same", one_event_file, env_kwargs={"a": [2], "b": 1}, root_seed=2)
    other, _ = recorded(tmp_path / "other", one_event_file, env_kwargs={"a": [3], "b": 1}, root_seed=3)
    keys = [seed_key(run.identity, run.folder) for run in (one, same, other)]
    assert keys[0] == keys[1] != keys[2]
    assert differing(keys) == {"env_kwargs": {'{"a": [2], "b": 1}', '{"a": [3], "b": 1}'}}
    assert differing(keys[:2]) == {}
    assert SeedKey._fields[:5] == ("domain", "task", "algorithm", "version", "fingerprint")
    groups = score_runs([tmp_path], cached=False)["groups"]
    assert [(group["seeds"], group["env_kwargs"]) for group in groups] == [
        ([1, 2], '{"a": [2], "b": 1}'),
        ([3], '{"a": [3], "b": 1}'),
    ]


def test_process_id_that_another_process_has_now_is_not_the_writer() -> None:
    mine = ProcessIdentity.current()
    assert mine.started is not None
    assert ProcessIdentity(mine.host, mine.boot, mine.pid, mine.started + 1).alive() is False
    # an older record has neither the start time nor the namespace
    boot = mine.boot.partition("/")[0]
    assert ProcessIdentity(mine.host, f"{boot}/", mine.pid, None).alive() is True
    assert ProcessIdentity(mine.host, f"{boot}/pid:[1]", mine.pid, None).alive() is None
    assert ProcessIdentity.parse(str(ProcessIdentity(mine.host, boot, mine.pid, None))).started is None
