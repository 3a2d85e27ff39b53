"""What ``a2perf reproduce`` says about repetitions that are not bit-equal, from runs in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from a2perf.experiments.reproduce.comparison import compare_episodes as compare_values
from a2perf.experiments.reproduce.statement import (
    compare_episodes,
    compare_trainings,
    confidence_of,
    episodes_needed,
    looks_for,
    verdict_of,
)
from a2perf.records import Episode
from a2perf.runs.run import Run, RunFolder, RunIdentity


def run_with(values: list[float]) -> Run:
    episodes = [
        Episode(index=index, seed=index, episode_return=value, length=1, terminated=True, truncated=False)
        for index, value in enumerate(values)
    ]
    returns = {"inference": {"task": np.array(values)}}
    return Run(RunIdentity(mode="inference"), returns=returns, episodes={"task": episodes})


def noisy(seed: int, mean: float = 10.0, count: int = 20) -> Run:
    return run_with(np.random.default_rng(seed).normal(mean, 1.0, count).tolist())


def test_episodes_of_equal_seeds_are_compared_in_pairs() -> None:
    recorded = noisy(0)
    shifted = run_with([value + 0.001 * index for index, value in enumerate(recorded.returns["inference"]["task"])])
    found = compare_episodes(recorded, [shifted], 1)
    assert (found.unit, found.recorded_n, found.repeated_n) == ("episodes of equal seeds", 20, 20)
    # the spread of the episodes is 1, that of the differences 0.006: only pairs see it
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low < 0.01
    assert found.repeated == pytest.approx(float(shifted.returns["inference"]["task"].mean()))
    assert verdict_of(found)[0] == "CONFIRMED"  # within 5 % of the range of the recorded returns


def test_an_inflated_record_is_refuted() -> None:
    assert verdict_of(compare_episodes(noisy(0, 15.0), [noisy(1)], 1))[0] == "REFUTED"


def test_an_open_comparison_says_how_many_episodes_would_settle_it() -> None:
    found = compare_episodes(noisy(0, count=2000), [noisy(1, count=2000)], 1)
    verdict, reason = verdict_of(found)
    if verdict == "INCONCLUSIVE":
        assert "episodes would settle it" in reason
    # with a spread of 1 and a margin of 0.1: 1 / (0.1 / quantile)^2 - 1 / n, in doublings
    assert episodes_needed(2000, 1.0, 0.1) == 4000
    assert episodes_needed(20, 1.0, 0.1) is None  # the record's own mean is less certain than that
    assert episodes_needed(20, 0.0, 0.1) is None


def test_all_looks_together_spend_five_per_cent() -> None:
    assert sum(1.0 - confidence_of(look) for look in range(1, 10_000)) == pytest.approx(0.05, abs=1e-5)
    assert [looks_for(asked, 20) for asked in (None, 5, 20, 21, 40, 41, 160)] == [1, 1, 1, 2, 2, 3, 4]
    assert compare_episodes(noisy(0), [noisy(1), noisy(2)], 2).confidence == pytest.approx(1 - 0.05 / 6)


def test_one_training_seed_gives_no_statement() -> None:
    found = compare_trainings([(noisy(0, 10.0), noisy(1, 2.0))])
    assert verdict_of(found) == ("INCONCLUSIVE", "no statement: one seed; the spread of training runs takes 3")


def test_repeated_training_runs_are_compared_as_two_samples_of_seeds() -> None:
    """An honest result is refuted in at most 5 % of the cases, also where half of the training runs fail."""
    rng = np.random.default_rng(7)
    for draw in (
        lambda: rng.normal(10.0, 3.0, 5),
        lambda: np.where(rng.random(5) < 0.5, 0.0, 10.0) + rng.normal(0.0, 0.1, 5),
    ):
        verdicts = []
        for _ in range(400):
            pairs = [(run_with([a]), run_with([b])) for a, b in zip(draw(), draw(), strict=True)]
            verdicts.append(verdict_of(compare_trainings(pairs))[0])
        assert verdicts.count("REFUTED") <= 0.05 * len(verdicts) + 10  # 2.3 standard errors
    worse = [(noisy(seed, 10.0 + seed % 2), noisy(seed + 50, 2.0 + seed % 2)) for seed in range(5)]
    assert verdict_of(compare_trainings(worse))[0] == "REFUTED"


@pytest.mark.parametrize(
    "change",
    [
        lambda values: [max(values)] * len(values),
        lambda values: sorted(values, reverse=True)[:2],
        lambda values: [*values, values[-1]],
        lambda values: [values[1], values[0], *values[2:]],
    ],
    ids=["best repeated", "best two", "one more", "swapped"],
)
def test_both_sides_are_compared_as_whole_sequences(
    change: Callable[[list[float]], list[float]], tmp_path: Path
) -> None:
    played = run_with([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    forged = run_with(change([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    for run in (played, forged):
        run.folder = RunFolder("bundle", tmp_path, "run")
    assert not compare_values(forged, played).bit_equal
