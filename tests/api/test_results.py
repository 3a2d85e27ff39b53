"""Runs as objects: every layout, lazily and once; the numbers of the commands; damage stated; strangers escaped."""

from __future__ import annotations

import doctest
import json
import math
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

from a2perf.api.results import Result, Runs, read_run, read_runs
from a2perf.cli.results import score as score_command
from a2perf.errors import ConfigError, UserError
from a2perf.metrics.protocol import fingerprint_of, load
from a2perf.records import Failure, FailureKind, RunState
from a2perf.runs import reading
from a2perf.runs.run import EARLIER, LOGS, TABLE
from tests.commands import run_python
from tests.metrics import made_bundles
from tests.report.recorded_runs import RunMaker
from tests.shipped_runs import packed, unpacked

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


@pytest.fixture(scope="module")
def shipped() -> Runs:
    """A packed file with runs of one agent on four tasks."""
    return read_runs(packed("small/numpy_ars"))


@pytest.fixture(scope="module")
def unpacked_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs as folders."""
    return unpacked("small/numpy_ars", tmp_path_factory.mktemp("unpacked"))


# --- layouts ----------------------------------------------------------------------------------------------------------


def test_runs_of_every_layout_are_read(tmp_path: Path) -> None:
    made_bundles.write_inference(tmp_path / "bundle", 0)
    made_bundles.write_earlier(tmp_path, 3)
    logs = tmp_path / "PPO_1"
    logs.mkdir()
    (logs / "progress.csv").write_text("time/total_timesteps,rollout/ep_rew_mean\n100,1.0\n200,2.5\n")
    (tmp_path / "sac_4.csv").write_text("steps,return\n10,0.5\n20,1.5\n30,2.5\n")
    runs = read_runs(tmp_path, tmp_path / "sac_4.csv")
    by_layout = {run.folder.layout: run for run in runs}
    assert len(runs) == 4
    earlier, logged, table = by_layout[EARLIER], by_layout[LOGS], by_layout[TABLE]
    assert (earlier.name, earlier.task, earlier.seed, earlier.state) == ("ppo", "dog_pace", 3, "recorded")
    assert earlier.modes == ("train", "inference", "generalization")
    assert earlier.mode == "inference"
    np.testing.assert_array_equal(earlier.returns, [4.0, 2.0, 3.0])
    assert set(earlier.scores_in("train")) != set(earlier.scores)
    assert (logged.name, logged.seed, logged.mode) == ("PPO", 1, "train")
    assert logged.curve is not None
    assert logged.curve.values.tolist() == [1.0, 2.5]
    assert (table.name, table.seed) == ("sac", 4)
    assert Runs([table]).curves()["return"].tolist() == [0.5, 1.5, 2.5]  # type: ignore[union-attr]


def test_packed_runs_equal_the_same_runs_as_folders(shipped: Runs, unpacked_runs: Path) -> None:
    folders = read_runs(unpacked_runs)
    assert len(folders) == len(shipped) > 10
    for zipped, folder in zip(shipped, folders, strict=True):
        assert zipped == folder
        assert hash(zipped) == hash(folder)
    assert folders == shipped
    assert folders[0] != shipped[1]


def test_read_run_takes_exactly_one_run(made: Path) -> None:
    assert read_run(made / "seed_1" / "train").seed == 1
    with pytest.raises(UserError, match=r"holds 2 runs: train, inference.*\n.*read_runs"):
        read_run(made / "seed_1")
    with pytest.raises(UserError, match=r"holds 6 runs: .*, \.\.\."):
        read_run(str(made))


@pytest.mark.parametrize(
    ("name", "message"),
    [("missing", "does not exist"), ("empty", "nothing recorded"), ("file.txt", "file.txt is not a recorded run")],
)
def test_paths_without_runs_fail_as_the_command_does(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("no run")
    with pytest.raises(UserError) as of_api:
        read_runs(tmp_path / name)
    with pytest.raises(UserError) as of_command:
        CliRunner().invoke(score_command, [str(tmp_path / name)], catch_exceptions=False, standalone_mode=False)
    assert str(of_api.value) == str(of_command.value)
    assert message in str(of_api.value)


@pytest.mark.parametrize("given", [[], [3]])
def test_arguments_that_are_no_paths(given: list[Any]) -> None:
    with pytest.raises(ConfigError):
        read_runs(*given)


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_numbers_of_a_result_are_its_scores(unpacked_runs: Path) -> None:
    bundle = unpacked_runs / "dog_pace" / "seed_1" / "inference"
    result = read_run(bundle)
    assert result.mean_return == result.scores["returns"].value == pytest.approx(result.returns.mean())
    metrics = {"energy": "energy_gross", "latency": "latency_round_trip_mean", "memory": "memory_rss_peak"}
    for name, metric in metrics.items():
        assert getattr(result, name) == result.scores.get(metric)
    assert result.wall_clock_s == result.scores["wall_clock"].value
    assert result.success_rate is None
    rollouts = json.loads((bundle / "metrics" / "rollouts.json").read_text())["episodes"]
    np.testing.assert_array_equal(result.returns, [episode["episode_return"] for episode in rollouts])


def test_the_interval_covers_the_mean_over_episodes(tmp_path: Path) -> None:
    bundle = made_bundles.write_inference(tmp_path, 2, count=20)
    result = read_run(bundle)
    low, high = result.interval or (math.nan, math.nan)
    values = result.returns
    from scipy import stats

    half = stats.t.ppf(0.975, 19) * values.std(ddof=1) / math.sqrt(20)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * half, rel=0.35)
    assert f"[{low:.2f}, {high:.2f}]" in repr(result)
    assert read_run(made_bundles.write_inference(tmp_path / "one", 2, count=1)).interval is None


def test_episodes_are_those_of_the_bundle(made: Path) -> None:
    result = read_run(made / "seed_1" / "inference")
    table = result.episodes()
    episodes = json.loads((result.bundle / "metrics" / "rollouts.json").read_text())["episodes"]
    assert len(table) == 20
    assert list(table["return"]) == [episode["episode_return"] for episode in episodes]
    assert set(table["run"]) == {"seed_1/inference"}
    assert set(table["seed"]) == {1}
    assert list(table["episode_seed"]) == list(range(20))
    assert table["success"].all()  # type: ignore[union-attr]
    assert (table.units["wall_time"], table.units["length"]) == ("s", "steps")
    frame = table.to_pandas()
    assert frame["return"].mean() == pytest.approx(result.mean_return)


def test_steps_are_read_from_their_file_by_episode(made: Path) -> None:
    bundle = made / "seed_0" / "inference"
    np.savez_compressed(
        bundle / "metrics" / "rollout_steps.npz",
        episode=np.array([0, 0, 0, 1, 1]),
        round_trip_ns=np.array([1_000, 2_000, 3_000, 4_000, 5_000]),
        cpu_ns=np.array([10, 20, 30, 40, 50]),
    )
    made_bundles.seal(bundle)
    steps = read_run(bundle).steps()
    assert list(steps["episode"]) == [0, 0, 0, 1, 1]
    assert list(steps["step"]) == [0, 1, 2, 0, 1]
    np.testing.assert_allclose(steps["round_trip"], [1e-6, 2e-6, 3e-6, 4e-6, 5e-6], rtol=1e-12)
    np.testing.assert_allclose(steps["processor_time"], [1e-8, 2e-8, 3e-8, 4e-8, 5e-8], rtol=1e-12)
    assert steps.to_pandas().attrs["units"]["round_trip"] == "s"


@pytest.mark.parametrize("damage", ["pickle", "truncated", "lengths", "text"])
def test_a_damaged_or_pickled_file_of_steps_is_not_read(damage: str, made: Path, tmp_path: Path) -> None:
    bundle = made / "seed_0" / "inference"
    path = bundle / "metrics" / "rollout_steps.npz"
    victim = tmp_path / "executed"
    if damage == "pickle":
        bomb = np.empty(1, object)
        bomb[0] = Bomb(str(victim))
        np.savez(path, episode=bomb, round_trip_ns=bomb, cpu_ns=bomb)
    elif damage == "lengths":
        np.savez(path, episode=np.zeros(3, int), round_trip_ns=np.zeros(2, int), cpu_ns=np.zeros(3, int))
    else:
        np.savez(path, episode=np.zeros(3, int), round_trip_ns=np.zeros(3, int), cpu_ns=np.zeros(3, int))
        path.write_bytes(path.read_bytes()[:100] if damage == "truncated" else b"not an archive")
    made_bundles.seal(bundle)
    assert len(read_run(bundle).steps()) == 0
    assert not victim.exists()


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self.path, "w"))


def test_curves_have_one_row_per_point(made: Path) -> None:
    runs = read_runs(made)
    curves = runs.curves()
    assert len(curves) == 3 * 300
    assert curves.units == {"step": "steps", "elapsed": "s"}
    curve = runs.where(seed=2, mode="train")[0].curve
    assert curve is not None
    np.testing.assert_array_equal(curves.to_pandas().query("seed == 2")["return"], curve.values)


def test_one_row_per_run_with_units_and_provenance(shipped: Runs) -> None:
    frame = shipped.to_pandas()
    assert len(frame) == len(shipped)
    assert frame.attrs["units"]["energy_gross"] == "kWh"
    assert frame.attrs["units"]["latency_round_trip_mean"] == "s"
    for result, (_, row) in zip(shipped, frame.iterrows(), strict=True):
        assert (row["task"], row["seed"], row["mode"]) == (result.task, result.seed, result.mode)
        assert result.energy is not None
        assert (row["energy_gross"], row["energy_provenance"]) == (result.energy.value, result.energy.provenance)
        expected = result.mean_return
        assert row["return"] == expected or (expected is None and pandas.isna(row["return"]))
    assert shipped.table().row_provenance["energy_gross"] == "energy_provenance"
    assert shipped.table().provenance["memory_rss_peak"] == "measured"
    assert shipped.table(metrics=["emissions"]).provenance["emissions"] == "estimated"
    assert frame.attrs["provenance"]["wall_clock"] == "measured"
    assert len(frame) == len(shipped)
    with pytest.raises(ConfigError, match="did you mean 'energy_gross'"):
        shipped.table(metrics=["energy_gros"])


def test_normalised_score_is_that_of_the_protocol(shipped: Runs) -> None:
    result = shipped.where(task="dog_pace", mode="inference")[0]
    from a2perf.metrics import protocol

    task = protocol.load("v1-small").task_of("dog_pace", result.run.identity.fingerprint)
    assert task is not None
    assert result.normalised_score == pytest.approx(float(task.normalise(result.mean_return or 0.0)))
    assert result.table()["normalised_score"][0] == result.normalised_score
    assert shipped.where(mode="train")[0].normalised_score is None


# --- sequences --------------------------------------------------------------------------------------------------------


def test_runs_are_an_immutable_sequence(shipped: Runs) -> None:
    assert isinstance(shipped[0], Result)
    assert isinstance(shipped[:3], Runs)
    assert shipped[:3] + shipped[3:] == shipped
    assert next(reversed(shipped)) is shipped[-1]
    assert shipped[1] in shipped
    assert shipped.index(shipped[2]) == 2
    with pytest.raises(AttributeError, match="immutable"):
        shipped.results = ()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="immutable"):
        shipped[0].task = "x"  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        shipped.where(mode="inference")[0].returns[0] = 1.0
    with pytest.raises(TypeError, match="holds Result objects, not str"):
        Runs(["path"])  # type: ignore[list-item]


def test_where_selects_by_value_list_and_function(shipped: Runs) -> None:
    chosen = shipped.where(task="dog_pace", mode="inference")
    assert {(run.task, run.mode) for run in chosen} == {("dog_pace", "inference")}
    assert len(shipped.where(task=["dog_pace", "dog_trot"])) == 2 * len(shipped.where(task="dog_pace"))
    assert {run.seed for run in shipped.where(seed=lambda seed: seed > 1)} <= {2, 3, 4, 5}
    assert shipped.where(lambda run: run.mean_return is not None) == shipped.where(mode="inference")
    assert len(shipped.where(task="nothing")) == 0
    assert shipped.where(algorithm="numpy_ars", domain="quadruped_locomotion", state="finished") == shipped
    with pytest.raises(ConfigError, match=r"runs have no 'taks'; did you mean 'task'\?"):
        shipped.where(taks="dog_pace")


def test_returns_of_several_tasks_are_never_averaged_together(shipped: Runs) -> None:
    with pytest.raises(UserError, match=r"different scales\n  Hint: select one: runs.where\(task='dog_pace'\)"):
        shipped.mean_returns  # noqa: B018
    of_task = shipped.where(task="dog_pace", mode="inference")
    np.testing.assert_array_equal(of_task.mean_returns, [run.mean_return for run in of_task])


def test_an_empty_selection_prints_and_says_so() -> None:
    assert repr(Runs()) == "no runs"
    assert len(Runs().to_pandas()) == 0
    with pytest.raises(ConfigError, match="holds no runs"):
        Runs().scores()


# --- laziness and pickling --------------------------------------------------------------------------------------------


def test_no_run_is_read_before_it_is_needed_and_none_twice(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))
    read: list[str] = []
    real = reading.read_run
    monkeypatch.setattr(reading, "read_run", lambda folder: read.append(folder.label) or real(folder))
    runs = read_runs(made)
    assert len(runs[:2]) == 2
    assert read == []
    scores = runs.scores()
    assert sorted(read) == sorted({run.folder.label for run in runs})
    assert runs.scores() is scores
    runs.to_pandas()
    runs.episodes()
    runs.where(task="trot").scores()
    repr(runs), repr(runs[0])
    assert len(read) == 6
    # with a warm cache of scores, no run is read at all
    read.clear()
    assert read_runs(made).scores() == scores
    assert read == []


def test_a_pickled_result_works_in_another_process_and_keeps_what_was_read(made: Path, tmp_path: Path) -> None:
    fresh, used = read_run(made / "seed_0" / "inference"), read_run(made / "seed_0" / "inference")
    mean = used.mean_return
    (tmp_path / "fresh.pickle").write_bytes(pickle.dumps(fresh))
    (tmp_path / "used.pickle").write_bytes(pickle.dumps(used))
    code = (
        "import pickle, sys\n"
        "fresh, used = (pickle.load(open(name, 'rb')) for name in sys.argv[1:])\n"
        "print(fresh == used, fresh.mean_return, used.energy.value, len(used.episodes()))"
    )
    arguments = [str(tmp_path / name) for name in ("fresh.pickle", "used.pickle")]
    done = run_python(code, *arguments, cwd=tmp_path)
    energy = used.energy.value if used.energy is not None else None
    assert done.stdout.split() == ["True", repr(mean), repr(energy), "20"], done.stderr
    shutil.rmtree(made)
    kept = pickle.loads((tmp_path / "used.pickle").read_bytes())
    assert kept.mean_return == mean
    assert len(kept.episodes()) == 20


def test_a_result_does_not_depend_on_the_working_directory(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    result = read_run("seed_0/inference")
    assert repr(result).endswith(" seed_0/inference")
    unread = read_run("seed_0/inference")
    monkeypatch.chdir(tmp_path)
    assert unread == result
    assert repr(unread).endswith(" runs/seed_0/inference")


def test_changed_values_are_not_equal(made: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(made / "seed_0" / "inference", tmp_path / "copy" / "inference")
    original = read_run(made / "seed_0" / "inference")
    assert read_run(copy) == original
    path = copy / "metrics" / "rollouts.json"
    path.write_text(path.read_text().replace('"episode_return": 1', '"episode_return": 2', 1))
    assert read_run(copy) != original
    assert original != "text"


# --- failed, unfinished, damaged, hostile -----------------------------------------------------------------------------


def test_a_failed_run_shows_the_cause_first(tmp_path: Path) -> None:
    maker = RunMaker(tmp_path)
    failure = Failure(
        kind=FailureKind.EXCEPTION,
        where="train",
        message="ValueError: <b>bad</b>",
        traceback="Traceback\n  line 3",
        log="logs/participant.log",
    )
    maker.failed("broken", failure, log="first line\n<script>last line</script>\x1b[31m\n")
    result = read_run(tmp_path / "broken")
    assert (result.state, result.failure) == ("failed", failure)
    assert result.mean_return is None
    lines = repr(result).splitlines()
    assert lines[1] == "  failed in train (exception): ValueError: <b>bad</b>"


def test_a_noisy_host_is_stated_with_the_numbers(tmp_path: Path) -> None:
    maker = RunMaker(tmp_path)
    maker.manifest("agent", "inference")
    maker.rollouts("agent", [1.0, 2.0, 3.0])
    maker.costs("agent", "inference", noisy=("other processes used 80 % of the processors",))
    result = read_run(tmp_path)
    line = "Times and energies unreliable, noisy host: other processes used 80 % of the processors."
    assert line in result.conditions
    assert line in " ".join(repr(result).split())


def test_generalization_keeps_its_tasks_apart(tmp_path: Path) -> None:
    maker, dogs = RunMaker(tmp_path), {name: load("v2").tasks[name] for name in ("dog_pace", "dog_trot")}
    behaviour = fingerprint_of({name: task.fingerprint for name, task in dogs.items()})
    maker.manifest("agent", "generalization", task="", env_fingerprint=behaviour)
    for task, returns in {"dog_pace": [1.0, 2.0, 3.0], "dog_trot": [10.0, 20.0]}.items():
        maker.rollouts("agent", returns, mode="generalization", task=task)
    result = read_run(tmp_path)
    assert result.mean_return == pytest.approx((2.0 + 15.0) / 2)
    score = (float(dogs["dog_pace"].normalise(2.0)) + float(dogs["dog_trot"].normalise(15.0))) / 2
    assert result.normalised_score == pytest.approx(score, rel=1e-12)
    assert f"Score                        {score:.3f}" in str(read_runs(tmp_path).scores())
    assert result.interval is None
    frame = result.episodes().to_pandas()
    assert frame.groupby("task")["return"].mean().to_dict() == {"dog_pace": 2.0, "dog_trot": 15.0}
    np.testing.assert_array_equal(result.returns, frame["return"])
    assert len(result.plot().axes) == 2


@pytest.mark.parametrize("other", ["my_task", "dog_trot"])
def test_generalization_over_a_task_without_references_or_of_another_behaviour_has_no_score(
    other: str, tmp_path: Path
) -> None:
    maker, pace = RunMaker(tmp_path), load("v2").tasks["dog_pace"]
    behaviour = fingerprint_of({"dog_pace": pace.fingerprint, other: "another"})
    maker.manifest("agent", "generalization", task="", env_fingerprint=behaviour)
    for task in ("dog_pace", other):
        maker.rollouts("agent", [1.0, 2.0], mode="generalization", task=task)
    result = read_run(tmp_path)
    assert result.normalised_score is None
    assert "generalization_score" not in result.scores
    assert result.mean_return == 1.5


def test_many_conditions_do_not_fill_the_screen(tmp_path: Path) -> None:
    bundle = made_bundles.write_inference(tmp_path, 0)
    for number in range(40):
        os.symlink("/etc/passwd", bundle / f"link_{number}")
    result = read_run(bundle)
    assert len(repr(result).splitlines()) < 60


def test_a_condition_of_several_runs_is_told_once(tmp_path: Path) -> None:
    for seed in range(3):
        os.symlink("/etc/passwd", made_bundles.write_inference(tmp_path / f"seed_{seed}", seed) / "link")
    text = str(read_runs(tmp_path).scores())
    assert text.count("seed_0/inference and 2 more: link: a link that is not in the manifest") == 1


def test_an_unfinished_run_is_scored_with_its_condition(tmp_path: Path) -> None:
    bundle = made_bundles.write_inference(tmp_path, 0)
    made_bundles.seal(bundle, state=RunState.RUNNING)
    result = read_run(bundle)
    assert result.state == "unfinished"
    assert result.mean_return is not None
    assert any("not finished" in text for text in result.conditions)
    assert "not finished" in repr(result)


def test_a_run_that_vanished_before_it_was_read_is_a_condition(tmp_path: Path) -> None:
    path = tmp_path / "sac_1.csv"
    path.write_text("steps,return\n1,2\n")
    result = read_run(path)
    path.unlink()
    assert result.conditions
    assert result.mean_return is None
    assert "no returns in these files" in repr(result)


def test_an_unreadable_run_is_a_result_without_numbers(tmp_path: Path) -> None:
    bundle = made_bundles.write_inference(tmp_path, 0)
    (bundle / "manifest.json").write_text("{")
    result = read_run(bundle)
    assert result.state == "unreadable"
    assert any("manifest.json could not be read" in text for text in result.conditions)
    assert "manifest.json could not be read" in " ".join(repr(result).split())


def test_names_of_strangers_are_escaped(tmp_path: Path) -> None:
    made_bundles.write_inference(tmp_path / "a", 0, name=HOSTILE, task=HOSTILE)
    runs = read_runs(tmp_path)
    for shown in (runs, runs[0], runs.scores(), runs[0].episodes(), runs.table()):
        assert "\x1b" not in repr(shown)
        assert "\u202e" not in repr(shown)
    html = runs.table()._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "\x1b" not in runs[0].name + runs[0].task
    assert "\x1b" not in "".join(runs.to_pandas()["algorithm"])
    runs.plot().savefig(tmp_path / "figure.svg")
    assert "\x1b" not in (tmp_path / "figure.svg").read_text()


# --- figures and documentation ----------------------------------------------------------------------------------------


def test_figures_have_a_panel_per_task_and_leave_pyplot_alone(shipped: Runs, tmp_path: Path) -> None:
    figure = shipped.plot("curves")
    assert len(figure.axes) == len({run.task for run in shipped.where(mode="train")})
    returns = shipped.where(task=["dog_pace", "dog_trot"], mode="inference").plot()
    assert [axes.get_xlabel() for axes in returns.axes] == ["return", "return"]
    # one line of dots per seed, and the mean
    counts = [len(line.get_xdata()) for line in returns.axes[0].lines]
    assert sum(counts) == 2 + sum(run.returns.size for run in shipped.where(task="dog_pace", mode="inference"))
    returns.savefig(tmp_path / "returns.png")
    assert (tmp_path / "returns.png").stat().st_size > 5_000
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    pickle.loads(pickle.dumps(returns))


def test_environments_that_behave_differently_get_separate_panels(tmp_path: Path) -> None:
    made_bundles.write_inference(tmp_path / "a" / "seed_0", 0)
    made_bundles.write_inference(tmp_path / "b" / "seed_0", 0, env_fingerprint="0" * 8)
    made_bundles.write_inference(tmp_path / "c" / "seed_0", 0, env_kwargs={"friction": 0.5})
    runs = read_runs(tmp_path)
    for figure in (runs.plot(), runs.scores().plot()):
        labels = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
        assert sorted(labels) == [["agent"], ["agent", "agent (2)"]]


def test_plots_without_data_or_of_an_unknown_kind(shipped: Runs) -> None:
    with pytest.raises(ConfigError, match="did you mean 'curves'"):
        shipped.plot("curve")
    with pytest.raises(UserError, match="hold no training curve"):
        shipped.where(mode="inference").plot("curves")
    with pytest.raises(UserError, match="no episodes and no training curve"):
        Runs().plot()


def test_the_examples_of_where_run(shipped: Runs) -> None:
    examples = doctest.DocTestParser().get_examples(Runs.where.__doc__ or "")
    assert len(examples) == 2
    for example in examples:
        assert isinstance(eval(example.source, {"runs": shipped}), Runs)
