"""The store: index, states, curves and caches, selection with its errors, tags through time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from a2perf.errors import UserError
from a2perf.records import Episode, Manifest, RolloutResults, RunState
from a2perf.rlops.filters import RunQuery, parse_experiment
from a2perf.rlops.store import Store
from a2perf.runs.bundles.bundle import open_bundle
from a2perf.runs.run import Run
from a2perf.runs.series import Series
from a2perf.runs.stores.index import INDEX_FILE
from a2perf.runs.stores.store import logged_names, read_curve, read_curves, store_folder
from a2perf.storage import read_record, write_record
from tests.commands import run_python
from tests.rlops import made_runs
from tests.rlops.made_runs import METRIC, write_run

POINTS = [(0, 1.0), (10, 2.0), (20, 4.0)]


def curve_of(run: Run, metric: str | None = None) -> Series:
    found = read_curve(run, metric)
    assert found is not None
    return found


def held(runs: list[Run]) -> list[tuple[object, ...]]:
    """What the index keeps of runs."""
    return [(run.folder, run.identity, run.record, run.execution, run.logs, run.conditions) for run in runs]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two experiments, two environments, two seeds, two tags."""
    for seed in (1, 2):
        for env in ("CartPole-v1", "Acrobot-v1"):
            for experiment, tag in (("ppo", "v1"), ("dqn", "v2")):
                write_run(
                    tmp_path,
                    f"{experiment}/{env}/{tag}/seed_{seed}",
                    experiment=experiment,
                    env_id=env,
                    seed=seed,
                    tags=[tag, "all"],
                    curves={METRIC: [(step, value + seed) for step, value in POINTS]},
                    config={"gamma": 0.9 + seed / 100},
                    user="ada" if seed == 1 else "bob",
                )
    return Store(tmp_path)


def test_runs_are_listed_in_order_with_what_their_records_say(store: Store) -> None:
    runs = store.runs()
    assert [(run.record.experiment, run.record.env_id, run.record.seed) for run in runs] == [
        (experiment, env, seed)
        for experiment in ("dqn", "ppo")
        for env in ("Acrobot-v1", "CartPole-v1")
        for seed in (1, 2)
    ]
    run = runs[-1]
    assert run.name == "ppo/CartPole-v1/v1/seed_2"
    assert run.folder.path == store.path / run.name
    record, took = run.record, run.execution
    assert (record.tags, record.user, run.state, record.source) == (["all", "v1"], "bob", "finished", "command")
    assert (took.wall_s, took.energy_kwh, took.energy_quality) == (12.5, 0.002, "estimated")
    assert record.config["gamma"] == 0.92
    assert record.config["env_id"] == "CartPole-v1"
    assert list(run.logs) == ["command"]


def test_query_selects_and_select_names_what_exists(store: Store) -> None:
    assert len(store.runs(RunQuery(tags=("v1",)))) == 4
    assert len(store.select(parse_experiment("ppo?tag=v1&user=ada"))) == 2
    for query, message, hint in [
        (RunQuery(tags=("v3",)), "no run has the tag 'v3'", "tags that exist: all, v1, v2"),
        (parse_experiment("pppo"), "did you mean 'ppo'", "experiments that exist: dqn, ppo"),
        (RunQuery(env_ids=("Pong",)), "no run is on 'Pong'", "environments that exist: Acrobot-v1, CartPole-v1"),
        (RunQuery(user="eve"), "no run is by 'eve'", "users that exist: ada, bob"),
        (parse_experiment("ppo?gama=1"), "did you mean 'gamma'", "keys that exist"),
        (parse_experiment("ppo?gamma=2"), "no run has gamma = 2", "values of gamma that exist: 0.91, 0.92"),
        (parse_experiment("ppo?tag=v2"), "no run fits them all", "rlops tags list"),
        (RunQuery(states=("failed",)), "is failed", None),
    ]:
        with pytest.raises(UserError, match=message) as caught:
            store.select(query)
        assert caught.value.exit_code == 2
        assert hint is None or hint in (caught.value.hint or "")


def test_store_is_chosen_by_flag_then_variable_then_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A2PERF_STORE", raising=False)
    assert store_folder(None) == Path("runs")
    monkeypatch.setenv("A2PERF_STORE", "/somewhere")
    assert store_folder(None) == Path("/somewhere")
    assert store_folder("given") == Path("given")


def test_index_follows_new_changed_and_removed_runs(store: Store) -> None:
    store.runs()
    shutil.rmtree(store.path / "dqn")
    write_run(store.path, "a2c/Pong-v5/v1/seed_1", experiment="a2c", env_id="Pong-v5")
    path = store.path / "ppo/CartPole-v1/v1/seed_1/command/manifest.json"
    manifest = read_record(path, Manifest)
    manifest.state = RunState.INTERRUPTED
    write_record(path, manifest)
    fresh = {run.name: run.state for run in Store(store.path).runs()}
    assert len(fresh) == 5
    assert fresh["a2c/Pong-v5/v1/seed_1"] == "finished"
    assert fresh["ppo/CartPole-v1/v1/seed_1"] == "interrupted"
    assert held(store.runs()) == held(Store(store.path).runs())


@pytest.mark.parametrize("damage", ["removed", "garbage", "cut off", "another version", "a folder"])
def test_index_is_rebuilt_whatever_happened_to_it(store: Store, damage: str) -> None:
    expected = held(store.runs())
    index = store.index_folder / INDEX_FILE
    if damage == "removed":
        shutil.rmtree(store.index_folder)
    elif damage == "garbage":
        index.write_bytes(os.urandom(8192))
    elif damage == "cut off":
        index.write_bytes(index.read_bytes()[:100])
    elif damage == "a folder":
        index.unlink()
        index.mkdir()
    else:
        index.write_bytes(msgspec.msgpack.encode((99, {})))
    assert held(Store(store.path).runs()) == expected
    assert held(Store(store.path).runs()) == expected


def test_damaged_records_cost_only_themselves(store: Store) -> None:
    (store.path / "ppo/CartPole-v1/v1/seed_1/command/manifest.json").write_text("{")
    (store.path / "ppo/CartPole-v1/v1/seed_2/rlops.json").write_text("[]")
    runs = {run.name: run for run in store.runs()}
    assert len(runs) == 8
    assert runs["ppo/CartPole-v1/v1/seed_1"].state == "unreadable"
    assert "manifest.json" in runs["ppo/CartPole-v1/v1/seed_1"].conditions[0]
    assert runs["ppo/CartPole-v1/v1/seed_2"].record.experiment == "ppo"  # from the bundle
    assert runs["ppo/CartPole-v1/v1/seed_2"].conditions


def test_folders_of_the_launcher_are_runs_without_a_record_of_their_own(tmp_path: Path) -> None:
    for mode in ("train", "inference"):
        write_record(tmp_path / "agent" / "trot" / "seed_7" / mode / "manifest.json", made_runs.manifest(mode))
    episodes = [
        Episode(index=i, seed=i, episode_return=float(i), length=9, terminated=True, truncated=False, wall_s=2.0)
        for i in range(3)
    ]
    results = RolloutResults(task="t", env_id="CartPole-v1", episodes=episodes)
    write_record(tmp_path / "agent/trot/seed_7/inference/metrics/rollouts.json", results)
    (run,) = Store(tmp_path).runs()
    assert (run.name, run.record.experiment, run.record.env_id, run.record.seed) == (
        "agent/trot/seed_7",
        "ppo",
        "CartPole-v1",
        1,
    )
    assert (list(run.logs), run.record.source, run.record.version) == (
        ["train", "inference"],
        "submission",
        "4605546000",
    )
    curve = curve_of(run)
    assert curve.name == "inference/episode_return"
    assert curve.values.tolist() == [0, 1, 2]
    assert curve.elapsed_s().tolist() == [2, 4, 6]


def test_states_tell_a_run_that_goes_on_from_one_whose_writer_is_gone(tmp_path: Path) -> None:
    def state() -> str:
        return Store(tmp_path).runs()[0].state

    manifest = made_runs.manifest(state=RunState.RUNNING)
    manifest.attempts = []
    run = write_run(tmp_path, "ppo/CartPole-v1/v1/seed_1")
    (run / "command" / "manifest.json").unlink()
    assert state() == "queued"
    bundle = open_bundle(run / "command", manifest, "")
    assert state() == "running"
    bundle.finish(RunState.FINISHED, exit_code=0, reason="finished")
    assert state() == "finished"
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom tests.rlops import made_runs\n"
        "from a2perf.records import RunState\nfrom a2perf.runs.bundles.bundle import open_bundle\n"
        "manifest = made_runs.manifest(state=RunState.RUNNING)\nmanifest.attempts = []\n"
        "open_bundle(Path(sys.argv[1]), manifest, '', force=True)\nos.kill(os.getpid(), 9)\n"
    )
    repository = Path(__file__).resolve().parents[2]
    done = run_python(code, str(run / "command"), cwd=repository)
    assert done.returncode == -9
    assert state() == "killed"


def test_curve_by_name_and_by_usual_names(store: Store) -> None:
    run = store.select(parse_experiment("ppo"))[0]
    named = curve_of(run, METRIC)
    assert curve_of(run).name == METRIC
    np.testing.assert_array_equal(named.steps, [0, 10, 20])
    np.testing.assert_array_equal(named.values, [2, 3, 5])
    np.testing.assert_array_equal(named.elapsed_s(), [0, 1, 2])
    assert read_curve(run, "charts/other") is None
    both = {METRIC: POINTS, "charts/frames": [(0, 0.0), (10, 40.0), (20, 80.0)]}
    other = write_run(store.path, "x/E/v/seed_1", experiment="x", env_id="E", curves=both)
    found = next(run for run in store.runs() if run.folder.path == other)
    assert logged_names([found, run]) == {"charts/episodic_return": 2, "charts/frames": 1}


def test_curves_of_many_runs_leave_out_those_without_the_metric(store: Store) -> None:
    write_run(store.path, "none/E/v/seed_1", experiment="none")
    runs = store.runs()
    curves = read_curves(runs, METRIC)
    assert set(curves) == {run.name for run in runs if run.record.experiment != "none"}
    again = read_curves(Store(store.path).runs(), METRIC)
    for run_id, curve in curves.items():
        np.testing.assert_array_equal(curve.values, again[run_id].values)


def test_damaged_logs_are_read_up_to_the_damage(store: Store) -> None:
    run = store.runs()[0]
    (log,) = run.folder.path.rglob("events.out*")
    log.write_bytes(log.read_bytes()[:-7])
    assert len(curve_of(run, METRIC).values) == 2


def test_tags_of_the_journal_join_those_of_the_run_and_have_a_history(store: Store) -> None:
    ppo = [run.name for run in store.runs() if run.record.experiment == "ppo"]
    dqn = [run.name for run in store.runs() if run.record.experiment == "dqn"]
    first = store.tags.change("latest", ppo, action="add", reason="accepted", source_tag="v1")
    assert [run.name for run in store.runs(RunQuery(tags=("latest",)))] == ppo
    store.tags.change("latest", ppo, action="remove")
    store.tags.change("latest", dqn, action="add")
    store.tags.change("all", dqn[:1], action="remove")

    assert [run.name for run in store.runs(RunQuery(tags=("latest",)))] == dqn
    assert store.tag_names() == {"all": 7, "latest": 4, "v1": 4, "v2": 4}
    assert [(change.action, change.runs) for change in store.tags.history("latest")] == [
        ("add", tuple(ppo)),
        ("remove", tuple(ppo)),
        ("add", tuple(dqn)),
    ]
    assert (first.reason, first.source_tag) == ("accepted", "v1")
    assert store.born_with("v1") == ppo


@pytest.mark.parametrize("tag", ["", "a b", "a;b", "a?b", "a!", "x&y", "k=v", "a,b"])
def test_tags_that_no_filter_could_name_are_refused(store: Store, tag: str) -> None:
    with pytest.raises(UserError, match="cannot be a tag"):
        store.tags.change(tag, ["x"], action="add")


def test_store_that_cannot_be_written_is_still_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = held(store.runs())
    shutil.rmtree(store.index_folder)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    elsewhere = Store(store.path)
    assert not elsewhere.index_folder.is_relative_to(store.path)
    assert held(elsewhere.runs()) == expected
    assert read_curves(elsewhere.runs(), METRIC)
    assert not store.index_folder.exists()
