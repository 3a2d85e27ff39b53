"""Which calls are timed: the scored steps, further calls if they are few, and as many as somebody asks for."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import a2perf
from a2perf.errors import ConfigError
from tests.made_submissions import policy, write_submission

COUNTS = policy(load="return [0]", infer="policy[0] += 1\nreturn policy[0] % 3 // 2")
"""A policy whose actions depend on the number of calls so far."""


def evaluate(submission: Path, root: Path, *bindings: str, steps: int) -> a2perf.Result:
    """Evaluates one episode of ``steps`` steps, which no action ends."""
    return a2perf.evaluate(
        submission,
        env="CartPole-v1",
        env_kwargs={"max_episode_steps": steps},
        episodes=1,
        root_dir=root,
        bindings=["Submission.record_frames = 0", *bindings],
        progress=False,
    )


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Balances the pole for any number of steps, at first by its count of calls."""
    balance = "return int(observation[0] * 0.1 + observation[1] * 0.3 + observation[2] * 3 + observation[3] > 0)"
    return write_submission(tmp_path_factory.mktemp("timed") / "entry", policy(infer=balance))


def test_many_scored_steps_are_the_sample(submission, tmp_path) -> None:
    result = evaluate(submission, tmp_path, steps=300)
    metrics = tmp_path / "inference" / "metrics"
    assert result.run.episodes["CartPole-v1"][0].length == 300
    assert not (metrics / "latency.json").exists()
    with np.load(metrics / "rollout_steps.npz") as steps:
        assert steps["infer_ns"].shape == steps["preprocess_ns"].shape == (300,)
        assert np.all(steps["round_trip_ns"] >= steps["infer_ns"] + steps["preprocess_ns"])
        seconds = steps["infer_ns"] * 1e-9
    assert result.scores["latency_infer_once_median"].value == pytest.approx(np.median(seconds))
    assert result.scores["latency_infer_once_median"].method.startswith("scored steps")
    assert result.scores["latency_infer_once_first"].value == pytest.approx(seconds[0])
    classic = json.loads((tmp_path / "metrics" / "inference_metrics_results.json").read_text())
    assert classic["inference_time"]["values"] == pytest.approx(seconds)


def test_few_scored_steps_are_followed_by_further_calls(tmp_path) -> None:
    """The further calls come after the scored episodes, whose steps they cannot change."""
    counting = write_submission(tmp_path / "entry", COUNTS)
    result = evaluate(counting, tmp_path / "run", "Submission.num_warmup_steps = 4", steps=500)
    env, calls, rewards, ended = gymnasium.make("CartPole-v1"), 4, 0.0, False
    env.reset(seed=result.run.episodes["CartPole-v1"][0].seed)
    while not ended:
        calls += 1
        _, reward, ended, _, _ = env.step(calls % 3 // 2)
        rewards += float(reward)
    assert list(result.returns) == [rewards]
    with np.load(tmp_path / "run" / "inference" / "metrics" / "latency.npz") as timed:
        count = timed["infer_ns"].size
    assert rewards < 300
    assert 1 <= count <= 300
    assert result.scores["latency_infer_once_median"].method.startswith("infer_once only")
    assert result.scores["latency_round_trip_mean"].method.startswith("scored steps")


def test_a_number_of_timed_calls_is_kept(submission, tmp_path) -> None:
    evaluate(submission, tmp_path, "Submission.num_inference_steps = 321", steps=300)
    with np.load(tmp_path / "inference" / "metrics" / "latency.npz") as timed:
        assert timed["infer_ns"].shape == (321,)


def test_a_record_with_a_number_of_timed_calls_is_the_same_run(submission, tmp_path) -> None:
    """Protocols asked for 1,000 calls before; the scored steps are the same."""
    before = evaluate(submission, tmp_path, "Submission.num_inference_steps = 2", steps=20)
    after = evaluate(submission, tmp_path, steps=20)
    assert after.run.folder.path == before.run.folder.path
    assert not (tmp_path / "attic").exists()
    with pytest.raises(ConfigError, match="num_inference_steps was 2, now 3"):
        evaluate(submission, tmp_path, "Submission.num_inference_steps = 3", steps=20)


@pytest.mark.parametrize("setting", ["fresh_policy = 'episode'", "concurrent_episodes = 2"])
def test_without_one_policy_for_all_episodes_there_is_no_warm_up(submission, tmp_path, setting: str) -> None:
    result = evaluate(submission, tmp_path, f"Submission.{setting}", steps=5)
    assert list(result.returns) == [5.0]
    assert (tmp_path / "inference" / "metrics" / "latency.json").exists() == ("fresh" in setting)
