"""Trained policies of one algorithm are one group: its intervals are over them, and no headline is the best of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import a2perf
from a2perf.metrics.bootstrap import mean_interval
from a2perf.report.leaderboard.entries import Trust, find_entries
from tests.api.evaluate_runs import BINDINGS, write_submission
from tests.commands import call_a2perf

WEIGHTS = (0.0, 0.1, 1.0)


class Balance:
    """Pushes the pole of CartPole to the side to which it falls."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def act(self, observation: Any) -> int:
        return int(observation[2] + self.weight * observation[3] > 0)


def evaluate(policy: Any, root: Path, **given: Any) -> Any:
    known = {"name": "balance", "episodes": 2, "bindings": BINDINGS[1:], "sandbox": "process", "progress": False}
    return a2perf.evaluate(policy, env="CartPole-v1", root_dir=root, **{**known, **given})


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three trained policies in one call, on two seeds each."""
    top = tmp_path_factory.mktemp("studied")
    evaluate([Balance(weight) for weight in WEIGHTS], top / "balance", seeds=[0, 1])
    return top


def test_a_list_is_one_group_with_its_interval_over_trained_policies(studied: Path) -> None:
    runs = a2perf.read_runs(studied)
    assert len(runs) == 6
    group = a2perf.score(studied).groups[0]
    returns = {run.run.identity.policy: [] for run in runs}
    for run in runs:
        returns[run.run.identity.policy].append(run.mean_return)
    means = np.array([np.mean(found) for found in returns.values()])
    assert len(a2perf.score(studied).groups) == 1
    assert group["returns"].n == 3
    assert group["returns"].value == pytest.approx(means.mean())
    assert group["returns"].interval == pytest.approx(mean_interval(means))
    assert group["latency_round_trip_mean"].n == group["energy_gross"].n == 3
    assert not [text for text in group.conditions if "independent" in text]
    assert "balance, inference on gymnasium/CartPole-v1: 3 trained policies, 4 episodes each" in str(group)


def test_the_command_line_and_the_pages_say_trained_policies(studied: Path, tmp_path: Path) -> None:
    printed = call_a2perf("score", studied / "balance", "--output", tmp_path).out
    assert "3 trained policies, 4 episodes each" in printed
    assert "95 %, over trained policies" in printed
    a2perf.write_report(studied, tmp_path / "report")
    table = next((tmp_path / "report").rglob("*.tex")).read_text()
    assert "3 trained policies, 4 episodes each" in table
    assert "3 trained policies, 4 episodes each" in (tmp_path / "report" / "index.html").read_text()


def test_a_loop_over_policies_and_seeds_has_one_root_dir(tmp_path: Path) -> None:
    def loop() -> list[a2perf.Result]:
        single = [evaluate(Balance(weight), tmp_path / "all", seed=0, episodes=1) for weight in WEIGHTS[:2]]
        return [*single, *evaluate(Balance(WEIGHTS[0]), tmp_path / "all", seeds=[1], episodes=1)]

    results = loop()
    assert [result.seed for result in results] == [0, 0, 1]
    assert len({result.bundle for result in results}) == len(a2perf.read_runs(tmp_path / "all")) == 3
    assert results[0].bundle == tmp_path / "all" / "inference"
    assert [result.bundle for result in loop()] == [result.bundle for result in results]
    with pytest.raises(a2perf.UserError, match="num_inference_episodes was 1") as caught:
        evaluate(Balance(WEIGHTS[0]), tmp_path / "all", episodes=2)
    assert (
        caught.value.hint == "choose another root_dir, or add force=True to archive the old run and start from scratch"
    )


def test_a_loop_trains_and_evaluates_in_one_root_dir(tmp_path: Path) -> None:
    folder = write_submission(
        tmp_path / "entry",
        "def load_policy(env):\n    return int(open('weights').read())\n"
        "def preprocess_observation(observation):\n    return observation\n"
        "def infer_once(policy, observation):\n    return policy % 2\n",
        "import os\ndef train():\n    open('weights', 'w').write(os.environ['SEED'])\n",
    )
    for seed in (0, 1):
        given = {"env": "CartPole-v1", "seed": seed, "root_dir": tmp_path / "all", "progress": False}
        trained = a2perf.train(folder, sandbox="process", **given)
        assert evaluate(folder, tmp_path / "all", seed=seed, name=None, episodes=1).bundle == trained.bundle.with_name(
            "inference"
        )
    with pytest.raises(a2perf.UserError, match="root_seed was 0, now 2"):
        evaluate(folder, tmp_path / "all", seed=2, name=None, episodes=1)


def test_separate_calls_are_seeds_of_the_same_algorithm(studied: Path, tmp_path: Path) -> None:
    for weight in (0.2, 0.3):
        evaluate(Balance(weight), tmp_path / str(weight))
    runs = [*a2perf.read_runs(tmp_path), *a2perf.read_runs(studied)]
    assert [len(group.runs) for group in a2perf.score(runs).groups] == [8]
    assert a2perf.score(runs).groups[0]["returns"].n == 5
    alone = a2perf.score([*a2perf.read_runs(tmp_path)][:1]).groups[0]
    assert str(alone).splitlines()[0].endswith(": 1 run")


def test_a_comparison_counts_trained_policies(studied: Path, tmp_path: Path) -> None:
    other = evaluate([Balance(weight) for weight in (-1.0, -0.5, -0.1)], tmp_path, name="falls")
    comparison = a2perf.compare([*a2perf.read_runs(studied), *other], baseline="balance")
    (judgement,) = comparison.judgements["falls"]
    assert (judgement.candidate.seeds, judgement.baseline.seeds) == (3, 3)
    assert "6 trained policies on 1 environment" in str(comparison)
    assert not [text for text in comparison.notices if "seed" in text or "versions" in text]


def test_one_trained_policy_says_nothing_about_others(studied: Path) -> None:
    runs = a2perf.read_runs(studied)
    first = runs[0].run.identity.policy
    one = [run for run in runs if run.run.identity.policy == first]
    assert "2 runs of 1 trained policy" in str(a2perf.score(one).groups[0])


def test_a_leaderboard_keeps_the_hash_of_the_whole_folder(studied: Path) -> None:
    """A stranger can copy code and name of an entry: weights of others are never added to it."""
    entries, broken, _ = find_entries(studied, Trust())
    assert not broken
    hashes = {run.run.manifest.submission.sha256 for run in a2perf.read_runs(studied)}
    assert {entry.key.version for entry in entries} == hashes
    assert len(hashes) == len(entries) == 3


@pytest.mark.parametrize("policies", [[], [Balance(1.0), Balance(1.0)]])
def test_a_list_without_different_policies_is_refused(policies: list[Any], tmp_path: Path) -> None:
    with pytest.raises(a2perf.UserError, match=f"{len(policies)} policies were given"):
        evaluate(policies, tmp_path)
    assert not list(tmp_path.rglob("manifest.json"))
