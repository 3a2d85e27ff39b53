"""``a2perf.compare``: the numbers of the command, groups by name, function or runs, and what is refused."""

from __future__ import annotations

import json
import pickle
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import a2perf
from a2perf.errors import ConfigError, UserError
from a2perf.rlops.compare.sentences import terminal_text
from a2perf.rlops.compare.verdict import Verdict
from a2perf.runs.run import IN_MEMORY, Run, RunIdentity
from a2perf.runs.tracking_record import TrackedEnergy, TrackingReport, nothing_tracked
from tests.commands import call_a2perf
from tests.rlops.compare.made_experiment import EXPERIMENT, NEW, OLD, write_experiment
from tests.shipped_runs import copy_parts


def made(
    name: str,
    seed: int,
    *,
    mean: float = 100.0,
    task: str = "walk",
    mode: str = "inference",
    state: str = "finished",
    energy_kwh: float | None = None,
    quality: str = "estimated",
    fingerprint: str = "f1",
    version: str = "",
) -> Run:
    """A run in memory with three episodes around a mean."""
    rng = np.random.default_rng([seed, len(name), int(mean)])
    tracking = nothing_tracked()
    if energy_kwh is not None:
        energy = energy_kwh * (1 + 0.01 * seed)
        tracking = TrackingReport(energy=TrackedEnergy(gross_kwh=energy, quality=quality, method="made"))
    return Run(
        RunIdentity(
            domain="d",
            task=task,
            algorithm=name,
            version=version or name.ljust(12, "0"),
            fingerprint=fingerprint,
            mode=mode,
            seed=seed,
            state=state,
        ),
        IN_MEMORY,
        returns={mode: {task: mean + rng.normal(0, 1, 3)}},
        tracking=tracking,
    )


def seeds(name: str, count: int = 5, **given: Any) -> list[Run]:
    return [made(name, seed, **given) for seed in range(count)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_experiment(tmp_path_factory.mktemp("compared") / "runs")


@pytest.fixture(scope="module")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_parts(tmp_path_factory.mktemp("recorded"), ["small"])


@pytest.fixture(scope="module")
def small(small_folder: Path) -> a2perf.Runs:
    return a2perf.read_runs(small_folder)


# --- the numbers of the command ---------------------------------------------------------------------------------------


def by_command(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    call_a2perf("rlops", "compare", *shlex.split(line), "--no-figures", "--no-report", check=True)
    found: dict[str, Any] = json.loads((folder / "compare.json").read_text())
    return found


@pytest.mark.parametrize("by", ["store", "runs"])
def test_tags_of_a_store_give_the_numbers_of_the_command(
    by: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = by_command(f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --store {store}", tmp_path, monkeypatch)
    given = store if by == "store" else a2perf.read_runs(store)
    found = a2perf.compare(given, baseline=OLD, candidate=NEW)
    record = json.loads(json.dumps(_builtins(found.record())))
    assert found.verdict == "REGRESSION"
    ours, theirs = record["candidates"][0]["panels"], expected["candidates"][0]["panels"]
    assert [panel["panel"] for panel in ours] == ["HalfCheetah-v2", "Hopper-v2", "Walker2d-v2"]
    assert ours == theirs
    assert record["candidates"][0]["p_together"] == expected["candidates"][0]["p_together"]


def test_training_curves_are_compared_by_their_last_values(small: a2perf.Runs) -> None:
    trained = small.where(mode="train", domain="quadruped_locomotion")
    found = a2perf.compare(trained, baseline="numpy_ars", candidate="sb3_ppo", last=3)
    (row,) = found.table().rows()
    expected = [np.mean(result.run.curve.values[-3:]) for result in trained.where(algorithm="sb3_ppo")]
    assert row["task"] == "dog_pace"
    assert row["candidate_mean"] == pytest.approx(np.mean(expected), rel=1e-12)


def test_the_folder_of_a_comparison_has_the_files_of_the_command(tmp_path: Path) -> None:
    found = a2perf.compare(seeds("old") + seeds("new"), baseline="old")
    files = found.write(tmp_path)
    assert files[0] == tmp_path / "compare.json"
    assert {file.name for file in files} >= {"compare.html", "compare.md", "compare.csv", "compare_comment.md"}
    assert json.loads(files[0].read_text())["candidates"][0]["group"] == "new"
    assert "compare-time.png" not in {file.name for file in files}
    page = (tmp_path / "compare.html").read_text()
    assert "mean over runs with its 95 % interval" not in page  # a curve through independent episodes
    assert (tmp_path / "compare.html").read_text().count("<html") == 1


def test_policies_are_compared_by_the_episodes_that_both_played(small: a2perf.Runs) -> None:
    """Each training seed has evaluation episodes of its own: 3 seeds of 10 episodes are 30 pairs."""
    names = {"baseline": "greedy_placer", "candidate": "annealing_placer"}
    found = a2perf.compare(small, **names, tasks="ariane", question="episodes")
    (judged,) = found.judgements["annealing_placer"]
    assert (judged.candidate.seeds, judged.baseline.seeds, judged.sign) == (30, 30, "better")
    over_seeds = a2perf.compare(small, **names, tasks="ariane")
    (by_seed,) = over_seeds.judgements["annealing_placer"]
    assert by_seed.sign == "not separated"
    assert judged.difference == pytest.approx(by_seed.difference, rel=1e-9)
    assert judged.high - judged.low < 0.1 * (by_seed.high - by_seed.low)
    assert "Question: these policies (units: shared episodes, in pairs)" in str(found)
    assert "Question: this algorithm (units: training seeds)" in str(over_seeds)
    assert (found.record().question, over_seeds.record().question) == ("episodes", "seeds")


def test_policies_without_shared_episodes_are_not_compared(small: a2perf.Runs) -> None:
    first, others = (small.where(algorithm="greedy_placer", task="ariane", seed=seed) for seed in (1, 2))
    found = a2perf.compare(small, baseline=first, candidate=others, question="episodes")
    ((judged,),) = found.judgements.values()
    assert judged.sign_reason == "not enough data (n=0 shared episodes, needs 3)"


# --- groups -----------------------------------------------------------------------------------------------------------


def test_names_functions_and_runs_select_the_same_groups(small: a2perf.Runs, small_folder: Path) -> None:
    by_name = a2perf.compare(small, baseline="minimal", candidate="numpy_ars")
    by_runs = a2perf.compare(
        small, baseline=small.where(algorithm="minimal"), candidate=small.where(algorithm="numpy_ars")
    )
    by_function = a2perf.compare(small_folder, baseline="minimal", candidate=lambda result: result.name == "numpy_ars")
    assert by_name == by_runs == by_function
    assert by_name != a2perf.compare(small, baseline="numpy_ars", candidate="minimal")
    assert [row["task"] for row in by_name.table().rows()] == ["dog_pace", "dog_spin", "dog_trot"]


def test_every_other_group_is_judged_on_the_tasks_that_it_has(small: a2perf.Runs) -> None:
    found = a2perf.compare(small, baseline="minimal")
    assert found.candidates[0] == "annealing_placer"
    tasks = {name: [one.env for one in judgements] for name, judgements in found.judgements.items()}
    assert tasks["sb3_ppo"] == ["dog_pace"]
    assert tasks["annealing_placer"] == ["ariane", "ariane_twin", "toy_macro_stdcell"]
    assert found.verdicts.keys() == tasks.keys()


def test_named_tasks_choose_the_other_groups(small: a2perf.Runs) -> None:
    found = a2perf.compare(small, baseline="minimal", tasks=["dog_pace"])
    assert found.candidates == ("motion_imitation", "numpy_ars", "sb3_ppo", "tf_agents_bc")
    assert {one.env for judgements in found.judgements.values() for one in judgements} == {"dog_pace"}


def test_a_version_is_compared_with_the_other_versions_of_its_submission() -> None:
    runs = [
        *seeds("ppo", version="abcdef0123"),
        *seeds("ppo", mean=50.0, version="beadfeed99"),
        *seeds("sac", mean=1.0),
    ]
    found = a2perf.compare(runs, baseline="abcd")
    assert (found.baseline, found.candidates) == ("abcd", ("beadfeed99",))
    assert found.verdict is Verdict.REGRESSION
    assert a2perf.compare(runs, baseline="ppo").candidates == ("sac",)


def test_a_tag_of_the_journal_is_the_current_one(store: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(store, tmp_path / "own"))
    call_a2perf("rlops", "tags", "add", "latest", "--source-tag", OLD, "--yes", "--store", own, check=True)
    runs = a2perf.read_runs(own)
    found = a2perf.compare(runs, baseline="latest")
    assert found.candidates == ("v1.0.0b2-9-g4605546",)
    assert found.verdict == "REGRESSION"
    assert a2perf.compare(own, baseline="latest", candidate=NEW).judgements[NEW] == tuple(
        found.judgements["v1.0.0b2-9-g4605546"]
    )


def test_several_versions_in_one_group_are_noticed() -> None:
    runs = [*seeds("ppo", 3, version="a" * 10), *seeds("ppo", 3, version="b" * 10), *seeds("sac")]
    found = a2perf.compare(runs, baseline="ppo")
    assert any("mixes 2 versions" in notice for notice in found.notices)


# --- metrics ----------------------------------------------------------------------------------------------------------


def test_energy_is_judged_beside_the_return_with_its_unit_and_direction() -> None:
    runs = [*seeds("old", 20, energy_kwh=1e-6), *seeds("new", 20, energy_kwh=2e-6)]
    found = a2perf.compare(runs, baseline="old", metric=("returns", "energy_gross"), gate=True)
    returns, energy = found.table().rows()
    assert (returns["verdict"], energy["verdict"]) == ("PASS", "REGRESSION")
    assert (returns["result"], energy["result"]) == ("not separated", "worse")
    assert {name: one.found.sign for name, one in found.overall["new"].items()} == {
        "returns": "not separated",
        "energy_gross": "worse",
    }
    assert energy["difference"] == pytest.approx(-1e-6 * 1.095)
    assert (energy["unit"], energy["provenance"]) == ("kWh", "estimated")
    assert "≈ 2.190 mWh" in str(found)
    frame = found.to_pandas()
    assert list(frame["metric"]) == ["returns", "energy_gross"]
    assert found.table().row_units["difference"] == "unit"


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("energy", "energy_gross"),
        ("Energy", "energy_gross"),
        ("Score", "returns"),
        ("return", "returns"),
        ("Peak memory (RSS)", "memory_rss_peak"),
        ("memory", "memory_rss_peak"),
        ("infer_once, median", "latency_infer_once_median"),
        ("Worst 5 %", "LowerCVaRAcrossRollouts"),
        ("Wall clock", "wall_clock"),
        ("success", "success_rate"),
    ],
)
def test_the_words_of_the_output_name_metrics_everywhere(small: a2perf.Runs, word: str, name: str) -> None:
    candidate = "web_solver" if name == "success_rate" else "greedy_placer"
    found = a2perf.compare(small, baseline="minimal", candidate=candidate, metric=word, mode="inference")
    assert {row["metric"] for row in found.table().rows()} == {name}


def test_words_name_metrics_of_scores_and_costs_of_a_store(small: a2perf.Runs) -> None:
    scores = a2perf.score(small.where(algorithm="minimal"))
    group = next(group for group in scores.groups if group.mode == "inference")
    assert group["Peak memory"] == group["memory_rss_peak"]
    names = {row["metric"] for row in scores.table(metrics=["Energy", "peak memory"]).rows()}
    assert names == {"energy_gross", "memory_rss_peak"}
    with pytest.raises(ConfigError, match="minimal, inference: no metric 'memry'; did you mean 'memory'") as raised:
        group["memry"]
    assert len(str(raised.value)) < 300
    assert "more, see docs/reference/scores.md" in str(raised.value)


def test_the_command_takes_the_words_of_costs(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --store {store} --metric energy 'wall clock'"
    found = by_command(line, tmp_path, monkeypatch)
    assert {panel["metric"] for panel in found["panels"]} == {"energy_gross", "wall_clock"}
    assert found["candidates"][0]["group"] == NEW


def test_measured_energy_is_never_judged_against_estimated() -> None:
    runs = [*seeds("old", energy_kwh=1e-6, quality="measured"), *seeds("new", energy_kwh=9e-6)]
    found = a2perf.compare(runs, baseline="old", metric="energy_gross")
    (row,) = found.table().rows()
    assert (row["result"], row["provenance"]) == ("not separated", "mixed")
    assert "measured in 5 of 10 runs and estimated in the others" in row["reason"]
    assert np.isnan(row["difference"])
    assert row["probability_of_improvement"] is None or np.isnan(row["probability_of_improvement"])


def test_the_energy_of_programs_is_that_of_the_record_of_their_store(store: Path) -> None:
    found = a2perf.compare(store, baseline=OLD, candidate=NEW, metric=["energy_gross", "wall_clock"], tasks="Hopper-v2")
    energy, wall = found.table().rows()
    assert (energy["candidate_mean"], energy["unit"], energy["provenance"]) == (0.002, "kWh", "estimated")
    assert (wall["baseline_mean"], wall["unit"], wall["candidate_n"]) == (12.5, "s", 3)


def test_a_run_without_the_metric_counts_as_lost() -> None:
    runs = [*seeds("old", energy_kwh=1e-6), *seeds("new", 4, energy_kwh=1e-6), made("new", 9)]
    found = a2perf.compare(runs, baseline="old", metric="energy_gross")
    (row,) = found.table().rows()
    assert (row["candidate_n"], row["lost"], row["result"]) == (4, 1, "not separated")
    assert found.verdict == "INCONCLUSIVE"
    assert "new on walk: 1 of 5 runs do not have the metric" in found.notices


# --- what is not an error ---------------------------------------------------------------------------------------------


def test_one_seed_is_inconclusive_with_the_reason() -> None:
    found = a2perf.compare([made("old", 1), made("new", 1)], baseline="old")
    assert found.verdict == "INCONCLUSIVE"
    assert "not enough data (n=1, needs 3)" in str(found)


def test_environments_with_different_fingerprints_are_not_judged() -> None:
    found = a2perf.compare([*seeds("old"), *seeds("new", mean=1.0, fingerprint="f2")], baseline="old")
    assert found.verdict == "INCONCLUSIVE"
    assert "the environment behaves differently: fingerprints f1, f2" in str(found)


def test_failed_runs_keep_a_candidate_from_passing() -> None:
    runs = [*seeds("old", 20), *seeds("new", 20), made("new", 99, state="failed")]
    found = a2perf.compare(runs, baseline="old")
    assert found.judgements["new"][0].reason == "1 of 21 runs of the candidate failed or diverged"


def test_modes_are_not_mixed() -> None:
    runs = [*seeds("old"), *seeds("new"), *seeds("new", mode="train")]
    found = a2perf.compare(runs, baseline="old")
    assert found.notices == ("runs in the mode inference are compared; train: left out",)
    with pytest.raises(
        UserError, match="old: no run in the mode 'train'\n  Hint: modes that all groups have: inference"
    ):
        a2perf.compare(runs, baseline="old", mode="train")
    with pytest.raises(UserError, match=r"no mode in common .old: inference; new: generalization"):
        a2perf.compare([*seeds("old"), *seeds("new", mode="generalization")], baseline="old")


# --- what is refused --------------------------------------------------------------------------------------------------

PAIR = [*seeds("old", 3), *seeds("new", 3)]


@pytest.mark.parametrize(
    ("runs", "given", "kind", "message"),
    [
        (
            PAIR,
            {"baseline": "odl"},
            UserError,
            "version or tag 'odl'; did you mean 'old'?\n  Hint: names that "
            "exist: submissions: new, old; versions: new0000000, old0000000",
        ),
        (PAIR, {"candidate": lambda run: False}, UserError, "the candidate selects none of 6 runs"),
        (seeds("old"), {}, UserError, "there is one group, old: nothing to compare it with"),
        (PAIR, {"candidate": "old"}, UserError, "are the same 3 runs"),
        (PAIR, {"candidate": []}, UserError, "no candidate was named"),
        (PAIR, {"tasks": ["run"]}, UserError, "old has no run on run\n  Hint: it has runs on walk"),
        (
            [*seeds("old"), *seeds("new", task="run")],
            {},
            UserError,
            "no candidate has runs on a task of the baseline (old: walk; new: run)",
        ),
        (PAIR, {"metric": "enery_gross"}, ConfigError, "no metric 'enery_gross'; did you mean 'energy_gross'?"),
        (PAIR, {"metric": "gpu_utilization_mean"}, ConfigError, "has no better or worse"),
        (
            PAIR,
            {"metric": "energy_gross"},
            UserError,
            "no run of old has the metric 'energy_gross'\n  Hint: metrics that exist: returns",
        ),
        (PAIR, {"confidence": 95}, ConfigError, "confidence=95 is not a confidence level"),
        (PAIR, {"tolerance": -1}, ConfigError, "tolerance=-1"),
        (PAIR, {"last": 0}, ConfigError, "last=0"),
        (PAIR, {"question": "policy"}, ConfigError, "question='policy' is not valid\n  Hint: use one of seeds, "),
        (PAIR, {"question": "episodes", "metric": "energy_gross"}, ConfigError, "compares episodes, not energy_gross"),
        (PAIR, {"references": {"walk": (1.0, 1.0)}}, ConfigError, "walk has equal scores of random and expert"),
        (
            PAIR,
            {"metric": ["returns", "energy_gross"], "tolerance_absolute": 1.0},
            ConfigError,
            "tolerance_absolute is in units of one metric",
        ),
        (PAIR, {"metric": 3}, ConfigError, "metric=3 is not valid"),
        (PAIR, {"tasks": "run"}, UserError, "old has no run on run"),
        (PAIR, {"candidate": ["new", "new"]}, UserError, "the candidate new is given twice"),
        (PAIR, {"experiment": "x"}, UserError, "needs an experiment store"),
        (42, {}, ConfigError, "int is not a recorded run"),
        ([], {}, ConfigError, "no runs were given"),
        ([made("old", 1, state="failed"), *seeds("new")], {}, UserError, "no run of old is finished (1 failed)"),
        (
            [*seeds("x", version="abcd1"), *seeds("x", version="abcd2")],
            {"baseline": "abcd"},
            UserError,
            "2 versions begin with 'abcd': abcd1, abcd2",
        ),
    ],
)
def test_bad_input_is_named_with_what_exists(
    runs: Sequence[Run], given: dict[str, Any], kind: type[UserError], message: str
) -> None:
    with pytest.raises(kind) as raised:
        a2perf.compare(runs, **{"baseline": "old", **given})
    assert message in str(raised.value)


def test_a_name_of_a_store_that_does_not_exist(store: Path) -> None:
    with pytest.raises(UserError, match=rf"'{NEW}x' is neither a tag nor an experiment .* did you mean '{NEW}'\?"):
        a2perf.compare(store, baseline=OLD, candidate=f"{NEW}x")


# --- an object that people like ---------------------------------------------------------------------------------------


def test_pickled_comparison_is_equal_and_prints_the_same(small: a2perf.Runs) -> None:
    found = a2perf.compare(small, baseline="minimal", candidate="web_solver", metric=["returns", "energy_gross"])
    copy = pickle.loads(pickle.dumps(found))
    assert copy == found
    assert repr(copy) == repr(found) == str(found)
    assert hash(copy) == hash(found)
    assert found != 1


def test_text_fits_a_narrow_terminal(small: a2perf.Runs) -> None:
    found = a2perf.compare(small, baseline="minimal", candidate="greedy_placer", metric=["returns", "energy_gross"])
    text = terminal_text(found.groups, 100)
    assert max(map(len, text.splitlines())) <= 100
    head = text.splitlines()[1].split()
    assert head[:3] == ["environment", "result", "difference"]
    assert "baseline" not in head
    assert "baseline" in str(found).splitlines()[1].split()


def test_names_of_strangers_are_escaped() -> None:
    found = a2perf.compare([*seeds("old"), *seeds("<script>alert(1)</script>\x1b[31m")], baseline="old")
    assert "\x1b" not in str(found)
    assert "not separated" in str(found)
    assert "INCONCLUSIVE" not in str(found)
    html = found.table()._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_plots_show_every_candidate_and_only_panels_with_curves() -> None:
    runs = [*seeds("old", energy_kwh=1e-6), *seeds("new", energy_kwh=2e-6), *seeds("other", mean=0.0, energy_kwh=1e-6)]
    found = a2perf.compare(runs, baseline="old", metric=["returns", "energy_gross"])
    forest = found.plot()
    assert len(forest.axes) == 2
    assert [label.get_text() for label in forest.axes[0].get_yticklabels()] == ["walk (returns)", "walk (energy_gross)"]
    texts = [text.get_text() for axes in forest.axes for text in axes.texts]
    assert "other against old: returns: worse; energy_gross: not separated" in texts
    curves = found.plot("curves")
    assert [text.get_text() for part in curves.subfigs for text in part.texts] == ["walk (returns)"]
    with pytest.raises(ConfigError, match="'bars' is not a kind of plot"):
        found.plot("bars")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no run has a curve over time"):
        found.plot("curves", time=True)


def _builtins(record: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(record)
