"""Scores as objects: the document and text of the command, tables with units, figures with intervals."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pandas
import pytest
from click.testing import CliRunner

from a2perf.api.results import Runs, read_run, read_runs
from a2perf.api.scored_group import text_line
from a2perf.api.scoring import Scores, score
from a2perf.cli.results import score as score_command
from a2perf.errors import ConfigError, UserError
from tests.metrics import made_bundles
from tests.shipped_runs import packed

PACKED = packed("small/numpy_ars")


@pytest.fixture(scope="module")
def scores() -> Scores:
    """Scores of one agent on three tasks, three seeds each."""
    return score(PACKED)


def of_command(*arguments: str) -> str:
    return CliRunner().invoke(score_command, [str(PACKED), *arguments], catch_exceptions=False).output


@pytest.mark.parametrize("profile", ["corrected", "upstream"])
def test_the_bytes_of_the_file_are_those_of_the_command(profile: str, tmp_path: Path) -> None:
    printed = of_command("-o", str(tmp_path / "command"), "--profile", profile, "--json")
    written = score(PACKED, profile=profile).write(tmp_path / "api")  # type: ignore[arg-type]
    assert written == tmp_path / "api" / "scores.json"
    assert written.read_bytes() == (tmp_path / "command" / "scores.json").read_bytes() == printed.encode()


def test_paths_runs_results_and_sequences_give_equal_scores(scores: Scores) -> None:
    runs = read_runs(PACKED)
    assert score(runs) == runs.scores() == score([PACKED]) == score(list(runs)) == score(str(PACKED)) == scores
    assert score([runs[:5], *runs[5:]]) == scores
    assert score([runs, runs, PACKED]) == scores
    one = runs.where(task="dog_pace", mode="inference", seed=1)[0]
    (group,) = score(one).groups
    assert group.scores == one.scores
    assert group.seeds == (1,)


def test_runs_of_two_searches_with_the_same_names_stay_apart(made: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    made_bundles.write_inference(other / "seed_0", 7, name="rival")
    both = read_runs(made) + read_runs(other)
    document = both.scores().document
    names = [run["run"] for run in document["runs"]]
    assert len(set(names)) == len(names) == 7
    assert document == score([made, other]).document


def test_groups_hold_values_with_unit_interval_and_provenance(scores: Scores) -> None:
    document = scores.document
    for group, entry in zip(scores.groups, document["groups"], strict=True):
        assert (group.algorithm, group.task, group.mode) == (entry["algorithm"], entry["task"], entry["mode"])
        assert group.seeds == (1, 2, 3)
        for name, value in group.scores.items():
            stored = entry["scores"][name]
            expected = tuple(stored[field] for field in ("value", "unit", "provenance"))
            assert (value.value, value.unit, value.provenance) == expected
            assert value.interval == (None if stored["interval"] is None else tuple(stored["interval"]))
    group = next(group for group in scores if group.mode == "inference" and group.task == "dog_pace")
    energy = group["energy_gross"]
    assert repr(energy).startswith("≈ ")
    assert "mWh, estimated (" in repr(energy)
    assert repr(group).splitlines()[0] == "numpy_ars, inference on quadruped_locomotion/dog_pace: 3 runs"
    assert group["return"] == group["returns"]  # a word of the output
    with pytest.raises(ConfigError, match="did you mean 'returns'"):
        group["retruns"]


def test_one_row_per_group_and_metric(scores: Scores) -> None:
    frame = scores.to_pandas()
    document = scores.document
    for entry in document["groups"]:
        rows = frame[(frame.task == entry["task"]) & (frame["mode"] == entry["mode"])].set_index("metric")
        for name, stored in entry["scores"].items():
            row = rows.loc[name]
            low, high = stored["interval"] or (None, None)
            for column, value in {**stored, "low": low, "high": high}.items():
                if column in ("value", "spread", "low", "high"):
                    assert row[column] == value or (value is None and pandas.isna(row[column]))
            assert (row["n"], row["unit"], row["provenance"]) == (stored["n"], stored["unit"], stored["provenance"])
    normalised = frame[frame.metric == "normalised_score"].set_index("task")
    group = next(group for group in scores if group.task == "dog_trot" and group.mode == "inference")
    assert group.normalised is not None
    assert normalised.loc["dog_trot", "value"] == group.normalised.value
    assert (normalised.loc["dog_trot", "low"], normalised.loc["dog_trot", "high"]) == group.normalised.interval
    assert scores.table().row_units["value"] == "unit"


def test_one_row_per_group_on_request(scores: Scores) -> None:
    frame = scores.to_pandas(wide=True)
    assert len(frame) == len(scores) == len(scores.groups)
    assert frame.attrs["units"]["energy_gross"] == "kWh"
    assert frame.attrs["provenance"]["energy_gross"] == "estimated"
    for group, (_, row) in zip(scores, frame.iterrows(), strict=True):
        assert row["energy_gross"] == group["energy_gross"].value
    assert list(scores.to_pandas(wide=True, metrics=["returns"]).columns) == [
        "algorithm",
        "task",
        "mode",
        "runs",
        "returns",
        "domain",
        "version",
        "fingerprint",
        "view",
    ]
    assert set(scores.to_pandas(metrics=["returns"]).metric) == {"returns"}
    with pytest.raises(ConfigError, match="did you mean 'energy_gross'"):
        scores.to_pandas(metrics=["energy_gros"])


def test_generalization_has_a_row_per_task(tmp_path: Path) -> None:
    made_bundles.write_earlier(tmp_path, 0)
    found = score(tmp_path)
    group = next(group for group in found if group.mode == "generalization")
    frame = found.to_pandas(metrics=["returns"])
    rows = frame[frame["mode"] == "generalization"].set_index("task")["value"]
    assert len(group.tasks) > 1
    for task, values in group.tasks.items():
        assert rows[task] == values["returns"].value


def test_figures_show_each_value_with_its_interval(scores: Scores) -> None:
    figure = scores.plot("energy_gross")
    groups = [group for group in scores.groups if group.value_of("energy_gross") is not None]
    assert len(figure.axes) == len(groups)  # one algorithm: a panel per task and mode
    axes = figure.axes[0]
    assert axes.get_xlabel().startswith("≈ Energy, mWh")
    value = groups[0]["energy_gross"]
    assert value.value is not None
    assert value.interval is not None
    (line, dot) = axes.lines
    assert [x * 1e-6 for x in line.get_xdata()] == pytest.approx(list(value.interval))
    assert dot.get_xdata()[0] * 1e-6 == pytest.approx(value.value)
    assert len(scores.plot("normalised_score").axes) == 3
    with pytest.raises(ConfigError, match="no group has a value of 'retruns'; did you mean 'returns'"):
        scores.plot("retruns")


def test_scores_are_immutable_values(scores: Scores) -> None:
    again = pickle.loads(pickle.dumps(scores))
    assert again == scores
    assert hash(again) == hash(scores)
    assert again.groups == scores.groups
    document = scores.document
    document["groups"].clear()
    assert len(scores) > 0
    assert scores.document["groups"]
    with pytest.raises(AttributeError, match="immutable"):
        scores.profile = "x"  # type: ignore[misc]
    assert scores != score(PACKED, profile="upstream")


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown profile 'correct'; did you mean 'corrected'"):
        score(PACKED, profile="correct")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="nothing recorded"):
        score(tmp_path)
    with pytest.raises(ConfigError, match="int is not a recorded run"):
        score(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no runs were given"):
        score([])
    with pytest.raises(ConfigError, match="no runs were given"):
        score(Runs())


def test_a_run_that_changed_since_it_was_read_never_spoils_the_cache(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))
    runs = read_runs(made)
    before = [run.mean_return for run in runs]
    bundle = made / "seed_0" / "inference"
    content = json.loads((bundle / "metrics" / "rollouts.json").read_text())
    for episode in content["episodes"]:
        episode["episode_return"] += 1.0
    (bundle / "metrics" / "rollouts.json").write_text(json.dumps(content))
    made_bundles.seal(bundle)
    scores = runs.scores()
    assert scores == score(made) == score(made, cached=False)
    assert [run.mean_return for run in runs] == before
    assert read_run(bundle).mean_return == pytest.approx(
        sum(episode["episode_return"] for episode in content["episodes"]) / len(content["episodes"])
    )


def test_runs_in_memory_are_scored_after_their_files_are_gone(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))
    runs = read_runs(made)
    scores = runs.scores()
    kept = pickle.loads(pickle.dumps(runs))
    shutil.rmtree(made)
    assert kept.scores() == scores
    made.mkdir()
    with pytest.raises(UserError, match="nothing recorded"):
        score(made)


def test_a_long_number_is_apart_from_its_remark() -> None:
    assert text_line("Score", "−0.010 [−0.067, 0.033]", "0 random").endswith("0.033]  0 random")
