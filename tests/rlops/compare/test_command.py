"""``a2perf rlops``: flags, results, verdicts that are withheld, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from a2perf.records import RunState
from tests.commands import run_command
from tests.rlops.compare.conftest import record
from tests.rlops.compare.made_experiment import EXPERIMENT, NEW, OLD, POINTS, curve, write_references
from tests.rlops.conftest import Run
from tests.rlops.made_runs import METRIC, write_run, write_seeds

LIGHT = "--no-figures --no-report --tolerance-unseen 1"
"""With three seeds there is a PASS only where no failure is assumed to stay unseen."""
BOTH = f"rlops --exp-name {EXPERIMENT} --tags {NEW} {OLD} {LIGHT}"


def verdicts(found: dict[str, Any], candidate: int = 0) -> dict[str, str]:
    return {panel["panel"]: panel["verdict"] for panel in found["candidates"][candidate]["panels"]}


def test_baseline_is_the_accepted_version_or_the_one_named(run: Run, own_store: Path) -> None:
    run(f"rlops-tags --add latest --source-tag {NEW} --yes --store {own_store}")
    run(f"rlops --exp-name {EXPERIMENT} --tags latest {OLD} --store {own_store} {LIGHT}")
    assert record()["baseline"] == "latest"
    run(f"rlops --exp-name {EXPERIMENT} --tags latest {OLD} --baseline {OLD} --store {own_store} {LIGHT}")
    assert record()["baseline"] == OLD
    run(f"rlops --exp-name {EXPERIMENT} --tags {OLD} {NEW} --store {own_store} {LIGHT}")
    assert record()["baseline"] == NEW
    assert verdicts(record())["HalfCheetah-v2"] == "PASS"


@pytest.mark.parametrize(
    ("extra", "status"),
    [
        ("", 0),
        ("--fail-on regression", 1),
        ("--fail-on inconclusive", 1),
        ("--env-ids Hopper-v2 --fail-on inconclusive", 0),
        ("--tolerance 0.9 --fail-on inconclusive", 0),
        ("--tolerance-absolute 9000 --fail-on regression", 0),
    ],
)
def test_exit_status_follows_fail_on(run: Run, written_store: Path, extra: str, status: int) -> None:
    assert run(f"{BOTH} {extra} --store {written_store}")[0] == status


def test_too_few_seeds_are_inconclusive_and_fail_only_when_asked(run: Run, own_store: Path) -> None:
    shutil.rmtree(own_store / EXPERIMENT / "HalfCheetah-v2" / "v1.0.0b2-9-g4605546" / "seed_3")
    line = f"{BOTH} --store {own_store} --env-ids HalfCheetah-v2"
    assert run(f"{line} --fail-on regression")[0] == 0
    status, out, _ = run(f"{line} --fail-on inconclusive")
    assert status == 1
    assert "HalfCheetah-v2: not enough data (n=2, needs 3)\n" in out
    assert record()["candidates"][0]["panels"][0]["further_seeds"] is None


def test_three_seeds_that_look_well_do_not_pass_by_default(run: Run, written_store: Path) -> None:
    _, out, _ = run(f"{BOTH[:-1]}0.2 --store {written_store} --env-ids Hopper-v2")
    assert verdicts(record()) == {"Hopper-v2": "INCONCLUSIVE"}
    assert "a PASS needs 17; 14 more seeds on each side would probably settle it" in out
    assert re.search(r"^Hopper-v2 +not separated .* 3 / 3 +INCONCLUSIVE .* 14$", out, re.MULTILINE)


def test_the_gate_is_shown_only_on_request(run: Run, written_store: Path) -> None:
    line = f"rlops --exp-name {EXPERIMENT} --tags {NEW} {OLD} --no-figures --store {written_store}"
    status, out, _ = run(line)
    assert status == 0
    assert re.search(r"^HalfCheetah-v2 +worse +−\d+ +\[−\d+, −\d+\] .* 3 / 3$", out, re.MULTILINE)
    assert re.search(r"^overall +not separated +[−+]\d.* SD +\[.*\] SD +3 / 3$", out, re.MULTILINE)
    assert f"{NEW}: not separated overall (1 worse, 2 not separated; not corrected for 3 lines). Baseline: {OLD}" in out
    assert "Question: this algorithm (units: training seeds). The results hold at any number of looks" in out
    shown = out + "".join(Path(name).read_text() for name in ("compare.html", "compare.md", "compare_comment.md"))
    assert not any(word in shown for word in ("REGRESSION", "INCONCLUSIVE", "PASS", "limit"))
    assert re.search(r"^  Hopper-v2: not separated; [0-9]+–?[0-9]* more seeds on each side would", out, re.MULTILINE)
    assert "gate REGRESSION on HalfCheetah-v2" in run(f"{line} --no-report --fail-on regression")[1]


@pytest.mark.parametrize(
    ("ours", "theirs", "result"),
    [
        ([124.6, 119.6, 128.4], [0.57, 0.55, 0.6], "better"),
        ([0.57, 0.55, 0.6], [124.6, 119.6, 128.4], "worse"),
        ([500.0] * 3, [200.0] * 3, "not separated"),  # three equal runs may hide another one
        ([500.0] * 5, [200.0] * 5, "better"),
        ([0.1] * 3, [0.1] * 5, "not separated"),
        ([0.3] * 3, [0.1 + 0.2] * 3, "not separated"),  # equal but for rounding
        ([1.0, 2.0, 3.0], [1.5, 2.5, 3.5], "not separated"),
        ([9.0, 9.1], [1.0, 1.1], "not separated"),  # two seeds are not enough
    ],
)
def test_results_of_known_scores(run: Run, tmp_path: Path, ours: list[float], theirs: list[float], result: str) -> None:
    store = tmp_path / "runs"
    for tag, scores in (("new", ours), ("old", theirs)):
        write_seeds(store, tag, {seed: {METRIC: [(1, score), (2, score)]} for seed, score in enumerate(scores)})
    _, out, _ = run(f"rlops --exp-name ppo --tags new old --no-figures --no-report --store {store}")
    assert re.search(rf"^E +{result} .* {len(ours)} / {len(theirs)}$", out, re.MULTILINE)
    (candidate,) = record()["candidates"]
    assert candidate["panels"][0]["sign"] == result
    assert candidate["overall"][METRIC]["found"]["sign"] == result


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ("none", "PASS"),
        ("one value", "INCONCLUSIVE"),
        ("one step", "INCONCLUSIVE"),
        ("a seed", "INCONCLUSIVE"),
        ("flat", "INCONCLUSIVE"),
        ("failed", "INCONCLUSIVE"),
    ],
)
def test_runs_that_are_equal_bit_for_bit_pass(run: Run, tmp_path: Path, change: str, verdict: str) -> None:
    """A PASS needs the same seeds, every point of every curve, and curves that depend on the seed."""
    store = tmp_path / "runs"
    flat = [(step, 500.0) for step in range(50)]
    points = {seed: flat if change == "flat" else curve(100.0, seed) for seed in range(1, 4)}
    write_seeds(store, "old", {seed: {METRIC: of} for seed, of in points.items()})
    *most, (last, value) = points.pop(2)
    seed = 9 if change == "a seed" else 2
    points[seed] = [*most, (last + (change == "one step"), value + 1e-3 * (change == "one value"))]
    write_seeds(store, "new", {seed: {METRIC: of} for seed, of in points.items()})
    if change == "failed":
        write_seeds(store, "new", {4: {}}, state=RunState.FAILED)
    run(f"rlops --exp-name ppo --tags new old --no-figures --no-report --store {store}")
    (panel,) = record()["candidates"][0]["panels"]
    assert panel["verdict"] == verdict
    assert (panel["reason"] == "the same seeds give the same runs, bit for bit") == (verdict == "PASS")


FAILED = {"state": RunState.FAILED}
DIVERGED = {"version": "w", "curves": {METRIC: [*curve(2000.0, 1)[:-1], (1000 * POINTS, float("nan"))]}}


@pytest.mark.parametrize(
    ("tag", "env", "lost", "result", "said"),
    [
        (
            OLD,
            "HalfCheetah-v2",
            FAILED,
            {"sign": "not separated"},  # a side with lost runs is never the better one
            ["HalfCheetah-v2: 1 of 4 runs of the baseline failed or diverged"],
        ),
        (
            NEW,
            "Hopper-v2",
            FAILED,
            {"verdict": "INCONCLUSIVE"},
            ["1 of 4 runs of the candidate failed or diverged", "left out 1 failed"],
        ),
        (
            NEW,
            "Hopper-v2",
            DIVERGED,
            {"verdict": "INCONCLUSIVE"},
            ["1 of 4 runs end in values that are not finite", "mixes 2 versions of the code"],
        ),
    ],
)
def test_a_lost_run_withholds_what_the_others_show(
    run: Run, own_store: Path, tag: str, env: str, lost: dict[str, Any], result: dict[str, str], said: list[str]
) -> None:
    version = {OLD: "v1.0.0", NEW: "v1.0.0b2-9-g4605546"}[tag]
    folder = f"{EXPERIMENT}/{env}/{version}/seed_4"
    write_run(own_store, folder, experiment=EXPERIMENT, env_id=env, seed=4, tags=[tag], **lost)
    _, out, _ = run(f"{BOTH} --store {own_store} --env-ids {env}")
    (panel,) = record()["candidates"][0]["panels"]
    assert panel["panel"] == env
    assert {name: panel[name] for name in result} == result
    assert all(words in out for words in said), out


def test_environments_that_behave_differently_are_not_compared(run: Run, own_store: Path) -> None:
    for at, (version, mark) in enumerate((("v1.0.0", "a" * 64), ("v1.0.0b2-9-g4605546", "b" * 64))):
        for seed in range(1, 4):
            path = own_store / EXPERIMENT / "HalfCheetah-v2" / version / f"seed_{seed}" / "command" / "manifest.json"
            manifest = json.loads(path.read_text())
            manifest["env_fingerprint"] = mark
            path.write_text(json.dumps(manifest) + " " * (at + 1))
    run(f"{BOTH} --store {own_store} --env-ids HalfCheetah-v2")
    (panel,) = record()["candidates"][0]["panels"]
    assert panel["verdict"] == "INCONCLUSIVE"
    assert "aaaaaaaa, bbbbbbbb" in panel["reason"]


def test_several_metrics_and_one_of_which_less_is_better(run: Run, own_store: Path) -> None:
    for tag, loss in ((OLD, 0.1), (NEW, 0.9)):
        of = {s: {"losses/q": [(1, loss + s / 99)], METRIC: [(1, 5.0 + s / 99)]} for s in range(1, 4)}
        write_seeds(own_store, tag, of, experiment="sac", env_id="A")
    run(
        f"rlops --exp-name sac --tags {NEW} {OLD} --metric losses/q {METRIC} --lower-is-better losses/q "
        f"--store {own_store} {LIGHT}"
    )
    assert verdicts(record()) == {"A (losses/q)": "REGRESSION", f"A ({METRIC})": "PASS"}


def test_one_group_has_tables_and_no_verdict(run: Run, written_store: Path) -> None:
    status, out, _ = run(f"rlops --exp-name {EXPERIMENT} --tags {OLD} --store {written_store} {LIGHT}")
    assert status == 0
    assert re.search(r"^Hopper-v2 +\d+\.\d ± ", out, re.MULTILINE)
    assert record()["verdict"] is None


def test_environments_without_runs_of_a_group_are_left_out_by_name(run: Run, own_store: Path) -> None:
    shutil.rmtree(own_store / EXPERIMENT / "Hopper-v2" / "v1.0.0b2-9-g4605546")
    status, _, err = run(f"{BOTH} --store {own_store}")
    assert status == 2
    assert f"{NEW} has no finished run on Hopper-v2" in err
    assert "HalfCheetah-v2, Walker2d-v2" in err
    assert run(f"{BOTH} --store {own_store} --env-ids HalfCheetah-v2 Walker2d-v2")[0] == 0
    assert set(verdicts(record())) == {"HalfCheetah-v2", "Walker2d-v2"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"--exp-name {EXPERIMENT} --tags v1.0.0b2-9-g460554 {OLD}", "did you mean"),
        (f"--exp-name {EXPERIMENT} --tags nothing {OLD}", f"tags that exist: {OLD}, {NEW}"),
        (f"--exp-name dpg --tags {NEW} {OLD}", f"experiments that exist: {EXPERIMENT}"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --env-ids Hoper-v2", "did you mean 'Hopper-v2'"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --metric charts/return", f"metrics that exist: {METRIC}"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --env-ids Hopper-v2 Hopper-v2", "more than once"),
        (f"--exp-name {EXPERIMENT} --tags ''", "a tag filter is empty"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {NEW}", "given twice"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {NEW};{NEW}", "are the same 9 runs"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} --fail-on regression", "there is one group"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --baseline old", f"name one of: {NEW}, {OLD}"),
        ("--env-ids Hopper-v2", "nothing to compare was named"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --reference-scores nowhere.json", "cannot be read"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --pc.max-steps 10", "does not take --pc.max-steps"),
        ("--filters 'ppo?tag=new'", "does not take --filters"),
        ("--filters='ppo?tag=new'", "Hint: --exp-name NAME --tags NEW OLD"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --rliable", "the line `overall` aggregates"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --rc.nsubsamples 3", "does not take --rc.nsubsamples"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --rolling 10", "does not take --rolling"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --no-check-empty-runs", "Hint: --env-ids ENV... names"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --repord 10", "no such option"),
        (f"--exp-name {EXPERIMENT} --tags {NEW} {OLD} --tolerance -1", "not in the range"),
    ],
)
def test_what_is_refused(run: Run, written_store: Path, line: str, said: str) -> None:
    status, _, err = run(f"rlops {line} --store {written_store}")
    assert status == 2
    assert said in err
    assert list(Path().iterdir()) == []


def test_store_that_is_missing_or_empty_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for store, said in (("", "no store at runs"), (f"--store {tmp_path / 'empty'}", "holds no runs")):
        status, _, err = run(f"rlops --exp-name a --tags b {store}")
        assert status == 2
        assert said in err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1, 2]", "does not map"),
        ('{"Hopper-v2": [1]}', "Hopper-v2 needs two numbers"),
        ('{"Hopper-v2": {"random": 1}}', "Hopper-v2 needs two numbers"),
        ('{"Hopper-v2": [3, 3]}', "equal scores"),
        ("{", "neither JSON nor YAML"),
    ],
)
def test_broken_reference_scores_are_refused(run: Run, written_store: Path, content: str, said: str) -> None:
    Path("scores.json").write_text(content)
    status, _, err = run(f"{BOTH} --store {written_store} --reference-scores scores.json")
    assert status == 2
    assert said in err


def test_file_that_cannot_be_written_is_refused(run: Run, written_store: Path) -> None:
    Path("taken").write_text("")
    status, _, err = run(f"{BOTH} --store {written_store} --output-filename taken/compare")
    assert status == 2
    assert "cannot be written" in err


def test_module_is_the_same_command(written_store: Path, tmp_path: Path) -> None:
    words = [*BOTH.split()[1:], "--fail-on", "regression", "--store", str(written_store)]
    ended = run_command([sys.executable, "-m", "a2perf.rlops.compare", *words], tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert "gate REGRESSION on HalfCheetah-v2" in ended.stdout


def test_references_of_the_file_scale_the_overall_line(run: Run, written_store: Path) -> None:
    references = write_references(Path("references.json"))
    run(f"{BOTH} --store {written_store} --reference-scores {references}")
    assert re.search(r"\| overall \| [a-z ]+ \| [−+]0\.\d+ normalised \|", Path("compare_comment.md").read_text())
